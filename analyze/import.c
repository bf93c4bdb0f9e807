#include "analyze/import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/hints.h"
#include "analyze/import-internal.h"
#include "analyze/input/perf-data/companion-input.h"
#include "analyze/input/read-ahead.h"
#include "analyze/live/allocation-writer.h"
#include "analyze/samples/source-ledger.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "store/compact/compact.h"
#include "store/heatmap/heatmap.h"

/* ---- What waits for its time ---- */

DEFINE_ORDER(compare_moments, struct import_moment, BY(time) ?: BY(order));

/* Put what waits in order, and forget what has passed. */
static void sort_moments(struct import *import)
{
	size_t n = import->n_moments - import->first_moment;

	if (n > 0)
		memmove(import->moments, import->moments + import->first_moment,
			n * sizeof(*import->moments));
	import->first_moment = 0;
	import->n_moments = n;
	for (size_t i = 0; i < n; i++)
		import->moments[i].order = i;
	if (n > 1)
		qsort(import->moments, n, sizeof(*import->moments), compare_moments);
}

/* When the next one is due, in ticks since the run's start; INT64_MAX: there is none. */
static int64_t next_moment(const struct import *import)
{
	if (import->first_moment == import->n_moments)
		return INT64_MAX;
	return import->moments[import->first_moment].time;
}

static int end_process(struct import *import, const struct import_moment *moment)
{
	/* Again: the clock may be known better now than when the record was read. */
	int r = tasks_end_process(import->tasks, moment->process, import->now_ns, moment->status);

	r = r ?: withheld_end(import->withheld, moment->process, import->now_ns);
	return r < 0 ? r
		     : memory_end(import->memory, moment->process, import->now_ns,
				  moment->status == -2);
}

/* A heap without size: there is none, and its place says why. */
static int apply_heap(struct import *import, const struct import_moment *moment)
{
	char *place = strchr(moment->mapping.path, '\n');
	struct kinds_told told = {
		.kind = moment->mapping.path,
		.place = place + 1,
		.start = moment->mapping.address,
		.size = moment->mapping.size,
		.time_ns = import->now_ns,
	};

	*place = '\0';
	if (told.size == 0)
		return losses_count(&import->losses, "heap", told.place, 1);
	return memory_heap_range(import->memory, moment->process, &told);
}

static int divide_look(struct import *import, const struct import_moment *moment)
{
	const struct trace_touches *touches = &moment->look->head.touches;
	const struct trace_writes *writes = &moment->look->head.writes;

	if (moment->kind == IMPORT_PAGES)
		return memory_look(import->memory, moment->process, moment->look, import->now_ns,
				   import_time(import, moment->look->head.pages.end_ticks));
	if (moment->kind == IMPORT_WRITES)
		return memory_writes(import->memory, moment->process, moment->look,
				     import_time(import, writes->begin_ticks), import->now_ns);
	const struct touch_times times = {
		.begin_ns = import_time(import, touches->begin_ticks),
		.end_ns = import->now_ns,
		.read_ns = import_time(import, touches->end_ticks),
	};
	return memory_touches(import->memory, moment->process, moment->look, &times);
}

static int apply_look(struct import *import, const struct import_moment *moment)
{
	int r = divide_look(import, moment);

	if (r == -EBADMSG)
		return losses_count(&import->losses, "pages",
				    pages_look_damage(&moment->look->head.record), 1);
	if (r > 0)
		return losses_count(
			&import->losses, "pages",
			moment->kind == IMPORT_WRITES
				? "intervals of writes not divided by call site: too many blocks"
				: "intervals of touches not divided by call site: too many blocks",
			1);
	return r;
}

static void free_moment(struct import_moment *moment)
{
	free((char *)moment->mapping.path);
	if (moment->look)
		pages_look_finish(moment->look);
	free(moment->look);
	moment->mapping.path = NULL;
	moment->look = NULL;
}

