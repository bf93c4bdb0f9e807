#pragma once
/*
 * Cuts the begin off a trace. What had ended by then is left out: blocks and mappings with their
 * ends, threads, processes, samples, looks at memory. What lived then stays as it was written, with
 * its call stack and its time. So what comes out is a trace as any other, in which nothing of the
 * rest is missing, and of what came before only what was still there.
 *
 * It becomes the first segment of a new file; the segments behind the cut follow as they are. Done
 * again on such a file it gives what a single cut would have given.
 */
#include <stdbool.h>
#include <stdint.h>

#include "schemas/trace-format.h"

/* The facts that say how much was left out since the begin of the run. */
#define TRACE_CUT_FACT_SPAN    "memsight.last"
#define TRACE_CUT_FACT_EVENTS  "memsight.dropped_events"
#define TRACE_CUT_FACT_SAMPLES "memsight.dropped_samples"
/* Of the span: how much of it the disk had room for, where that was less. */
#define TRACE_CUT_FACT_ROOM "memsight.last_room"
/* A trace without windows gets one, of what is whole: from the cut on. Its cause, then the span. */
#define TRACE_CUT_CAUSE "last "

struct trace_cut {
	int source_fd; /* the trace; stays the caller's */
	uint64_t end_offset; /* in it: of the first segment that is kept */
	struct trace_commit commit; /* that ends the segment before: of the cut */
	int fd; /* an empty file; taken over, also on failure */
	const char *span; /* what is kept, for a person: "30s" */
};

struct trace_cut_result {
	uint64_t n_bytes; /* of the new file */
	uint64_t n_events; /* in it */
	uint64_t n_samples;
	uint64_t n_dropped_events; /* left out, since the begin of the run */
	uint64_t n_dropped_samples;
	bool has_windows; /* of its own */
};

/*
 * Write the header and the first segment. Takes memory for what lives at the cut, and for what of
 * the segments before it is not in order of time. Returns 0 or a negative errno; the file is then
 * of no use. Any thread.
 */
int trace_cut(const struct trace_cut *cut, struct trace_cut_result *ret_result);
