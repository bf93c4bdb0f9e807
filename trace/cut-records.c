/* Which records are left of what was before a cut: of what is still there, and of the run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/array.h"
#include "schemas/ring.h"
#include "schemas/trace-contents.h"
#include "schemas/trace-control.h"
#include "trace/cut-internal.h"
#include "trace/records.h"

/* A record, and how much of a trace lies behind the cut. */
struct taking {
	struct cut *cut;
	const struct trace_record *record;
	uint32_t number; /* its place + 1, once it is kept */
};

static int add_record(struct taking *taking, uint32_t process)
{
	struct cut *cut = taking->cut;

	if (grow_one(&cut->records, cut->n_records, &cut->n_records_allocated) < 0)
		return -ENOMEM;
	struct trace_record *copy = malloc(taking->record->bytes);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, taking->record, taking->record->bytes);
	cut->records[cut->n_records] = (struct cut_record){ .bytes = copy, .process = process };
	taking->number = (uint32_t)++cut->n_records;
	return 0;
}

static uint64_t hash_strings(const struct trace_record *record, unsigned n)
{
	uint64_t hash = 0;

	for (unsigned i = 0; i < n; i++) {
		size_t n_bytes;
		const char *bytes = trace_record_string(record, i, &n_bytes);

		hash = XXH3_64bits_withSeed(bytes, n_bytes, hash + n_bytes);
	}
	return hash;
}

/* The place + 1 of the last record of this type and key; 0: there was none. This one is it now. */
static int replace(struct taking *taking, uint64_t a, uint64_t b, uint32_t *ret_before)
{
	struct key_map *map = &taking->cut->last_records;
	uint64_t key = a * 256 + taking->record->type;

	*ret_before = (uint32_t)key_map_get(map, key, b);
	return key_map_put(map, key, b, taking->number);
}

/* Of all of one key only the last one counts. */
static int keep_last(struct taking *taking, uint32_t process, uint64_t a, uint64_t b)
{
	uint32_t before = 0;
	int r = add_record(taking, process) ?: replace(taking, a, b, &before);

	if (r == 0 && before)
		taking->cut->records[before - 1].is_dropped = true;
	return r;
}

/* The first and the last one. */
static int keep_ends(struct taking *taking, uint64_t a)
{
	bool is_first = !key_map_get(&taking->cut->last_records, a * 256 + taking->record->type, 1);
	uint32_t before = 0;
	int r = keep_last(taking, 0, a, is_first);

	return r == 0 && is_first ? replace(taking, a, 1, &before) : r;
}

/* ---- Processes and threads ---- */

static int add_fork(struct cut *cut, const struct trace_process *record)
{
	struct cut_process *parent = cut_find_process(cut, record->parent_id);

	if (!parent || record->birth != RING_BIRTH_FORK)
		return 0;
	return array_add(parent->forks, parent->n_forks, parent->n_forks_allocated,
			 (struct cut_fork){
				 .ticks = record->start_ticks,
				 .child = (uint32_t)cut->n_processes - 1,
			 });
}

static int take_process(struct taking *taking)
{
	const struct trace_process *record = (const void *)taking->record;
	struct cut *cut = taking->cut;
	struct cut_process *known = cut_find_process(cut, record->process_id);
	int r = add_record(taking, record->process_id);

	if (r < 0 || known)
		return r;
	if (grow_one(&cut->processes, cut->n_processes, &cut->n_processes_allocated) < 0 ||
	    key_map_put(&cut->processes_by_id, record->process_id, 0, cut->n_processes + 1) < 0)
		return -ENOMEM;
	cut->processes[cut->n_processes++] = (struct cut_process){
		.id = record->process_id,
		.parent = record->parent_id,
		.pid = record->pid,
		.is_fork = record->birth == RING_BIRTH_FORK && record->parent_id,
	};
	return add_fork(cut, record);
}

static bool is_behind(const struct taking *taking, uint64_t ticks)
{
	return ticks >= taking->cut->options->commit.ticks;
}

