#include "analyze/input/perf-data/input.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/input/perf-data/input-internal.h"

int perf_feed_create(const char *path, const struct perf_feed_options *options,
		     struct perf_feed **ret_feed)
{
	struct perf_feed *feed = calloc(1, sizeof(*feed));
	int r = feed ? 0 : -ENOMEM;

	if (r == 0) {
		feed->options = *options;
		r = perf_start_find(path, &feed->start_ns);
	}
	if (r == 0)
		r = perf_data_open(path, &feed->data);
	if (r < 0) {
		perf_feed_destroy(feed);
		return r;
	}
	perf_start_header(feed);
	*ret_feed = feed;
	return 0;
}

struct perf_feed *perf_feed_destroy(struct perf_feed *feed)
{
	if (!feed)
		return NULL;
	for (size_t i = 0; i < feed->n_sources; i++) {
		free(feed->sources[i].name);
		perf_records_finish(&feed->records[i]);
	}
	free(feed->sources);
	free(feed->records);
	perf_tasks_finish(&feed->tasks);
	record_list_finish(&feed->definitions);
	perf_data_close(feed->data);
	free(feed);
	return NULL;
}

/* ---- What is given ---- */

/* The source that AUX areas belong to; the last one when none is known to have them. */
static uint32_t aux_source(const struct perf_feed *feed)
{
	uint32_t source_id = feed->options.first_source;

	for (size_t i = 0; i < feed->n_sources; i++) {
		if (feed->sources[i].kind == TRACE_SAMPLE_SPE)
			source_id = feed->sources[i].source_id;
	}
	return source_id;
}

static void give_aux(struct perf_feed *feed, const struct perf_data_item *item,
		     struct trace_item *ret_item)
{
	feed->aux = (struct trace_aux){
		.raw_ns = feed->newest_ns,
		.offset = item->offset,
		.flags = feed->aux_flags,
		.cpu = item->cpu,
		.n_bytes = (uint32_t)item->n_bytes,
	};
	feed->aux_flags = 0;
	*ret_item = (struct trace_item){ .type = TRACE_FRAME_AUX, .stream_id = aux_source(feed) };
	ret_item->n = item->n_bytes;
	ret_item->aux.head = &feed->aux;
	ret_item->aux.bytes = item->bytes;
}

static int give_records(struct perf_feed *feed, struct trace_item *ret_item)
{
	int r = feed->are_definitions_given ? 0 : perf_intake_sources(feed);

	if (feed->are_definitions_given) {
		record_list_clear(&feed->definitions);
		feed->are_definitions_given = false;
		feed->stage = PERF_STAGE_PERF;
		feed->n_given = 0;
		return 0;
	}
	if (r == 0 && feed->is_round)
		r = perf_tasks_tell(&feed->tasks, &feed->definitions);
	/* The name of the first program that it started is known by then. */
	if (r == 0 && feed->is_round && !feed->has_run && !feed->options.is_part) {
		r = perf_run_add(&feed->definitions, feed->data, feed->tasks.first_program,
				 feed->start_ns);
		feed->has_run = feed->tasks.first_program != NULL;
	}
	if (r < 0)
		return r;
	feed->are_definitions_given = true;
	*ret_item = record_list_item(&feed->definitions);
	return feed->definitions.n > 0;
}

static int give_perf(struct perf_feed *feed, struct trace_item *ret_item)
{
	/* What was given in the call before is used by now. */
	if (feed->n_given > 0)
		feed->records[feed->n_given - 1].n_bytes = 0;
	if (feed->n_given == feed->n_sources) {
		feed->stage = feed->is_round ? PERF_STAGE_COMMIT : PERF_STAGE_READ;
		return 0;
	}
	const struct perf_records *records = &feed->records[feed->n_given];

	*ret_item = (struct trace_item){ .type = TRACE_FRAME_PERF,
					 .stream_id = feed->sources[feed->n_given].source_id,
					 .n = records->n_bytes };
	ret_item->perf = records->bytes;
	feed->n_given++;
	return records->n_bytes > 0;
}

/* Nothing that follows a round is older than the newest of the round before. */
static int give_commit(struct perf_feed *feed, struct trace_item *ret_item)
{
	feed->commit = (struct trace_commit){ feed->settled_ns, feed->settled_ns };
	feed->settled_ns = feed->newest_ns;
	feed->is_round = false;
	feed->stage = PERF_STAGE_READ;
	*ret_item = (struct trace_item){ .type = TRACE_FRAME_COMMIT, .n = 1 };
	ret_item->commit = &feed->commit;
	return feed->commit.ticks > feed->start_ns;
}

static int give_next(struct perf_feed *feed, struct trace_item *ret_item)
{
	switch (feed->stage) {
	case PERF_STAGE_READ:
		if (!feed->has_aux)
			return perf_intake_read(feed);
		give_aux(feed, &feed->aux_item, ret_item);
		feed->has_aux = false;
		return 1;
	case PERF_STAGE_RECORDS:
		return give_records(feed, ret_item);
	case PERF_STAGE_PERF:
		return give_perf(feed, ret_item);
	default:
		return give_commit(feed, ret_item);
	}
}

static void tell_damage(struct perf_feed *feed)
{
	const struct perf_data_damage *damage = perf_data_damage(feed->data);

	feed->damage.n_skipped_bytes = damage->n_unread_bytes;
	feed->damage.n_damaged_frames = damage->n_damaged_blocks;
	feed->damage.n_unknown_records = damage->n_unknown_records;
	feed->damage.committed_ticks = feed->settled_ns;
	feed->damage.ended = feed->stage == PERF_STAGE_END && !damage->is_cut;
}

int perf_feed_next(struct perf_feed *feed, struct trace_item *ret_item)
{
	int r = 0;

	while (r == 0 && feed->stage != PERF_STAGE_END)
		r = give_next(feed, ret_item);
	tell_damage(feed);
	return r;
}

const struct trace_damage *perf_feed_damage(const struct perf_feed *feed)
{
	return &feed->damage;
}

const struct perf_data *perf_feed_data(const struct perf_feed *feed)
{
	return feed->data;
}

uint64_t perf_feed_start(const struct perf_feed *feed)
{
	return feed->start_ns;
}

/* ---- Alone ---- */

static int class_next(void *self, struct trace_item *ret_item)
{
	return perf_feed_next(self, ret_item);
}

static const struct trace_file_header *class_header(const void *self)
{
	return &((const struct perf_feed *)self)->header;
}

static const struct trace_damage *class_damage(const void *self)
{
	return perf_feed_damage(self);
}

static uint64_t class_offset(const void *self)
{
	return perf_data_offset(((const struct perf_feed *)self)->data);
}

static void class_close(void *self)
{
	perf_feed_destroy(self);
}

static const struct feed_class perf_class = { class_next, class_header, class_damage, class_offset,
					      class_close };

int perf_feed_open(const char *path, struct feed *feed)
{
	const struct perf_feed_options options = { .first_source = 1 };
	struct perf_feed *own;
	int r = perf_feed_create(path, &options, &own);

	if (r == 0) {
		feed->class = &perf_class;
		feed->self = own;
	}
	return r == -EBADMSG ? -EUCLEAN : r;
}
