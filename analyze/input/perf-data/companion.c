#include "analyze/input/perf-data/companion.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyze/input/clock-map.h"
#include "analyze/input/perf-data/run-info.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "trace/reader.h"

/* ---- What the trace says ---- */

#define MAX_BLOCKS   1000000u /* kept in memory; with more of them none is used */
#define ADDRESS_BITS 47 /* of a user's address; the rest of a place is the process */

struct reading {
	struct beside_trace *trace;
	struct merge_clock clock;
};

/* Address and process as one number, for blocks; 0: none. */
static uint64_t beside_place(const struct beside_trace *trace, uint32_t pid, uint64_t address)
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
	if (array_add(trace->threads, trace->n_threads, trace->n_threads_allocated,
		      (struct beside_thread){ thread->thread_id, pid, thread->tid, 0 }) < 0)
		return -ENOMEM;
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
	return array_add(trace->modules, trace->n_modules, trace->n_modules_allocated,
			 (struct beside_module){ pid, module->start, module->end, module->ticks });
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
	for (size_t i = 0; i < COUNT_OF(handlers); i++) {
		if (handlers[i].type == record->type)
			return handlers[i].handle(reading->trace, record);
	}
	return 0;
}

/* ---- Events ---- */

static int add_free(struct beside_trace *trace, uint32_t pid, uint64_t address, uint64_t ticks)
{
	uint64_t place = beside_place(trace, pid, address);

	if (place == 0 || trace->frees.n == MAX_BLOCKS)
		return 0;
	return key_map_put(&trace->frees, place, 0, ticks ? ticks : 1);
}

/* malloc() leaves what it gives as it is; calloc() and realloc() write there before they return. */
static bool is_clean(const struct trace_event *event)
{
	return event->op == TRACE_OP_ALLOC &&
	       (event->call == TRACE_CALL_MALLOC || event->call == TRACE_CALL_NEW ||
		event->call == TRACE_CALL_NEW_ARRAY);
}

static int add_allocation(struct beside_trace *trace, uint32_t pid, const struct trace_event *event)
{
	uint64_t place = beside_place(trace, pid, event->address);
	size_t n = trace->blocks.n;

	trace->has_too_many |= n == MAX_BLOCKS;
	if (place == 0 || trace->has_too_many)
		return 0;
	int r = clock_ranges_add(&trace->blocks, place, event->size, event->ticks);
	if (r == 0 && trace->blocks.n > n)
		trace->blocks.items[n].is_clean = is_clean(event);
	return r;
}

static int take_event(struct beside_trace *trace, uint32_t pid, const struct trace_event *event)
{
	int r = 0;

	if (event->op == TRACE_OP_REALLOC)
		r = add_free(trace, pid, event->old_address, event->begin_ticks);
	if (event->op == TRACE_OP_FREE)
		r = add_free(trace, pid, event->address, event->ticks);
	else if (r == 0 && (event->op == TRACE_OP_ALLOC || event->op == TRACE_OP_REALLOC))
		r = add_allocation(trace, pid, event);
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
		uint64_t freed = key_map_get(&trace->frees, block->start, 0);
		block->time_ns = raw_of(reading, block->time_ns);
		block->freed_ns = freed ? raw_of(reading, freed) : 0;
	}
}

static void close_reader(struct trace_reader **reader)
{
	*reader = trace_reader_close(*reader);
}

/* Read a trace for it. 0, as trace_reader_open(), or -ENOMEM. */
static int beside_trace_read(const char *path, struct beside_trace *trace)
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

#define PAGE_BYTES	      4096u
#define MOST_CONTRADICTION_NS INT64_C(1000000000) /* beyond it they are not of one run */
#define SOFT_CONTRADICTION_NS INT64_C(1000000) /* beyond it blocks do not say what they seem to */

/* NTP may slew clocks other than CLOCK_MONOTONIC_RAW by 500 ppm (adjtimex(2)). */
#define SLEW_PER_NS 2000u

struct aligning {
	struct beside *beside;
	struct key_map maps; /* (place of a map's start, 0) -> time; UINT64_MAX: several */
	struct key_map exits; /* (pid, tid) -> time; UINT64_MAX: several */
	struct clock_bounds hard; /* by modules and threads */
	struct clock_bounds soft; /* by blocks */
	uint64_t n_modules; /* maps that are modules of the trace */
};

