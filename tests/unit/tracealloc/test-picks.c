/*
 * Which blocks are picked (tracealloc/pick/pick.c), and what is estimated from them
 * (store/block-weight.c): the real code of both, with the words of one thread and one image that it
 * reads. Seeds are fixed, so every run of a test draws the same.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/block-weight.h"
#include "tests/support/suite.h"
#include "tracealloc/pick/pick.h"
#include "tracealloc/pick/usdt.h"

_Thread_local struct ta_own ta_tls;
struct ta_image ta_image;
_Atomic bool ta_sandbox_is_on;
static struct ring_control control;
static struct ta_thread thread;

bool ta_sandbox_allows(long number, const long arguments[6])
{
	(void)number;
	(void)arguments;
	return true;
}

#define INTERVAL 16384u
#define N_RUNS	 1000
#define N_SITES	 20

/* 0: the first pick seeds by the clock, as in a program. */
static void begin(uint64_t interval, uint64_t seed)
{
	control.sample_bytes = interval;
	atomic_store(&control.sample_shift, 0);
	ta_image.control = &control;
	ta_image.clock = RING_CLOCK_RAW;
	ck_assert(ta_pick_begin());
	thread.pick_random = seed;
	ta_tls = (struct ta_own){ .thread = &thread };
	if (seed) /* as ta_pick_take() does behind a seed of its own */
		ta_pick_take(UINT32_MAX);
}

/* As a hook does: the interval that a block is picked with; 0: it is not. */
static uint64_t pick(size_t size)
{
	return ta_pick_passes(size) ? 0 : ta_pick_take(size);
}

/* As a hook does: is this the end of a picked block? */
static bool ends(const void *block)
{
	return !ta_pick_has_passed(block) && ta_pick_remove(block);
}

static void *block_at(uint64_t i)
{
	return (void *)(uintptr_t)(0x7f0000000010 + 48 * i);
}

/* ---- Sites ---- */

struct site {
	size_t size;
	unsigned n; /* blocks of it in each run */
	double bytes, variance, n_blocks, n_variance; /* estimates of a run */
	double sum, sum_n; /* of estimates over the runs */
	unsigned n_held; /* runs whose interval holds the truth */
};

/*
 * From 32 bytes to 200 KB, with 25 to 200 picks to be expected of each. Of the last two a run
 * misses one block in 12 or in 700 runs, or none: all of both outcomes hold the truth, or 91 %.
 */
#define N_MISSED 18
static void make_sites(struct site sites[N_SITES])
{
	for (unsigned i = 0; i < N_SITES; i++) {
		double size = 32 * pow(6250, i / (N_SITES - 1.0));
		double p = 1 - exp(-(size + 1) / INTERVAL);

		sites[i] =
			(struct site){ .size = (size_t)size, .n = (unsigned)((25 + 9.2 * i) / p) };
	}
}

/* All sites take turns, each as often as its share of the blocks. */
static void run_sites(struct site sites[N_SITES], void (*change)(unsigned step))
{
	unsigned most = 0;

	for (unsigned i = 0; i < N_SITES; i++) {
		sites[i].bytes = sites[i].variance = 0;
		sites[i].n_blocks = sites[i].n_variance = 0;
		most = sites[i].n > most ? sites[i].n : most;
	}
	for (unsigned step = 0; step < most; step++) {
		if (change)
			change(step);
		for (unsigned i = 0; i < N_SITES; i++) {
			struct site *site = &sites[i];
			bool is_due = (uint64_t)(step + 1) * site->n / most >
				      (uint64_t)step * site->n / most;
			uint64_t interval = is_due ? pick(site->size) : 0;

			if (!interval)
				continue;
			struct block_weight weight =
				block_weigh(block_weight_of(interval, site->size), site->size);
			site->bytes += (double)weight.bytes;
			site->variance += weight.variance;
			site->n_blocks += weight.n;
			site->n_variance += weight.n_variance;
		}
	}
}

static void count_run(struct site *site)
{
	double truth = (double)site->n * (double)site->size, low, high;

	double least = block_weight_least(site->variance, site->n_variance, site->n_blocks);
	block_weight_interval(site->bytes, site->variance, least, &low, &high);
	site->n_held += low <= truth && truth <= high;
	site->sum += site->bytes;
	site->sum_n += site->n_blocks;
}

