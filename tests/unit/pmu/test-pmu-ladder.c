/*
 * Periods drawn at random, one on at a time: what is planned, and that samples stand for CPU time.
 */
#include <check.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "perf/record.h"
#include "pmu/period-ladder.h"
#include "tests/unit/pmu/watched.h"
#include "tests/support/suite.h"

#define MS UINT64_C(1000000)

static const uint64_t asked[] = { 20000, 1000000, 1003009, 100000000 };

START_TEST(a_ladder_has_different_even_marks_and_odd_periods)
{
	uint64_t random = 1;
	struct pmu_ladder ladder;
	double rate = 0;
	const int n = 30000;

	pmu_ladder_plan(asked[_i], 10000, 1, 4, &ladder);
	ck_assert_uint_eq(ladder.n_levels, 1);
	ck_assert_uint_eq(ladder.n_jitters, 3);
	ck_assert_uint_eq(ladder.nominal, asked[_i]);
	for (size_t i = 0; i < 3; i++) {
		ck_assert_uint_eq(ladder.periods[i] % 2, 0);
		ck_assert_uint_ne(ladder.periods[i], ladder.periods[(i + 1) % 3]);
	}
	for (size_t i = 0; i < (size_t)n; i++) {
		uint64_t period;

		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		period = pmu_ladder_draw(&ladder, i % 3, random >> 20);
		ck_assert_uint_eq(period % 2, 1);
		ck_assert_uint_ge(period, pmu_ladder_least(&ladder, 0));
		rate += 1 / (double)period;
	}
	ck_assert_double_eq_tol(n / rate, (double)asked[_i], (double)asked[_i] / 100);
}
END_TEST

/*
 * Threads of one age, each sampled at the multiples of a period that it was born with: what the
 * samples stand for is the time from the least period on, of each part of their lives. Any first
 * period instead (of 0 to 1, and the same again) gives 1.3 times the first half's.
 */
START_TEST(each_age_from_the_least_period_on_is_sampled_alike)
{
	enum { N = 200000, PARTS = 40 };
	struct pmu_ladder ladder;
	uint64_t random = 7;
	double sums[PARTS] = { 0 };
	double part_ns;

	pmu_ladder_plan(1000000, 0, 1, 4, &ladder);
	part_ns = (double)pmu_ladder_least(&ladder, 0) / 2;
	for (size_t i = 0; i < N; i++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		double period = (double)pmu_ladder_draw(&ladder, i % 3, random >> 20);

		for (double age = period; age < PARTS * part_ns; age += period)
			sums[(int)(age / part_ns)] += period / N;
	}
	ck_assert_double_eq(sums[0] + sums[1], 0);
	for (int i = 2; i < PARTS; i++)
		ck_assert_double_eq_tol(sums[i] / part_ns, 1, i < 20 ? 0.045 : 0.1);
}
END_TEST

START_TEST(no_period_of_a_ladder_is_below_the_least)
{
	struct pmu_ladder ladder;

	pmu_ladder_plan(10000, 10000, 2, 4, &ladder);
	for (size_t i = 0; i < ladder.n_levels * ladder.n_jitters; i++) {
		ck_assert_uint_ge(ladder.periods[i], 10000);
		ck_assert_uint_ge(pmu_ladder_draw(&ladder, i, 0), 10000);
	}
}
END_TEST

START_TEST(levels_go_up_by_steps_and_all_rungs_fit)
{
	struct pmu_ladder ladder;

	pmu_ladder_plan(1000000, 0, 3, 4, &ladder);
	ck_assert_uint_eq(ladder.n_levels, 3);
	ck_assert_uint_eq(ladder.n_jitters, 2);
	for (size_t i = ladder.n_jitters; i < ladder.n_levels * ladder.n_jitters; i++)
		ck_assert_double_eq_tol((double)ladder.periods[i] /
						(double)ladder.periods[i - ladder.n_jitters],
					PMU_LADDER_STEP, 0.01);
}
END_TEST

START_TEST(an_exact_period_and_very_many_cpus_have_one_rung_of_a_level)
{
	struct pmu_ladder ladder;

	pmu_ladder_plan(1000000, 0, 0, 4, &ladder);
	ck_assert_uint_eq(ladder.n_levels * ladder.n_jitters, 1);
	ck_assert_uint_eq(ladder.periods[0], 1000000);
	ck_assert(ladder.is_exact);
	pmu_ladder_plan(1000000, 0, 1, 128, &ladder);
	ck_assert_uint_eq(ladder.n_levels * ladder.n_jitters, 1);
	ck_assert(!ladder.is_exact);
}
END_TEST

