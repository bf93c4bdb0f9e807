#pragma once
/*
 * A segment that does not fit into its file: as much of it as does. Frames stay whole; what is
 * written is a segment like any other.
 */
#include <stddef.h>
#include <stdint.h>

#include "trace/output.h"

/* All zero is empty; trace_salvage_finish() frees. */
struct trace_salvage {
	struct trace_output definitions; /* that fit */
	struct trace_output data; /* that fits, and the COMMIT */
	struct trace_output left; /* definitions that did not: for a later segment */
	uint64_t n_events; /* in data */
	uint64_t n_samples;
	uint64_t n_dropped_bytes; /* of code, which is left out */
};

/*
 * Fit a segment into room bytes: its records and stack nodes first, since events need them, then
 * data in its order up to the first frame that does not fit. The last frame of data is the COMMIT.
 * Returns 0, -ENOSPC (nothing of it fits, or no data although there is some), or -ENOMEM; in both
 * cases *ret_salvage is empty.
 */
int trace_salvage(const struct trace_output *definitions, const struct trace_output *data,
		  size_t room, struct trace_salvage *ret_salvage);

/* Free the outputs. */
void trace_salvage_finish(struct trace_salvage *salvage);
