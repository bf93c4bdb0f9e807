#include "common/statistics.h"
#include "tests/support/suite.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/samples/source-ledger.h"
#include "analyze/samples/queue.h"
#include "pmu/period-ladder.h"
#include "store/totals/share-sum.h"

#define NEAR 1e-9

START_TEST(a_quantile_lies_between_two_values_in_proportion)
{
	double values[] = { 4, 1, 3, 2 };

	statistics_sort(values, 4);
	ck_assert_double_eq(values[0], 1);
	ck_assert_double_eq(values[3], 4);
	ck_assert_double_eq_tol(statistics_quantile(values, 4, 0.5), 2.5, NEAR);
	ck_assert_double_eq_tol(statistics_quantile(values, 4, 0.25), 1.75, NEAR);
	ck_assert_double_eq(statistics_quantile(values, 4, 0), 1);
	ck_assert_double_eq(statistics_quantile(values, 4, 1), 4);
	ck_assert_double_eq(statistics_quantile(values, 1, 0.5), 1);
}
END_TEST

START_TEST(a_deviation_divides_by_n_less_one)
{
	const double values[] = { 2, 4, 4, 4, 5, 5, 7, 9 };

	ck_assert_double_eq_tol(statistics_mean(values, 8), 5, NEAR);
	/* squares: 9 1 1 1 0 0 4 16 = 32; 32 / 7 */
	ck_assert_double_eq_tol(statistics_deviation(values, 8) * statistics_deviation(values, 8),
				32.0 / 7, NEAR);
}
END_TEST