static int apply_moment(struct import *import)
{
	struct import_moment *moment = &import->moments[import->first_moment++];
	int r = 0;

	switch (moment->kind) {
	case IMPORT_FORK:
		r = memory_fork(import->memory, moment->process, moment->parent);
		if (r == 0)
			r = withheld_fork(import->withheld, moment->process, moment->parent,
					  import->now_ns);
		break;
	case IMPORT_MAP:
		moment->mapping.allocated_ns = import->now_ns;
		r = memory_map_before(import->memory, moment->process, &moment->mapping);
		break;
	case IMPORT_WINDOW_BEGIN:
	case IMPORT_WINDOW_END:
		r = import_apply_window(import, moment);
		break;
	case IMPORT_UNLOAD:
		r = memory_unloaded(import->memory, moment->process, moment->mapping.address,
				    moment->mapping.size, import->now_ns);
		break;
	case IMPORT_HEAP:
		r = apply_heap(import, moment);
		break;
	case IMPORT_PAGES:
	case IMPORT_TOUCHES:
	case IMPORT_WRITES:
		r = apply_look(import, moment);
		break;
	case IMPORT_END:
		r = end_process(import, moment);
		break;
	}
	free_moment(moment);
	return r;
}

/* ---- Events ---- */

static struct memory_end_of end_of(const struct import *import, uint32_t thread,
				   const struct merge_event *event)
{
	return (struct memory_end_of){
		.thread = thread,
		.call = event->call,
		.time_ns = import->now_ns,
		.address = event->address,
		.size = event->size,
		.link = event->link,
		.is_nested = event->flags & TRACE_EVENT_NESTED,
	};
}

/* Returns 0 or a negative errno. */
static int allocation_of(struct import *import, uint32_t thread, const struct merge_event *event,
			 struct memory_allocation *ret_allocation)
{
	int64_t stack_id = stacks_row(import->stacks, thread, event->stack_id, import->now_ns);
	if (stack_id < 0)
		return (int)stack_id;

	*ret_allocation = (struct memory_allocation){
		.thread = thread,
		.call = event->call,
		.flags = event->flags,
		.time_ns = import->now_ns,
		.stack_id = stack_id,
		.address = event->address,
		.size = event->size,
		.detail = event->detail,
		.link = event->link,
	};
	return 0;
}

/*
 * Another thread's free of a block that stands in the way of an allocation was perhaps stamped
 * late.
 */
static int take_late(struct import *import, const struct merge_wanted *wanted)
{
	struct merge_event event;
	uint32_t thread;
	bool is_next;

	int r = merge_take_end(import->merge, wanted, &thread, &event, &is_next);
	if (r <= 0)
		return r;
	struct memory_end_of end = end_of(import, thread, &event);
	end.is_early = !is_next;
	r = memory_freed(import->memory, &end);
	return r < 0 || !is_next ? r : import_tell_event(import, thread, event.op, NULL);
}

/* What is born was still taken, perhaps by several blocks. */
static int end_late(struct import *import, const struct memory_allocation *allocation, int64_t time)
{
	struct merge_wanted wanted = {
		.process = memory_process_of(import->memory, allocation->thread),
		.thread = allocation->thread,
		.time = time,
	};
	uint64_t from = allocation->address;
	int r = 0;

	while (r == 0 && memory_is_taken(import->memory, allocation, &from, &wanted.address))
		r = take_late(import, &wanted);
	return r;
}

static int apply_allocation(struct import *import, uint32_t thread, const struct merge_event *event)
{
	struct memory_allocation allocation;
	struct owner_block block;
	int r = allocation_of(import, thread, event, &allocation);
	uint64_t interval = memory_interval(import->memory, event->detail);

	allocation.detail = interval;
	r = r ?: memory_allocated(import->memory, &allocation, &block);
	if (r == -EEXIST) {
		allocation.ends_others = true;
		r = end_late(import, &allocation, event->time);
		r = r < 0 ? r : memory_allocated(import->memory, &allocation, &block);
	}
	const struct block_weight weight =
		block_weigh(block_weight_of(interval, event->size), event->size);
	regions_allocated(import->regions, thread, &weight);
	r = r ?: withheld_allocated(import->withheld, thread, import->now_ns);
	return r < 0 ? r : import_tell_event(import, thread, event->op, &block);
}

