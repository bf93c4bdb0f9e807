#pragma once
/*
 * Follow a sample's call stack by the unwind tables (.eh_frame) of the files that its image had
 * mapped, on the registers and stack bytes that were sampled. x86-64.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/process/modules.h"
#include "perf/record.h"
#include "schemas/trace-format.h"

struct sample_unwind {
	struct modules *modules;
	uint32_t process;
	int64_t time_ns;
	const struct pmu_sample *sample;
};

/*
 * The instruction itself, then return addresses outwards, into pcs (at least 1 of max). *ret_stop:
 * why it ends; TRACE_STOP_NONE: it is whole; TRACE_STOP_DEPTH: the sampled bytes or max end.
 * Returns how many, or 0: the sample has no 64-bit registers.
 */
size_t sample_unwind(const struct sample_unwind *unwind, uint64_t *pcs, size_t max,
		     enum trace_stop *ret_stop);
