/* What the program says of itself: regions, marks, names, and what it withholds from recording. */
#include <errno.h>
#include <string.h>

#include "analyze/import-internal.h"
#include "analyze/live/components.h"
#include "analyze/live/pools/pools.h"
#include "analyze/symbols/symbols.h"
#include "common/cleanup.h"
#include "common/collect-words.h"
#include "schemas/trace-control.h"
#include "store/database.h"

#define MAX_ASKED_TICKS (UINT64_C(1) << 40) /* more is damage */

static const struct rows_table mark_table = {
	.name = "mark",
	.columns = "run_id, thread_id, time_ns, name",
	.types = "nint",
};

int import_open_notes(struct import *import)
{
	memory_set_texts(import->memory, &import->texts);

	int r = regions_open(import->db, import->run_id, import->tasks, &import->texts,
			     &import->regions);

	r = r ?: withheld_open(import->db, import->run_id, import->tasks, &import->withheld);
	return r < 0 ? r : rows_open(import->db, &mark_table, &import->marks);
}

void import_close_notes(struct import *import)
{
	regions_close(import->regions);
	withheld_close(import->withheld);
	rows_close(import->marks);
	texts_finish(&import->texts);
	key_map_finish(&import->thunks);
}

int import_text_record(struct import *import, const struct trace_record *record)
{
	const struct trace_text *text = (const struct trace_text *)record;
	size_t n_bytes;
	const char *bytes = trace_record_string(record, 0, &n_bytes);

	return texts_add(&import->texts, text->id, bytes, n_bytes);
}

int import_mark_record(struct import *import, const struct trace_record *record)
{
	const struct trace_outside_mark *mark = (const struct trace_outside_mark *)record;
	size_t n_bytes;
	const char *bytes = trace_record_string(record, 0, &n_bytes);
	auto_free char *name = strndup(bytes, n_bytes);

	if (!name)
		return -ENOMEM;
	import->tally.total.marks++;
	int r = rows_put(import->marks, CELL(import->run_id), CELL(ROWS_NULL),
			 CELL(import_time(import, mark->ticks)), CELL(name));
	return r < 0 ? r : rows_flush(import->marks);
}

/* ---- Windows ---- */

static int add_window_moment(struct import *import, enum import_moment_kind kind, uint64_t ticks,
			     const struct trace_record *record)
{
	size_t n_bytes;
	const char *bytes = trace_record_string(record, 0, &n_bytes);
	auto_free char *cause = strndup(bytes, n_bytes);
	struct import_moment moment = {
		.time = import_order(import, ticks),
		.kind = kind,
		.process = ((const struct trace_window *)record)->number,
		.mapping = { .path = cause },
	};

	import_time(import, ticks);
	return cause ? import_add_moment(import, &moment) : -ENOMEM;
}

/* The record of an end also says when it began: the first window may have begun with the run. */
int import_window_record(struct import *import, const struct trace_record *record)
{
	const struct trace_window *window = (const struct trace_window *)record;

	return window->end_ticks
		       ? add_window_moment(import, IMPORT_WINDOW_END, window->end_ticks, record)
		       : add_window_moment(import, IMPORT_WINDOW_BEGIN, window->begin_ticks,
					   record);
}

static uint64_t count_live(const struct tally *tally)
{
	uint64_t n = 0;

	for (size_t i = 0; i < tally->n_sites; i++)
		n += tally->sites[i].n_live;
	return n;
}

static int begin_window(struct import *import, const struct import_moment *moment)
{
	int r = db_run(import->db,
		       "INSERT OR IGNORE INTO window(run_id, number, start_ns, end_ns, cause,"
		       " live_bytes, n_live) VALUES(?1, ?2, ?3, ?3, ?4, ?5, ?6)",
		       "nnntnn", import->run_id, (int64_t)moment->process, import->now_ns,
		       moment->mapping.path, (int64_t)import->tally.live_bytes,
		       (int64_t)count_live(&import->tally));

	import->open_window = moment->process;
	return r < 0 ? r : withheld_switch(import->withheld, true, import->now_ns);
}

