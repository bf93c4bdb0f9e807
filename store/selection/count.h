#pragma once
/*
 * For selection.c: the rows of one run, in the order of their ids, into the sums of
 * store/totals/totals.h. One thread.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/selection/filter.h"
#include "store/selection/selection.h"
#include "store/site-map.h"
#include "store/totals/totals.h"

struct db;

struct count {
	struct db *db;
	const struct selection *selection;
	const struct filter *filter;
	struct tally *tally;
	int64_t run_id;
	/* What arrays by id must hold (row-limit.h). */
	int64_t max_stacks;
	int64_t max_threads;
	int64_t n_clock; /* samples of CPU time */
	struct site_map stacks; /* of blocks that were met: 1 + stack.id */
	/* The part of the selection's time that is counted at once. */
	int64_t from_ns;
	int64_t to_ns; /* not included */
	bool goes_on; /* behind another one: what lives then is known */
};

/* Set db, run_id and the limits of ids. */
void count_init(struct count *count, struct db *db, int64_t run_id);

/*
 * Times become those since selection.from_ns. Return 0, -EBADMSG for rows that cannot be, or
 * another negative errno.
 */
int count_blocks(struct count *count);
int count_touches(struct count *count);

/* What one row tells may be anything; distances that no int64_t holds are damage: -EBADMSG. */
static inline int count_distance(int64_t from, int64_t to, int64_t *ret_distance)
{
	return __builtin_sub_overflow(to, from, ret_distance) ? -EBADMSG : 0;
}
