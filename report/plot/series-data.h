#pragma once
/* The repetitions of each PROGRAM.MODE as boxes, from the values that `report --stat` tells. */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

struct series_box {
	char *program;
	char *mode;
	bool is_natural; /* nothing was recorded */
	double *values; /* of repetitions that succeeded, sorted */
	size_t n;
	size_t n_failed;
	double quartiles[3];
	double whiskers[2]; /* the furthest values within Tukey's fences */
	double interval[2]; /* 95 %, of the median */
	bool has_interval;
};

struct series {
	struct series_box *boxes; /* by program, the natural mode first, then by name */
	size_t n;
	char unit[24]; /* of the values */
};

/*
 * Of the program of a run, 0: of all. Returns 0, -ENXIO when no run has a value of that name,
 * -ENOENT without runs, -ENOMEM, -EPROTO. To be finished in each case.
 */
int series_read(sqlite3 *db, long long run_id, const char *metric, struct series *series);
void series_finish(struct series *series); /* accepts a zeroed one */

/* The names that series_read() knows, with commas; to be freed; NULL: no memory, or none. */
char *series_metrics(sqlite3 *db);

#define auto_series __attribute__((cleanup(series_finish)))