static int take_process_end(struct taking *taking)
{
	const struct trace_process_end *end = (const void *)taking->record;
	struct cut_process *process = cut_find_process(taking->cut, end->process_id);

	if (process && !is_behind(taking, end->ticks))
		process->has_ended = true;
	return add_record(taking, end->process_id);
}

static int add_of_thread(struct taking *taking, uint32_t thread)
{
	int r = add_record(taking, 0);

	if (r == 0)
		taking->cut->records[taking->number - 1].thread = thread;
	return r;
}

static int take_thread(struct taking *taking)
{
	const struct trace_thread *record = (const void *)taking->record;
	struct cut *cut = taking->cut;
	const struct cut_process *process = cut_find_process(cut, record->process_id);
	int r = process ? add_of_thread(taking, record->thread_id) : 0;

	if (r < 0 || !process || cut_find_thread(cut, record->thread_id))
		return r;
	if (grow_one(&cut->threads, cut->n_threads, &cut->n_threads_allocated) < 0 ||
	    key_map_put(&cut->threads_by_id, record->thread_id, 0, cut->n_threads + 1) < 0 ||
	    key_map_put(&cut->threads_by_tid, record->tid, 0, cut->n_threads + 1) < 0)
		return -ENOMEM;
	cut->threads[cut->n_threads++] = (struct cut_thread){
		.id = record->thread_id,
		.process = (uint32_t)(process - cut->processes),
	};
	return 0;
}

static int take_thread_end(struct taking *taking)
{
	const struct trace_thread_end *end = (const void *)taking->record;
	struct cut_thread *thread = cut_find_thread(taking->cut, end->thread_id);

	if (thread && !is_behind(taking, end->ticks))
		thread->has_ended = true;
	return add_of_thread(taking, end->thread_id);
}

static int take_thread_name(struct taking *taking)
{
	const struct trace_thread_name *name = (const void *)taking->record;
	int r = is_behind(taking, name->ticks) ? add_record(taking, 0)
					       : keep_last(taking, 0, name->thread_id, 0);

	if (r == 0)
		taking->cut->records[taking->number - 1].thread = name->thread_id;
	return r;
}

/* ---- Modules ---- */

/* The same file at the same place: as if it had stayed there. */
static int take_module(struct taking *taking)
{
	const struct trace_module *module = (const void *)taking->record;
	uint64_t hash = hash_strings(taking->record, 2) + module->process_id;
	struct key_map *map = &taking->cut->last_records;
	uint64_t loaded = key_map_get(map, hash, module->start);
	uint64_t unloaded = key_map_get(map, ~hash, module->start);

	if (loaded && unloaded && !is_behind(taking, module->ticks) &&
	    taking->record->type == TRACE_RECORD_MODULE) {
		taking->cut->records[unloaded - 1].is_dropped = true;
		return 0;
	}
	int r = add_record(taking, module->process_id);
	if (r < 0 || is_behind(taking, module->ticks))
		return r;
	return key_map_put(map, taking->record->type == TRACE_RECORD_MODULE ? hash : ~hash,
			   module->start, taking->number);
}

static int take_mapping(struct taking *taking)
{
	const struct trace_mapping *mapping = (const void *)taking->record;
	int r = add_record(taking, mapping->process_id);

	return r < 0 || is_behind(taking, mapping->ticks)
		       ? r
		       : cut_mapping(taking->cut, taking->number, mapping);
}

static int take_text(struct taking *taking)
{
	const struct trace_text *text = (const void *)taking->record;

	return keep_last(taking, text->process_id, text->process_id, text->id);
}

/* ---- Of the run ---- */