/* Means over the runs are within four of their standard errors of the truth. */
static void assert_unbiased(const struct site *site, unsigned n_runs, double interval)
{
	double p = 1 - exp(-((double)site->size + 1) / interval);
	double error = 4 * sqrt((1 / p - 1) / (site->n * (double)n_runs)) + 1e-4;

	ck_assert_double_eq_tol(site->sum / n_runs / ((double)site->n * (double)site->size), 1,
				error);
	ck_assert_double_eq_tol(site->sum_n / n_runs / site->n, 1, error);
}

START_TEST(the_interval_of_each_of_20_sites_holds_the_truth_in_95_of_100_runs)
{
	struct site sites[N_SITES];
	unsigned n_held = 0;

	make_sites(sites);
	begin(INTERVAL, 1);
	for (unsigned run = 0; run < N_RUNS; run++) {
		run_sites(sites, NULL);
		for (unsigned i = 0; i < N_SITES; i++)
			count_run(&sites[i]);
	}
	for (unsigned i = 0; i < N_SITES; i++) {
		unsigned most = i < N_MISSED ? 970 : 1000;
		ck_assert_msg(sites[i].n_held >= 930 && sites[i].n_held <= most,
			      "site %u of %zu bytes: in %u of 1000 runs", i, sites[i].size,
			      sites[i].n_held);
		assert_unbiased(&sites[i], N_RUNS, INTERVAL);
		n_held += i < N_MISSED ? sites[i].n_held : 0;
	}
	ck_assert_uint_ge(n_held, N_MISSED * 940);
	ck_assert_uint_le(n_held, N_MISSED * 960);
}
END_TEST

/* Longer while much was picked, as a budget does: the choice hangs on the picks themselves. */
static void adapt(unsigned step)
{
	if (step % 64 == 0)
		atomic_store(&control.sample_shift, ta_tls.left > INTERVAL ? 0 : 1 + step % 3);
}

START_TEST(totals_stay_unbiased_while_the_interval_changes)
{
	struct site sites[N_SITES];

	make_sites(sites);
	begin(INTERVAL, 2);
	for (unsigned run = 0; run < N_RUNS / 4; run++) {
		run_sites(sites, adapt);
		for (unsigned i = 0; i < N_SITES; i++)
			count_run(&sites[i]);
	}
	for (unsigned i = 0; i < N_SITES; i++)
		assert_unbiased(&sites[i], N_RUNS / 4, 8 * INTERVAL);
}
END_TEST

START_TEST(distances_between_picks_are_exponential)
{
	const unsigned n = 100000;
	double sum = 0;
	unsigned n_above[4] = { 0 };

	begin(1u << 20, 3);
	for (unsigned i = 0; i < n; i++) {
		double x = (double)ta_tls.left / (1u << 20);

		sum += x;
		for (unsigned k = 0; k < 4; k++)
			n_above[k] += x > k;
		ta_pick_take(UINT32_MAX);
	}
	ck_assert_double_eq_tol(sum / n, 1, 4 / sqrt(n));
	for (unsigned k = 0; k < 4; k++) {
		double p = exp(-(double)k);
		ck_assert_double_eq_tol(n_above[k] / (double)n, p,
					4 * sqrt(p * (1 - p) / n) + 1e-9);
	}
}
END_TEST

START_TEST(large_blocks_are_all_picked_and_count_as_themselves)
{
	begin(4096, 4);
	for (unsigned i = 0; i < 10000; i++)
		ck_assert_uint_eq(pick(64 * 4096), 4096);
	struct block_weight weight = block_weigh(block_weight_of(4096, 64 * 4096), 64 * 4096);
	ck_assert_double_eq(weight.n, 1);
	ck_assert_uint_eq(weight.bytes, 64 * 4096);
	ck_assert_double_eq(weight.variance, 0);
}
END_TEST

START_TEST(blocks_of_no_bytes_are_counted_too)
{
	double n = 0;

	begin(100, 5);
	for (unsigned i = 0; i < 1000000; i++) {
		uint64_t interval = pick(0);
		n += interval ? block_weigh(block_weight_of(interval, 0), 0).n : 0;
	}
	ck_assert_double_eq_tol(n / 1e6, 1, 4 * sqrt(100 / 1e6));
}
END_TEST

START_TEST(threads_that_seed_themselves_draw_differently)
{
	uint64_t first;

	begin(1u << 20, 0);
	ck_assert_uint_eq(ta_tls.left, 0);
	pick(1);
	first = ta_tls.left;
	ta_pick_forked();
	ck_assert_uint_eq(ta_tls.left, 0);
	pick(1);
	ck_assert_uint_ne(ta_tls.left, first);
}
END_TEST

