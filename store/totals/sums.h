#pragma once
/*
 * The sums of a tally as bytes, and back: what a stretch of a run adds to those of a longer one.
 * Each kind of sums is a small table, whose columns are those of store/columns/column.h. Only what
 * adds up: no shares of CPU time, which depend on the order of samples, no timeline, and no blocks
 * that were picked.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tally;

enum sums_of { SUMS_OF_BLOCKS, SUMS_OF_TOUCHES };

/* Memory for many; all zero is empty. One thread. */
struct sums {
	struct tally *tally;
	int64_t max_stacks; /* what ids in the bytes must be below: row-limit.h */
	int64_t max_threads;
	int64_t shift_ns; /* from times of what is added to those of the tally */
	bool is_first; /* nothing was added to the tally before it */
	bool has_peak; /* the highest one so far is of what is added */
	int64_t *values; /* a column behind the other */
	uint8_t *bytes; /* what was written */
	size_t n;
	size_t n_allocated;
	struct chunk_encoder *encoder;
	struct chunk_decoder *decoder;
};

void sums_finish(struct sums *sums);

/* Add what was written to the tally. 0, -EBADMSG: it is damaged; or another negative errno. */
int sums_add(struct sums *sums, enum sums_of of, const void *bytes, size_t n);

/* Sums as bytes, each behind the other in time. All zero is none. */
struct sums_part {
	int64_t from_ns;
	uint8_t *bytes;
	size_t n;
};

struct sums_parts {
	struct sums_part *items;
	size_t n;
	size_t n_allocated;
};

void sums_parts_finish(struct sums_parts *parts);

/* Write those of the tally into sums->bytes, and keep them as the next part. 0 or an errno. */
int sums_keep(struct sums *sums, enum sums_of of, int64_t from_ns, struct sums_parts *parts);

/*
 * Add the parts from *at on that begin before a time, which *at then is behind, and write them with
 * what the tally has. 0 or a negative errno.
 */
int sums_join(struct sums *sums, enum sums_of of, const struct sums_parts *parts, int64_t to_ns,
	      size_t *at);

/* Set them to those of a time that begins, with what is live then. 0 or -ENOMEM. */
int sums_clear(struct tally *tally, enum sums_of of, int64_t time_ns);
