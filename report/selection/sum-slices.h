#pragma once
/*
 * For selection.c: a span of a run's time, all of its processes and addresses, counted from slices
 * and the rows at its ends; what recount.h counts from all rows. The tally has no timeline. Times
 * become those since selection.from_ns.
 */
#include "report/selection/recount.h"

/*
 * Returns 0, -ENODATA: the run has no slices, and nothing was counted; or another negative errno.
 */
int slice_tally(const struct replay *replay);

/*
 * replay_samples() and replay_touches() of any selection, of the rows only that lie in slices which
 * its time meets. Returns as slice_tally().
 */
int slice_replay(const struct replay *replay);

/*
 * The blocks, from the first id to the last, that are born in slices which the selection's time
 * meets. Likewise.
 */
int slice_births(const struct replay *replay, int64_t *ret_first, int64_t *ret_last);

/* The rows that lie in slices which the selection's time meets. Returns as slice_tally(). */
int slice_rows(const struct replay *replay, struct replay_rows *ret_rows);
