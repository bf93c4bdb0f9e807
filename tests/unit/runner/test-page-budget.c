/* What asking for pages may cost a process. */
#include <check.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "runner/processes/page-budget.h"
#include "tests/support/suite.h"

#define MS UINT64_C(1000000)

static const struct page_share percent = { .ppm = 10000, .is_strict = true };
static const struct page_share loose = { .ppm = 10000, .is_strict = false };

static const struct {
	uint64_t elapsed_ms;
	uint64_t ran_ms;
	uint64_t waited_ms;
	uint64_t had_ms;
} times[] = {
	{ 0, 0, 0, 0 },		  { 1000, 1000, 0, 1000 },
	{ 1000, 0, 0, 1000 }, /* asleep, or the kernel does not tell */
	{ 1000, 250, 750, 250 },  { 1000, 100, 400, 600 },
	{ 1000, 300, 1000, 300 }, { 1000, 200, 5000, 200 }, /* a wait of before ended only now */
	{ 1000, 1500, 0, 1000 },
};

START_TEST(what_a_process_waited_for_it_has_not_had)
{
	const struct page_clock begin = { 7000 * MS, 500 * MS, 90 * MS };

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		const struct page_clock now = {
			begin.now_ns + times[i].elapsed_ms * MS,
			begin.ran_ns + times[i].ran_ms * MS,
			begin.waited_ns + times[i].waited_ms * MS,
		};

		ck_assert_msg(page_clock_had_ns(&begin, &now) == times[i].had_ms * MS, "row %zu",
			      i);
	}
}
END_TEST

START_TEST(a_strict_budget_begins_with_nothing_and_another_with_a_second)
{
	const struct page_budget budget = { .begin = { .now_ns = MS } };
	const struct page_clock now = budget.begin;

	ck_assert_uint_eq(page_budget_left_ns(&budget, &percent, &now), 0);
	ck_assert_uint_eq(page_budget_left_ns(&budget, &loose, &now), 10 * MS);
	ck_assert_uint_eq(page_budget_wait_ns(&budget, &percent, &now, 0), 0);
	ck_assert_uint_eq(page_budget_wait_ns(&budget, &percent, &now, MS), 100 * MS + 1);
}
END_TEST

START_TEST(time_of_a_year_does_not_overflow)
{
	const struct page_budget budget = { 0 };
	const struct page_clock now = { .now_ns = UINT64_C(365) * 86400 * 1000 * MS };

	ck_assert_uint_eq(page_budget_left_ns(&budget, &percent, &now), now.now_ns / 100);
}
END_TEST

/*
 * A process that gets a tenth of a processor, 5 ms of each 50, beside a recorder that looks when it
 * is due. A wait counts when it ends, so by one of them it may be allowed too soon.
 */
START_TEST(a_process_that_waits_most_of_the_time_gets_its_turn)
{
	const struct page_budget budget = { .spent_ns = 2 * MS };
	struct page_clock now = { 0 };
	uint64_t wait_ns;
	unsigned n_asked = 0;

	while ((wait_ns = page_budget_wait_ns(&budget, &percent, &now, 3 * MS)) > 0) {
		uint64_t turns;

		now.now_ns += wait_ns > 5 * MS ? wait_ns : 5 * MS;
		turns = now.now_ns / (50 * MS);
		now.ran_ns = turns * 5 * MS;
		now.waited_ns = turns * 45 * MS;
		n_asked++;
	}
	ck_assert_uint_ge(now.ran_ns, (500 - 45) * MS);
	ck_assert_uint_le(now.ran_ns, (500 + 5) * MS);
	ck_assert_uint_le(n_asked, 100);
}
END_TEST

START_TEST(the_clock_of_a_process_goes_on)
{
	const struct page_clock before = page_clock_read(getpid());
	struct page_clock after = page_clock_read(getpid());

	/* Of a time slice the kernel counts what has passed. */
	for (uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	     clock_ns(CLOCK_THREAD_CPUTIME_ID) < cpu + 20 * MS;)
		;
	after = page_clock_read(getpid());
	ck_assert_uint_gt(before.now_ns, 0);
	ck_assert_uint_ge(after.now_ns, before.now_ns + 20 * MS);
	ck_assert_uint_ge(after.ran_ns, before.ran_ns);
	ck_assert_uint_gt(page_clock_had_ns(&before, &after), 0);
}
END_TEST

START_TEST(what_pages_cost_is_that_of_whole_chunks)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), n_bytes = 200 * page_bytes;
	char *memory = calloc(1, n_bytes);

	ck_assert_ptr_nonnull(memory);
	ck_assert_uint_gt(page_sweep_ns(memory, 200, page_bytes, false), 0);
	for (size_t i = 0; i < 200; i++)
		ck_assert_int_eq(memory[i * page_bytes], 0);
	ck_assert_uint_gt(page_sweep_ns(memory, 200, page_bytes, true), 0);
	for (size_t i = 0; i < 200; i++)
		ck_assert_int_eq(memory[i * page_bytes], i < 3 * PAGE_SWEEP_PAGES);
	ck_assert_uint_eq(page_sweep_ns(memory, PAGE_SWEEP_PAGES - 1, page_bytes, true), 0);
	free(memory);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("page-budget");
	TCase *tcase = tcase_create("budget");

	tcase_add_test(tcase, what_a_process_waited_for_it_has_not_had);
	tcase_add_test(tcase, a_strict_budget_begins_with_nothing_and_another_with_a_second);
	tcase_add_test(tcase, time_of_a_year_does_not_overflow);
	tcase_add_test(tcase, a_process_that_waits_most_of_the_time_gets_its_turn);
	tcase_add_test(tcase, the_clock_of_a_process_goes_on);
	tcase_add_test(tcase, what_pages_cost_is_that_of_whole_chunks);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
