#include "analyze/input/perf-data/companion-input.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/input/perf-data/input.h"
#include "analyze/input/perf-data/record-writer.h"
#include "analyze/input/perf-data/run-info.h"

enum stage {
	READ_TRACE,
	GIVE_SAMPLES, /* those up to the trace's item that waits */
	GIVE_WAITING,
	GIVE_REST, /* the trace is over */
	GIVE_END,
	IS_OVER,
};

struct beside_feed {
	const struct beside *beside;
	struct feed trace;
	struct perf_feed *perf;
	enum stage stage;
	struct trace_item waiting; /* of the trace: a COMMIT */
	uint64_t settled_ns; /* in perf's clock: all before it was given */
	bool is_perf_over;
	struct record_list records;
	bool has_clocks; /* records tell of sources that were given in the call before */
	struct perf_records kept; /* samples of the trace's processes */
	uint64_t n_strange; /* samples of others */
	uint64_t n_early; /* samples of a process before the trace knew it */
	uint64_t n_damaged; /* records */
};

/* ---- Samples ---- */

static bool is_map(const struct pmu_record *record)
{
	return record->type == PERF_RECORD_MMAP || record->type == PERF_RECORD_MMAP2;
}

/*
 * A process that the trace does not have, or has not yet, is none of its. Of what happened to
 * processes only their maps are new to a trace; those from before it knew the process are there
 * when it does.
 */
static bool is_wanted(struct beside_feed *feed, struct pmu_record *record)
{
	uint64_t first_ns = beside_trace_first(&feed->beside->trace, record->origin.pid);
	uint64_t offset_ns = (uint64_t)feed->beside->offset.offset_ns;
	bool is_early = record->origin.time_ns + offset_ns < first_ns;

	if (is_map(record) && is_early)
		record->origin.time_ns = first_ns - offset_ns;
	if (record->type != PERF_RECORD_SAMPLE)
		return first_ns && is_map(record);
	feed->n_strange += first_ns == 0;
	feed->n_early += first_ns && is_early;
	return first_ns && !is_early;
}

static int keep_record(struct beside_feed *feed, const struct pmu_format *format,
		       const struct pmu_record *record, const void *bytes)
{
	if (is_map(record))
		return perf_records_add_task(&feed->kept, format, record, NULL, 0);
	return perf_records_add(&feed->kept, bytes, record->bytes);
}

static int keep_wanted(struct beside_feed *feed, struct trace_item *item)
{
	uint32_t event = item->stream_id - feed->beside->trace.n_sources - 1;
	const struct pmu_format *format =
		&perf_data_event(perf_feed_data(feed->perf), event)->format;
	const uint8_t *bytes = item->perf;
	struct pmu_record record;

	feed->kept.n_bytes = 0;
	for (size_t at = 0; at < item->n; at += record.bytes) {
		int n = pmu_record_parse(format, bytes + at, item->n - at, &record);
		if (n <= 0 && n != -EILSEQ)
			break;
		feed->n_damaged += n < 0;
		if (n > 0 && record.is_known && is_wanted(feed, &record) &&
		    keep_record(feed, format, &record, bytes + at) < 0)
			return -ENOMEM;
	}
	item->perf = feed->kept.bytes;
	item->n = feed->kept.n_bytes;
	return item->n > 0;
}

/* How the clocks of the sources go that an item tells of. */
static int tell_clocks(struct beside_feed *feed, const struct trace_item *item)
{
	const struct beside *beside = feed->beside;
	const struct trace_record *record = NULL;
	uint64_t at_ns = beside->first_ns;
	int r = 0;

	record_list_clear(&feed->records);
	while (r == 0 && (record = trace_record_next(item, record))) {
		const struct trace_perf_clock pair = {
			.head.type = TRACE_RECORD_PERF_CLOCK,
			.perf_ns = at_ns,
			.raw_ns = at_ns + (uint64_t)beside->offset.offset_ns,
			.error_ns = beside->offset.error_ns,
			.source_id = ((const struct trace_source *)record)->source_id,
		};
		if (record->type == TRACE_RECORD_SOURCE)
			r = record_list_add(&feed->records, &pair);
	}
	feed->has_clocks = feed->records.n > 0;
	return r < 0 ? r : 1;
}

/* The next item of perf up to a time of its clock. 1, 0: there is none, or a negative errno. */
static int give_samples(struct beside_feed *feed, uint64_t until_ns, struct trace_item *ret_item)
{
	int r = 0;

	if (feed->has_clocks) {
		feed->has_clocks = false;
		*ret_item = record_list_item(&feed->records);
		return 1;
	}
	while (r == 0 && !feed->is_perf_over &&
	       (until_ns == UINT64_MAX || (int64_t)(feed->settled_ns - until_ns) < 0)) {
		r = perf_feed_next(feed->perf, ret_item);
		feed->is_perf_over = r == 0;
		if (r <= 0)
			return r;
		r = 1;
		if (ret_item->type == TRACE_FRAME_COMMIT) {
			feed->settled_ns = ret_item->commit->raw_ns;
			r = 0;
		} else if (ret_item->type == TRACE_FRAME_PERF) {
			r = keep_wanted(feed, ret_item);
		} else if (ret_item->type == TRACE_FRAME_RECORDS) {
			r = tell_clocks(feed, ret_item);
		}
	}
	return r;
}