/* Births of blocks go unseen from here on, in all processes that there are or will be. */
static int end_window(struct import *import, const struct import_moment *moment)
{
	int r = 0;

	if (moment->process == 1 && import->open_window == 0)
		r = db_run(import->db,
			   "INSERT OR IGNORE INTO window(run_id, number, start_ns, end_ns, cause,"
			   " live_bytes, n_live) VALUES(?1, 1, 0, 0, ?2, 0, 0)",
			   "nt", import->run_id, moment->mapping.path);
	if (r == 0)
		r = db_run(import->db,
			   "UPDATE window SET end_ns = ?3 WHERE run_id = ?1 AND number = ?2", "nnn",
			   import->run_id, (int64_t)moment->process, import->now_ns);
	import->open_window = 0;
	import->last_window = moment->process;
	memory_set_withheld(import->memory);
	return r < 0 ? r : withheld_switch(import->withheld, false, import->now_ns);
}

int import_apply_window(struct import *import, const struct import_moment *moment)
{
	return moment->kind == IMPORT_WINDOW_BEGIN ? begin_window(import, moment)
						   : end_window(import, moment);
}

/* An event with its name's number in texts.h; 0: it has none. */
struct note {
	uint32_t thread;
	uint32_t text;
	const struct merge_event *event;
};

static int on_push(struct import *import, const struct note *note)
{
	return regions_push(import->regions, note->thread, note->text, import->now_ns);
}

static int on_pop(struct import *import, const struct note *note)
{
	return regions_pop(import->regions, note->thread, note->text, import->now_ns);
}

static int on_component(struct import *import, const struct note *note)
{
	unsigned base = note->event->call == TRACE_CALL_COMPONENT_SAMPLE ? TRACE_ASKED_SAMPLE
			: note->event->call == TRACE_CALL_COMPONENT_WINDOW
				? TRACE_ASKED_WINDOW_BEGIN
				: 0;
	unsigned mask = base == 0 ? 3 : base == TRACE_ASKED_WINDOW_BEGIN;
	uint64_t asked_ticks = note->event->address >> 2;
	struct component_reading reading = {
		.thread = note->thread,
		.process = memory_process_of(import->memory, note->thread),
		.text = note->text,
		.when = (enum trace_asked)((note->event->address & mask) + base),
		.value = (int64_t)note->event->size,
	};

	if (!note->text)
		return 0;
	reading.window =
		reading.when == TRACE_ASKED_WINDOW_END ? import->last_window : import->open_window;
	if (asked_ticks <= MAX_ASKED_TICKS)
		reading.asked_ns = merge_clock_of_ticks(&import->clock,
							import->clock.start_ticks + asked_ticks) -
				   merge_clock_of_ticks(&import->clock, import->clock.start_ticks);
	return regions_component(import->regions, &reading);
}

static int on_plugin_lost(struct import *import, const struct note *note)
{
	return losses_count(&import->losses, "plug-in",
			    note->text ? texts_get(&import->texts, note->text) : "left out", 1);
}

static int on_empty(struct import *import, uint32_t thread, enum own_cost cost, uint64_t work_ticks)
{
	return regions_empty(import->regions, thread,
			     &(struct own_empty){
				     .cost = cost,
				     .time_ns = import->now_ns,
				     .work_ns = (double)work_ticks * import->clock.ns_per_tick,
			     });
}

static int on_enter(struct import *import, const struct note *note)
{
	if (!note->text)
		return on_empty(import, note->thread, OWN_OUTSIDE, note->event->link);
	return regions_enter(import->regions, note->thread,
			     &(struct region_call){
				     .text = note->text,
				     .slot = note->event->address,
				     .time_ns = import->now_ns,
			     });
}

