#include "analyze/input/perf-data/companion-trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/input/clock-map.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "trace/reader.h"

#define MAX_BLOCKS   1000000u /* kept in memory; with more of them none is used */
#define ADDRESS_BITS 47 /* of a user's address; the rest of a place is the process */

struct reading {
	struct beside_trace *trace;
	struct merge_clock clock;
};

void beside_trace_finish(struct beside_trace *trace)
{
	free(trace->modules);
	free(trace->threads);
	free(trace->source_names);
	key_map_finish(&trace->pids);
	key_map_finish(&trace->starts);
	key_map_finish(&trace->thread_index);
	key_map_finish(&trace->tids);
	key_map_finish(&trace->deaths);
	clock_ranges_finish(&trace->blocks);
	*trace = (struct beside_trace){ 0 };
}

uint64_t beside_place(const struct beside_trace *trace, uint32_t pid, uint64_t address)
{
	uint64_t number = key_map_get(&trace->starts, pid, 1);

	if (address >> ADDRESS_BITS || number == 0 || number >> (64 - ADDRESS_BITS))
		return 0;
	return address | number << ADDRESS_BITS;
}

uint64_t beside_trace_first(const struct beside_trace *trace, uint32_t pid)
{
	return key_map_get(&trace->starts, pid, 0);
}

bool beside_trace_has_source(const struct beside_trace *trace, const char *name)
{
	char line[80];

	snprintf(line, sizeof(line), "\n%s\n", name);
	return trace->source_names && strstr(trace->source_names, line);
}

/* ---- Records: times are ticks until all is read ---- */

static int on_process(struct beside_trace *trace, const struct trace_record *record)
{
	const struct trace_process *process = (const struct trace_process *)record;
	uint64_t first = key_map_get(&trace->starts, process->pid, 0);
	uint64_t start = process->start_ticks ? process->start_ticks : 1;
	int r = process->pid ? key_map_put(&trace->pids, process->process_id, 0, process->pid) : 0;

	if (r == 0 && (first == 0 || start < first))
		r = key_map_put(&trace->starts, process->pid, 0, start);
	if (r == 0 && first == 0)
		r = key_map_put(&trace->starts, process->pid, 1, ++trace->n_pids);
	return r;
}

static int on_thread(struct beside_trace *trace, const struct trace_record *record)
{
	const struct trace_thread *thread = (const struct trace_thread *)record;
	uint32_t pid = (uint32_t)key_map_get(&trace->pids, thread->process_id, 0);

	if (pid == 0 || thread->tid == 0)
		return 0;
	if (grow_array(&trace->threads, trace->n_threads, &trace->n_threads_allocated,
		       sizeof(*trace->threads)) < 0)
		return -ENOMEM;
	trace->threads[trace->n_threads++] =
		(struct beside_thread){ thread->thread_id, pid, thread->tid, 0 };
	int r = key_map_put(&trace->tids, pid, thread->tid,
			    key_map_get(&trace->tids, pid, thread->tid) + 1);
	return r < 0 ? r
		     : key_map_put(&trace->thread_index, thread->thread_id, 0, trace->n_threads);
}

static int on_module(struct beside_trace *trace, const struct trace_record *record)
{
	const struct trace_module *module = (const struct trace_module *)record;
	uint32_t pid = (uint32_t)key_map_get(&trace->pids, module->process_id, 0);

	if (pid == 0)
		return 0;
	if (grow_array(&trace->modules, trace->n_modules, &trace->n_modules_allocated,
		       sizeof(*trace->modules)) < 0)
		return -ENOMEM;
	trace->modules[trace->n_modules++] =
		(struct beside_module){ pid, module->start, module->end, module->ticks };
	return 0;
}

static int on_source(struct beside_trace *trace, const struct trace_record *record)
{
	const struct trace_source *source = (const struct trace_source *)record;
	char *names = trace->source_names;
	size_t n_bytes;
	const char *name = trace_record_string(record, 0, &n_bytes);

	if (source->source_id > trace->n_sources)
		trace->n_sources = source->source_id;
	if (source->error)
		return 0;
	if (asprintf(&trace->source_names, "%s\n%.*s\n", names ? names : "", (int)n_bytes, name) <
	    0) {
		trace->source_names = names;
		return -ENOMEM;
	}
	free(names);
	return 0;
}

static const struct {
	uint16_t type;
	int (*handle)(struct beside_trace *trace, const struct trace_record *record);
} handlers[] = {
	{ TRACE_RECORD_PROCESS, on_process },
	{ TRACE_RECORD_THREAD, on_thread },
	{ TRACE_RECORD_MODULE, on_module },
	{ TRACE_RECORD_SOURCE, on_source },
};

static int take_record(struct reading *reading, const struct trace_record *record)
{
	if (record->type == TRACE_RECORD_CLOCK)
		return merge_clock_add(&reading->clock, (const struct trace_clock *)record);
	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
		if (handlers[i].type == record->type)
			return handlers[i].handle(reading->trace, record);
	}
	return 0;
}

/* ---- Events ---- */