static int apply_map(struct import *import, uint32_t thread, const struct merge_event *event)
{
	struct memory_allocation allocation;
	int r = allocation_of(import, thread, event, &allocation);

	return r < 0 ? r : memory_map(import->memory, &allocation);
}

/* Mapped memory changes, or the break moves. */
static int apply_change(struct import *import, uint32_t thread, const struct merge_event *event)
{
	struct memory_allocation change;
	int r = allocation_of(import, thread, event, &change);

	if (r == 0 && event->op == TRACE_OP_BREAK)
		r = memory_break(import->memory, &change, event->detail > event->address);
	else if (r == 0)
		r = memory_change(import->memory, &change);
	return r;
}

/* Events that allocate no block of the heap. */
static int apply_other(struct import *import, uint32_t thread, const struct merge_event *event)
{
	struct memory_end_of end = end_of(import, thread, event);
	bool is_end = event->flags & MERGE_IS_END;

	switch (event->op) {
	case TRACE_OP_FREE:
	case TRACE_OP_REALLOC:
		return memory_freed(import->memory, &end);
	case TRACE_OP_MMAP:
		return apply_map(import, thread, event);
	case TRACE_OP_MUNMAP:
		return memory_unmap(import->memory, &end);
	case TRACE_OP_MREMAP:
		return is_end ? memory_unmap(import->memory, &end)
			      : apply_map(import, thread, event);
	case TRACE_OP_PAUSE:
	case TRACE_OP_RESUME:
	case TRACE_OP_NOTE:
		return import_apply_note(import, thread, event);
	case TRACE_OP_BREAK:
	case TRACE_OP_ADVISE:
	case TRACE_OP_PROTECT:
	case TRACE_OP_LOCK:
		return apply_change(import, thread, event);
	default:
		memory_other(import->memory, thread);
		return 0;
	}
}

static bool is_allocation(const struct merge_event *event)
{
	return event->op == TRACE_OP_ALLOC ||
	       (event->op == TRACE_OP_REALLOC && !(event->flags & MERGE_IS_END));
}

/* Which hook of ours the event comes from. One that moves a block counts once. */
static int count_hook(struct import *import, uint32_t thread, const struct merge_event *event)
{
	bool is_plain = event->flags & (TRACE_EVENT_NESTED | MERGE_IS_END);

	bool is_block = event->call == TRACE_CALL_BLOCK || event->call == TRACE_CALL_BLOCK_END ||
			event->call == TRACE_CALL_REF || event->call == TRACE_CALL_UNREF;

	if (event->op == TRACE_OP_NOTE && !is_block)
		return 0;
	if (event->flags & MERGE_IS_END && event->link)
		return 0;
	is_plain |= event->op == TRACE_OP_FREE || event->op == TRACE_OP_MUNMAP ||
		    (is_block && event->call != TRACE_CALL_BLOCK);
	return regions_hook(import->regions, thread, is_plain ? OWN_END : OWN_BLOCK);
}

static int apply(struct import *import, uint32_t thread, const struct merge_event *event)
{
	int r = count_hook(import, thread, event);
	if (r < 0)
		return r;
	if (is_allocation(event))
		return apply_allocation(import, thread, event);
	r = apply_other(import, thread, event);
	if (r < 0 || event->flags & TRACE_EVENT_NESTED)
		return r;
	return import_tell_event(import, thread, event->op, NULL);
}

static int take_event(struct import *import)
{
	struct merge_event event;
	uint32_t thread;
	int r = merge_take(import->merge, &thread, &event);
	if (r < 0)
		return r;

	if (import->now_ns > import->last_ns)
		import->last_ns = import->now_ns;
	r = apply(import, thread, &event);
	memory_passed(import->memory, thread, import->now_ns);
	return r;
}

