#pragma once
/*
 * The rows that samples make: source, sample, touch, access_detail, and their sum owner_share. The
 * sink of samples.h gets them as they are written. One thread.
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

/* A sample was taken: count it, and tell the sink. 0 or a negative errno. */
int sample_rows_count(struct sample_rows *rows, const struct pending_sample *item);

/* One of a source was left out, as the program wants it. */
void sample_rows_withhold(struct sample_rows *rows, uint32_t source);

/* The sample.id of the item that is written next. */
int64_t sample_rows_next(struct sample_rows *rows);

/*
 * Write a sample whose owners are decided, with its touches and what its source measured of the
 * access, and add them up. 0 or a negative errno.
 */
int sample_rows_write(struct sample_rows *rows, const struct pending_sample *item);

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

/*
 * Write n_samples of the sources and owner_share; another thread writes the last rows, until
 * sample_rows_wait(). 0 or a negative errno.
 */
int sample_rows_finish(struct sample_rows *rows);
int sample_rows_wait(struct sample_rows *rows);
