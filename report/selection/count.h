#pragma once
/*
 * For selection.c: the rows of one run, in the order of their ids, into the sums of
 * store/totals/totals.h. One thread.
 */
#include <errno.h>
#include <stdint.h>

#include "report/selection/filter.h"
#include "report/selection/selection.h"
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
	struct site_map sites; /* of blocks that were met */
};

/*
 * Times become those since selection.from_ns. Return 0, -EBADMSG for rows that cannot be, or
 * another negative errno. Touches come behind the blocks.
 */
int count_blocks(struct count *count);
int count_touches(struct count *count);

/* What one row tells may be anything; distances that no int64_t holds are damage: -EBADMSG. */
static inline int count_distance(int64_t from, int64_t to, int64_t *ret_distance)
{
	return __builtin_sub_overflow(to, from, ret_distance) ? -EBADMSG : 0;
}