/* Ticks since the run's start in ns; where the clock's lines meet, time does not go back. */
static int64_t to_ns(struct import *import, int64_t ticks)
{
	uint64_t stamp = (uint64_t)ticks + import->clock.start_ticks;
	int64_t time_ns = merge_clock_of_ticks(&import->clock, stamp);

	return time_ns > import->now_ns ? time_ns : import->now_ns;
}

/* Let the next thing happen. Returns 1, 0 when there is none up to the time, or an errno. */
static int run_next(struct import *import, int64_t until_ticks)
{
	int64_t event = merge_next(import->merge);
	int64_t moment = next_moment(import);
	int64_t next = event < moment ? event : moment;

	if (next == INT64_MAX || next > until_ticks)
		return 0;
	import->now_ns = to_ns(import, next);
	int r = import_advance_samples(import, import->now_ns);
	if (r == 0)
		r = moment <= event ? apply_moment(import) : take_event(import);
	return r < 0 ? r : 1;
}

/* Let everything happen that is stamped up to these ticks since the run's start. */
static int run_until(struct import *import, int64_t until_ticks)
{
	int r;

	sort_moments(import);
	while ((r = run_next(import, until_ticks)) > 0)
		;
	merge_shrink(import->merge);
	if (r == 0 && until_ticks != INT64_MAX)
		import->now_ns = to_ns(import, until_ticks);
	return r < 0 ? r : import_advance_samples(import, import->now_ns);
}

/* Everything before ticks has been read. */
static int on_commit(struct import *import, uint64_t ticks)
{
	samples_end_segment(import->samples);
	int64_t wait_ns = samples_wait_ns(import->samples, import_time(import, ticks));
	int64_t until = import_order(import, ticks);
	int64_t wait = import->skew + (int64_t)((double)wait_ns / import->clock.ns_per_tick);

	/* An absurd stamp may lie at the very end of what numbers can hold. */
	return run_until(import, until > INT64_MIN + wait ? until - wait : until);
}

static int add_events(struct import *import, const struct trace_item *item)
{
	uint32_t thread = item->stream_id;
	struct task_thread *task = tasks_thread(import->tasks, thread);
	int r = 0;

	if (!task) {
		import->n_orphans += item->n;
		return 0;
	}
	task->n_events += item->n;
	import->tally.total.events += item->n;
	if (item->columns) {
		struct merge_frame frame = {
			.thread = thread,
			.process = task->process,
			.start_ticks = import->clock.start_ticks,
			.columns = item->columns,
			.n_bytes = item->n_bytes,
			.memory = feed_keep(&import->feed),
		};
		return merge_add(import->merge, &frame);
	}
	for (size_t i = 0; i < item->n && r == 0; i++) {
		r = merge_push(import->merge, thread, task->process, &item->events[i],
			       import->clock.start_ticks);
	}
	return r;
}

/* ---- Frames ---- */

/* A record that names what was never defined is counted; it does not end the import. */
static int add_record(struct import *import, const struct trace_record *record)
{
	int r = import_record(import, record);

	return r == -EBADMSG ? losses_count(&import->losses, "trace", "definition lost", 1) : r;
}

static int add_records(struct import *import, const struct trace_item *item)
{
	const struct trace_record *record = NULL;
	int r = 0;

	while (r == 0 && (record = trace_record_next(item, record)))
		r = add_record(import, record);
	return r;
}

