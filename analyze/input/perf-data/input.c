#include "analyze/input/perf-data/input.h"

#include <elf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/input/perf-data/processes.h"
#include "analyze/input/perf-data/record-writer.h"
#include "analyze/input/perf-data/run-info.h"
#include "common/array.h"
#include "schemas/ring.h"

/* What comes next, in this order, once a round or a buffer is full. */
enum perf_stage {
	PERF_STAGE_READ,
	PERF_STAGE_RECORDS,
	PERF_STAGE_PERF,
	PERF_STAGE_COMMIT,
	PERF_STAGE_END,
};

struct perf_feed {
	struct perf_feed_options options;
	struct perf_data *data;
	struct trace_file_header header;
	struct trace_damage damage;
	struct perf_source *sources; /* by event */
	struct perf_records *records; /* by event */
	size_t n_sources;
	size_t n_sources_allocated;
	size_t n_records_allocated;
	size_t n_given; /* sources whose records were given in this stage */
	struct perf_tasks tasks;
	struct record_list definitions;
	bool are_definitions_given;
	enum perf_stage stage;
	bool is_round; /* the stages end a round */
	bool has_run;
	bool has_losses;
	uint64_t start_ns; /* of the first record with a time; 0: none has */
	uint64_t newest_ns; /* of this round */
	uint64_t settled_ns; /* newest of the round before: nothing older can come after this one */
	uint64_t n_damaged_tasks;
	struct trace_commit commit;
	struct trace_aux aux;
	bool has_aux; /* aux_item waits for its turn: nothing is read before */
	struct perf_data_item aux_item;
	uint64_t aux_flags; /* told by AUX records since the last piece of AUX */
};

/* ---- When a perf.data begins, and what distinguishes it from others ---- */

/* A file without rounds is looked through so far for its first time. */
#define PROBE_RECORDS 200000u

/* The time of a record, in perf's clock; 0: it has none. */
static uint64_t perf_record_time(const struct perf_data *data, const struct perf_data_item *item)
{
	const struct pmu_format *format = &perf_data_event(data, item->event)->format;
	struct pmu_record record;

	if (item->type == PERF_RECORD_SAMPLE)
		return perf_records_sample_time(format, item->bytes, item->n_bytes);
	if (pmu_record_parse(format, item->bytes, item->n_bytes, &record) <= 0 || !record.is_known)
		return 0;
	return record.origin.time_ns;
}

/*
 * The earliest time of the first round, by a reader of its own; untouched when there is none. 0 or
 * errno.
 */
static int perf_start_find(const char *path, uint64_t *ret_start_ns)
{
	auto_perf_data struct perf_data *data = NULL;
	struct perf_data_item item;
	size_t n = 0;
	int r = perf_data_open(path, &data);

	if (r < 0)
		return r;
	while (n < PROBE_RECORDS && (r = perf_data_next(data, &item)) > 0) {
		if (item.kind == PERF_DATA_ROUND && *ret_start_ns)
			break;
		if (item.kind != PERF_DATA_RECORD)
			continue;
		uint64_t time_ns = perf_record_time(data, &item);
		if (time_ns && (!*ret_start_ns || time_ns < *ret_start_ns))
			*ret_start_ns = time_ns;
		n++;
	}
	return r < 0 ? r : 0;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* FNV-1a of what tells one recording from another: its host, command and first times. */
static void identify(struct perf_feed *feed)
{
	const struct perf_data_info *info = perf_data_info(feed->data);
	uint64_t hash[2] = { UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4) };

	for (size_t i = 0; i < 2; i++) {
		hash[i] = mix(hash[i], &feed->start_ns, sizeof(feed->start_ns));
		hash[i] = mix(hash[i], &info->first_sample_ns, 2 * sizeof(uint64_t));
		hash[i] = mix(hash[i], &info->wall_ns, sizeof(info->wall_ns));
		hash[i] = mix(hash[i], info->command, info->command_bytes);
		if (info->host_name)
			hash[i] = mix(hash[i], info->host_name, strlen(info->host_name));
	}
	memcpy(feed->header.recording_id, hash, sizeof(hash));
}

/* Make the header of feed, whose data and start_ns are set. */
static void perf_start_header(struct perf_feed *feed)
{
	uint16_t machine = perf_run_machine(feed->data);

	feed->header = (struct trace_file_header){
		.version_major = TRACE_VERSION_MAJOR,
		.version_minor = TRACE_VERSION_MINOR,
		.header_bytes = sizeof(feed->header),
		.machine = machine ? machine : EM_X86_64,
		.clock = RING_CLOCK_RAW,
		.ticks_per_second = 1000000000,
		.start_ticks = feed->start_ns,
	};
	memcpy(feed->header.magic, TRACE_FILE_MAGIC, sizeof(feed->header.magic));
	identify(feed);
}

/* ---- What is read and kept until its round ends ---- */

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
	int r = record_list_add(&feed->definitions, &clock);

	return r < 0 ? r : record_list_add(&feed->definitions, &pair);
}

static int add_source(struct perf_feed *feed)
{
	size_t event = feed->n_sources;

	if (grow_one(&feed->sources, event, &feed->n_sources_allocated) < 0 ||
	    grow_one(&feed->records, event, &feed->n_records_allocated) < 0)
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

/* A pipe tells its events before their records: add those that are there as sources. 0 or errno. */
static int perf_intake_sources(struct perf_feed *feed)
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

	source->ledger.head.type = TRACE_RECORD_SOURCE_LEDGER;
	source->ledger.source_id = source->source_id;
	int r = record_list_add(&feed->definitions, &source->ledger);
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

/* Read one item of the file, and set the stage when it makes one. 0 or errno. */
static int perf_intake_read(struct perf_feed *feed)
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

/* ---- What is given ---- */

int perf_feed_create(const char *path, const struct perf_feed_options *options,
		     struct perf_feed **ret_feed)
{
	struct perf_feed *feed = calloc(1, sizeof(*feed));
	int r = feed ? 0 : -ENOMEM;

	if (r == 0) {
		feed->options = *options;
		r = perf_start_find(path, &feed->start_ns);
	}
	r = r ?: perf_data_open(path, &feed->data);
	if (r < 0)
		return perf_feed_destroy(feed), r;
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

int perf_feed_next(struct perf_feed *feed, struct trace_item *ret_item)
{
	int r = 0;

	while (r == 0 && feed->stage != PERF_STAGE_END)
		r = give_next(feed, ret_item);
	const struct perf_data_damage *damage = perf_data_damage(feed->data);

	feed->damage.n_skipped_bytes = damage->n_unread_bytes;
	feed->damage.n_damaged_frames = damage->n_damaged_blocks;
	feed->damage.n_unknown_records = damage->n_unknown_records;
	feed->damage.committed_ticks = feed->settled_ns;
	feed->damage.ended = feed->stage == PERF_STAGE_END && !damage->is_cut;
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
