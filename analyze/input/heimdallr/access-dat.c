#include "analyze/input/heimdallr/access-dat.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/input/perf-data/file.h"
#include "analyze/input/perf-data/input.h"
#include "common/cleanup.h"
#include "common/hash-map.h"

#define EVENT_BYTES 128u

struct heimdallr_access {
	struct perf_feed *feed;
	struct clock_offset offset;
	uint64_t *births; /* of each log's thread, in perf's clock; 0: not known */
	char store_event[EVENT_BYTES]; /* as the run's perf was told; "" */
	uint8_t *records; /* a copy of what the feed gave, with directions filled in */
	uint64_t settled_ns; /* in perf's clock: all before it was given */
	bool is_over;
};

struct heimdallr_access *heimdallr_access_close(struct heimdallr_access *access)
{
	if (!access)
		return NULL;
	perf_feed_destroy(access->feed);
	free_all(access->records, access->births, access);
	return NULL;
}

/* The name of an event without quotes and ":ppp". */
static void plain_name(const char *from, size_t n_bytes, char *text)
{
	size_t n = 0;

	for (size_t i = 0; i < n_bytes && from[i] != ':' && n + 1 < EVENT_BYTES; i++) {
		if (from[i] != '"' && from[i] != '\'' && from[i] != '\\')
			text[n++] = from[i];
	}
	text[n] = '\0';
}

/* runs.sh tells perf the event of reads first, then the one of writes. */
static void find_store_event(struct heimdallr_access *access, const char *command)
{
	unsigned n = 0;

	for (const char *at = strstr(command, " -e "); at && n < 2; at = strstr(at, " -e "), n++) {
		at += strlen(" -e ");
		if (n == 1)
			plain_name(at, strcspn(at, " "), access->store_event);
	}
}

int heimdallr_access_open(const struct heimdallr_folder *folder, uint64_t first_ns,
			  struct heimdallr_access **ret_access)
{
	const struct perf_feed_options options = {
		.first_source = 1,
		.is_part = true,
		.has_tasks = true,
	};
	struct heimdallr_access *access = calloc(1, sizeof(*access));
	auto_free char *path = NULL;

	if (!access || asprintf(&path, "%s/access.dat", folder->path) < 0)
		return free(access), -ENOMEM;
	access->births = calloc(folder->n_logs + 1, sizeof(*access->births));
	int r = access->births ? heimdallr_align(folder, &access->offset, access->births) : -ENOMEM;
	r = r ?: perf_feed_create(path, &options, &access->feed);
	if (r < 0)
		return heimdallr_access_close(access), r;
	if (!access->offset.is_known && first_ns)
		access->offset.offset_ns = (int64_t)(first_ns - perf_feed_start(access->feed));
	if (folder->n_logs == 0) /* there is but one clock */
		access->offset.error_ns = 0;
	find_store_event(access, folder->command);
	*ret_access = access;
	return 0;
}

uint64_t heimdallr_access_start(const struct heimdallr_access *access)
{
	uint64_t start_ns = perf_feed_start(access->feed);

	return start_ns ? start_ns + (uint64_t)access->offset.offset_ns : 0;
}

uint64_t heimdallr_access_birth(const struct heimdallr_access *access, size_t i)
{
	return access->births[i] ? access->births[i] + (uint64_t)access->offset.offset_ns : 0;
}

int heimdallr_access_clock(const struct heimdallr_access *access, struct record_list *records)
{
	uint64_t start_ns = perf_feed_start(access->feed);
	bool is_bounded = access->offset.error_ns != UINT64_MAX;
	const struct trace_perf_clock pair = {
		.head.type = TRACE_RECORD_PERF_CLOCK,
		.perf_ns = start_ns,
		.raw_ns = start_ns + (uint64_t)access->offset.offset_ns,
		.error_ns = is_bounded ? access->offset.error_ns : 0,
	};

	return record_list_add(records, &pair);
}

/* Stores of events that say nothing themselves. */
static void direct(const struct heimdallr_access *access, struct trace_source_detail *detail)
{
	char name[EVENT_BYTES];
	size_t n_bytes;
	const char *event = trace_record_string(&detail->head, 0, &n_bytes);

	if (detail->kind != TRACE_SAMPLE_ACCESS || detail->direction != TRACE_DIRECTION_EACH ||
	    !access->store_event[0])
		return;
	while (n_bytes > 0 && (*event == '"' || *event == '\\')) {
		event++;
		n_bytes--;
	}
	plain_name(event, n_bytes, name);
	detail->direction = strcmp(name, access->store_event) == 0 ? TRACE_DIRECTION_STORES
								   : TRACE_DIRECTION_LOADS;
}