static int add_item(struct import *import, const struct trace_item *item)
{
	if (item->is_behind_damage)
		samples_damaged(import->samples);
	switch (item->type) {
	case TRACE_FRAME_RECORDS:
		return add_records(import, item);
	case TRACE_FRAME_EVENTS:
		return add_events(import, item);
	case TRACE_FRAME_NODES:
		return stacks_nodes(import->stacks, item->stream_id, item->nodes, item->n);
	case TRACE_FRAME_PERF:
		return samples_perf(import->samples, item->stream_id, item->perf, item->n);
	case TRACE_FRAME_ACCESSES:
		return samples_accesses(import->samples, item->stream_id, item->accesses, item->n);
	case TRACE_FRAME_CODE:
		return samples_code(import->samples, item->stream_id, item->code.head,
				    item->code.bytes);
	case TRACE_FRAME_AUX:
		return samples_aux(import->samples, item->stream_id, item->aux.head,
				   item->aux.bytes);
	case TRACE_FRAME_COMMIT:
		return on_commit(import, item->commit->ticks);
	default: /* from a newer writer */
		return 0;
	}
}

/*
 * Plain rows of a block have 47.6 to 55.5 bytes, those of a sample with its touches 105 to 172:
 * measured on python, perl, sqlite3, bash, git, cc1 and g++. A block has two events at most. Call
 * stacks, names and pictures come on top. Compressed rows (compact.h) have as few as they can.
 */
#define LEAST_BLOCK_BYTES  45u
#define LEAST_SAMPLE_BYTES 95u

static uint64_t least_bytes(const struct import *import)
{
	const struct tally_total *total = &import->tally.total;
	uint64_t n_others = total->before_trace_frees + total->unrecorded_frees +
			    total->inherited_frees + total->mappings;
	uint64_t n_events = import->feed.n_events;

	if (n_events <= n_others || compact_is_database(db_handle(import->db)))
		return 0;
	return (n_events - n_others) / 2 * LEAST_BLOCK_BYTES +
	       import->feed.n_samples * LEAST_SAMPLE_BYTES;
}

static void tell_progress(const struct import *import)
{
	const struct import_options *options = import->options;

	if (options->progress)
		options->progress(options->context, &(struct progress_step){
							    .phase = "reading",
							    .n_done = feed_offset(&import->feed),
							    .n_all = import->feed.file_bytes,
							    .size_is = "database above",
							    .size_bytes = least_bytes(import),
						    });
}

void import_begin_phase(const struct import_options *options, const char *phase)
{
	if (options->progress)
		options->progress(options->context, &(struct progress_step){ .phase = phase });
}

static int read_all(struct import *import)
{
	struct trace_item item;
	int r;

	tell_progress(import);
	while ((r = feed_next(&import->feed, &item)) > 0) {
		r = add_item(import, &item);
		if (r < 0)
			return r;
		if (item.type == TRACE_FRAME_COMMIT)
			tell_progress(import);
	}
	return r < 0 ? r : run_until(import, INT64_MAX);
}

/* ---- Begin and end ---- */

static void finish(struct import *import)
{
	for (size_t i = import->first_moment; i < import->n_moments; i++)
		free_moment(&import->moments[i]);
	for (size_t i = 0; i < sizeof(import->looks) / sizeof(import->looks[0]); i++)
		pages_look_finish(&import->looks[i]);
	free(import->moments);
	key_map_finish(&import->last_peaks);
	merge_close(import->merge);
	samples_destroy(import->samples);
	owners_destroy(import->owners);
	globals_destroy(import->globals);
	memory_close(import->memory); /* whose thread tells pictures */
	picture_build_close(import->pictures);
	guesses_destroy(import->guesses);
	import_close_notes(import);
	tally_finish(&import->tally);
	stacks_destroy(import->stacks);
	modules_destroy(import->modules);
	objects_destroy(import->objects);
	archive_remove(import->archive);
	tasks_destroy(import->tasks);
	losses_finish(&import->losses);
	merge_clock_finish(&import->clock);
	feed_close(&import->feed);
	free_all(import->run.program, import->run.mode, import->run.command, import->run.directory);
}
#define auto_import __attribute__((cleanup(finish)))

