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
		.block = { .id = id,
			   .address = UINT64_C(0x555555550000) + id * 48,
			   .size = is_absurd ? number_of(id) : id % 500,
			   .allocated_ns =
				   is_absurd ? (int64_t)number_of(id + 1) : (int64_t)id * 50,
			   .previous_id = id % 7 ? 0 : id / 2,
			   .call = (uint8_t)(id % 14) },
		.process_row = 1 + (int64_t)(id % 3),
		.thread_row = 4 + (int64_t)(id % 5),
		.stack_id = (int64_t)(number_of(id) % 1000),
		.end_ns = id % 11 ? (int64_t)id * 60 : INT64_MIN,
		.freed_thread_row = id % 11 ? 4 : INT64_MIN,
		.kind = id % 13 ? INT64_MIN : 2,
		.within_id = id % 3 ? 0 : id / 3,
		.pool = (uint32_t)(id % 6),
		.end_kind = (uint8_t)(id % 5),
		.free_call = (uint8_t)(id % 4),
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

	check_equal(found->block.id, expected.block.id);
	check_equal(found->block.address, expected.block.address);
	check_equal(found->block.size, expected.block.size);
	check_equal(found->block.allocated_ns, expected.block.allocated_ns);
	check_equal(found->block.previous_id, expected.block.previous_id);
	check_equal(found->block.call, expected.block.call);
	check_equal(found->process_row, expected.process_row);
	check_equal(found->thread_row, expected.thread_row);
	check_equal(found->stack_id, expected.stack_id);
	check_equal(found->end_ns, expected.end_ns);
	check_equal(found->freed_thread_row, expected.freed_thread_row);
	check_equal(found->kind, expected.kind);
	check_equal(found->within_id, expected.within_id);
	check_equal(found->pool, expected.pool);
	check_equal(found->end_kind, expected.end_kind);
	check_equal(found->free_call, expected.free_call);
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