START_TEST(an_interval_without_picks_ends_at_0_and_a_sure_one_has_no_width)
{
	double low, high;

	block_weight_interval(0, 0, 0, &low, &high);
	ck_assert_double_eq(low, 0);
	ck_assert_double_eq(high, 0);
	block_weight_interval(1000, 0, 0, &low, &high);
	ck_assert_double_eq(low, 1000);
	ck_assert_double_eq(high, 1000);
	/* One pick of an interval of 512 KiB: from a twentieth to more than five of them. */
	block_weight_interval(524288, 524288.0 * 524288, 0, &low, &high);
	ck_assert(low > 0 && low < 524288 / 5);
	ck_assert(high > 5 * 524288.0);
}
END_TEST

/* ---- Probes ---- */

/* OpenTelemetry's contract: size / (1 - exp(-size / interval)), as a whole number. */
START_TEST(weights_that_others_give_are_those_of_their_interval)
{
	static struct block_intervals intervals;
	const double interval = 524288;

	for (uint64_t size = 1; size < UINT64_C(1) << 40; size += 1 + size / 7) {
		double exact = -(double)size / expm1(-(double)size / interval);
		uint64_t given = (uint64_t)llround(exact);
		uint8_t number = block_interval_of_weight(&intervals, size, given);
		double found = (double)size * block_weight_of(intervals.bytes[number], size);

		ck_assert_uint_eq(number, given > size);
		ck_assert_double_le(fabs(found - exact), 2 + exact * 1e-6);
	}
	ck_assert_uint_eq(intervals.n, 1);
	ck_assert_uint_eq(block_interval_of_weight(&intervals, 100, 100), 0);
	ck_assert_uint_eq(block_interval_of_weight(&intervals, 100, 0), 0);
}
END_TEST

START_TEST(weights_of_too_many_intervals_get_the_nearest_one)
{
	static struct block_intervals intervals;

	for (unsigned i = 0; i < 1000; i++) {
		uint64_t given = 2000 + 100 * i;
		uint8_t number = block_interval_of_weight(&intervals, 1000, given);
		double found = 1000 * block_weight_of(intervals.bytes[number], 1000);

		ck_assert_uint_gt(number, 0);
		ck_assert_double_le(fabs(found - (double)given), i < 255 ? 1 : 100.0 * (i - 253));
	}
	ck_assert_uint_eq(intervals.n, BLOCK_INTERVALS - 1);
}
END_TEST

/* In the picked program without floating point, in the analysis with it: the same formula. */
START_TEST(the_weight_that_probes_give_is_that_of_the_analysis)
{
	for (uint64_t interval = 1; interval <= RING_MAX_SAMPLE_BYTES; interval = 3 * interval + 1)
		for (uint64_t size = 0; size < UINT64_C(1) << 46; size = 2 * size + 1) {
			double exact = (double)size * block_weight_of(interval, size);
			double given = (double)ta_usdt_weigh(size, interval);

			ck_assert_double_le(fabs(given - exact), 1 + exact * 1e-12);
		}
	ck_assert_uint_eq(ta_usdt_weigh(SIZE_MAX / 2, 1), SIZE_MAX / 2);
}
END_TEST

START_TEST(where_probes_fire_for_all_blocks_each_is_picked_and_ends)
{
	begin(INTERVAL, 10);
	ta_tls.left = 0;
	control.sample_bytes = 0;
	ta_image.flags = RING_FLAG_USDT;
	ck_assert(ta_pick_begin());
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t before = ta_pick_progress();

		ck_assert_uint_eq(pick(i % 7), TA_PICK_ALL);
		ck_assert_uint_ne(ta_pick_progress(), before);
		ck_assert_uint_eq(ta_usdt_weigh(i, TA_PICK_ALL), i);
		ck_assert(ta_pick_insert(block_at(i)));
		ck_assert(ends(block_at(i)));
	}
	ta_image.flags = 0;
	ck_assert(ta_pick_begin());
	ck_assert_ptr_null(ta_image.picked);
}
END_TEST

/* ---- The set ---- */

static uint64_t filter_sum(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < TA_PICK_FILTER; i++)
		sum += ta_image.picked[i];
	return sum;
}

START_TEST(the_end_of_each_picked_block_is_found_once_and_of_no_other)
{
	const unsigned n = 100000;

	begin(INTERVAL, 6);
	for (unsigned i = 0; i < n; i += 2)
		ck_assert(ta_pick_insert(block_at(i)));
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(ends(block_at(i)), i % 2 == 0);
	for (unsigned i = 0; i < n; i++)
		ck_assert(!ends(block_at(i)));
	ck_assert(!ends(NULL));
	ck_assert_uint_eq(filter_sum(), 0);
}
END_TEST

