#include "analyze/input/perf-data/companion.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyze/input/perf-data/run-info.h"
#include "common/cleanup.h"

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
	beside_trace_finish(&beside->trace);
	*beside = (struct beside){ 0 };
}

/* ---- What perf tells ---- */

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
	if (block->death_ns)
		clock_bounds_high(&aligning->soft, record->origin.time_ns, block->death_ns);
	if (block->is_clean && page >= block->start && page + PAGE_BYTES <= block->end)
		clock_bounds_low(&aligning->soft, record->origin.time_ns, block->time_ns);
}

static int take_record(struct aligning *aligning, const struct pmu_record *record)
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

	for (size_t i = 0; event && event->has_clock_id && i < sizeof(clocks) / sizeof(clocks[0]);
	     i++) {
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
			r = take_record(aligning, &record);
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
	struct clock_bounds bounds;

	bound(aligning);
	bounds = unite(aligning);
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
	int r = beside_trace_read(trace_path, &beside->trace);
	if (r == 0)
		r = align_all(&aligning);
	key_map_finish(&aligning.maps);
	key_map_finish(&aligning.exits);
	return r;
}