/* The archive beside the trace, or the one that was named. One that is damaged is a loss. */
static int open_archive(struct import *import)
{
	const struct symbol_places *places = import->options->places;
	auto_free char *beside = archive_default_path(import->path);
	const char *path = places && places->archive_file ? places->archive_file : beside;

	if (!path)
		return -ENOMEM;
	int r = archive_unpack(path, &import->archive);
	if (r == -ENOENT && path == beside)
		return 0;
	if (r < 0)
		r = losses_count(&import->losses, "analyze", "archive of symbols: cannot be read",
				 1);
	return r < 0 || !import->archive ? r
					 : objects_set_archive(import->objects, import->archive);
}

#define MERGE_COMING 256u

/* What a thread's next events will look at comes into the cache, all of it at once. */
static void on_coming(void *context, uint32_t thread, const struct merge_event *events, size_t n)
{
	const struct import *import = context;
	uint64_t addresses[MERGE_COMING];
	size_t n_addresses = 0;

	for (size_t i = 0; i < n && n_addresses < MERGE_COMING; i++) {
		if (events[i].op <= TRACE_OP_REALLOC)
			addresses[n_addresses++] = events[i].address;
		stacks_fetch(import->stacks, thread, events[i].stack_id);
	}
	memory_fetch(import->memory, thread, addresses, n_addresses);
}

static int open_parts(struct import *import)
{
	const struct merge_listener listener = { import, on_coming };
	struct db *db = import->db;
	int r = tasks_create(db_integer(db, "SELECT max(id) FROM process", 0) + 1,
			     db_integer(db, "SELECT max(id) FROM thread", 0) + 1, &import->tasks);

	r = r ?: objects_create(import->options->places, &import->objects);
	r = r ?: open_archive(import);
	r = r ?: modules_create(import->tasks, import->objects, &import->modules);
	if (r == 0)
		r = stacks_create(db_handle(db), import->tasks, import->modules, import->objects,
				  &import->stacks);
	r = r ?: tally_init(&import->tally, db_integer(db, "SELECT max(id) FROM thread", 0) + 1);
	r = r ?: merge_open(import->skew, &listener, &import->merge);
	r = r ?: memory_open(db, import->run_id, import->tasks, &import->tally, &import->memory);
	if (r == 0 && !(import->guesses = guesses_create()))
		r = -ENOMEM;
	if (r == 0)
		memory_set_guesses(import->memory, import->guesses);
	if (r == 0 && !import->options->is_undrawn) {
		import->pictures = picture_build_open();
		r = import->pictures ? 0 : -ENOMEM;
	}
	if (r == 0 && import->pictures)
		memory_listen(import->memory,
			      &(struct block_listener){ import->pictures, picture_build_born,
							picture_build_ended });
	r = r ?: import_open_notes(import);
	return r < 0 ? r : import_open_samples(import);
}

static int conclude(const struct import *import)
{
	const struct import_options *options = import->options;

	return options->conclude ? options->conclude(import->db, import->run_id) : 0;
}

/* Whoever asks for totals is answered while rows of blocks still follow. */
static int tell_totals(struct import *import)
{
	const struct import_options *options = import->options;
	int r = options->on_totals ? db_make_views(import->db) : 0;

	if (r == 0 && options->on_totals)
		options->on_totals(options->totals_context, import->db);
	return r;
}

