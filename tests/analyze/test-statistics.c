#include "analyze/statistics.h"
#include "tests/suite.h"

#include <check.h>
#include <stdlib.h>

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
		ck_assert_int_eq(statistics_interval(values, 10, &low[i], &high[i]), 0);
	ck_assert_double_eq(low[0], low[1]);
	ck_assert_double_eq(high[0], high[1]);
	ck_assert_double_lt(low[0], 5.5);
	ck_assert_double_gt(high[0], 5.5);
	ck_assert_double_ge(low[0], 1);
	ck_assert_double_le(high[0], 10);
}
END_TEST

/* Draw from 0 .. 1, whose median is 0.5: an interval of 95 % holds it in about 95 % of all cases. */
START_TEST(an_interval_holds_the_true_median_about_as_often_as_it_says)
{
	enum { N_TRIALS = 400, N = 15 };
	unsigned n_held = 0;

	srand48(7);
	for (unsigned i = 0; i < N_TRIALS; i++) {
		double values[N], low, high;
		for (unsigned j = 0; j < N; j++)
			values[j] = drand48();
		statistics_sort(values, N);
		ck_assert_int_eq(statistics_interval(values, N, &low, &high), 0);
		n_held += low <= 0.5 && high >= 0.5;
	}
	ck_assert_uint_ge(n_held, N_TRIALS * 90 / 100);
	ck_assert_uint_le(n_held, N_TRIALS * 99 / 100);
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

int main(void)
{
	Suite *suite = suite_create("statistics");
	TCase *tcase = tcase_create("statistics");

	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, a_quantile_lies_between_two_values_in_proportion);
	tcase_add_test(tcase, a_deviation_divides_by_n_less_one);
	tcase_add_test(tcase, an_interval_is_the_same_each_time_and_holds_the_median);
	tcase_add_test(tcase, an_interval_holds_the_true_median_about_as_often_as_it_says);
	tcase_add_test(tcase, what_lies_beyond_the_fences_is_far_from_the_quartiles);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
