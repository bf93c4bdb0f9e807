#pragma once
/*
 * What a run did over time, as curves in as many columns as are drawn: for the terminal and for
 * plots. From the tables `timeline` (which a selection hides by its own) `process_sample` and
 * `page_interval`.
 */
#include <sqlite3.h>
#include <stdint.h>

enum curve_id {
	CURVE_LIVE, /* bytes: the most in the column */
	CURVE_RSS, /* bytes: sampled, of all processes; a value holds until the process' next one */
	CURVE_TOUCHED, /* bytes: within intervals of --source pages, of all processes */
	CURVE_ALLOCATIONS, /* per second */
	CURVE_SAMPLES, /* per second */
	CURVE_FAULTS, /* per second */
	CURVE_COUNT
};

struct curve {
	double *values; /* one for each column; NAN: not known */
	double most; /* 0: nothing happened */
	int64_t n; /* what was counted in all; 0 for bytes */
};

struct curves {
	int64_t from_ns;
	int64_t to_ns;
	unsigned n_columns;
	struct curve of[CURVE_COUNT];
};

/*
 * Returns 0, -ENODATA for a run without a timeline, -ENOMEM, or -EPROTO (sqlite3_errmsg() tells).
 * To be finished in each case.
 */
int curves_read(sqlite3 *db, int64_t run_id, unsigned n_columns, struct curves *curves);
void curves_finish(struct curves *curves); /* accepts a zeroed one */

#define auto_curves __attribute__((cleanup(curves_finish)))
