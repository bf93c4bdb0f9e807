#include "pmu/period-ladder.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/clock.h"

#define FEW_CPUS  16
#define MANY_CPUS 64

#define N_JITTERS 3

/* The law's g, in parts of the least period: period-ladder.h. */
static const struct {
	double from, to, g;
} law[] = { { 1, 2, 1 }, { 2, 3, 1.0 / 2 }, { 3, 5, 1.0 / 6 }, { 6, 7, 2.0 / 15 } };
#define N_LAW (sizeof(law) / sizeof(*law))

#define GOLDEN_PPM 618034u /* multiples of it, modulo 10^6, lie far from each other */
#define LEAST_PART 0.60764 /* of the asked period: the mean of 1 / p is 1 over that one */
#define LIMIT_PART 0.06 /* at the limit of the rate, periods lie as close as this */

/* The period, in parts of the least one, below which lies a part (0 to 1) of the law. */
static double quantile(double part)
{
	double mass = 0, rest;

	for (size_t i = 0; i < N_LAW; i++)
		mass += law[i].g * log(law[i].to / law[i].from);
	rest = part * mass;
	for (size_t i = 0; i < N_LAW; i++) {
		double own = law[i].g * log(law[i].to / law[i].from);

		if (rest < own)
			return law[i].from * exp(rest / law[i].g);
		rest -= own;
	}
	return law[N_LAW - 1].to;
}

static uint64_t nominal_of(const struct pmu_ladder *ladder, size_t level)
{
	uint64_t period = ladder->nominal;

	while (level-- > 0)
		period *= PMU_LADDER_STEP;
	return period;
}

static bool is_at_limit(const struct pmu_ladder *ladder, size_t level)
{
	return (double)nominal_of(ladder, level) * LEAST_PART < (double)ladder->min_period;
}

uint64_t pmu_ladder_least(const struct pmu_ladder *ladder, size_t level)
{
	double period = (double)nominal_of(ladder, level);

	return (uint64_t)(is_at_limit(ladder, level) ? period : LEAST_PART * period);
}

/* part: 0 to 1, of the rung's own part of the law. */
static uint64_t period_at(const struct pmu_ladder *ladder, size_t rung, double part)
{
	size_t level = rung / ladder->n_jitters;
	double all = ((double)(rung % ladder->n_jitters) + part) / (double)ladder->n_jitters;
	double factor = is_at_limit(ladder, level) ? 1 + LIMIT_PART * all : quantile(all);

	return (uint64_t)((double)pmu_ladder_least(ladder, level) * factor);
}

uint64_t pmu_ladder_draw(const struct pmu_ladder *ladder, size_t rung, uint64_t random)
{
	return period_at(ladder, rung, (double)(random % 1000000) / 1e6) | 1;
}

void pmu_ladder_draw_all(const struct pmu_ladder *ladder, size_t rung, uint64_t random,
			 uint64_t ret_periods[PMU_TURN_CPUS])
{
	for (unsigned i = 0; i < PMU_TURN_CPUS; i++)
		ret_periods[i] = pmu_ladder_draw(ladder, rung, random + i * GOLDEN_PPM);
}

void pmu_ladder_plan(uint64_t period, uint64_t min_period, size_t n_levels, size_t n_cpus,
		     struct pmu_ladder *ret_ladder)
{
	struct pmu_ladder ladder = { .nominal = period,
				     .min_period = min_period,
				     .is_exact = n_levels == 0,
				     .n_levels = n_levels,
				     .n_jitters = N_JITTERS };

	if (n_cpus > FEW_CPUS)
		ladder.n_jitters = n_cpus > MANY_CPUS ? 1 : 2;
	if (n_levels == 0) {
		ladder.n_levels = ladder.n_jitters = 1;
		ladder.periods[0] = period;
	}
	while (ladder.n_jitters * ladder.n_levels > PMU_LADDER_MAX_RUNGS)
		*(ladder.n_jitters > 1 ? &ladder.n_jitters : &ladder.n_levels) -= 1;
	for (size_t i = 0; n_levels > 0 && i < ladder.n_levels * ladder.n_jitters; i++)
		ladder.periods[i] = (period_at(&ladder, i, 0.5) + 1) & ~UINT64_C(1);
	*ret_ladder = ladder;
}

static int add_event(struct pmu_event_set *set, pid_t pid, uint64_t period, size_t i, int *ret_fd)
{
	struct perf_event_attr attr = set->attr;
	int fd, r;

	attr.sample_period = pmu_event_set_mark(set, period, i);
	attr.enable_on_exec = 0;
	r = pmu_event_open(&attr, pid, set->cpus[i], &fd);
	if (r < 0)
		return r;
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, set->fds[i]) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

static int add_rung(struct pmu_event_set *set, pid_t pid, uint64_t period)
{
	size_t base = set->n * set->n_rungs;
	int *fds = reallocarray(set->fds, base + set->n, sizeof(*fds));
	int r = 0;

	if (!fds)
		return -ENOMEM;
	set->fds = fds;
	for (size_t i = 0; i < set->n; i++) {
		r = add_event(set, pid, period, i, &fds[base + i]);
		for (size_t k = 0; r < 0 && k < i; k++)
			close(fds[base + k]);
		if (r < 0)
			return r;
	}
	set->n_rungs++;
	return 0;
}

/*
 * Whoever is born before a rung's first turn must not look like the thread that was opened on. That
 * one's first samples, before any turn, stand for their mark: no record says of another period.
 */
static int begin_rung(const struct pmu_ladder *ladder, const struct pmu_event_set *set, size_t rung)
{
	uint64_t random = clock_raw_ns() * UINT64_C(2685821657736338717) >> 20;
	uint64_t periods[PMU_TURN_CPUS];

	if (ladder->is_exact)
		return 0;
	pmu_ladder_draw_all(ladder, rung, random, periods);
	for (unsigned i = 0; rung == 0 && i < PMU_TURN_CPUS; i++)
		periods[i] = pmu_event_set_mark(set, ladder->periods[0], i) | 1;
	return pmu_event_set_period(set, rung, periods, PMU_TURN_CPUS);
}

int pmu_ladder_open(struct pmu_ladder *ladder, struct pmu_event_set *set, pid_t pid)
{
	size_t n = ladder->n_levels * ladder->n_jitters;
	int r = begin_rung(ladder, set, 0);

	if (!ladder->is_exact && pmu_event_set_anchor(set, pid) < 0)
		pmu_notes_add(&set->notes, "few periods only: no more events may be opened");
	for (size_t i = set->n_rungs; r == 0 && i < n; i++) {
		r = add_rung(set, pid, ladder->periods[i]);

		if (r == -ENOMEM)
			return r;
		if (r < 0) {
			pmu_notes_add(&set->notes, "one period only: no more events may be opened");
			ladder->n_levels = 1;
			ladder->n_jitters =
				set->n_rungs < ladder->n_jitters ? set->n_rungs : ladder->n_jitters;
			return 0;
		}
		r = begin_rung(ladder, set, i);
	}
	return r;
}
