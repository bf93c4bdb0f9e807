#pragma once
/*
 * Stretches of a run: some 64 to 127 of about equal numbers of blocks and samples, whose sums are
 * stored, so that of a span of time only the rows at its edges need to be counted. What is counted
 * and what is stored add up to the same to the last digit: all sums are whole numbers, borders lie
 * where rows are in order, and nothing is stored that does not add up (store/totals/sums.h).
 */
#include <stdbool.h>
#include <stdint.h>

#include "store/totals/stretch-blocks.h"
#include "store/totals/sums.h"

struct db;

/* Those of a run that lie in a span of time. */
struct stretches {
	int64_t run_id;
	int64_t from_ns; /* from >= to: there are none */
	int64_t to_ns;
	bool have_touches;
};

/* 0, -EBADMSG: they leave holes; or another negative errno. */
int stretches_find(struct db *db, int64_t run_id, int64_t from_ns, int64_t to_ns,
		   struct stretches *ret_stretches);

/* Add their sums to sums->tally. 0, -EBADMSG: they are damaged; or another negative errno. */
int stretches_add(struct db *db, const struct stretches *stretches, enum sums_of of,
		  struct sums *sums);