START_TEST(a_block_whose_end_nobody_saw_stands_in_the_set_once)
{
	begin(INTERVAL, 7);
	ck_assert(ta_pick_insert(block_at(1)));
	ck_assert(ta_pick_insert(block_at(1)));
	ck_assert_uint_eq(filter_sum(), 1);
	ck_assert(ends(block_at(1)));
	ck_assert(!ends(block_at(1)));
}
END_TEST

/* The buckets that were never looked at have no memory. */
START_TEST(a_few_hundred_picked_blocks_take_one_page_of_the_set)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const size_t n_bytes = TA_PICK_CAPACITY * sizeof(uint64_t);
	unsigned char *is_there = calloc(n_bytes / page_bytes, 1);

	begin(INTERVAL, 9);
	for (unsigned i = 0; i < 300; i++)
		ck_assert(ta_pick_insert(block_at(i)));
	for (unsigned i = 0; i < 100000; i++)
		ck_assert_int_eq(ta_pick_remove(block_at(i)), i < 300);
	/* filter and set are one mapping */
	ck_assert_int_eq(
		mincore((void *)(uintptr_t)(ta_image.picked + TA_PICK_FILTER), n_bytes, is_there),
		0);
	for (size_t i = 0; i < n_bytes / page_bytes; i++)
		ck_assert_int_eq(is_there[i] & 1, i == 0);
	free(is_there);
}
END_TEST

START_TEST(a_set_that_fills_makes_intervals_longer_and_takes_three_quarters)
{
	unsigned n = 0;

	begin(INTERVAL, 8);
	for (; n < TA_PICK_CAPACITY / 2; n++)
		ck_assert(ta_pick_insert(block_at(n)));
	ta_pick_take(0);
	ck_assert_uint_eq(ta_pick_take(0), INTERVAL);
	for (; n < TA_PICK_CAPACITY * 3 / 4; n++)
		ck_assert(ta_pick_insert(block_at(n)));
	ta_pick_take(0);
	ck_assert_uint_ge(ta_pick_take(0), INTERVAL << 8);
	for (; n < 2 * TA_PICK_CAPACITY && ta_pick_insert(block_at(n)); n++)
		continue;
	ck_assert_uint_le(n, TA_PICK_CAPACITY);
	ck_assert(!ends(block_at(n)));
	for (unsigned i = 0; i < n; i++)
		ck_assert(ta_pick_remove(block_at(i)));
	ta_pick_take(0);
	ck_assert_uint_eq(ta_pick_take(0), INTERVAL);
}
END_TEST

START_TEST(without_picks_each_block_and_each_end_is_recorded)
{
	begin(0, 0);
	ck_assert(!ta_pick_passes(0));
	ck_assert(!ta_pick_passes(SIZE_MAX));
	ck_assert(ends(block_at(0)));
	ck_assert_uint_eq(ta_pick_take(1), 0); /* only --min-size asks */
}
END_TEST

static Suite *picks_suite(void)
{
	Suite *suite = suite_create("picks");
	TCase *tests = tcase_create("all");

	tcase_add_test(tests, the_interval_of_each_of_20_sites_holds_the_truth_in_95_of_100_runs);
	tcase_add_test(tests, totals_stay_unbiased_while_the_interval_changes);
	tcase_add_test(tests, distances_between_picks_are_exponential);
	tcase_add_test(tests, large_blocks_are_all_picked_and_count_as_themselves);
	tcase_add_test(tests, blocks_of_no_bytes_are_counted_too);
	tcase_add_test(tests, threads_that_seed_themselves_draw_differently);
	tcase_add_test(tests, an_interval_without_picks_ends_at_0_and_a_sure_one_has_no_width);
	tcase_add_test(tests, weights_that_others_give_are_those_of_their_interval);
	tcase_add_test(tests, weights_of_too_many_intervals_get_the_nearest_one);
	tcase_add_test(tests, the_weight_that_probes_give_is_that_of_the_analysis);
	tcase_add_test(tests, where_probes_fire_for_all_blocks_each_is_picked_and_ends);
	tcase_add_test(tests, the_end_of_each_picked_block_is_found_once_and_of_no_other);
	tcase_add_test(tests, a_block_whose_end_nobody_saw_stands_in_the_set_once);
	tcase_add_test(tests, a_few_hundred_picked_blocks_take_one_page_of_the_set);
	tcase_add_test(tests, a_set_that_fills_makes_intervals_longer_and_takes_three_quarters);
	tcase_add_test(tests, without_picks_each_block_and_each_end_is_recorded);
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	return suite_run(picks_suite());
}
