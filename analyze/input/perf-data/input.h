#pragma once
/*
 * A perf.data as the frames of a trace (feed.h): definitions, then its records round by round in
 * our byte order, each event a source, with a COMMIT behind what cannot become older. One thread.
 */
#include "analyze/input/input.h"
#include "analyze/input/perf-data/file.h"

/* How it is told. */
struct perf_feed_options {
	uint32_t first_source; /* source_id of its first event */
	bool is_part; /* beside a trace, which tells of run, images and clock itself */
	bool has_tasks; /* is_part: tell of maps, names, births and ends all the same */
};

struct perf_feed;

/* 0, or as perf_data_open(). */
int perf_feed_create(const char *path, const struct perf_feed_options *options,
		     struct perf_feed **ret_feed);
struct perf_feed *perf_feed_destroy(struct perf_feed *feed); /* accepts NULL, returns NULL */

/*
 * As trace_reader_next(). Times of samples are of perf's own clock: whoever is_part adds PERF_CLOCK
 * records. COMMIT: what follows is not older than its raw_ns, in that clock too.
 */
int perf_feed_next(struct perf_feed *feed, struct trace_item *ret_item);

/* Of what was read so far, as the reader of a trace says it. */
const struct trace_damage *perf_feed_damage(const struct perf_feed *feed);
const struct perf_data *perf_feed_data(const struct perf_feed *feed);

/* The first time in the file, of its own clock; 0: there is none. */
uint64_t perf_feed_start(const struct perf_feed *feed);

/* A perf.data alone, for feed.c. 0 or a negative errno; -EUCLEAN: its header is damaged. */
int perf_feed_open(const char *path, struct feed *feed);
