/* When recording is on, as --windows says. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "runner/control/plan.h"
#include "tests/support/suite.h"

#define MS UINT64_C(1000000)

static struct window_times times(uint64_t real_ns, uint64_t cpu_ns)
{
	return (struct window_times){ { [WINDOW_REAL] = real_ns, [WINDOW_CPU] = cpu_ns } };
}

static const struct {
	const char *text;
	uint64_t real_ms;
	uint64_t cpu_ms;
	bool is_on;
	uint64_t left_ms; /* until that may change; 0: never */
} moments[] = {
	{ "1s:100ms:2", 0, 0, false, 1000 },
	{ "1s:100ms:2", 999, 0, false, 1 },
	{ "1s:100ms:2", 1000, 0, true, 100 },
	{ "1s:100ms:2", 1099, 0, true, 1 },
	{ "1s:100ms:2", 1100, 0, false, 1000 },
	{ "1s:100ms:2", 2150, 0, true, 50 },
	{ "1s:100ms:2", 2200, 0, false, 0 },
	{ "1s:100ms:0", 1100 * 1000 + 1050, 0, true, 50 },
	{ "real:0:1s", 0, 0, true, 1000 },
	{ "real:0:1s", 1000, 0, false, 0 },
	{ "1h", 3599999, 0, false, 1 },
	{ "1s:1s,5s:1s", 1500, 0, true, 500 },
	{ "1s:1s,5s:1s", 2500, 0, false, 2500 },
	{ "1s:1s,5s:1s", 5500, 0, true, 500 },
	{ "cpu:1s:1s", 5000, 999, false, 0 },
	{ "cpu:1s:1s", 0, 1000, true, 0 },
	{ "cpu:1s:1s,2s:1s", 2500, 1500, true, 500 },
};

START_TEST(a_plan_says_when_it_is_on_and_until_when)
{
	for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
		const char *const texts[] = { moments[i].text, NULL };
		struct window_plan plan;
		char message[200] = "";

		ck_assert_msg(window_plan_read(texts, &plan, message, sizeof(message)) == 0,
			      "%s: %s", moments[i].text, message);
		const struct window_times at =
			times(moments[i].real_ms * MS, moments[i].cpu_ms * MS);
		const struct window_moment moment = window_plan_at(&plan, &at);
		ck_assert_msg((moment.spec != NULL) == moments[i].is_on, "%s at %lu",
			      moments[i].text, (unsigned long)moments[i].real_ms);
		ck_assert_uint_eq(moment.left.ns[WINDOW_REAL],
				  moments[i].left_ms ? moments[i].left_ms * MS : UINT64_MAX);
	}
}
END_TEST

static const struct {
	const char *texts[3];
	int result;
} readings[] = {
	{ { "1s:1s", "2s:1s" }, 0 },
	{ { "1s:1s", "1.5s:1s" }, -22 },
	{ { "1s:1s:0", "5.5s:1ms" }, -22 },
	{ { "1s:1s:0", "2.5s:1ms" }, 0 },
	{ { "1s", "2s:1s" }, -22 },
	{ { "1s:1s", "cpu:1s:1s" }, 0 },
	{ { "1s:1s:2,10s:1s" }, 0 },
	{ { "1s:1s:2,4s:1s" }, 0 },
	{ { "1s:1s:2,3.5s:1s" }, -22 },
	{ { "" }, -22 },
	{ { "1" }, -22 },
	{ { "-1s:1s" }, -22 },
	{ { "1s:" }, -22 },
	{ { "1s:1s:x" }, -22 },
	{ { "cpu:" }, -22 },
	{ { "1s:1s," }, -22 },
	{ { "process:1s:1s", "thread:1s:1s" }, 0 },
	{ { "process:1s:1s", "process:1.5s:1s" }, -22 },
	{ { "gpu:1s:1s" }, -22 },
	{ { "1s:1s:1:cpu" }, -22 },
};

START_TEST(it_is_known_how_many_windows_have_begun)
{
	static const uint64_t begun[][3] = {
		/* real ms, CPU ms: so many */
		{ 0, 0, 0 },	{ 999, 999, 0 }, { 1000, 0, 1 },    { 1150, 0, 1 },
		{ 4900, 0, 2 }, { 9000, 0, 3 },	 { 9000, 5000, 6 },
	};
	const char *const texts[] = { "1s:100ms:2,5s:1s", "cpu:1s:1s:0", NULL };
	struct window_plan plan;
	char message[200];

	ck_assert_int_eq(window_plan_read(texts, &plan, message, sizeof(message)), 0);
	for (size_t i = 0; i < sizeof(begun) / sizeof(begun[0]); i++) {
		const struct window_times at = times(begun[i][0] * MS, begun[i][1] * MS);

		ck_assert_uint_eq(window_plan_begun(&plan, &at), begun[i][2]);
	}
}
END_TEST

START_TEST(each_clock_counts_for_itself)
{
	static const char *const names[WINDOW_CLOCKS] = { "real", "cpu", "process", "thread" };

	for (unsigned i = 0; i < WINDOW_CLOCKS; i++) {
		char text[32], message[200];
		const char *const texts[] = { text, NULL };
		struct window_plan plan;

		snprintf(text, sizeof(text), "%s:2s:1s", names[i]);
		ck_assert_int_eq(window_plan_read(texts, &plan, message, sizeof(message)), 0);
		for (unsigned k = 0; k < WINDOW_CLOCKS; k++) {
			struct window_times at = { 0 };
			at.ns[k] = 2500 * MS;
			const struct window_moment moment = window_plan_at(&plan, &at);

			ck_assert_int_eq(plan.has_clock[k], k == i);
			ck_assert_int_eq(moment.spec != NULL, k == i);
			ck_assert_int_eq(moment.left.ns[k] != UINT64_MAX, k == i);
		}
	}
}
END_TEST

START_TEST(windows_that_overlap_or_are_none_are_refused)
{
	for (size_t i = 0; i < sizeof(readings) / sizeof(readings[0]); i++) {
		struct window_plan plan;
		char message[200] = "";
		int r = window_plan_read(readings[i].texts, &plan, message, sizeof(message));

		ck_assert_msg(r == readings[i].result, "%s: %d, %s", readings[i].texts[0], r,
			      message);
		ck_assert_int_eq(message[0] != '\0', r < 0);
	}
}
END_TEST

START_TEST(without_texts_there_is_no_plan)
{
	struct window_plan plan;
	char message[200];

	ck_assert_int_eq(window_plan_read(NULL, &plan, message, sizeof(message)), 0);
	ck_assert_uint_eq(plan.n, 0);
	const struct window_times start = { 0 };
	ck_assert_ptr_null(window_plan_at(&plan, &start).spec);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("window-plan");
	TCase *tcase = tcase_create("plan");

	tcase_add_test(tcase, a_plan_says_when_it_is_on_and_until_when);
	tcase_add_test(tcase, it_is_known_how_many_windows_have_begun);
	tcase_add_test(tcase, each_clock_counts_for_itself);
	tcase_add_test(tcase, windows_that_overlap_or_are_none_are_refused);
	tcase_add_test(tcase, without_texts_there_is_no_plan);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
