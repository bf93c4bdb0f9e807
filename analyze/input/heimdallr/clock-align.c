#include "analyze/input/heimdallr/clock-align.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyze/input/perf-data/file.h"
#include "common/cleanup.h"
#include "common/hash-map.h"

#define MAX_BLOCKS 1000000u /* kept in memory; with more of them none is used */

/* What is known of a log's thread. 0: not told. */
struct life {
	/* FORK, or the last exec, which is that of the program itself: perf's clock */
	uint64_t birth_ns;
	uint64_t end_ns; /* EXIT */
	uint64_t first_ns; /* of its lines: CLOCK_MONOTONIC_RAW */
	uint64_t last_ns;
};

struct align {
	const struct heimdallr_folder *folder;
	struct life *lives; /* of each log */
	struct clock_ranges maps;
	struct clock_ranges blocks;
	struct key_map deaths; /* (address, 0) -> time */
	bool has_too_many;
	struct clock_bounds bounds;
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

/*
 * perf writes the ring of one CPU behind that of another: what is last in the file need not have
 * happened last.
 */
static void note_last(uint64_t *last_ns, uint64_t time_ns)
{
	if (time_ns > *last_ns)
		*last_ns = time_ns;
}

/* An access to a block was before its free. */
static void take_sample(struct align *align, const struct pmu_record *record)
{
	const struct clock_range *block = clock_ranges_find(&align->blocks, record->sample.address);

	if (block && block->death_ns && record->origin.time_ns)
		clock_bounds_high(&align->bounds, record->origin.time_ns, block->death_ns);
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
			note_last(&life->birth_ns, time_ns);
		return 0;
	case PERF_RECORD_EXIT:
		life = life_of(align, record->task.tid);
		if (life)
			note_last(&life->end_ns, time_ns);
		return 0;
	case PERF_RECORD_COMM:
		life = record->comm.is_exec ? life_of(align, record->comm.tid) : NULL;
		if (life)
			note_last(&life->birth_ns, time_ns);
		return 0;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return life_of(align, record->map.pid)
			       ? clock_ranges_add(&align->maps, record->map.address,
						  record->map.size, time_ns)
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
		return clock_ranges_add(&align->blocks, line->address, line->size, line->time_ns);
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
	clock_ranges_sort(&align->blocks);
	for (size_t i = 0; i < align->blocks.n; i++)
		align->blocks.items[i].death_ns =
			key_map_get(&align->deaths, align->blocks.items[i].start, 0);
	return r;
}

/*
 * Threads are born before their first line and end behind the last one; maps are made before
 * blocks.
 */
static void bound(struct align *align)
{
	for (size_t i = 0; i < align->folder->n_logs; i++) {
		const struct life *life = &align->lives[i];
		if (life->birth_ns && life->first_ns)
			clock_bounds_high(&align->bounds, life->birth_ns, life->first_ns);
		if (life->end_ns && life->last_ns)
			clock_bounds_low(&align->bounds, life->end_ns, life->last_ns);
	}
	clock_ranges_sort(&align->maps);
	for (size_t i = 0; i < align->blocks.n; i++) {
		const struct clock_range *map =
			clock_ranges_find(&align->maps, align->blocks.items[i].start);
		if (map)
			clock_bounds_high(&align->bounds, map->time_ns,
					  align->blocks.items[i].time_ns);
	}
}

int heimdallr_align(const struct heimdallr_folder *folder, struct clock_offset *ret_offset,
		    uint64_t *ret_births)
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
	for (size_t i = 0; r == 0 && i < folder->n_logs; i++)
		ret_births[i] = align.lives[i].birth_ns;
	clock_ranges_finish(&align.maps);
	clock_ranges_finish(&align.blocks);
	key_map_finish(&align.deaths);
	free(align.lives);
	if (r == 0)
		*ret_offset = clock_bounds_offset(&align.bounds);
	return r;
}
