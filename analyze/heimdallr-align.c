#include "analyze/heimdallr-align.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyze/grow.h"
#include "analyze/key-map.h"
#include "common/cleanup.h"
#include "pmu/perf-data.h"

#define MAX_BLOCKS 1000000u /* kept in memory; with more of them none is used */

/* A map that perf told of, or a block of the logs. */
struct range {
	uint64_t start;
	uint64_t end;
	uint64_t time_ns; /* of its begin, in the clock of whoever tells it */
	uint64_t death_ns; /* of a block; 0: not freed */
	bool is_shared; /* another one lies there at another time: it says nothing */
};

struct ranges {
	struct range *items;
	size_t n;
	size_t n_allocated;
};

/* What is known of a log's thread. 0: not told. */
struct life {
	uint64_t birth_ns; /* FORK, or exec: perf's clock */
	uint64_t end_ns; /* EXIT */
	uint64_t first_ns; /* of its lines: CLOCK_MONOTONIC_RAW */
	uint64_t last_ns;
};

struct align {
	const struct heimdallr_folder *folder;
	struct life *lives; /* of each log */
	struct ranges maps;
	struct ranges blocks;
	struct key_map deaths; /* (address, 0) -> time */
	bool has_too_many;
	int64_t low; /* bounds of the offset */
	int64_t high;
	bool has_low;
	bool has_high;
};

/* ---- What perf tells ---- */

static struct life *life_of(struct align *align, uint32_t tid)
{
	for (size_t i = 0; i < align->folder->n_logs; i++) {
		if (align->folder->logs[i].tid == tid)
			return &align->lives[i];
	}
	return NULL;
}

static int add_range(struct ranges *ranges, uint64_t start, uint64_t size, uint64_t time_ns)
{
	int r = grow_array(&ranges->items, ranges->n, &ranges->n_allocated, sizeof(*ranges->items));

	if (r < 0 || size == 0 || start + size < start)
		return r;
	ranges->items[ranges->n++] = (struct range){ start, start + size, time_ns, 0, false };
	return 0;
}

