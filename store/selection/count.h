#pragma once
/*
 * For selection.c and stretches.c: the rows of one run, in the order of their ids, into the sums of
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

/* Times at which what was counted is taken, while it is counted. */
struct count_borders {
	const int64_t *times; /* since the run's start, ascending */
	size_t n;
	size_t next; /* the first one that is to come */
	/* The part before a border is in count->tally: begin another one. 0 or a negative errno. */
	int (*close)(void *context, size_t border);
	void *context;
};

struct count {
	struct db *db;
	const struct selection *selection;
	const struct filter *filter;
	struct tally *tally;
	struct tally *before; /* of what lies before the last border: it may come late; or NULL */
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
	struct count_borders *borders; /* NULL: none */
};

/* Set db, run_id and the limits of ids. */
void count_init(struct count *count, struct db *db, int64_t run_id);

/*
 * Times become those since selection.from_ns. Return 0, -EBADMSG for rows that cannot be, -ERANGE
 * where borders are no good: for touches on both sides of one that are not in order, and samples of
 * CPU time; or another negative errno. Blocks are counted without borders.
 */
int count_blocks(struct count *count);
int count_touches(struct count *count);

/* What one row tells may be anything; distances that no int64_t holds are damage: -EBADMSG. */
static inline int count_distance(int64_t from, int64_t to, int64_t *ret_distance)
{
	return __builtin_sub_overflow(to, from, ret_distance) ? -EBADMSG : 0;
}

/* All before a time is there: close what ends by then. INT64_MAX: nothing comes any more. */
static inline int count_close_until(struct count *count, int64_t time_ns)
{
	struct count_borders *borders = count->borders;
	int r = 0;

	while (r == 0 && borders && borders->next < borders->n &&
	       time_ns >= borders->times[borders->next])
		r = borders->close(borders->context, borders->next++);
	return r;
}

/* Where a moment counts; NULL: it comes too late. */
static inline struct tally *count_tally(const struct count *count, int64_t time_ns)
{
	const struct count_borders *borders = count->borders;
	size_t next = borders ? borders->next : 0;

	if (next == 0 || time_ns >= borders->times[next - 1])
		return count->tally;
	return next == 1 || time_ns >= borders->times[next - 2] ? count->before : NULL;
}