static int add_death(struct beside_trace *trace, uint32_t pid, uint64_t address, uint64_t ticks)
{
	uint64_t place = beside_place(trace, pid, address);

	if (place == 0 || trace->deaths.n == MAX_BLOCKS)
		return 0;
	return key_map_put(&trace->deaths, place, 0, ticks ? ticks : 1);
}

/* malloc() leaves what it gives as it is; calloc() and realloc() write there before they return. */
static bool is_clean(const struct trace_event *event)
{
	return event->op == TRACE_OP_ALLOC &&
	       (event->call == TRACE_CALL_MALLOC || event->call == TRACE_CALL_NEW ||
		event->call == TRACE_CALL_NEW_ARRAY);
}

static int add_birth(struct beside_trace *trace, uint32_t pid, const struct trace_event *event)
{
	uint64_t place = beside_place(trace, pid, event->address);
	size_t n = trace->blocks.n;
	int r;

	trace->has_too_many |= n == MAX_BLOCKS;
	if (place == 0 || trace->has_too_many)
		return 0;
	r = clock_ranges_add(&trace->blocks, place, event->size, event->ticks);
	if (r == 0 && trace->blocks.n > n)
		trace->blocks.items[n].is_clean = is_clean(event);
	return r;
}

static int take_event(struct beside_trace *trace, uint32_t pid, const struct trace_event *event)
{
	int r = 0;

	if (event->op == TRACE_OP_REALLOC)
		r = add_death(trace, pid, event->old_address, event->begin_ticks);
	if (event->op == TRACE_OP_FREE)
		r = add_death(trace, pid, event->address, event->ticks);
	else if (r == 0 && (event->op == TRACE_OP_ALLOC || event->op == TRACE_OP_REALLOC))
		r = add_birth(trace, pid, event);
	return r;
}

static int take_events(struct beside_trace *trace, const struct trace_item *item)
{
	uint64_t index = key_map_get(&trace->thread_index, item->stream_id, 0);
	int r = 0;

	if (index == 0)
		return 0;
	struct beside_thread *thread = &trace->threads[index - 1];
	for (size_t i = 0; i < item->n && r == 0; i++) {
		if (item->events[i].ticks > thread->last_ns)
			thread->last_ns = item->events[i].ticks;
		r = take_event(trace, thread->pid, &item->events[i]);
	}
	return r;
}

static int take_item(struct reading *reading, const struct trace_item *item)
{
	const struct trace_record *record = NULL;
	int r = 0;

	if (item->type == TRACE_FRAME_EVENTS)
		return take_events(reading->trace, item);
	if (item->type == TRACE_FRAME_COMMIT)
		reading->trace->end_ns = item->commit->ticks;
	if (item->type != TRACE_FRAME_RECORDS)
		return 0;
	while (r == 0 && (record = trace_record_next(item, record)))
		r = take_record(reading, record);
	return r;
}

/* ---- Times ---- */

static uint64_t raw_of(struct reading *reading, uint64_t ticks)
{
	return reading->clock.start_raw_ns + (uint64_t)merge_clock_of_ticks(&reading->clock, ticks);
}

/* The clock is known by now: ticks become CLOCK_MONOTONIC_RAW. */
static void convert(struct reading *reading)
{
	struct beside_trace *trace = reading->trace;

	for (size_t i = 0; i < trace->n_modules; i++)
		trace->modules[i].time_ns = raw_of(reading, trace->modules[i].time_ns);
	for (size_t i = 0; i < trace->n_threads; i++) {
		if (trace->threads[i].last_ns)
			trace->threads[i].last_ns = raw_of(reading, trace->threads[i].last_ns);
	}
	for (size_t i = 0; i < trace->starts.capacity; i++) {
		struct key_map_entry *entry = &trace->starts.entries[i];
		if (entry->value && entry->b == 0)
			entry->value = raw_of(reading, entry->value);
	}
	trace->start_ns = reading->clock.start_raw_ns;
	trace->end_ns = raw_of(reading, trace->end_ns);
	if (trace->has_too_many)
		trace->blocks.n = 0;
	clock_ranges_sort(&trace->blocks);
	for (size_t i = 0; i < trace->blocks.n; i++) {
		struct clock_range *block = &trace->blocks.items[i];
		uint64_t death = key_map_get(&trace->deaths, block->start, 0);
		block->time_ns = raw_of(reading, block->time_ns);
		block->death_ns = death ? raw_of(reading, death) : 0;
	}
}

static void close_reader(struct trace_reader **reader)
{
	*reader = trace_reader_close(*reader);
}

int beside_trace_read(const char *path, struct beside_trace *trace)
{
	__attribute__((cleanup(close_reader))) struct trace_reader *reader = NULL;
	struct reading reading = { .trace = trace };
	struct trace_item item;
	int r = trace_reader_open(path, &reader);

	if (r < 0)
		return r;
	const struct trace_file_header *header = trace_reader_header(reader);
	merge_clock_init(&reading.clock, header->start_ticks, header->ticks_per_second);
	while ((r = trace_reader_next(reader, &item)) > 0) {
		r = take_item(&reading, &item);
		if (r < 0)
			break;
	}
	if (r == 0)
		convert(&reading);
	merge_clock_finish(&reading.clock);
	return r;
}