static int compare_ranges(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* Where ranges lie over each other, which of them is meant depends on the time. */
static void sort_ranges(struct ranges *ranges)
{
	uint64_t end = 0;
	size_t longest = 0;

	if (ranges->n > 1)
		qsort(ranges->items, ranges->n, sizeof(*ranges->items), compare_ranges);
	for (size_t i = 0; i < ranges->n; i++) {
		if (i > 0 && ranges->items[i].start < end)
			ranges->items[i].is_shared = ranges->items[longest].is_shared = true;
		if (ranges->items[i].end > end) {
			end = ranges->items[i].end;
			longest = i;
		}
	}
}

/* The only one that an address ever lay in; NULL: none, or several. */
static const struct range *find_range(const struct ranges *ranges, uint64_t address)
{
	size_t low = 0, high = ranges->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (ranges->items[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return NULL;
	const struct range *range = &ranges->items[low - 1];
	return address < range->end && !range->is_shared ? range : NULL;
}

/* What is first in perf's clock and later in the logs bounds the offset from above. */
static void bound_high(struct align *align, uint64_t perf_ns, uint64_t raw_ns)
{
	int64_t offset = (int64_t)(raw_ns - perf_ns);

	if (!align->has_high || offset < align->high)
		align->high = offset;
	align->has_high = true;
}

static void bound_low(struct align *align, uint64_t perf_ns, uint64_t raw_ns)
{
	int64_t offset = (int64_t)(raw_ns - perf_ns);

	if (!align->has_low || offset > align->low)
		align->low = offset;
	align->has_low = true;
}

/* An access to a block was before its free. */
static void take_sample(struct align *align, const struct pmu_record *record)
{
	const struct range *block = find_range(&align->blocks, record->sample.address);

	if (block && block->death_ns && record->origin.time_ns)
		bound_high(align, record->origin.time_ns, block->death_ns);
}

static int take_record(struct align *align, const struct pmu_record *record)
{
	uint64_t time_ns = record->origin.time_ns;
	struct life *life;

	if (time_ns == 0) /* there before perf began */
		return 0;
	switch (record->type) {
	case PERF_RECORD_SAMPLE:
		if (life_of(align, record->origin.tid))
			take_sample(align, record);
		return 0;
	case PERF_RECORD_FORK:
		life = life_of(align, record->task.tid);
		if (life)
			life->birth_ns = time_ns;
		return 0;
	case PERF_RECORD_EXIT:
		life = life_of(align, record->task.tid);
		if (life)
			life->end_ns = time_ns;
		return 0;
	case PERF_RECORD_COMM: /* the last exec is that of the program itself */
		life = record->comm.is_exec ? life_of(align, record->comm.tid) : NULL;
		if (life)
			life->birth_ns = time_ns;
		return 0;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return life_of(align, record->map.pid)
			       ? add_range(&align->maps, record->map.address, record->map.size,
					   time_ns)
			       : 0;
	}
	return 0;
}

static int read_perf(struct align *align)
{
	auto_perf_data struct perf_data *data = NULL;
	auto_free char *path = NULL;
	struct perf_data_item item;
	struct pmu_record record;

	if (asprintf(&path, "%s/access.dat", align->folder->path) < 0)
		return -ENOMEM;
	int r = perf_data_open(path, &data);
	while (r >= 0 && (r = perf_data_next(data, &item)) > 0) {
		if (item.kind != PERF_DATA_RECORD)
			continue;
		if (pmu_record_parse(&perf_data_event(data, item.event)->format, item.bytes,
				     item.n_bytes, &record) > 0 &&
		    record.is_known)
			r = take_record(align, &record);
	}
	return r;
}

/* ---- What the logs tell ---- */

static int take_line(struct align *align, const struct heimdallr_line *line)
{
	if (align->blocks.n == MAX_BLOCKS || align->deaths.n == MAX_BLOCKS)
		align->has_too_many = true;
	if (align->has_too_many)
		return 0;
	if (line->is_birth)
		return add_range(&align->blocks, line->address, line->size, line->time_ns);
	return key_map_put(&align->deaths, line->address, 0, line->time_ns ? line->time_ns : 1);
}

static int read_log(struct align *align, size_t i)
{
	const struct heimdallr_log *from = &align->folder->logs[i];
	struct life *life = &align->lives[i];
	struct heimdallr_log log = {
		.path = from->path,
		.n_file_bytes = from->n_file_bytes,
		.end = from->n_file_bytes,
	};
	struct heimdallr_line line;
	int r;

	while ((r = heimdallr_log_next(&log, &line)) > 0) {
		if (life->first_ns == 0)
			life->first_ns = line.time_ns;
		life->last_ns = line.time_ns;
		r = take_line(align, &line);
		if (r < 0)
			break;
	}
	log.path = NULL; /* it is not ours */
	heimdallr_log_finish(&log);
	return r;
}

static int read_logs(struct align *align)
{
	int r = 0;

	for (size_t i = 0; i < align->folder->n_logs && r == 0; i++)
		r = read_log(align, i);
	if (align->has_too_many)
		align->blocks.n = 0;
	sort_ranges(&align->blocks);
	for (size_t i = 0; i < align->blocks.n; i++)
		align->blocks.items[i].death_ns =
			key_map_get(&align->deaths, align->blocks.items[i].start, 0);
	return r;
}

/* Threads are born before their first line and end behind the last one; maps are made before blocks. */
static void bound(struct align *align)
{
	for (size_t i = 0; i < align->folder->n_logs; i++) {
		const struct life *life = &align->lives[i];
		if (life->birth_ns && life->first_ns)
			bound_high(align, life->birth_ns, life->first_ns);
		if (life->end_ns && life->last_ns)
			bound_low(align, life->end_ns, life->last_ns);
	}
	sort_ranges(&align->maps);
	for (size_t i = 0; i < align->blocks.n; i++) {
		const struct range *map = find_range(&align->maps, align->blocks.items[i].start);
		if (map)
			bound_high(align, map->time_ns, align->blocks.items[i].time_ns);
	}
}

static struct heimdallr_offset offset_of(const struct align *align)
{
	struct heimdallr_offset offset = {
		.offset_ns = align->has_high ? align->high : align->low,
		.error_ns = UINT64_MAX,
		.is_known = align->has_high || align->has_low,
	};

	if (align->has_high && align->has_low)
		offset.error_ns = (uint64_t)llabs(align->high - align->low) + 1;
	return offset;
}

int heimdallr_align(const struct heimdallr_folder *folder, struct heimdallr_offset *ret_offset)
{
	struct align align = { .folder = folder };
	int r = 0;

	align.lives = calloc(folder->n_logs + 1, sizeof(*align.lives));
	if (!align.lives)
		return -ENOMEM;
	r = read_logs(&align);
	if (r == 0)
		r = read_perf(&align);
	if (r == 0)
		bound(&align);
	free(align.maps.items);
	free(align.blocks.items);
	key_map_finish(&align.deaths);
	free(align.lives);
	if (r == 0)
		*ret_offset = offset_of(&align);
	return r;
}
