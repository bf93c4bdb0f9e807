#pragma once
/*
 * perf's own clock (sched_clock) beside CLOCK_MONOTONIC_RAW. An event that names no clock stamps
 * its records with it, and no call reads it: so we map a page between two readings of the other
 * clock, and the record of that map carries it. Works without rights beyond those of sampling one's
 * own process, and in virtual machines, where the ring's page does not tell how to convert
 * (cap_user_time_zero is 0). One thread.
 *
 * Not by a sample of a page fault: Linux 6.18 gives all software events of one fault the stamp of
 * the first of them, whatever clock each has asked for (perf_prepare_sample() fills in a time only
 * once for the perf_sample_data that they share). Who samples this process by another clock would
 * then set our clock, and we his.
 */
#include <stdint.h>

struct pmu_perf_clock;

/* Returns 0 and a clock to be closed by the caller, or a negative errno. */
int pmu_perf_clock_open(struct pmu_perf_clock **ret_clock);

/* Accepts NULL, returns NULL. */
struct pmu_perf_clock *pmu_perf_clock_close(struct pmu_perf_clock *clock);

/*
 * Both clocks at one moment: *ret_perf_ns is *ret_raw_ns +- *ret_error_ns. The best of a few tries.
 * Returns 0 or a negative errno.
 */
int pmu_perf_clock_pair(struct pmu_perf_clock *clock, uint64_t *ret_perf_ns, uint64_t *ret_raw_ns,
			uint64_t *ret_error_ns);
