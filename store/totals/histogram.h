#pragma once
/*
 * Blocks of a run by size and lifetime, in powers of two: the table `histogram`. All zero is empty.
 */
#include <stdint.h>

#include "store/block-weight.h"

struct db;

#define HISTOGRAM_ZERO	  (-1) /* a size or a life of 0 */
#define HISTOGRAM_UNFREED (-2) /* a block that was not freed has no lifetime */
#define HISTOGRAM_BUCKETS 66 /* -2 .. 63 */

struct histogram_cell {
	double n_blocks; /* estimates where blocks were picked: not whole */
	uint64_t bytes;
};

struct histogram {
	struct histogram_cell cells[HISTOGRAM_BUCKETS][HISTOGRAM_BUCKETS]; /* by size, life; + 2 */
};

/* The bucket of a number: 2^bucket <= number < 2^(bucket + 1); HISTOGRAM_ZERO. */
int histogram_bucket(uint64_t number);

/* A block of this size ended after life_ns; < 0: it was not freed. */
void histogram_add(struct histogram *histogram, uint64_t size, int64_t life_ns,
		   const struct block_weight *weight);

/* Write the rows of a run. Returns 0 or a negative errno. */
int histogram_write(const struct histogram *histogram, struct db *db, int64_t run_id);
