#pragma once
/*
 * A part of what was recorded: of some runs, a span of time, a process, a thread, a range of
 * addresses, a region. The aggregates that reports read are counted anew from the rows of blocks
 * and touches, by the code that counted them at import, into temporary tables that hide those of
 * the database. Of a span of time only what lies at its edges is counted, where the import stored
 * sums of stretches (stretches.h).
 *
 * Blocks count (n_blocks, bytes, not freed ...) where they were born within the selection. Blocks
 * that live when its time begins are in what is live, at the peak and in the byte-seconds only.
 * Samples count where they were taken within it. Times of blocks are cut at its begin and end. Of
 * several runs the sums are kept, and the highest peak.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;

struct selection {
	const int64_t *runs; /* run.id; the first one's id stands for all of them afterwards */
	size_t n_runs;
	int64_t from_ns; /* since the run's start; 0: its start */
	int64_t to_ns; /* not included; INT64_MAX: its end */
	int64_t pid; /* 0: all processes; else all images of this pid */
	int64_t tid; /* 0: all threads */
	uint64_t low; /* addresses from low up to below high; high 0: all */
	uint64_t high;
	const char *region; /* what its threads did in it; NULL: all */
	unsigned wants; /* SELECTION_ of tables that only all rows tell; else these are empty */
};

#define SELECTION_LINES	   1u /* shared_line, which takes memory for each access */
#define SELECTION_TIMELINE 2u /* timeline */

/* Whether it is anything but one whole run. */
bool selection_is_part(const struct selection *selection);

/*
 * How many trips through selection.region the runs made, and how many of them have a row: very many
 * are not stored one by one. Returns 0 or a negative errno.
 */
int selection_count_trips(struct db *db, const struct selection *selection, int64_t *ret_made,
			  int64_t *ret_stored);

/*
 * Hide the aggregates of an open database (db_open()) by those of the selection. Returns 0 or a
 * negative errno; after a failure the handle is only good for its error message.
 */
int selection_apply(struct db *db, const struct selection *selection);
