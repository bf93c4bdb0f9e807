#pragma once
/*
 * For selection.c: the timeline of a span of a run's time, from the rows of the slices that it
 * meets.
 */
#include "report/selection/recount.h"

/* Behind slice_tally(), of the same: its tally gets a timeline. Returns 0 or a negative errno. */
int slice_timeline(const struct replay *replay);