/* ---- The end ---- */

static int add_number(struct record_list *list, const char *key, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	return record_list_fact(list, key, text);
}

static int tell_facts(struct beside_feed *feed)
{
	const struct beside *beside = feed->beside;
	const char *slash = strrchr(beside->path, '/');
	struct record_list *list = &feed->records;
	int r = record_list_fact(list, "perf_data.file", slash ? slash + 1 : beside->path);

	r = r ?: record_list_fact(list, "perf_data.clock", beside->clock);
	r = r ?: add_number(list, "perf_data.offset_ns", beside->offset.offset_ns);
	r = r ?: add_number(list, "perf_data.error_ns", (int64_t)beside->offset.error_ns);
	r = r ?: add_number(list, "perf_data.bounds", (int64_t)beside->n_bounds);
	return r < 0 ? r : perf_run_add_facts(list, perf_feed_data(feed->perf), "perf_data.host.");
}

static int tell_losses(struct beside_feed *feed)
{
	const struct trace_damage *damage = perf_feed_damage(feed->perf);
	const struct {
		const char *reason;
		uint64_t count;
	} losses[] = {
		{ "samples of processes that the trace does not have", feed->n_strange },
		{ "samples of a process before its recording began", feed->n_early },
		{ "damaged records", feed->n_damaged },
		{ "unreadable bytes", damage->n_skipped_bytes },
		{ "damaged compressed blocks", damage->n_damaged_frames },
		{ "cut off: perf did not end it", !damage->ended },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(losses) / sizeof(losses[0]); i++)
		r = record_list_loss(&feed->records, "perf.data", losses[i].reason,
				     losses[i].count);
	return r;
}

static int give_end(struct beside_feed *feed, struct trace_item *ret_item)
{
	record_list_clear(&feed->records);
	int r = tell_facts(feed) ?: tell_losses(feed);

	feed->stage = IS_OVER;
	*ret_item = record_list_item(&feed->records);
	return r < 0 ? r : 1;
}

/* ---- Both ---- */

/* A COMMIT waits until perf has told what it sampled before. */
static int read_trace(struct beside_feed *feed, struct trace_item *ret_item)
{
	int r = feed_next(&feed->trace, ret_item);

	if (r < 0)
		return r;
	if (r > 0 && ret_item->type != TRACE_FRAME_COMMIT)
		return 1;
	feed->waiting = *ret_item;
	feed->stage = r == 0 ? GIVE_REST : GIVE_SAMPLES;
	return 0;
}

static int give(struct beside_feed *feed, struct trace_item *ret_item)
{
	uint64_t until_ns = UINT64_MAX;
	int r = 0;

	switch (feed->stage) {
	case READ_TRACE:
		return read_trace(feed, ret_item);
	case GIVE_SAMPLES:
		until_ns =
			feed->waiting.commit->raw_ns - (uint64_t)feed->beside->offset.offset_ns + 1;
		r = give_samples(feed, until_ns, ret_item);
		feed->stage = r == 0 ? GIVE_WAITING : GIVE_SAMPLES;
		return r;
	case GIVE_WAITING:
		*ret_item = feed->waiting;
		feed->stage = READ_TRACE;
		return 1;
	case GIVE_REST:
		r = give_samples(feed, UINT64_MAX, ret_item);
		feed->stage = r == 0 ? GIVE_END : GIVE_REST;
		return r;
	default:
		return give_end(feed, ret_item);
	}
}

static int next_item(void *self, struct trace_item *ret_item)
{
	struct beside_feed *feed = self;
	int r = 0;

	while (r == 0 && feed->stage != IS_OVER)
		r = give(feed, ret_item);
	return r;
}

static const struct trace_file_header *header_of(const void *self)
{
	return feed_header(&((const struct beside_feed *)self)->trace);
}

static const struct trace_damage *damage_of(const void *self)
{
	return feed_damage(&((const struct beside_feed *)self)->trace);
}

static uint64_t offset_of(const void *self)
{
	return feed_offset(&((const struct beside_feed *)self)->trace);
}

static void close_both(void *self)
{
	struct beside_feed *feed = self;

	feed_close(&feed->trace);
	perf_feed_destroy(feed->perf);
	record_list_finish(&feed->records);
	perf_records_finish(&feed->kept);
	free(feed);
}

static const struct feed_class beside_class = { next_item, header_of, damage_of, offset_of,
						close_both };

int beside_feed_open(const struct beside *beside, struct feed *feed)
{
	const struct perf_feed_options options = {
		.first_source = beside->trace.n_sources + 1,
		.is_part = true,
		.has_tasks = !beside_trace_has_source(&beside->trace, "tasks"),
	};
	struct beside_feed *own = calloc(1, sizeof(*own));
	int r = own ? perf_feed_create(beside->path, &options, &own->perf) : -ENOMEM;

	if (r < 0)
		return free(own), r;
	own->beside = beside;
	own->trace = *feed;
	feed->class = &beside_class;
	feed->self = own;
	return 0;
}
