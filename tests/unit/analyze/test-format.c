#include "common/human-number.h"
#include "tests/support/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static const struct {
	int64_t value;
	const char *text;
} counts[] = {
	{ 0, "0" },
	{ 7, "7" },
	{ 999, "999" },
	{ 1000, "1,000" },
	{ -1000, "-1,000" },
	{ -999999, "-999,999" },
	{ 4210233, "4,210,233" },
	{ INT64_MIN, "-9,223,372,036,854,775,808" },
};

START_TEST(a_count_has_a_comma_every_three_digits)
{
	ck_assert_str_eq(format_count(counts[_i].value).text, counts[_i].text);
}
END_TEST

static const struct {
	int64_t value;
	const char *text;
} sizes[] = {
	{ 0, "0 B" },
	{ 1023, "1023 B" },
	{ 1024, "1.00 KiB" },
	{ 4198, "4.10 KiB" },
	{ 10 * 1024 * 1024 - 1, "10.0 MiB" },
	{ 512 * 1024 * 1024, "512 MiB" },
	{ INT64_C(1024) * 1024 * 1024 * 1024, "1.00 TiB" },
	{ INT64_MAX, "8.00 EiB" },
};

START_TEST(bytes_have_three_digits_and_a_binary_unit)
{
	ck_assert_str_eq(format_bytes(sizes[_i].value).text, sizes[_i].text);
}
END_TEST

static const struct {
	int64_t value;
	const char *text;
} durations[] = {
	{ 0, "0 ns" },
	{ 999, "999 ns" },
	{ 1000, "1.00 us" },
	{ 1003009, "1.00 ms" },
	{ 12400000000, "12.4 s" },
	{ 119000000000, "119 s" },
	{ 200000000000, "3 min 20 s" },
};

START_TEST(a_duration_has_three_digits_and_a_unit)
{
	ck_assert_str_eq(format_duration(durations[_i].value).text, durations[_i].text);
}
END_TEST

START_TEST(the_interval_is_that_of_a_proportion_when_shares_are_0_or_1)
{
	/* 400 of 1000: Agresti-Coull gives p = 402/1004, half width 1.96 sqrt(p (1-p) / 1004). */
	double p = 402.0 / 1004;

	ck_assert_double_eq_tol(format_half_width(400, 400, 1000), 1.96 * sqrt(p * (1 - p) / 1004),
				1e-12);
}
END_TEST

START_TEST(an_owner_of_no_sample_has_an_interval_above_zero)
{
	ck_assert_double_gt(format_half_width(0, 0, 100), 0.01);
	ck_assert_double_eq(format_half_width(0, 0, 0), 1);
}
END_TEST

START_TEST(shares_that_are_alike_in_every_sample_have_a_narrow_interval)
{
	/* Each of 10,000 samples gives this owner exactly one half: only the added four vary. */
	double half = format_half_width(5000, 2500, 10000);

	ck_assert_double_lt(half, 0.001);
	ck_assert_double_lt(half, format_half_width(5000, 5000, 10000) / 10);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("format");
	TCase *tcase = tcase_create("format");

	tcase_add_loop_test(tcase, a_count_has_a_comma_every_three_digits, 0,
			    sizeof(counts) / sizeof(*counts));
	tcase_add_loop_test(tcase, bytes_have_three_digits_and_a_binary_unit, 0,
			    sizeof(sizes) / sizeof(*sizes));
	tcase_add_loop_test(tcase, a_duration_has_three_digits_and_a_unit, 0,
			    sizeof(durations) / sizeof(*durations));
	tcase_add_test(tcase, the_interval_is_that_of_a_proportion_when_shares_are_0_or_1);
	tcase_add_test(tcase, an_owner_of_no_sample_has_an_interval_above_zero);
	tcase_add_test(tcase, shares_that_are_alike_in_every_sample_have_a_narrow_interval);
	suite_add_tcase(suite, tcase);

	return suite_run(suite);
}