static int take_loss(struct taking *taking)
{
	const struct trace_loss *loss = (const void *)taking->record;
	uint64_t key = hash_strings(taking->record, 2) ^ (uint64_t)loss->process_id << 32;
	uint32_t before = 0;
	int r = add_record(taking, 0) ?: replace(taking, loss->thread_id, key, &before);

	if (r < 0 || !before)
		return r;
	struct trace_loss *now = (void *)taking->cut->records[taking->number - 1].bytes;
	const struct trace_loss *past = (const void *)taking->cut->records[before - 1].bytes;

	taking->cut->records[before - 1].is_dropped = true;
	now->count += past->count;
	if (now->from_ticks == 0 || past->from_ticks < now->from_ticks)
		now->from_ticks = past->from_ticks;
	if (now->to_ticks && past->to_ticks > now->to_ticks)
		now->to_ticks = past->to_ticks;
	return 0;
}

static bool is_text(const struct trace_record *record, const char *text)
{
	size_t n_bytes;
	const char *bytes = trace_record_string(record, 0, &n_bytes);

	return n_bytes == strlen(text) && memcmp(bytes, text, n_bytes) == 0;
}

static uint64_t value_of(const struct trace_record *record)
{
	char text[32];
	size_t n_bytes;
	const char *bytes = trace_record_string(record, 1, &n_bytes);

	snprintf(text, sizeof(text), "%.*s", (int)(n_bytes < sizeof(text) ? n_bytes : 0), bytes);
	return strtoull(text, NULL, 10);
}

static int take_fact(struct taking *taking)
{
	const struct trace_fact *fact = (const void *)taking->record;
	struct cut *cut = taking->cut;

	if (is_text(taking->record, TRACE_CUT_FACT_EVENTS))
		cut->n_dropped_events = value_of(taking->record);
	else if (is_text(taking->record, TRACE_CUT_FACT_SAMPLES))
		cut->n_dropped_samples = value_of(taking->record);
	else if (!is_text(taking->record, TRACE_CUT_FACT_SPAN)) {
		cut->lacks_births |= is_text(taking->record, "memsight.min_bytes") &&
				     value_of(taking->record) > 0;
		return keep_last(taking, 0, fact->at_end, hash_strings(taking->record, 1));
	}
	return 0;
}

static int take_source(struct taking *taking)
{
	int r = cut_source(taking->cut, (const void *)taking->record);

	return r < 0 ? r : add_record(taking, 0);
}

static int take_source_detail(struct taking *taking)
{
	cut_source_detail(taking->cut, (const void *)taking->record);
	return add_record(taking, 0);
}

static int take_perf_clock(struct taking *taking)
{
	return keep_ends(taking, ((const struct trace_perf_clock *)taking->record)->source_id);
}

static int take_period(struct taking *taking)
{
	const struct trace_period *period = (const void *)taking->record;

	return period->raw_ns >= taking->cut->options->commit.raw_ns
		       ? add_record(taking, 0)
		       : keep_last(taking, 0, period->source_id, period->mark);
}

static int take_clock(struct taking *taking)
{
	const struct trace_clock *clock = (const void *)taking->record;
	struct cut *cut = taking->cut;

	if (array_add(cut->clocks, cut->n_clocks, cut->n_clocks_allocated, *clock) < 0)
		return -ENOMEM;
	return is_behind(taking, clock->ticks) ? add_record(taking, 0) : keep_ends(taking, 0);
}

static int take_process_sample(struct taking *taking)
{
	const struct trace_process_sample *sample = (const void *)taking->record;

	return is_behind(taking, sample->ticks)
		       ? add_record(taking, sample->process_id)
		       : keep_last(taking, sample->process_id, sample->process_id, 0);
}