/* ---- real samples ---- */

static volatile uint64_t spun;

static void spin(uint64_t ns)
{
	struct timespec now;

	do {
		for (int i = 0; i < 100000; i++)
			spun += (uint64_t)i;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while ((uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec < ns);
}

static void *spin_thread(void *argument)
{
	spin(*(const uint64_t *)argument * MS);
	return NULL;
}

/* One thread after the other: each inherits the rung that is on when it is born. */
static void spin_in_threads(void *argument)
{
	for (int i = 0; i < 8; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, spin_thread, argument);
		pthread_join(thread, NULL);
	}
}

#define MAX_TURNS 4096

/*
 * The thread that was opened on waits: its samples are few, and what its marks stand for is no
 * matter here.
 */
struct sum {
	uint64_t weight;
	size_t n_different; /* next to each other */
	uint64_t last;
	size_t n_turns;
	uint64_t marks[MAX_TURNS];
	uint64_t periods[MAX_TURNS];
};

static void add_sample(struct sum *sum, uint64_t period)
{
	bool is_told = false;

	for (size_t i = 0; i < sum->n_turns && !is_told; i++)
		is_told =
			(sum->periods[i] | 1) == period || sum->marks[i] == (period & ~UINT64_C(1));
	ck_assert_msg(is_told, "a period of %lu that was never set", (unsigned long)period);
	sum->weight += period;
	sum->n_different += period != sum->last;
	sum->last = period;
}

static void sum_up(const struct kept *kept, const struct pmu_format *format, struct sum *sum)
{
	for (size_t at = 0; at < kept->n_bytes;) {
		struct pmu_record record;
		int length =
			pmu_record_parse(format, kept->bytes + at, kept->n_bytes - at, &record);

		ck_assert_int_gt(length, 0);
		if (record.type == PERF_RECORD_SAMPLE)
			add_sample(sum, record.sample.period);
		at += (size_t)length;
	}
}

static void turn_once(struct access_stream *stream, uint64_t i, struct sum *sum)
{
	struct pmu_turn turn;

	ck_assert_int_eq(pmu_stream_turn(stream, 0, i * 7919 * 3 + i, &turn), 1);
	ck_assert_uint_le(sum->n_turns + turn.n, MAX_TURNS);
	for (size_t k = 0; k < turn.n; k++) {
		sum->marks[sum->n_turns] = turn.marks[k];
		sum->periods[sum->n_turns++] = turn.periods[k];
	}
}

/* Turns every 7 ms: more often than any recording does. */
static void turn_for(struct access_stream *stream, struct kept *kept, pid_t pid, struct sum *sum)
{
	char path[64];
	char state = 'R';

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	for (uint64_t i = 0; state != 'Z' && i < 100000; i++) {
		FILE *file = fopen(path, "r");

		if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			state = 'Z';
		if (file)
			fclose(file);
		turn_once(stream, i, sum);
		ck_assert_int_ge(pmu_stream_read(stream, kept_take, kept), 0);
		nanosleep(&(struct timespec){ .tv_nsec = 7 * (long)MS }, NULL);
	}
}

/*
 * The bounds are those of test-pmu-source.c, and for each turn the two ends of what was on: the
 * timer's own delay of some 10 us.
 */
START_TEST(turning_between_periods_loses_and_invents_no_time)
{
	uint64_t each_ms = 150;
	struct access_options options = { .freq_hz = 1000, .has_jitter = true };
	struct access_stream *stream;
	struct pmu_losses losses;
	struct trace_source source;
	struct kept kept = { 0 };
	struct sum sum = { 0 };
	struct watched watched;
	struct rusage usage;
	uint64_t cpu_ns;

	watched_become(_i);
	watched_start(&watched, spin_in_threads, &each_ms);
	options.pid = watched.pid;
	stream = watched_open("clock", &options);
	pmu_stream_describe(stream, &source);
	ck_assert_uint_eq(source.period, 1000000);
	ck_assert_int_eq(pmu_stream_enable(stream, true), 0);
	for (uint64_t i = 0; i < 3; i++) /* each rung: what it begins with is not known */
		turn_once(stream, i, &sum);
	watched_go(&watched);
	turn_for(stream, &kept, watched.pid, &sum);
	watched_wait(&watched, &usage);
	ck_assert_int_ge(pmu_stream_read(stream, kept_take, &kept), 0);
	sum_up(&kept,
	       &(struct pmu_format){ .sample_type = source.sample_type,
				     .regs_user = source.regs_user },
	       &sum);
	ck_assert_int_eq(pmu_stream_losses(stream, &losses), 0);
	ck_assert_uint_eq(losses.n_taken, kept.n_samples);
	ck_assert_uint_eq(losses.n_lost, 0);
	ck_assert_uint_gt(sum.n_different, 16); /* eight threads, each with several of its own */
	cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 * MS +
		 (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
	/* Three periods begun on each CPU by each of the nine threads, of up to 4.3 ms. */
	ck_assert_uint_le(sum.weight, cpu_ns * 102 / 100 + 60 * MS);
	ck_assert_uint_ge(sum.weight + 60 * MS, cpu_ns * 80 / 100);
	kept_free(&kept);
	pmu_stream_close(stream);
}
END_TEST

static void spin_in_short_threads(void *argument)
{
	for (int i = 0; i < 200; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, spin_thread, argument);
		pthread_join(thread, NULL);
	}
}

static size_t count_periods(const struct sum *sum, const struct kept *kept,
			    const struct pmu_format *format)
{
	uint64_t found[MAX_TURNS];
	size_t n = 0;

	for (size_t at = 0; at < kept->n_bytes;) {
		struct pmu_record record;
		size_t i = 0;

		at += (size_t)pmu_record_parse(format, kept->bytes + at, kept->n_bytes - at,
					       &record);
		if (record.type != PERF_RECORD_SAMPLE)
			continue;
		while (i < sum->n_turns && sum->marks[i] != record.sample.period)
			i++;
		if (i < sum->n_turns)
			continue;
		for (i = 0; i < n && found[i] != record.sample.period; i++)
			;
		found[i] = record.sample.period;
		n += i == n && n < MAX_TURNS - 1;
	}
	return n;
}

/* As long as the kernel does not move what was opened to a thread that ends. */
START_TEST(threads_have_the_periods_that_were_drawn_before_their_birth)
{
	uint64_t each_ms = 2;
	struct access_options options = { .freq_hz = 1000, .has_jitter = true };
	struct access_stream *stream;
	struct trace_source source;
	struct kept kept = { 0 };
	struct sum sum = { 0 };
	struct watched watched;
	struct rusage usage;

	watched_become(_i);
	watched_start(&watched, spin_in_short_threads, &each_ms);
	options.pid = watched.pid;
	stream = watched_open("clock", &options);
	pmu_stream_describe(stream, &source);
	ck_assert_int_eq(pmu_stream_enable(stream, true), 0);
	watched_go(&watched);
	turn_for(stream, &kept, watched.pid, &sum);
	watched_wait(&watched, &usage);
	ck_assert_int_ge(pmu_stream_read(stream, kept_take, &kept), 0);
	const struct pmu_format format = { .sample_type = source.sample_type,
					   .regs_user = source.regs_user };
	size_t n = count_periods(&sum, &kept, &format);
	ck_assert_msg(n > (sum.n_turns < 64 ? sum.n_turns / 4 : 16), "%zu periods of %zu turns", n,
		      sum.n_turns);
	kept_free(&kept);
	pmu_stream_close(stream);
}
END_TEST

static bool can_be_measured(void)
{
	const struct access_options options = { .pid = getpid() };
	const struct access_source *clock = pmu_source_find("clock");
	struct pmu_refusal refusal;

	return clock->probe(clock, &options, &refusal) == 0;
}

int main(void)
{
	Suite *suite = suite_create("pmu-ladder");
	TCase *plan = tcase_create("plan");
	TCase *real = tcase_create("real");

	tcase_add_loop_test(plan, a_ladder_has_different_even_marks_and_odd_periods, 0, 4);
	tcase_add_test(plan, each_age_from_the_least_period_on_is_sampled_alike);
	tcase_add_test(plan, no_period_of_a_ladder_is_below_the_least);
	tcase_add_test(plan, levels_go_up_by_steps_and_all_rungs_fit);
	tcase_add_test(plan, an_exact_period_and_very_many_cpus_have_one_rung_of_a_level);
	if (can_be_measured()) {
		tcase_add_loop_test(
			real, threads_have_the_periods_that_were_drawn_before_their_birth, 0, 2);
		tcase_add_loop_test(real, turning_between_periods_loses_and_invents_no_time, 0, 2);
	} else {
		puts("real samples: the kernel refuses them here");
	}
	suite_add_tcase(suite, plan);
	suite_add_tcase(suite, real);

	return suite_run(suite);
}
