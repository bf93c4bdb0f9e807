#pragma once
/*
 * The rows that samples make: source, sample, touch, and their sum owner_share. Told to the sink of
 * samples.h as they are written. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/samples/sample-accesses.h"
#include "analyze/samples/samples.h"

struct sample_rows;

/* Returns 0 or a negative errno. The context must outlive it. */
int sample_rows_create(const struct sample_context *context, struct sample_rows **ret_rows);
struct sample_rows *sample_rows_destroy(struct sample_rows *rows); /* accepts NULL */

/* Make the row of a source; its index counts up from 0. Returns the index or a negative errno. */
int sample_rows_source(struct sample_rows *rows, const struct trace_source *record);

/* A row of sample. frame 0: NULL. */
struct sample_row {
	uint32_t source;
	int64_t process_row; /* 0: NULL */
	int64_t thread_row;
	uint32_t thread; /* number; 0: not known */
	int64_t time_ns;
	int64_t frame;
	int64_t stack; /* 0: NULL */
	int64_t weight;
	bool is_kernel;
};

/* Write it. Returns its id, > 0, or a negative errno. */
int64_t sample_rows_sample(struct sample_rows *rows, const struct sample_row *row);

/* One of a source was left out, as the program wants it. */
void sample_rows_withhold(struct sample_rows *rows, uint32_t source);

/*
 * Write what its source measured of the access, in the order of samples; of most there is no row.
 * 0 or a negative errno.
 */
int sample_rows_access(struct sample_rows *rows, const struct pending_sample *item);

/* Write the touches of an item and add them up. 0 or a negative errno. */
int sample_rows_touches(struct sample_rows *rows, const struct pending_sample *item);

/* What its samples say, into its row. 0 or a negative errno. */
int sample_rows_detail(struct sample_rows *rows, uint32_t source,
		       const struct trace_source_detail *record);

/* What was written of a source so far. */
struct sample_row_counts {
	int64_t row; /* source.id */
	int64_t n_samples;
	int64_t weight; /* their sum */
	int64_t n_withheld; /* left out on request */
	bool is_time; /* in ns of CPU time */
	const char *unit; /* of a sample's weight */
};
struct sample_row_counts sample_rows_counts(const struct sample_rows *rows, uint32_t source);

/* Write n_samples of the sources and owner_share. 0 or a negative errno. */
int sample_rows_finish(struct sample_rows *rows);