static int fill_directions(struct heimdallr_access *access, struct trace_item *item)
{
	const struct trace_record *record = NULL;

	free(access->records);
	access->records = malloc(item->n_bytes);
	if (!access->records)
		return -ENOMEM;
	memcpy(access->records, item->records, item->n_bytes);
	item->records = (const void *)access->records;
	while ((record = trace_record_next(item, record))) {
		if (record->type == TRACE_RECORD_SOURCE_DETAIL)
			direct(access, (void *)(uintptr_t)record);
	}
	return 1;
}

int heimdallr_access_next(struct heimdallr_access *access, uint64_t raw_ns,
			  struct trace_item *ret_item)
{
	uint64_t perf_ns = raw_ns - (uint64_t)access->offset.offset_ns;

	while (!access->is_over &&
	       (raw_ns == UINT64_MAX || (int64_t)(access->settled_ns - perf_ns) < 0)) {
		int r = perf_feed_next(access->feed, ret_item);
		access->is_over = r == 0;
		if (r <= 0)
			return r;
		if (ret_item->type == TRACE_FRAME_COMMIT)
			access->settled_ns = ret_item->commit->raw_ns;
		else if (ret_item->type == TRACE_FRAME_RECORDS && ret_item->n_bytes > 0)
			return fill_directions(access, ret_item);
		else
			return 1;
	}
	return 0;
}

int heimdallr_access_losses(const struct heimdallr_access *access, struct record_list *records)
{
	const struct trace_damage *damage = perf_feed_damage(access->feed);
	int r = record_list_loss(records, "access.dat", "unreadable bytes",
				 damage->n_skipped_bytes);

	if (r == 0)
		r = record_list_loss(records, "access.dat", "cut off: perf did not end it",
				     !damage->ended);
	if (r == 0 && access->offset.error_ns == UINT64_MAX)
		r = record_list_loss(
			records, "access.dat",
			access->offset.is_known
				? "times: no end of a thread is known in both "
				  "clocks, the error has no bound"
				: "times: nothing aligns its clock with that of the logs",
			1);
	return r;
}

#define MAX_BLOCKS 1000000u /* kept in memory; with more of them none is used */

/* What is known of a log's thread. 0: not told. */
struct life {
	/* FORK, or the last exec, which is that of the program itself: perf's clock */
	uint64_t allocated_ns;
	uint64_t end_ns; /* EXIT */
	uint64_t first_ns; /* of its lines: CLOCK_MONOTONIC_RAW */
	uint64_t last_ns;
};

struct align {
	const struct heimdallr_folder *folder;
	struct life *lives; /* of each log */
	struct clock_ranges maps;
	struct clock_ranges blocks;
	struct key_map frees; /* (address, 0) -> time */
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

	if (block && block->freed_ns && record->origin.time_ns)
		clock_bounds_high(&align->bounds, record->origin.time_ns, block->freed_ns);
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
			note_last(&life->allocated_ns, time_ns);
		return 0;
	case PERF_RECORD_EXIT:
		life = life_of(align, record->task.tid);
		if (life)
			note_last(&life->end_ns, time_ns);
		return 0;
	case PERF_RECORD_COMM:
		life = record->comm.is_exec ? life_of(align, record->comm.tid) : NULL;
		if (life)
			note_last(&life->allocated_ns, time_ns);
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
	if (align->blocks.n == MAX_BLOCKS || align->frees.n == MAX_BLOCKS)
		align->has_too_many = true;
	if (align->has_too_many)
		return 0;
	if (line->is_allocation)
		return clock_ranges_add(&align->blocks, line->address, line->size, line->time_ns);
	return key_map_put(&align->frees, line->address, 0, line->time_ns ? line->time_ns : 1);
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
		align->blocks.items[i].freed_ns =
			key_map_get(&align->frees, align->blocks.items[i].start, 0);
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
		if (life->allocated_ns && life->first_ns)
			clock_bounds_high(&align->bounds, life->allocated_ns, life->first_ns);
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
	r = read_logs(&align) ?: read_perf(&align);
	if (r == 0)
		bound(&align);
	for (size_t i = 0; r == 0 && i < folder->n_logs; i++)
		ret_births[i] = align.lives[i].allocated_ns;
	clock_ranges_finish(&align.maps);
	clock_ranges_finish(&align.blocks);
	key_map_finish(&align.frees);
	free(align.lives);
	if (r == 0)
		*ret_offset = clock_bounds_offset(&align.bounds);
	return r;
}
