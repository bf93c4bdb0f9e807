#pragma once
/* Shared by input.c, intake.c and first-times.c. */
#include "analyze/input/perf-data/input.h"
#include "analyze/input/perf-data/processes.h"
#include "analyze/input/perf-data/record-writer.h"
#include "analyze/input/perf-data/run-info.h"

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

/* ---- first-times.c ---- */

/* The time of a record, in perf's clock; 0: it has none. */
uint64_t perf_record_time(const struct perf_data *data, const struct perf_data_item *item);

/*
 * The earliest time of the first round, by a reader of its own; untouched when there is none. 0 or
 * errno.
 */
int perf_start_find(const char *path, uint64_t *ret_start_ns);

/* Make the header of feed, whose data and start_ns are set. */
void perf_start_header(struct perf_feed *feed);

/* ---- intake.c ---- */

/* A pipe tells its events before their records: add those that are there as sources. 0 or errno. */
int perf_intake_sources(struct perf_feed *feed);

/* Read one item of the file, and set the stage when it makes one. 0 or errno. */
int perf_intake_read(struct perf_feed *feed);
