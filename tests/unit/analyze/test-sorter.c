/* Rows of blocks come back in the order of their ids, as they were, from memory and from a file. */
#include "analyze/live/allocation-sorter.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/support/suite.h"

static const size_t n_rows[] = {
	0, 1, 1000, BLOCK_ROWS_BATCH, BLOCK_ROWS_BATCH + 1, 5 * BLOCK_ROWS_BATCH + 17
};
#define N_CASES (sizeof(n_rows) / sizeof(n_rows[0]))

/* Numbers of all magnitudes. */
static uint64_t number_of(uint64_t seed)
{
	uint64_t x = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return (x ^ x >> 32) >> (x & 63);
}

/* The row of an id: most are alike, some are absurd, as of a damaged trace. */
static struct block_row row_of(uint64_t id)
{
	bool is_absurd = id % 97 == 0;
	struct block_row row = {
		.birth = { .address = UINT64_C(0x555555550000) + id * 48,
			   .size = is_absurd ? number_of(id) : id % 500,
			   .time_ns = is_absurd ? (int64_t)number_of(id + 1) : (int64_t)id * 50,
			   .process = 1 + (uint32_t)(id % 3),
			   .thread = 4 + (uint32_t)(id % 5),
			   .stack = (uint32_t)(number_of(id) % 1000),
			   .within_id = id % 3 ? 0 : id / 3,
			   .pool = (uint32_t)(id % 6),
			   .interval = (uint8_t)(id % 2) },
		.end = { .id = id,
			 .time_ns = id % 11 ? (int64_t)id * 60 : INT64_MIN,
			 .previous_id = id % 7 ? 0 : id / 2,
			 .call = (uint8_t)(id % 14),
			 .freed_thread = id % 11 ? 4 : 0,
			 .kind = id % 13 ? 0 : 2,
			 .end_kind = id % 5,
			 .free_call = id % 4 },
	};

	return row;
}

struct seen {
	uint64_t n;
	uint64_t stop_at;
};

static int check_row(void *context, const struct block_row *found)
{
	struct seen *seen = context;
	struct block_row expected = row_of(3 * ++seen->n);

	check_equal(found->end.id, expected.end.id);
	check_equal(found->birth.address, expected.birth.address);
	check_equal(found->birth.size, expected.birth.size);
	check_equal(found->birth.time_ns, expected.birth.time_ns);
	check_equal(found->end.previous_id, expected.end.previous_id);
	check_equal(found->end.call, expected.end.call);
	check_equal(found->birth.process, expected.birth.process);
	check_equal(found->birth.thread, expected.birth.thread);
	check_equal(found->birth.stack, expected.birth.stack);
	check_equal(found->end.time_ns, expected.end.time_ns);
	check_equal(found->end.freed_thread, expected.end.freed_thread);
	check_equal(found->end.kind, expected.end.kind);
	check_equal(found->birth.within_id, expected.birth.within_id);
	check_equal(found->birth.pool, expected.birth.pool);
	check_equal(found->birth.interval, expected.birth.interval);
	check_equal(found->end.end_kind, expected.end.end_kind);
	check_equal(found->end.free_call, expected.end.free_call);
	return seen->n == seen->stop_at ? -EINTR : 0;
}

/* In an order that is not theirs. */
static struct block_spill *filled(size_t n)
{
	struct block_spill *spill = block_spill_open("/tmp/none.db");

	ck_assert_ptr_nonnull(spill);
	for (size_t i = 0; i < n; i++) {
		struct block_row row = row_of(3 * (1 + (i * 7919 + n / 2) % n));
		check_equal(block_spill_add(spill, &row), 0);
	}
	return spill;
}

START_TEST(rows_come_back_in_order)
{
	size_t n = n_rows[_i];
	struct block_spill *spill = filled(n);
	struct seen seen = { 0 };

	ck_assert_int_eq(block_spill_drain(spill, check_row, &seen), 0);
	ck_assert_uint_eq(seen.n, n);
	ck_assert_int_eq(block_spill_drain(spill, check_row, &seen), 0);
	ck_assert_uint_eq(seen.n, n);
	block_spill_close(spill);
}
END_TEST

START_TEST(who_visits_can_stop)
{
	size_t n = n_rows[_i];
	struct block_spill *spill = filled(n);
	struct seen seen = { .stop_at = 1 + n / 3 };

	ck_assert_int_eq(block_spill_drain(spill, check_row, &seen), n > 0 ? -EINTR : 0);
	ck_assert_uint_eq(seen.n, n > 0 ? 1 + n / 3 : 0);
	block_spill_close(spill);
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_an_error)
{
	struct block_spill *spill = block_spill_open("/proc/none/x.db");
	struct block_row row = row_of(1);
	int r = 0;

	for (size_t i = 0; i <= BLOCK_ROWS_BATCH && r == 0; i++)
		r = block_spill_add(spill, &row);
	ck_assert_int_lt(r, 0);
	block_spill_close(spill);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sorter");
	TCase *tcase = tcase_create("sorter");

	tcase_add_loop_test(tcase, rows_come_back_in_order, 0, N_CASES);
	tcase_add_loop_test(tcase, who_visits_can_stop, 0, N_CASES);
	tcase_add_test(tcase, a_folder_that_is_not_there_is_an_error);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