static int on_leave(struct import *import, const struct note *note)
{
	if (!note->text)
		return on_empty(import, note->thread, OWN_INSIDE, note->event->link);
	return regions_leave(import->regions, note->thread,
			     &(struct region_call){
				     .text = note->text,
				     .slot = note->event->address,
				     .time_ns = import->now_ns,
			     });
}

/* ---- Blocks of allocators of the program's own ---- */

static int on_block(struct import *import, const struct note *note)
{
	bool is_probe = note->event->call == TRACE_CALL_USDT_ALLOC;
	struct pool_block block = {
		.thread = note->thread,
		.text = note->text,
		.time_ns = import->now_ns,
		.address = note->event->address,
		.size = note->event->size,
		.pool = is_probe ? 0 : note->event->link,
		.weighted = is_probe ? note->event->link : 0,
		.call = note->event->call,
		.is_moved = note->event->flags & MERGE_IS_ALLOCATION,
	};

	block.stack_id =
		stacks_row(import->stacks, note->thread, note->event->stack_id, import->now_ns);
	return block.stack_id < 0 ? (int)block.stack_id : memory_pool_block(import->memory, &block);
}

static int on_block_end(struct import *import, const struct note *note)
{
	const struct merge_event *event = note->event;
	bool is_moved = event->flags & MERGE_IS_END && event->size;
	const struct pool_block end = {
		.thread = note->thread,
		.time_ns = import->now_ns,
		.address = event->address,
		.call = event->flags & MERGE_IS_END && !is_moved ? TRACE_CALL_UNREF : event->call,
		.is_moved = is_moved,
	};

	return event->call == TRACE_CALL_BLOCK_END || event->call == TRACE_CALL_USDT_FREE
		       ? memory_pool_block_end(import->memory, &end)
		       : memory_pool_block_count(import->memory, &end);
}

static int on_pool_reset(struct import *import, const struct note *note)
{
	return memory_pool_reset(import->memory, &(struct pool_block){
							 .thread = note->thread,
							 .text = note->text,
							 .time_ns = import->now_ns,
							 .pool = note->event->address,
						 });
}

static int add_thunk(struct import *import, uint32_t thread, const struct merge_event *event)
{
	uint32_t process = memory_process_of(import->memory, thread);

	return event->detail ? key_map_put(&import->thunks, process, event->address, event->detail)
			     : 0;
}

static int on_mark(struct import *import, const struct note *note)
{
	const struct task_thread *thread = tasks_thread(import->tasks, note->thread);

	if (!thread)
		return 0;
	import->tally.total.marks++;
	return rows_put(import->marks, CELL(import->run_id), CELL(thread->row),
			CELL(import->now_ns), CELL(texts_get(&import->texts, note->text)));
}

/* The variable that an address lies in gives a name its extent, where the program gave none. */
static void find_variable(struct import *import, uint32_t process, struct memory_name *name)
{
	const struct module *module =
		modules_find(import->modules, process, name->address, import->now_ns);
	struct symbol_variable variable;

	/* "[.data]" is a section in which no symbol covers the address. */
	if (!module || !object_open(module->object) ||
	    !symbols_variable(module->object, name->address - module->bias, &variable) ||
	    variable.name[0] == '[')
		return;
	name->address = variable.address + module->bias;
	name->size = variable.size;
}

static int on_name(struct import *import, const struct note *note)
{
	struct memory_name name = {
		.thread = note->thread,
		.time_ns = import->now_ns,
		.address = note->event->address,
		.size = note->event->size,
		.text = note->text,
	};
	uint32_t process = memory_process_of(import->memory, note->thread);

	if (name.size == 0 && !memory_knows_block(import->memory, note->thread, name.address))
		find_variable(import, process, &name);
	return memory_name(import->memory, &name);
}

/* Births of blocks may go unseen from here on. */
static int tell_memory(struct import *import, uint32_t thread)
{
	return memory_withhold(import->memory, memory_process_of(import->memory, thread));
}

