#pragma once
/*
 * A perf.data that was recorded beside a trace: whether it is of the same run, and how its clock
 * goes.
 *
 * It is of the same run when it tells of a map where the trace has a module of the same pid. Times
 * of CLOCK_MONOTONIC_RAW are taken as they are. Those of any other clock are shifted by one offset,
 * bounded by what both tell: code is mapped before the trace names its module, memory before a
 * block is born in it, a block is accessed before its free, and its inner pages after malloc() gave
 * it; a thread ends behind its last event.
 */
#include "analyze/input/perf-data/companion-trace.h"

struct beside {
	char *path; /* of the perf.data */
	struct beside_trace trace;
	struct clock_offset offset;
	const char *clock; /* "CLOCK_MONOTONIC", "perf's own clock" ... */
	uint64_t n_bounds; /* pairs that the offset was made of; 0: the clock is ours */
	uint64_t first_ns; /* of the perf.data, in its clock */
	uint64_t last_ns;
	char both[64]; /* -EEXIST: the source that both have */
};

/*
 * Align. 0 or a negative errno: -ENXIO: they are of different runs; -ESTALE: of one pid each, but
 * at different times; -EEXIST: both sampled the same; -ERANGE: nothing bounds the offset on both
 * sides; -EBADMSG: the trace is none; -EPROTO: the perf.data is none; as beside_trace_read().
 * Closed by the caller.
 */
int beside_open(const char *trace_path, const char *perf_path, struct beside *beside);
void beside_close(struct beside *beside); /* accepts one that is all zero */

static inline void beside_cleanup(struct beside *beside)
{
	beside_close(beside);
}
#define auto_beside __attribute__((cleanup(beside_cleanup)))
