#pragma once
/*
 * The call stack of a sample (record --sample-stacks): as the kernel followed it by frame pointers,
 * or found here from the sampled registers and bytes of the stack (System V unwind tables).
 */
#include <stdint.h>

#include "perf/record.h"

struct samples;
struct sample_source;

/*
 * stack.id of a sample's call stack in an image at a time. 0: the source takes none, or the sample
 * has none. Negative errno only without memory.
 */
int64_t sample_stack(struct samples *samples, const struct sample_source *source,
		     const struct pmu_sample *sample, uint32_t process, int64_t time_ns);