START_TEST(an_interval_is_the_same_each_time_and_holds_the_median)
{
	const double values[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
	double low[2], high[2];

	for (int i = 0; i < 2; i++)
		statistics_interval(values, 10, &low[i], &high[i]);
	ck_assert_double_eq(low[0], low[1]);
	ck_assert_double_eq(high[0], high[1]);
	ck_assert_double_lt(low[0], 5.5);
	ck_assert_double_gt(high[0], 5.5);
	ck_assert_double_ge(low[0], 1);
	ck_assert_double_le(high[0], 10);
}
END_TEST

/*
 * Draw from distributions whose median is 0: an interval of 95 % holds it in about 95 % of all
 * cases.
 */
static double draw(unsigned kind)
{
	double u = drand48();

	return kind == 0 ? u - 0.5 : kind == 1 ? -log(1 - u) - M_LN2 : pow(u - 0.5, 3);
}

START_TEST(an_interval_holds_the_true_median_about_as_often_as_it_says)
{
	static const unsigned sizes[] = { 6, 7, 8, 10, 15, 60 };
	enum { N_TRIALS = 6000 };

	srand48(_i + 7);
	for (unsigned kind = 0; kind < 3; kind++) {
		unsigned n_held = 0, n = sizes[_i];
		for (unsigned i = 0; i < N_TRIALS; i++) {
			double values[60], low, high;
			for (unsigned j = 0; j < n; j++)
				values[j] = draw(kind);
			statistics_sort(values, n);
			statistics_interval(values, n, &low, &high);
			n_held += low <= 0 && 0 <= high;
		}
		ck_assert_msg(n_held >= N_TRIALS * 0.938 && n_held <= N_TRIALS * 0.975,
			      "%u values of kind %u: %u held", n, kind, n_held);
	}
}
END_TEST

/* ---- Shares of time ---- */

/*
 * A program that works on one of n things at a time, for low to high periods; or in frames: 0.3 of
 * each on the first. Sampled as the recorder does it (pmu/period-ladder.h), by the thread that the
 * source was opened on: a period is begun with each turn, and its first sample stands for what that
 * loses.
 */
struct program {
	double low, high;
	unsigned n; /* 0: frames, of low */
	double least, most; /* of the repetitions hold the truth */
	double width; /* of the interval at most, on the average, over the binomial one */
};

struct sampler {
	struct pmu_ladder ladder;
	double turn, next, period, more;
};

struct sums {
	struct share_design design;
	struct share_sum sum;
	double before[2]; /* weights of the two samples before, */
	bool was[2]; /* and whether they were on the first thing */
};

#define PERIOD 1000000

static void turn_to_another(struct sampler *sampler)
{
	size_t rung = (size_t)(drand48() * (double)sampler->ladder.n_jitters);
	uint64_t random = (uint64_t)(drand48() * 1e6);

	sampler->period = (double)pmu_ladder_draw(&sampler->ladder, rung, random) / PERIOD;
	sampler->more = (double)pmu_ladder_least(&sampler->ladder, 0) / PERIOD;
	sampler->next = sampler->turn + sampler->period;
	sampler->turn += 20 + 40 * drand48();
}

static void add_sample(struct sums *sums, const struct sampler *sampler, bool is_first)
{
	double weight = sampler->period + sampler->more;
	bool is_turned = sums->before[0] > 0 && fabs(sums->before[0] - weight) > 1e-12;

	share_sum_add(&sums->sum, is_first, weight);
	sums->sum.apart[is_turned] += weight * sums->before[0] * (is_first != sums->was[0]) / 2;
	sums->sum.apart[SHARE_LAG_SECOND] +=
		weight * sums->before[1] * (is_first != sums->was[1]) / 2;
	sums->design.lag[is_turned] += sums->before[0] * weight;
	sums->design.turned_sq += is_turned * pow(sums->before[0] * weight, 2);
	sums->design.lag[SHARE_LAG_SECOND] += sums->before[1] * weight;
	sums->design.n++;
	sums->design.time += weight;
	sums->design.time_sq += weight * weight;
	sums->was[1] = sums->was[0];
	sums->was[0] = is_first;
	sums->before[1] = sums->before[0];
	sums->before[0] = weight;
}

static void sample_until(struct sums *sums, struct sampler *sampler, double end, bool is_first)
{
	while (sampler->next < end || sampler->turn < end) {
		if (sampler->turn <= sampler->next) {
			turn_to_another(sampler);
			continue;
		}
		if (sampler->next >= end)
			return;
		add_sample(sums, sampler, is_first);
		sampler->more = 0;
		sampler->next += sampler->period;
	}
}

/* One run of 600 periods; whether the interval of the first thing's share holds the true one. */
static bool is_held(const struct program *program, double *ret_half)
{
	struct sums sums = { 0 };
	struct sampler sampler = { 0 };
	double end = 0, true_time = 0;
	bool is_first = false;

	pmu_ladder_plan(PERIOD, 0, 1, 2, &sampler.ladder);
	turn_to_another(&sampler);
	while (end < 600) {
		double length = program->low + (program->high - program->low) * drand48();
		is_first = program->n ? (unsigned)(drand48() * program->n) == 0 : !is_first;
		if (program->n == 0)
			length *= end == 0 ? drand48() : is_first ? 0.3 : 0.7;
		end += length;
		true_time += is_first * length;
		sample_until(&sums, &sampler, end, is_first);
	}
	*ret_half = share_half(&sums.design, &sums.sum);
	return fabs(sums.sum.time / sums.design.time - true_time / end) <= *ret_half;
}

START_TEST(the_interval_of_a_share_holds_the_true_one)
{
	static const struct program programs[] = {
		{ 0.01, 0.3, 3, 0.94, 0.985, 1.2 }, /* a fine mix */
		{ 0.2, 2.6, 2, 0.93, 1, 1.1 },	    { 0.2, 2.6, 5, 0.93, 1, 1.1 },
		{ 0.2, 5.2, 2, 0.94, 0.99, 0.6 },   { 0.5, 4, 2, 0.94, 0.99, 0.7 }, /* slices */
		{ 2, 10, 3, 0.94, 0.995, 0.45 },    { 5, 50, 3, 0.94, 1, 0.3 },
		{ 0.5, 0.5, 0, 0.92, 0.98, 1.2 },   { 1, 1, 0, 0.89, 0.98, 1.2 }, /* frames */
		{ 2, 2, 0, 0.93, 0.985, 1.2 },	    { 3, 3, 0, 0.94, 0.99, 1.2 },
	};
	enum { N_TRIALS = 1500 };
	double p = programs[_i].n ? 1.0 / programs[_i].n : 0.3, sum = 0;
	unsigned n_held = 0;

	srand48(_i);
	for (unsigned i = 0; i < N_TRIALS; i++) {
		double half;
		n_held += is_held(&programs[_i], &half);
		sum += half;
	}
	ck_assert_msg(n_held >= N_TRIALS * programs[_i].least &&
			      n_held <= N_TRIALS * programs[_i].most,
		      "%u of %u", n_held, N_TRIALS);
	ck_assert_double_lt(sum / N_TRIALS, 1.96 * sqrt(p * (1 - p) / 600) * programs[_i].width);
}
END_TEST

/*
 * Threads one after the other, each of which works on the first thing for half of its life. They
 * begin with the period of the turn that they are born in, so that all of a turn are sampled at the
 * same ages.
 */
struct turn {
	double first, all;
};

static void end_turn(struct sums *sums, struct turn *turn)
{
	sums->sum.turn_sq += turn->first * turn->first;
	sums->sum.turn_w += turn->first * turn->all;
	sums->design.turn_sq += turn->all * turn->all;
	sums->design.n_turns += turn->all > 0;
	*turn = (struct turn){ 0 };
}

static void sample_thread(struct sums *sums, struct turn *turn, double period, double life)
{
	const struct sampler sampler = { .period = period };

	memset(sums->before, 0, sizeof(sums->before));
	for (unsigned i = 1; i * period < life; i++) {
		bool is_first = i * period < life / 2;

		add_sample(sums, &sampler, is_first);
		sums->design.young_sq += period * period;
		turn->first += is_first * period;
		turn->all += period;
	}
}

static bool is_held_of_threads(double life, double *ret_half)
{
	struct sums sums = { 0 };
	struct sampler sampler = { 0 };
	struct turn turn = { 0 };

	pmu_ladder_plan(PERIOD, 0, 1, 2, &sampler.ladder);
	for (double time = 0; time < 1800; time += life) {
		if (time >= sampler.turn) {
			end_turn(&sums, &turn);
			turn_to_another(&sampler);
		}
		sample_thread(&sums, &turn, sampler.period, life);
	}
	end_turn(&sums, &turn);
	*ret_half = share_half(&sums.design, &sums.sum);
	/* What is before the least period has no samples, and is told to have none. */
	double young = (double)pmu_ladder_least(&sampler.ladder, 0) / PERIOD;
	double share = (life / 2 - young) / (life - young);
	return fabs(sums.sum.time / sums.design.time - share) <= *ret_half;
}

START_TEST(the_interval_of_a_share_of_short_threads_holds_the_true_one)
{
	static const double lives[] = { 2.4, 4, 6 };
	enum { N_TRIALS = 1500 };
	unsigned n_held = 0;
	double sum = 0;

	srand48(_i);
	for (unsigned i = 0; i < N_TRIALS; i++) {
		double half;
		n_held += is_held_of_threads(lives[_i], &half);
		sum += half;
	}
	ck_assert_msg(n_held >= N_TRIALS * 0.93 && n_held <= N_TRIALS * 0.975, "%u of %u", n_held,
		      N_TRIALS);
	ck_assert_double_lt(sum / N_TRIALS, 0.08);
}
END_TEST

/*
 * Threads that are born together and do the same at the same time, in frames of which 0.3 are on
 * the first thing. They keep the periods that they were born with, each those of its CPU.
 */
static void sample_frames(struct sums *sums, const struct pmu_ladder *ladder, unsigned cpu,
			  double frame, long seed)
{
	uint64_t periods[PMU_LADDER_MAX_RUNGS][PMU_TURN_CPUS];
	double left[PMU_LADDER_MAX_RUNGS], phase;
	size_t rung = 0;

	srand48(seed); /* the same turns and periods in each thread */
	phase = drand48() * frame;
	for (size_t i = 0; i < ladder->n_jitters; i++) {
		pmu_ladder_draw_all(ladder, i, (uint64_t)(drand48() * 1e6), periods[i]);
		left[i] = (double)periods[i][cpu] / PERIOD;
	}
	memset(sums->before, 0, sizeof(sums->before));
	for (double now = 0, end; now < 600; now = end) {
		const struct sampler sampler = { .period = (double)periods[rung][cpu] / PERIOD };

		end = fmin(now + 40 + 80 * drand48(), 600);
		for (; now + left[rung] < end; left[rung] = sampler.period) {
			now += left[rung];
			add_sample(sums, &sampler, fmod(now + phase, frame) < 0.3 * frame);
		}
		left[rung] -= end - now;
		rung = (rung + 1 + (size_t)(drand48() * 2)) % ladder->n_jitters;
	}
}

START_TEST(the_interval_of_a_share_of_frames_in_threads_born_later_holds_the_true_one)
{
	static const double frames[] = { 0.074, 0.5, 1, 1.37 };
	enum { N_TRIALS = 1000 };
	struct pmu_ladder ladder;
	unsigned n_held = 0;
	double sum = 0;

	pmu_ladder_plan(PERIOD, 0, 1, 2, &ladder);
	for (unsigned i = 0; i < N_TRIALS; i++) {
		struct sums sums = { 0 };

		for (unsigned cpu = 0; cpu < 2; cpu++)
			sample_frames(&sums, &ladder, cpu, frames[_i], i + 1);
		double half = share_half(&sums.design, &sums.sum);
		n_held += fabs(sums.sum.time / sums.design.time - 0.3) <= half;
		sum += half;
	}
	ck_assert_msg(n_held >= N_TRIALS * 0.92 && n_held <= N_TRIALS * 0.98, "%u of %u", n_held,
		      N_TRIALS);
	ck_assert_double_lt(sum / N_TRIALS, 0.035);
}
END_TEST

START_TEST(slices_longer_than_a_period_have_a_smaller_interval_than_chance_gives)
{
	/* 600 samples, 300 of them here, in ten slices of 30: 19 of 600 neighbours differ. */
	const struct share_design design = { 600, 600, 600, { 599, 0, 598 } };
	const struct share_sum slices = { 300, 300, 300, 300, 300, { 9.5, 0, 19 } };
	const struct share_sum mixed = { 300, 300, 300, 300, 300, { 150, 0, 150 } };

	ck_assert_double_eq_tol(share_half(&design, &mixed), 1.96 * 0.5 / sqrt(604), 0.0005);
	/* Each end lies anywhere between two samples: 19 times a variance of 1 / 12. */
	ck_assert_double_eq_tol(share_half(&design, &slices),
				1.96 * sqrt(19 / 12.0 / 600 / 600 + 0.0015 * 0.0015), 0.0003);
}
END_TEST

/*
 * The same picture, but that a change of the period ends it: the program repeats in step with the
 * sampling.
 */
START_TEST(a_program_in_step_with_the_sampling_has_a_wider_interval)
{
	const struct share_design design = { 600, 600, 600, { 500, 99, 598 } };
	const struct share_sum in_step = { 300, 300, 300, 300, 300, { 5, 24.5, 40 } };
	const struct share_sum slices = { 300, 300, 300, 300, 300, { 5, 1.5, 13 } };

	ck_assert_double_gt(share_half(&design, &in_step), 1.96 * 0.5 / sqrt(604) * 2);
	ck_assert_double_lt(share_half(&design, &slices), 1.96 * 0.5 / sqrt(604));
}
END_TEST

/*
 * One slice of 140 of 670 samples: that the period changed mostly elsewhere does not make it one of
 * many repetitions.
 */
START_TEST(a_single_slice_is_not_in_step_wherever_the_period_changes)
{
	const struct share_design design = { 670, 670, 670, { 640, 29, 668 } };

	for (unsigned n_turned = 0; n_turned < 3; n_turned++) {
		const struct share_sum slice = {
			140, 140, 140, 140, 140, { 1 - n_turned / 2.0, n_turned / 2.0, 2 }
		};
		ck_assert_double_lt(share_half(&design, &slice), 1.96 * sqrt(0.17 / 674));
	}
}
END_TEST

/*
 * However alike neighbours of the same period are, there are as many stretches as the period
 * changed.
 */
START_TEST(an_interval_in_step_is_not_wider_than_stretches_make_it)
{
	const struct share_design design = { 600, 600, 600, { 500, 99, 598 } };
	const struct share_sum in_step = { 300, 300, 300, 300, 300, { 0, 24.5, 40 } };

	ck_assert_double_lt(share_half(&design, &in_step), 1.96 * 0.5 / sqrt(604) * 3.6);
}
END_TEST

START_TEST(what_lies_beyond_the_fences_is_far_from_the_quartiles)
{
	const double values[] = { 10, 11, 12, 13, 14 };
	double low, high;

	statistics_fences(values, 5, &low, &high);
	ck_assert_double_eq_tol(low, 11 - 3, NEAR);
	ck_assert_double_eq_tol(high, 13 + 3, NEAR);
}
END_TEST

/*
 * Of user and system time 3 s and 1 s, which ticks of 10 ms may divide by 0.17 s differently. Young
 * threads had what they can have at most, but not more than the sum of both leaves.
 */
static const struct {
	const char *unit;
	struct sample_times times;
	double missing_ns; /* negative: not known */
} accounts[] = {
	{ "ns of user CPU time", { 3e9, 1e9, 1e9, 1e6, 0 }, 2e9 },
	{ "ns of kernel CPU time", { 3e9, 1e9, 0.4e9, 1e6, 0 }, 0.6e9 },
	{ "ns of CPU time", { 3e9, 1e9, 1e9, 1e6, 0 }, 3e9 },
	{ "ns of CPU time", { 3e9, 1e9, 3.999e9, 1e6, 1e9 }, 0.001e9 },
	{ "ns of CPU time", { 3e9, 1e9, 4.1e9, 1e6, 0 }, 0 },
	{ "ns of user CPU time", { 3e9, 1e9, 2.9e9, 1e6, 0 }, 0 },
	{ "ns of user CPU time", { 3e9, 1e9, 2.9e9, 1e6, 0.05e9 }, 0.05e9 },
	{ "ns of user CPU time", { 3e9, 1e9, 3.5e9, 1e6, 0.05e9 }, 0.05e9 },
	{ "ns of user CPU time", { 3e9, 1e9, 3.98e9, 1e6, 0.05e9 }, 0.02e9 },
	{ "ns of user CPU time", { 3e9, 1e9, 4.1e9, 1e6, 0.05e9 }, 0 },
	{ "ns of user CPU time", { 3e9, 0, 2.9e9, 1e6, 0 }, 0.1e9 },
	{ "ns of user CPU time", { 3e9, 0, 2.99e9, 1e6, 0 }, 0 },
	{ "ns of user CPU time", { 0, 0, 1e9, 1e6, 0 }, -1 },
	{ "ns of user CPU time", { -9e18, -9e18, 1e9, 1e6, 0 }, -1 },
	{ "page faults", { 3e9, 1e9, 0, 1e6, 0 }, -1 },
};
#define N_ACCOUNTS (int)(sizeof(accounts) / sizeof(accounts[0]))

START_TEST(time_without_samples_is_what_accounts_have_more)
{
	ck_assert_double_eq_tol(sample_ledger_missing(accounts[_i].unit, &accounts[_i].times),
				accounts[_i].missing_ns, 1);
}
END_TEST

/*
 * A thread that its source was opened on has periods of 3,000 from 100 on and 5,000 from 200 on, by
 * mark 10; 7,001 and 7,003 are others', the later ones of which begin with what they lose.
 */
START_TEST(a_mark_stands_for_the_period_of_its_turn_and_what_it_began_with)
{
	static const struct {
		uint64_t raw_ns, carried, weight;
		uint32_t cpu, tid;
	} samples[] = {
		{ 50, 10, 10, 0 },	{ 100, 7001, 7001, 0 },	     { 110, 10, 3000 + 400, 0 },
		{ 120, 10, 3000, 0 },	{ 130, 10, 3400, 9 },	     { 160, 20, 6000 + 800, 0 },
		{ 199, 20, 6000, 0 },	{ 200, 10, 5400, 0 },	     { 201, 7001, 7401, 9 },
		{ 210, 10, 5000, 0 },	{ 250, 10, 5400, 9 },	     { 260, 10, 5000, 9 },
		{ 270, 20, 6800, 40 },	{ 280, 10, 5000, 1u << 31 }, { 290, 7001, 7001, 9 },
		{ 291, 7003, 7403, 9 }, { 292, 7003, 7003, 9 },	     { 293, 7003, 7003, 9, 5 },
	};
	const struct trace_period turns[] = {
		{ .raw_ns = 100, .mark = 10, .period = 3000, .least = 400 },
		{ .raw_ns = 150, .mark = 20, .period = 6000, .least = 800 },
		{ .raw_ns = 200, .mark = 10, .period = 5000, .least = 400 },
	};
	struct sample_turns all = { 0 };

	ck_assert_uint_eq(sample_turns_weight(&all, &(struct sample_origin){ 1, 0, 0, 10 }), 10);
	for (size_t i = 0; i < sizeof(turns) / sizeof(*turns); i++)
		ck_assert_int_eq(sample_turns_add(&all, &turns[i]), 0);
	for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++)
		ck_assert_uint_eq(sample_turns_weight(&all,
						      &(struct sample_origin){
							      samples[i].raw_ns, samples[i].cpu,
							      samples[i].tid, samples[i].carried }),
				  samples[i].weight);
	sample_turns_finish(&all);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("statistics");
	TCase *tcase = tcase_create("statistics");

	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, a_quantile_lies_between_two_values_in_proportion);
	tcase_add_test(tcase, a_deviation_divides_by_n_less_one);
	tcase_add_test(tcase, an_interval_is_the_same_each_time_and_holds_the_median);
	tcase_add_loop_test(tcase, an_interval_holds_the_true_median_about_as_often_as_it_says, 0,
			    6);
	tcase_add_loop_test(tcase, the_interval_of_a_share_holds_the_true_one, 0, 11);
	tcase_add_loop_test(
		tcase, the_interval_of_a_share_of_frames_in_threads_born_later_holds_the_true_one,
		0, 4);
	tcase_add_loop_test(tcase, the_interval_of_a_share_of_short_threads_holds_the_true_one, 0,
			    3);
	tcase_add_test(tcase,
		       slices_longer_than_a_period_have_a_smaller_interval_than_chance_gives);
	tcase_add_test(tcase, a_program_in_step_with_the_sampling_has_a_wider_interval);
	tcase_add_test(tcase, a_single_slice_is_not_in_step_wherever_the_period_changes);
	tcase_add_test(tcase, an_interval_in_step_is_not_wider_than_stretches_make_it);
	tcase_add_loop_test(tcase, time_without_samples_is_what_accounts_have_more, 0, N_ACCOUNTS);
	tcase_add_test(tcase, a_mark_stands_for_the_period_of_its_turn_and_what_it_began_with);
	tcase_add_test(tcase, what_lies_beyond_the_fences_is_far_from_the_quartiles);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
