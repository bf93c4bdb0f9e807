#include "analyze/input/heimdallr/access-dat.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/input/perf-data/input.h"
#include "common/cleanup.h"

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
	free(access->records);
	free(access->births);
	free(access);
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

	if (!access || asprintf(&path, "%s/access.dat", folder->path) < 0) {
		free(access);
		return -ENOMEM;
	}
	access->births = calloc(folder->n_logs + 1, sizeof(*access->births));
	int r = access->births ? heimdallr_align(folder, &access->offset, access->births) : -ENOMEM;
	if (r == 0)
		r = perf_feed_create(path, &options, &access->feed);
	if (r < 0) {
		heimdallr_access_close(access);
		return r;
	}
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

	return record_list_add(records, &pair, sizeof(pair), NULL, 0);
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
