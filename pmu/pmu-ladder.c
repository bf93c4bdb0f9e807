#include "pmu/pmu-ladder.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FEW_CPUS  16
#define MANY_CPUS 64

/*
 * In ten-thousandths of the period. Not the asked one itself: people ask for round numbers, and so are
 * the periods of programs. Two rungs that are 1 % of a period from a program's see all of its loop within
 * 100 samples. The mean is the period.
 */
static const uint64_t jitters[] = { 10131, 9587, 10293 };
static const uint64_t jitters_at_limit[] = { 10131, 10293, 10587 };
#define N_JITTERS (sizeof(jitters) / sizeof(*jitters))

static bool is_prime(uint64_t number)
{
	if (number < 4)
		return number > 1;
	if (number % 2 == 0)
		return false;
	for (uint64_t divisor = 3; divisor <= number / divisor; divisor += 2)
		if (number % divisor == 0)
			return false;
	return true;
}

uint64_t pmu_ladder_prime(uint64_t number)
{
	while (!is_prime(number))
		number++;
	return number;
}

void pmu_ladder_plan(uint64_t period, uint64_t min_period, size_t n_levels, size_t n_cpus,
		     struct pmu_ladder *ret_ladder)
{
	struct pmu_ladder ladder = { .nominal = period,
				     .n_levels = n_levels,
				     .n_jitters = N_JITTERS };
	bool is_at_limit = period * jitters[1] / 10000 < min_period;
	const uint64_t *factors = is_at_limit ? jitters_at_limit : jitters;

	if (n_cpus > FEW_CPUS)
		ladder.n_jitters = n_cpus > MANY_CPUS ? 1 : 2;
	if (n_levels == 0) {
		*ret_ladder = (struct pmu_ladder){ { period }, period, 1, 1 };
		return;
	}
	while (ladder.n_jitters * ladder.n_levels > PMU_LADDER_MAX_RUNGS)
		*(ladder.n_jitters > 1 ? &ladder.n_jitters : &ladder.n_levels) -= 1;
	for (size_t level = 0; level < ladder.n_levels; level++) {
		for (size_t i = 0; i < ladder.n_jitters; i++)
			ladder.periods[level * ladder.n_jitters + i] =
				pmu_ladder_prime(period * factors[i] / 10000);
		period *= PMU_LADDER_STEP;
	}
	*ret_ladder = ladder;
}

static int add_event(struct pmu_event_set *set, pid_t pid, uint64_t period, size_t i, int *ret_fd)
{
	struct perf_event_attr attr = set->attr;
	int fd, r;

	attr.sample_period = period;
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

int pmu_ladder_open(struct pmu_ladder *ladder, struct pmu_event_set *set, pid_t pid)
{
	size_t n = ladder->n_levels * ladder->n_jitters;

	for (size_t i = set->n_rungs; i < n; i++) {
		int r = add_rung(set, pid, ladder->periods[i]);

		if (r == -ENOMEM)
			return r;
		if (r < 0) {
			pmu_notes_add(&set->notes, "one period only: no more events may be opened");
			ladder->n_levels = 1;
			ladder->n_jitters =
				set->n_rungs < ladder->n_jitters ? set->n_rungs : ladder->n_jitters;
			return 0;
		}
	}
	return 0;
}