static int on_collect(struct import *import, const struct note *note)
{
	uint32_t n_unknown = 0;
	const char *words = note->text ? texts_get(&import->texts, note->text) : "";
	uint32_t classes = collect_parse(words, strlen(words), &n_unknown);
	int r = losses_count(&import->losses, "memsight.h",
			     "unknown words given to memsight_collect_push", n_unknown);

	if (r == 0 && !(classes & COLLECT_HEAP))
		r = tell_memory(import, note->thread);
	return r < 0 ? r : withheld_push(import->withheld, note->thread, classes, import->now_ns);
}

static int on_collect_end(struct import *import, const struct note *note)
{
	return withheld_pop(import->withheld, note->thread, import->now_ns);
}

static const struct {
	uint8_t call;
	int (*handle)(struct import *import, const struct note *note);
} notes[] = {
	{ TRACE_CALL_REGION_PUSH, on_push },
	{ TRACE_CALL_REGION_POP, on_pop },
	{ TRACE_CALL_MARK, on_mark },
	{ TRACE_CALL_NAME_OBJECT, on_name },
	{ TRACE_CALL_COLLECT_PUSH, on_collect },
	{ TRACE_CALL_COLLECT_POP, on_collect_end },
	{ TRACE_CALL_COMPONENT, on_component },
	{ TRACE_CALL_COMPONENT_WINDOW, on_component },
	{ TRACE_CALL_COMPONENT_SAMPLE, on_component },
	{ TRACE_CALL_PLUGIN_LOST, on_plugin_lost },
	{ TRACE_CALL_FUNCTION_ENTER, on_enter },
	{ TRACE_CALL_FUNCTION_LEAVE, on_leave },
	{ TRACE_CALL_BLOCK, on_block },
	{ TRACE_CALL_BLOCK_END, on_block_end },
	{ TRACE_CALL_REF, on_block_end },
	{ TRACE_CALL_UNREF, on_block_end },
	{ TRACE_CALL_USDT_ALLOC, on_block },
	{ TRACE_CALL_USDT_FREE, on_block_end },
	{ TRACE_CALL_POOL_RESET, on_pool_reset },
};

/* It was taken in the region that the thread has been in. */
static int took(struct import *import, uint32_t thread, uint64_t what, uint64_t ticks)
{
	if (ticks == 0 || ticks > MAX_ASKED_TICKS)
		return 0;
	return regions_took(import->regions, thread, (enum trace_own)what,
			    (double)ticks * import->clock.ns_per_tick);
}

/* As of records whose type is not known: trace/reader.h counts those. */
static int count_newer(struct import *import)
{
	return losses_count(&import->losses, "trace", "records of a newer version", 1);
}

static int on_own_time(struct import *import, uint32_t thread, const struct merge_event *event)
{
	static const enum own_cost costs[TRACE_OWN_COUNT] = {
		[TRACE_OWN_BLOCK] = OWN_BLOCK,
		[TRACE_OWN_END] = OWN_END,
		[TRACE_OWN_REGION] = OWN_REGION,
	};

	if (event->address >= TRACE_OWN_COUNT)
		return count_newer(import);
	if (event->address < TRACE_OWN_BLOCK)
		return took(import, thread, event->address, event->detail);
	return on_empty(import, thread, costs[event->address], event->detail);
}

static int apply_note(struct import *import, uint32_t thread, const struct merge_event *event)
{
	struct note note = { .thread = thread, .event = event };
	int r = 0;

	if (event->call == TRACE_CALL_FUNCTION_THUNK)
		return add_thunk(import, thread, event);
	if (event->call == TRACE_CALL_OWN_TIME)
		return on_own_time(import, thread, event);
	if (event->call == TRACE_CALL_REGION_PUSH || event->call == TRACE_CALL_REGION_POP ||
	    event->call == TRACE_CALL_FUNCTION_ENTER || event->call == TRACE_CALL_FUNCTION_LEAVE)
		r = took(import, thread, TRACE_OWN_WALK, event->link);
	if (r < 0)
		return r;
	if (event->detail) {
		int64_t number = texts_number(&import->texts, event->detail);

		if (number < 0)
			return (int)number;
		note.text = (uint32_t)number;
	}
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		if (notes[i].call == event->call)
			return notes[i].handle(import, &note);
	}
	return count_newer(import);
}