static int write_rest(struct import *import)
{
	sqlite3 *handle = db_handle(import->db);
	int r = samples_finish(import->samples, feed_damage(&import->feed)->ended);

	r = r ?: samples_write_watches(import->samples, import->last_ns);
	r = r ?: memory_finish(import->memory, import->last_ns);
	r = r ?: import_finish_notes(import);
	import_begin_phase(import->options, "adding up");
	r = r ?: memory_write_blocks(import->memory) ?: globals_write(import->globals, handle);
	r = r ?: tasks_write(import->tasks, handle, import->run_id);
	r = r ?: import_write_estimators(import);
	if (r == 0)
		r = sample_ledger_unsampled(import->samples, import->run.user_ns,
					    import->run.system_ns);
	r = r ?: tally_impute(&import->tally, import->db, import->run_id);
	r = r ?: tally_write(&import->tally, import->db, import->run_id);
	/* Late: until then symbols are read beside it. */
	if (r == 0 && import->options->force)
		r = stacks_rename(import->stacks, handle);
	r = r ?: stacks_write(import->stacks, import->db);
	r = r ?: guesses_write(import->guesses, import->db, import->run_id, import->tasks);
	r = r ?: modules_write(import->modules, handle, import->run_id);
	r = r ?: samples_wait(import->samples) ?: memory_write_kinds(import->memory);
	r = r ?: import_end_run(import);
	if (r == 0)
		r = hints_write(import->db, import->run_id, import->objects, import->problem,
				sizeof(import->problem));
	r = r ?: conclude(import);
	r = r ?: tell_totals(import);
	import_begin_phase(import->options, "writing blocks");
	r = r ?: memory_write_sums(import->memory, import->db);
	return db_cause(r, memory_wait(import->memory));
}

static bool is_failure(const struct import *import)
{
	const char *verdict = import->options->verdict;

	if (verdict)
		return strcmp(verdict, "ok") != 0;
	return import->run.exit_status != 0 && import->run.exit_status != INT64_MIN;
}

static struct import_result result_of(const struct import *import)
{
	const struct tally_total *total = &import->tally.total;

	struct import_result result = {
		.run_id = import->run_id,
		.ended_cleanly = feed_damage(&import->feed)->ended,
		.is_failure = is_failure(import),
		.n_events = total->events,
		.n_allocations = import->tally.ends.allocations,
		.n_samples = total->samples + total->faults,
		.n_lost = import->losses.total,
		.duration_ns = import->last_ns,
	};

	memcpy(result.problem, import->problem, sizeof(result.problem));
	return result;
}

/* *ret_pictures: what they are made from; NULL: none are made. */
static int import_rows(struct db *db, const char *path, const struct import_options *options,
		       struct import_result *ret_result, struct picture_build **ret_pictures)
{
	auto_import struct import import = {
		.db = db, .path = path, .options = options, .first_access_ns = INT64_MAX
	};
	bool is_skipped = false;

	int r = options->growing ? feed_open_growing(options->growing, &import.feed)
				 : feed_open(path, &import.feed);
	if (r == 0 && options->beside)
		r = beside_feed_open(options->beside, &import.feed);
	if (r < 0)
		return r;
	const struct trace_file_header *header = feed_header(&import.feed);
	merge_clock_init(&import.clock, header->start_ticks, header->ticks_per_second);
	uint64_t skew_ns = import.feed.skew_ns ? import.feed.skew_ns : MERGE_SKEW_NS;
	import.skew = (int64_t)((double)skew_ns / import.clock.ns_per_tick);
	r = import_begin_run(&import, &is_skipped);
	if (r < 0)
		return r;
	if (is_skipped) {
		*ret_result = (struct import_result){ .run_id = import.run_id, .is_skipped = true };
		return 0;
	}
	r = import_find_peaks(&import) ?: feed_ahead(&import.feed) ?: open_parts(&import);
	if (r == 0 && import.feed.skew_ns)
		memory_set_unseen(import.memory);
	r = r ?: read_all(&import) ?: write_rest(&import);
	if (r < 0)
		return db_cause(rows_take_error(db), r);
	if (import.pictures && memory_has_told(import.memory))
		r = picture_build_name(import.pictures, &import.tally);
	*ret_pictures = steal_ptr(&import.pictures);
	*ret_result = result_of(&import);
	return r;
}

/* What the import needed of memory is free before pictures are drawn. */
int import_trace(struct db *db, const char *path, const struct import_options *options,
		 struct import_result *ret_result)
{
	struct picture_build *pictures = NULL;
	int r = import_rows(db, path, options, ret_result, &pictures);

	if (r == 0 && pictures) {
		import_begin_phase(options, "drawing pictures");
		r = picture_build_write(pictures, db, ret_result->run_id);
	}
	picture_build_close(pictures);
	return r;
}
