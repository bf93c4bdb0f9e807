#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runner/sampling/page-set.h"
#include "tests/support/suite.h"

#define PAGE	UINT64_C(4096)
#define N_PAGES 512
#define N_STEPS 20000

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Against a plain array: whatever was set last is what is told. */
START_TEST(a_set_tells_what_was_put_last)
{
	enum page_state model[N_PAGES] = { PAGE_UNKNOWN };
	uint64_t state = (uint64_t)_i + 1;
	struct page_set set = { 0 };

	for (int step = 0; step < N_STEPS; step++) {
		uint64_t page = next_random(&state) % N_PAGES;
		uint64_t n = next_random(&state) % 8;

		if (next_random(&state) % 50 == 0) {
			page_set_forget_range(&set, page * PAGE + 1, n * PAGE);
			for (uint64_t i = page; n && i <= page + n && i < N_PAGES; i++)
				model[i] = PAGE_UNKNOWN;
		} else {
			model[page] = (enum page_state)(next_random(&state) % 3);
			ck_assert_int_eq(page_set_put(&set, page * PAGE, model[page]), 0);
		}
		page = next_random(&state) % N_PAGES;
		ck_assert_int_eq(page_set_get(&set, page * PAGE), model[page]);
	}
	ck_assert_uint_le(set.n, N_PAGES);
	page_set_finish(&set);
}
END_TEST

START_TEST(ranges_at_both_ends_of_the_addresses_do_not_overflow)
{
	const uint64_t last = ~UINT64_C(0) & ~(PAGE - 1);
	struct page_set set = { 0 };

	page_set_put(&set, 0, PAGE_STORED);
	page_set_put(&set, last, PAGE_STORED);
	page_set_forget_range(&set, last - 10, 5);
	ck_assert_int_eq(page_set_get(&set, last), PAGE_STORED);
	page_set_forget_range(&set, last + 10, PAGE);
	ck_assert_int_eq(page_set_get(&set, last), PAGE_UNKNOWN);
	ck_assert_int_eq(page_set_get(&set, 0), PAGE_STORED);
	page_set_forget_range(&set, 0, 0);
	ck_assert_int_eq(page_set_get(&set, 0), PAGE_STORED);
	page_set_forget_range(&set, 0, 1);
	ck_assert_int_eq(page_set_get(&set, 0), PAGE_UNKNOWN);
	page_set_finish(&set);
	page_set_finish(&set);
}
END_TEST

START_TEST(an_empty_set_knows_nothing)
{
	struct page_set set = { 0 };

	ck_assert_int_eq(page_set_get(&set, PAGE), PAGE_UNKNOWN);
	page_set_forget_range(&set, 0, UINT64_MAX);
	page_set_finish(&set);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("page-set");
	TCase *tcase = tcase_create("pages");

	tcase_add_loop_test(tcase, a_set_tells_what_was_put_last, 0, 10);
	tcase_add_test(tcase, ranges_at_both_ends_of_the_addresses_do_not_overflow);
	tcase_add_test(tcase, an_empty_set_knows_nothing);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
