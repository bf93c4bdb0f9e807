#pragma once
/*
 * Many periods for one source. A fixed period that a loop of the program divides samples the same
 * place of that loop again and again; one that a thread does not live for never samples it; one
 * that was chosen too short costs too much. So periods are drawn at random, and what
 * PERF_EVENT_IOC_PERIOD sets is what threads and processes born later begin with: each keeps its
 * own. It does not reach those that live already, but switching on and off does: a set holds a few
 * events, a rung each, of which one is on at a time, so that they have a few periods too.
 *
 * The law. All that a thread of age s (CPU time) is sampled by are whole multiples of its period p,
 * so that of one p each sample stands for, s is as likely sampled at any age if the sum over k of
 * g(s / k) / k is the same for all s, g(p) / p being the density of p. From a least period a on it
 * is 1 (within 2.5 % up to 10 a, 7 % beyond) for g = 1 below 2 a, 1/2 below 3 a, 1/6 below 5 a, 0
 * below 6 a, 2/15 below 7 a: each g(s) is what the multiples of shorter periods leave of it.
 * Whoever draws just any first period oversamples some ages: of threads of two halves, 21 % and 79
 * % instead of 50 %. The mean of 1 / p is 0.6076 / a. Ages below a are never sampled.
 *
 * Measured (6.18, 2 CPUs): what is left of a period when a rung is switched off counts when it is
 * switched on again, so the samples of each rung stand for the time that it was on. IOC_PERIOD
 * begins a new period in the thread that was opened on, whose samples go on to carry the period of
 * the opening: a mark.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pmu/event-set.h"

#define PMU_LADDER_MAX_RUNGS 6
#define PMU_LADDER_STEP	     3 /* a level's periods are so many times those of the level before */

/* n_levels times n_jitters rungs. */
struct pmu_ladder {
	uint64_t periods[PMU_LADDER_MAX_RUNGS]; /* opened with: pairwise different, even */
	uint64_t nominal; /* as asked: the rate of the first level's is one in it */
	uint64_t min_period; /* none is drawn below it */
	bool is_exact; /* the only period is the nominal one */
	size_t n_levels;
	size_t n_jitters;
};

/*
 * Plan a ladder around a period; none of it is below min_period. n_levels as wanted, 0: the only
 * rung is the period as it is; n_jitters 3, less where there are many CPUs: each thread of the
 * program inherits an event for each CPU and rung.
 */
void pmu_ladder_plan(uint64_t period, uint64_t min_period, size_t n_levels, size_t n_cpus,
		     struct pmu_ladder *ret_ladder);

/*
 * Periods of a rung for PMU_TURN_CPUS CPUs, as a random number says. Each is drawn by the law, and
 * they lie far from each other: threads that do the same at the same time run on different CPUs,
 * and are not sampled at the same places then.
 */
void pmu_ladder_draw_all(const struct pmu_ladder *ladder, size_t rung, uint64_t random,
			 uint64_t ret_periods[PMU_TURN_CPUS]);

/* The least period of a level: younger threads are not sampled. */
uint64_t pmu_ladder_least(const struct pmu_ladder *ladder, size_t level);

/*
 * A period for a rung, as a random number says: of the rung's part of the law, so that a thread's
 * periods differ and those of all rungs together have the law's distribution. Odd, which no period
 * that a rung was opened with is.
 */
uint64_t pmu_ladder_draw(const struct pmu_ladder *ladder, size_t rung, uint64_t random);

/*
 * Open the other rungs of a set that was opened with periods[0]; they write into its rings, and
 * all begin with a draw. Those that the kernel refuses are left out, and the ladder made shorter.
 * Returns 0 or a negative errno.
 */
int pmu_ladder_open(struct pmu_ladder *ladder, struct pmu_event_set *set, pid_t pid);