/* Nothing behind the cut needs what was known of a moment before it. */
static int take_moment(struct taking *taking)
{
	static const struct {
		uint16_t type;
		uint16_t ticks_at;
	} shapes[] = {
		{ TRACE_RECORD_PAGES, offsetof(struct trace_pages, ticks) },
		{ TRACE_RECORD_TOUCHES, offsetof(struct trace_touches, ticks) },
		{ TRACE_RECORD_WRITES, offsetof(struct trace_writes, ticks) },
		{ TRACE_RECORD_CONTENTS, offsetof(struct trace_contents, ticks) },
		{ TRACE_RECORD_OUTSIDE_MARK, offsetof(struct trace_outside_mark, ticks) },
		{ TRACE_RECORD_TRIPS, offsetof(struct trace_trips, ticks) },
	};
	uint64_t ticks = 0;

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (shapes[i].type == taking->record->type)
			memcpy(&ticks, (const char *)taking->record + shapes[i].ticks_at,
			       sizeof(ticks));
	return is_behind(taking, ticks) ? add_record(taking, 0) : 0;
}

static int take_code_seen(struct taking *taking)
{
	const struct trace_code_seen *seen = (const void *)taking->record;

	return seen->end_raw_ns >= taking->cut->options->commit.raw_ns
		       ? add_record(taking, seen->process_id)
		       : 0;
}

static int take_page_nodes(struct taking *taking)
{
	size_t n_bytes;
	const char *items = trace_record_string(taking->record, 0, &n_bytes);
	bool is_kept = false;

	for (size_t at = 0; at + sizeof(struct trace_page_node) <= n_bytes && !is_kept;
	     at += sizeof(struct trace_page_node)) {
		struct trace_page_node node;

		memcpy(&node, items + at, sizeof(node));
		is_kept = node.time_ns >= taking->cut->options->commit.raw_ns;
	}
	return is_kept ? add_record(taking, 0) : 0;
}

/* The one that is there, and the end of the one before: recording may be off. */
static int take_window(struct taking *taking)
{
	const struct trace_window *window = (const void *)taking->record;
	size_t n_bytes;
	const char *cause = trace_record_string(taking->record, 0, &n_bytes);

	/* Ours, of an earlier cut; where the program's own follow, it is the first of them. */
	if (n_bytes > strlen(TRACE_CUT_CAUSE) && window->end_ticks == 0 &&
	    memcmp(cause, TRACE_CUT_CAUSE, strlen(TRACE_CUT_CAUSE)) == 0)
		return 0;
	taking->cut->has_windows = true;
	taking->cut->lacks_births = true;
	if (is_behind(taking, window->end_ticks ? window->end_ticks : window->begin_ticks))
		return add_record(taking, 0);
	if (window->end_ticks == 0)
		return keep_last(taking, 0, window->number, 1);
	uint64_t begin = key_map_get(&taking->cut->last_records,
				     window->number * UINT64_C(256) + TRACE_RECORD_WINDOW, 1);
	if (begin)
		taking->cut->records[begin - 1].is_dropped = true;
	return keep_last(taking, 0, 0, 0);
}

static int take_any(struct taking *taking)
{
	return add_record(taking, 0);
}

/* Of one process. */
static int take_heap_range(struct taking *taking)
{
	return add_record(taking, ((const struct trace_heap_range *)taking->record)->process_id);
}

static int take_rank(struct taking *taking)
{
	const struct trace_rank *rank = (const void *)taking->record;

	return keep_last(taking, rank->process_id, rank->process_id, 0);
}

