/*
 * What is read of a perf.data and kept until its round ends: sources, tasks, samples and what was
 * lost.
 */
#include <errno.h>
#include <linux/perf_event.h>

#include "analyze/input/perf-data/input-internal.h"
#include "common/array.h"

/* Records of an event are given when so many are there, or the round ends. */
#define FRAME_BYTES (1u << 20)

/* Times of the file are its own: they become ours one to one. */
static int add_clock(struct perf_feed *feed)
{
	const struct trace_clock clock = { .head.type = TRACE_RECORD_CLOCK,
					   .ticks = feed->start_ns,
					   .raw_ns = feed->start_ns };
	const struct trace_perf_clock pair = { .head.type = TRACE_RECORD_PERF_CLOCK,
					       .perf_ns = feed->start_ns,
					       .raw_ns = feed->start_ns };
	int r = record_list_add(&feed->definitions, &clock, sizeof(clock), NULL, 0);

	return r < 0 ? r : record_list_add(&feed->definitions, &pair, sizeof(pair), NULL, 0);
}

static int add_source(struct perf_feed *feed)
{
	size_t event = feed->n_sources;

	if (grow_array(&feed->sources, event, &feed->n_sources_allocated, sizeof(*feed->sources)) <
		    0 ||
	    grow_array(&feed->records, event, &feed->n_records_allocated, sizeof(*feed->records)) <
		    0)
		return -ENOMEM;
	int r = perf_source_describe(feed->data, event,
				     feed->options.first_source + (uint32_t)event,
				     &feed->sources[event]);
	if (r < 0)
		return r;
	feed->records[event] = (struct perf_records){ 0 };
	feed->n_sources++;
	return perf_source_add(&feed->definitions, feed->data, event, &feed->sources[event]);
}

int perf_intake_sources(struct perf_feed *feed)
{
	int r = 0;

	if (!feed->options.is_part && feed->n_sources == 0 && perf_data_n_events(feed->data))
		r = add_clock(feed);
	while (r == 0 && feed->n_sources < perf_data_n_events(feed->data))
		r = add_source(feed);
	return r;
}

static int add_task(struct perf_feed *feed, uint32_t event, struct pmu_record *record)
{
	const struct pmu_format *format = &perf_data_event(feed->data, event)->format;
	bool is_map = record->type == PERF_RECORD_MMAP || record->type == PERF_RECORD_MMAP2;
	const uint8_t *build_id = NULL;
	size_t n_build_id = 0;

	if (feed->options.is_part && !feed->options.has_tasks)
		return 0;
	if (is_map && record->map.build_id_bytes == 0)
		n_build_id = perf_data_build_id(feed->data, record->map.path, &build_id);
	/* perf tells of what was there before it began without a time. */
	if (record->origin.time_ns == 0)
		record->origin.time_ns = feed->start_ns;
	int r = perf_records_add_task(&feed->records[event], format, record, build_id, n_build_id);
	if (r == 0 && !feed->options.is_part)
		r = perf_tasks_add(&feed->tasks, record, record->origin.time_ns);
	return r;
}

/* CPUs take turns: what they are stopped at once counts once. */
static void count_throttle(struct perf_source *source, const struct pmu_record *record)
{
	uint64_t now_ns = record->throttle.time_ns;

	if (record->type == PERF_RECORD_THROTTLE) {
		source->ledger.n_throttles++;
		if (!source->throttled_since_ns)
			source->throttled_since_ns = now_ns;
	} else if (source->throttled_since_ns) {
		if (now_ns > source->throttled_since_ns)
			source->ledger.throttled_ns += now_ns - source->throttled_since_ns;
		source->throttled_since_ns = 0;
	}
}