void beside_close(struct beside *beside)
{
	free(beside->path);
	free_all(beside->trace.modules, beside->trace.threads, beside->trace.source_names);
	key_map_finish(&beside->trace.pids);
	key_map_finish(&beside->trace.starts);
	key_map_finish(&beside->trace.thread_index);
	key_map_finish(&beside->trace.tids);
	key_map_finish(&beside->trace.frees);
	clock_ranges_finish(&beside->trace.blocks);
	beside->trace = (struct beside_trace){ 0 };
	*beside = (struct beside){ 0 };
}

/* ---- What perf says, and the offset of the clocks ---- */

static void match_modules(struct aligning *aligning, const struct pmu_map *map, uint64_t time_ns)
{
	const struct beside_trace *trace = &aligning->beside->trace;

	for (size_t i = 0; i < trace->n_modules; i++) {
		const struct beside_module *module = &trace->modules[i];
		if (module->pid != map->pid || map->address < module->start ||
		    map->address >= module->end)
			continue;
		aligning->n_modules++;
		if (time_ns)
			clock_bounds_high(&aligning->hard, time_ns, module->time_ns);
		return;
	}
}

static int put_once(struct key_map *map, uint64_t a, uint64_t b, uint64_t time_ns)
{
	return key_map_put(map, a, b, key_map_get(map, a, b) ? UINT64_MAX : time_ns);
}

static int take_map(struct aligning *aligning, const struct pmu_map *map, uint64_t time_ns)
{
	uint64_t place = beside_place(&aligning->beside->trace, map->pid, map->address);

	if (map->path[0] == '/' && map->path[1] != '/')
		match_modules(aligning, map, time_ns);
	return place && time_ns ? put_once(&aligning->maps, place, 0, time_ns) : 0;
}

/* An access to a block is before its free; one behind its first page was after malloc() gave it. */
static void take_sample(struct aligning *aligning, const struct pmu_record *record)
{
	const struct beside_trace *trace = &aligning->beside->trace;
	uint64_t place = beside_place(trace, record->origin.pid, record->sample.address);
	const struct clock_range *block = place ? clock_ranges_find(&trace->blocks, place) : NULL;
	uint64_t page = place & ~(uint64_t)(PAGE_BYTES - 1);

	if (!block)
		return;
	if (block->freed_ns)
		clock_bounds_high(&aligning->soft, record->origin.time_ns, block->freed_ns);
	if (block->is_clean && page >= block->start && page + PAGE_BYTES <= block->end)
		clock_bounds_low(&aligning->soft, record->origin.time_ns, block->time_ns);
}

static int align_record(struct aligning *aligning, const struct pmu_record *record)
{
	struct beside *beside = aligning->beside;
	uint64_t time_ns = record->origin.time_ns;

	if (time_ns && (beside->first_ns == 0 || time_ns < beside->first_ns))
		beside->first_ns = time_ns;
	if (time_ns > beside->last_ns)
		beside->last_ns = time_ns;
	switch (record->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return take_map(aligning, &record->map, time_ns);
	case PERF_RECORD_EXIT:
		return time_ns ? put_once(&aligning->exits, record->task.pid, record->task.tid,
					  time_ns)
			       : 0;
	case PERF_RECORD_SAMPLE:
		if (time_ns)
			take_sample(aligning, record);
		return 0;
	default:
		return 0;
	}
}

static const struct {
	int32_t id;
	const char *name;
} clocks[] = {
	{ CLOCK_MONOTONIC_RAW, "CLOCK_MONOTONIC_RAW" },
	{ CLOCK_MONOTONIC, "CLOCK_MONOTONIC" },
	{ CLOCK_REALTIME, "CLOCK_REALTIME" },
	{ CLOCK_BOOTTIME, "CLOCK_BOOTTIME" },
	{ CLOCK_TAI, "CLOCK_TAI" },
};

static const char *clock_of(const struct perf_data *data)
{
	const struct perf_data_event *event =
		perf_data_n_events(data) ? perf_data_event(data, 0) : NULL;

	for (size_t i = 0; event && event->has_clock_id && i < COUNT_OF(clocks); i++) {
		if (clocks[i].id == event->clock_id)
			return clocks[i].name;
	}
	return "perf's own clock";
}

/* What both sampled would be counted twice. */
static int find_both(struct beside *beside, const struct perf_data *data)
{
	for (size_t i = 0; i < perf_data_n_events(data); i++) {
		struct perf_source source;
		int r = perf_source_describe(data, i, 1, &source);

		if (r < 0)
			return r;
		snprintf(beside->both, sizeof(beside->both), "%s", source.name);
		free(source.name);
		if (source.kind != TRACE_SAMPLE_TASKS &&
		    beside_trace_has_source(&beside->trace, beside->both))
			return -EEXIST;
	}
	return 0;
}