int import_apply_note(struct import *import, uint32_t thread, const struct merge_event *event)
{
	bool only_thread = event->detail & 1;
	int r;

	if (!tasks_thread(import->tasks, thread))
		return 0;
	switch (event->op) {
	case TRACE_OP_PAUSE:
		r = tell_memory(import, thread);
		return r < 0 ? r
			     : withheld_pause(import->withheld, thread, only_thread,
					      import->now_ns);
	case TRACE_OP_RESUME:
		r = tell_memory(import, thread); /* the record of the pause may be lost */
		return r < 0 ? r
			     : withheld_resume(import->withheld, thread, only_thread,
					       import->now_ns);
	default:
		return apply_note(import, thread, event);
	}
}

static int write_totals(struct import *import)
{
	const struct withheld_totals *totals = withheld_totals(import->withheld);
	const struct {
		const char *name;
		int64_t value;
	} rows[] = {
		{ "pauses", (int64_t)totals->n_pauses },
		{ "paused_ns", totals->paused_ns },
		{ "thread_pauses", (int64_t)totals->n_thread_pauses },
		{ "thread_paused_ns", totals->thread_paused_ns },
		{ "collect_intervals", (int64_t)totals->n_collects },
		{ "marks", (int64_t)import->tally.total.marks },
		{ "regions_without_row", (int64_t)regions_losses(import->regions)->n_rows },
		{ "withheld_without_row", (int64_t)totals->n_rows },
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && r == 0; i++)
		r = db_insert(import->db, "total(run_id, name, value)", "ntn", import->run_id,
			      rows[i].name, rows[i].value);
	return r;
}

static int count_lost_notes(struct import *import)
{
	const struct regions_losses *lost = regions_losses(import->regions);
	const struct pools_losses *pools = memory_pool_losses(import->memory);
	const struct losses_row rows[] = {
		{ "memsight.h", "pops of regions without a push", lost->n_pops },
		{ "functions", "calls on too many paths, counted as if nothing had called them",
		  lost->n_paths },
		{ "memsight.h", "ends of pauses not seen",
		  withheld_totals(import->withheld)->n_lost_ends },
		{ "memsight.h", "regions nested too deep", lost->n_too_deep },
		{ "memsight.h", "names of memory whose size nobody knows",
		  import->tally.total.sizeless_names },
		{ "own allocators", "ends of blocks whose begin was not seen", pools->n_ends },
		{ "own allocators", "references to blocks whose begin was not seen",
		  pools->n_references },
		{ "own allocators", "blocks nested too deep", pools->n_too_deep },
		{ "own allocators", "blocks left out by --sample-bytes", pools->n_picked },
		{ "own allocators", "blocks of too many pools, counted as of none",
		  pools->n_pools },
		{ "own allocators", "estimates of probes for blocks that are recorded",
		  pools->n_known },
	};

	return losses_count_each(&import->losses, rows, sizeof(rows) / sizeof(rows[0]));
}

int import_finish_notes(struct import *import)
{
	int r = regions_finish(import->regions, import->last_ns);

	/* The recorder was killed, or this is a snapshot. */
	if (r == 0 && import->open_window)
		r = db_run(import->db,
			   "UPDATE window SET end_ns = ?3 WHERE run_id = ?1 AND number = ?2", "nnn",
			   import->run_id, (int64_t)import->open_window, import->last_ns);
	r = r ?: withheld_finish(import->withheld, import->last_ns) ?:
		    rows_flush(import->marks) ?: count_lost_notes(import);
	return r < 0 ? r : write_totals(import);
}
