#pragma once
/*
 * Several periods for one source. A fixed period that a loop of the program divides samples the same
 * place of that loop again and again; a period that was chosen too short costs too much. The kernel's
 * PERF_EVENT_IOC_PERIOD does not reach inherited children, ENABLE and DISABLE do: so a set holds an
 * event for each of a few periods, a rung each, of which one is on at a time.
 *
 * Measured (6.18, 2 CPUs): what is left of a period when a rung is switched off counts when it is
 * switched on again, so the samples of each rung stand for the time that it was on.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pmu/pmu-event-set.h"

#define PMU_LADDER_MAX_RUNGS 6
#define PMU_LADDER_STEP	     3 /* a level's periods are so many times those of the level before */

/* n_levels times n_jitters rungs; those of a level lie within 5 % of each other. */
struct pmu_ladder {
	uint64_t periods[PMU_LADDER_MAX_RUNGS]; /* pairwise different primes */
	uint64_t nominal; /* as asked: about the mean of the first level's */
	size_t n_levels;
	size_t n_jitters;
};

/*
 * Plan a ladder around a period; none of it is below min_period. n_levels as wanted, 0: the only rung is the period as it is;
 * n_jitters 3, less where there are many CPUs: each thread of the program inherits an event for each
 * CPU and rung.
 */
void pmu_ladder_plan(uint64_t period, uint64_t min_period, size_t n_levels, size_t n_cpus,
		     struct pmu_ladder *ret_ladder);

/* The smallest prime >= number (number below 2^62). */
uint64_t pmu_ladder_prime(uint64_t number);

/*
 * Open the other rungs of a set that was opened with periods[0]; they write into its rings. Those
 * that the kernel refuses are left out, and the ladder made shorter. Returns 0 or -ENOMEM.
 */
int pmu_ladder_open(struct pmu_ladder *ladder, struct pmu_event_set *set, pid_t pid);
