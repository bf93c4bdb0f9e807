#pragma once
/*
 * A trace and the perf.data beside it as one feed: what perf sampled up to a COMMIT of the trace is
 * given before it, as sources behind those of the trace. One thread.
 */
#include "analyze/input/input.h"
#include "analyze/input/perf-data/companion.h"

/*
 * Put the perf.data beside what feed gives, which becomes the new one's. 0, as perf_data_open(), or
 * -ENOMEM.
 */
int beside_feed_open(const struct beside *beside, struct feed *feed);