static int read_perf(struct aligning *aligning)
{
	struct beside *beside = aligning->beside;
	auto_perf_data struct perf_data *data = NULL;
	struct perf_data_item item;
	struct pmu_record record;
	int r = perf_data_open(beside->path, &data);

	if (r == -EBADMSG)
		return -EPROTO;
	while (r >= 0 && (r = perf_data_next(data, &item)) > 0) {
		if (item.kind == PERF_DATA_RECORD &&
		    pmu_record_parse(&perf_data_event(data, item.event)->format, item.bytes,
				     item.n_bytes, &record) > 0 &&
		    record.is_known)
			r = align_record(aligning, &record);
	}
	if (r < 0)
		return r;
	beside->clock = clock_of(data);
	return find_both(beside, data);
}

/* ---- What both tell ---- */

static void bound(struct aligning *aligning)
{
	const struct beside_trace *trace = &aligning->beside->trace;

	for (size_t i = 0; i < trace->n_threads; i++) {
		const struct beside_thread *thread = &trace->threads[i];
		uint64_t end_ns = key_map_get(&aligning->exits, thread->pid, thread->tid);
		bool is_only = key_map_get(&trace->tids, thread->pid, thread->tid) == 1;
		if (is_only && thread->last_ns && end_ns && end_ns != UINT64_MAX)
			clock_bounds_low(&aligning->hard, end_ns, thread->last_ns);
	}
	for (size_t i = 0; i < trace->blocks.n; i++) {
		const struct clock_range *block = &trace->blocks.items[i];
		uint64_t page = block->start & ~(uint64_t)(PAGE_BYTES - 1);
		uint64_t map_ns = block->is_shared ? 0 : key_map_get(&aligning->maps, page, 0);
		if (map_ns && map_ns != UINT64_MAX)
			clock_bounds_high(&aligning->soft, map_ns, block->time_ns);
	}
}

/* Blocks bound it closely, but memory that nobody told of may have been where they are. */
static struct clock_bounds unite(const struct aligning *aligning)
{
	const struct clock_bounds *soft = &aligning->soft;
	struct clock_bounds both = aligning->hard;

	if (soft->has_high && (!both.has_high || soft->high < both.high))
		both.high = soft->high;
	if (soft->has_low && (!both.has_low || soft->low > both.low))
		both.low = soft->low;
	both.has_high |= soft->has_high;
	both.has_low |= soft->has_low;
	both.n += soft->n;
	return both.has_high && both.has_low && both.low - both.high > SOFT_CONTRADICTION_NS
		       ? aligning->hard
		       : both;
}

/* Another clock: by one offset, whose error grows with the time that both clocks drift. */
static int align(struct aligning *aligning)
{
	struct beside *beside = aligning->beside;

	bound(aligning);
	struct clock_bounds bounds = unite(aligning);
	if (!bounds.has_high || !bounds.has_low)
		return -ERANGE;
	if (bounds.low - bounds.high > MOST_CONTRADICTION_NS)
		return -ESTALE;
	beside->offset = clock_bounds_offset(&bounds);
	beside->n_bounds = bounds.n;
	if (beside->clock[0] == 'C')
		beside->offset.error_ns += (beside->last_ns - beside->first_ns) / SLEW_PER_NS;
	return 0;
}

static bool is_meanwhile(const struct beside *beside)
{
	uint64_t first_ns = beside->first_ns + (uint64_t)beside->offset.offset_ns;
	uint64_t last_ns = beside->last_ns + (uint64_t)beside->offset.offset_ns;

	return first_ns <= beside->trace.end_ns && last_ns >= beside->trace.start_ns;
}

static int align_all(struct aligning *aligning)
{
	struct beside *beside = aligning->beside;
	int r = read_perf(aligning);

	if (r < 0)
		return r;
	if (aligning->n_modules == 0)
		return -ENXIO;
	beside->offset.is_known = true;
	if (strcmp(beside->clock, clocks[0].name) != 0)
		r = align(aligning);
	return r < 0 ? r : is_meanwhile(beside) ? 0 : -ESTALE;
}

int beside_open(const char *trace_path, const char *perf_path, struct beside *beside)
{
	struct aligning aligning = { .beside = beside };

	beside->path = strdup(perf_path);
	if (!beside->path)
		return -ENOMEM;
	int r = beside_trace_read(trace_path, &beside->trace) ?: align_all(&aligning);
	key_map_finish(&aligning.maps);
	key_map_finish(&aligning.exits);
	return r;
}
