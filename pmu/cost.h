#pragma once
/* What a sample costs the program that is sampled, measured here and now. */
#include <stdint.h>

#include "pmu/source.h"

#define PMU_COST_DEFAULT_NS                                                                        \
	4000 /* where it cannot be measured: docs of the bars say 3.0 to 4.4 us */

/*
 * Measure it on the calling thread: the same work some times with and without samples as `source`
 * (a timed one) takes them, by its CPU time; the median of the differences for each sample. Takes
 * some 40 ms. PMU_COST_DEFAULT_NS where the source does not open, or a busy machine gives no
 * answer.
 */
uint64_t pmu_cost_measure(const struct access_source *source, const struct access_options *options);

/*
 * The limit of samples per second for each event and CPU that the kernel holds now
 * (kernel.perf_event_max_sample_rate; it lowers it when interrupts take too long). 0: not known.
 */
uint64_t pmu_max_sample_rate(void);