/* A record that is no sample. */
static int take_other(struct perf_feed *feed, const struct perf_data_item *item)
{
	const struct pmu_format *format = &perf_data_event(feed->data, item->event)->format;
	struct perf_source *source = &feed->sources[item->event];
	struct pmu_record record;
	int r = pmu_record_parse(format, item->bytes, item->n_bytes, &record);

	feed->n_damaged_tasks += r < 0;
	if (r < 0 || !record.is_known)
		return 0;
	if (record.origin.time_ns > feed->newest_ns)
		feed->newest_ns = record.origin.time_ns;
	switch (record.type) {
	case PERF_RECORD_LOST:
		source->ledger.n_lost += record.lost.count;
		return 0;
	case PERF_RECORD_LOST_SAMPLES:
		source->ledger.n_lost_samples += record.lost.count;
		return 0;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		count_throttle(source, &record);
		return 0;
	case PERF_RECORD_AUX:
		feed->aux_flags |= record.aux.flags;
		source->ledger.n_aux_truncated +=
			record.aux.flags & PERF_AUX_FLAG_TRUNCATED ? 1 : 0;
		source->ledger.n_aux_partial += record.aux.flags & PERF_AUX_FLAG_PARTIAL ? 1 : 0;
		source->ledger.n_aux_collisions +=
			record.aux.flags & PERF_AUX_FLAG_COLLISION ? 1 : 0;
		return 0;
	default:
		return add_task(feed, item->event, &record);
	}
}

static int take_record(struct perf_feed *feed, const struct perf_data_item *item)
{
	struct perf_records *records = &feed->records[item->event];
	int r;

	if (item->type == PERF_RECORD_SAMPLE) {
		uint64_t time_ns = perf_record_time(feed->data, item);

		if (time_ns > feed->newest_ns)
			feed->newest_ns = time_ns;
		feed->sources[item->event].ledger.n_taken++;
		r = perf_records_add(records, item->bytes, item->n_bytes);
	} else {
		r = take_other(feed, item);
	}
	if (records->n_bytes >= FRAME_BYTES)
		feed->stage = PERF_STAGE_RECORDS;
	return r;
}

static void end_round(struct perf_feed *feed)
{
	feed->is_round = true;
	feed->stage = PERF_STAGE_RECORDS;
}

/* What a source gave, and what it did not. */
static int tell_source(struct perf_feed *feed, struct perf_source *source)
{
	const struct trace_source_ledger *ledger = &source->ledger;
	const struct {
		const char *reason;
		uint64_t count;
	} losses[] = {
		{ "ring overrun", ledger->n_lost },
		{ "dropped by the hardware", ledger->n_lost_samples },
		{ "throttled", ledger->n_throttles },
		{ "AUX area full", ledger->n_aux_truncated },
		{ "AUX bytes with gaps", ledger->n_aux_partial },
		{ "samples collided in the hardware", ledger->n_aux_collisions },
	};
	int r;

	source->ledger.head.type = TRACE_RECORD_SOURCE_LEDGER;
	source->ledger.source_id = source->source_id;
	r = record_list_add(&feed->definitions, &source->ledger, sizeof(source->ledger), NULL, 0);
	for (size_t i = 0; r == 0 && i < sizeof(losses) / sizeof(losses[0]); i++)
		r = record_list_loss(&feed->definitions, source->name, losses[i].reason,
				     losses[i].count);
	return r;
}

/* Nothing follows: what was lost can be told. */
static int end_file(struct perf_feed *feed)
{
	const struct perf_data_damage *damage = perf_data_damage(feed->data);
	int r = 0;

	for (size_t i = 0; r == 0 && i < feed->n_sources; i++) {
		r = tell_source(feed, &feed->sources[i]);
	}
	if (r == 0)
		r = record_list_loss(&feed->definitions, "perf.data", "damaged records",
				     damage->n_damaged_records + feed->n_damaged_tasks);
	if (r == 0)
		r = record_list_loss(&feed->definitions, "perf.data",
				     "records of an event that is not described",
				     damage->n_nameless_records);
	feed->has_losses = true;
	end_round(feed);
	feed->settled_ns = feed->newest_ns;
	return r;
}

int perf_intake_read(struct perf_feed *feed)
{
	struct perf_data_item item;
	int r = perf_data_next(feed->data, &item);

	if (r == 0 && feed->has_losses)
		feed->stage = PERF_STAGE_END;
	else if (r == 0)
		return end_file(feed);
	if (r <= 0)
		return r;
	r = perf_intake_sources(feed);
	if (r == 0 && item.kind == PERF_DATA_RECORD)
		r = take_record(feed, &item);
	else if (item.kind == PERF_DATA_ROUND)
		end_round(feed);
	if (r < 0 || item.kind != PERF_DATA_AUX || feed->n_sources == 0)
		return r;
	/* Behind the definitions, which may still wait to be told. */
	feed->has_aux = true;
	feed->aux_item = item;
	feed->stage = PERF_STAGE_RECORDS;
	return 0;
}