static const struct {
	uint16_t type;
	int (*take)(struct taking *taking);
} kinds[] = {
	{ TRACE_RECORD_PROCESS, take_process },
	{ TRACE_RECORD_PROCESS_END, take_process_end },
	{ TRACE_RECORD_THREAD, take_thread },
	{ TRACE_RECORD_THREAD_END, take_thread_end },
	{ TRACE_RECORD_THREAD_NAME, take_thread_name },
	{ TRACE_RECORD_MODULE, take_module },
	{ TRACE_RECORD_MODULE_UNLOAD, take_module },
	{ TRACE_RECORD_MAPPING, take_mapping },
	{ TRACE_RECORD_LOSS, take_loss },
	{ TRACE_RECORD_TEXT, take_text },
	{ TRACE_RECORD_HEAP_RANGE, take_heap_range },
	{ TRACE_RECORD_RANK, take_rank },
	{ TRACE_RECORD_SOURCE, take_source },
	{ TRACE_RECORD_SOURCE_DETAIL, take_source_detail },
	{ TRACE_RECORD_PERF_CLOCK, take_perf_clock },
	{ TRACE_RECORD_PERIOD, take_period },
	{ TRACE_RECORD_PAGE_NODES, take_page_nodes },
	{ TRACE_RECORD_CODE_SEEN, take_code_seen },
	{ TRACE_RECORD_PAGES, take_moment },
	{ TRACE_RECORD_TOUCHES, take_moment },
	{ TRACE_RECORD_WRITES, take_moment },
	{ TRACE_RECORD_CONTENTS, take_moment },
	{ TRACE_RECORD_OUTSIDE_MARK, take_moment },
	{ TRACE_RECORD_TRIPS, take_moment },
	{ TRACE_RECORD_FACT, take_fact },
	{ TRACE_RECORD_CLOCK, take_clock },
	{ TRACE_RECORD_PROCESS_SAMPLE, take_process_sample },
	{ TRACE_RECORD_WINDOW, take_window },
};

int cut_records(struct cut *cut, const struct trace_item *item)
{
	struct taking taking = { .cut = cut };
	int r = 0;

	while (r == 0 && (taking.record = trace_record_next(item, taking.record))) {
		int (*take)(struct taking *) = take_any;

		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (kinds[i].type == taking.record->type)
				take = kinds[i].take;
		r = take(&taking);
	}
	return r;
}

/* ---- What is kept ---- */

/* Parents come before their children: from the last to the first all of them are known. */
void cut_decide_processes(struct cut *cut)
{
	for (size_t i = cut->n_processes; i-- > 0;) {
		struct cut_process *process = &cut->processes[i];

		process->is_needed = !process->has_ended;
		for (size_t k = 0; k < process->n_forks; k++)
			process->is_needed |= cut->processes[process->forks[k].child].is_needed;
		process->is_kept |= process->is_needed;
		if (process->is_kept) {
			struct cut_process *parent = cut_find_process(cut, process->parent);

			if (parent && parent < process)
				parent->is_kept = true;
		}
	}
}

static bool is_kept(const struct cut *cut, const struct cut_record *record)
{
	const struct cut_process *process = cut_find_process(cut, record->process);
	const struct cut_thread *thread = cut_find_thread(cut, record->thread);

	return !record->is_dropped && (!record->process || (process && process->is_kept)) &&
	       (!record->thread || (thread && thread->is_kept));
}

/* A loss of what is left out is one of the run. */
static void forget_whose(const struct cut *cut, struct trace_record *record)
{
	struct trace_loss *loss = (struct trace_loss *)record;

	if (record->type != TRACE_RECORD_LOSS)
		return;
	const struct cut_process *process = cut_find_process(cut, loss->process_id);
	const struct cut_thread *thread = cut_find_thread(cut, loss->thread_id);
	if (!process || !process->is_kept)
		loss->process_id = 0;
	if (!thread || !thread->is_kept || !loss->process_id)
		loss->thread_id = 0;
}

static int write_record(const struct cut *cut, const struct trace_record *record)
{
	const struct trace_record_shape *shape = trace_record_shape(record->type);
	struct trace_string strings[TRACE_RECORD_MAX_STRINGS];
	unsigned n = shape ? shape->n_strings : 0;

	for (unsigned i = 0; i < n; i++) {
		size_t n_bytes;

		strings[i].bytes = trace_record_string(record, i, &n_bytes);
		strings[i].n_bytes = (uint32_t)n_bytes;
	}
	return trace_writer_record(cut->writer, record, record->struct_bytes, strings, n);
}

int cut_write_records(struct cut *cut)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cut->n_records; i++) {
		const struct cut_record *record = &cut->records[i];

		if (!is_kept(cut, record))
			continue;
		forget_whose(cut, record->bytes);
		r = write_record(cut, record->bytes);
	}
	return r;
}
