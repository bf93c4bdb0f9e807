#include "analyze/analyze.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/unit/analyze/fixtures/trace-maker.h"
#include "tests/unit/analyze/fixtures/world.h"
#include "tests/support/fewer.h"
#include "tests/support/suite.h"

static struct maker maker;
static struct db *db;

static void set_up(void)
{
	maker_init(&maker);
}

static void tear_down(void)
{
	db = db_close(db);
	maker_finish(&maker);
}

/* Analyse what was made, and open it. */
static sqlite3 *analyse(bool is_compact)
{
	const struct import_options options = { .compact = is_compact };

	ck_assert_int_eq(db_open_any(maker.trace, &options, &db), 0);
	return db_handle(db);
}

static sqlite3_stmt *query(sqlite3 *handle, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	ck_assert_msg(sqlite3_prepare_v2(handle, sql, -1, &stmt, NULL) == SQLITE_OK, "%s",
		      sqlite3_errmsg(handle));
	return stmt;
}

/* A column, or fallback for NULL. */
static int64_t column(sqlite3_stmt *stmt, int i, int64_t fallback)
{
	if (sqlite3_column_type(stmt, i) == SQLITE_NULL)
		return fallback;
	return sqlite3_column_int64(stmt, i);
}

static void check_block(sqlite3_stmt *row, const struct world_block *expected, int index)
{
	check_equal(column(row, 0, 0), index + 1);
	check_equal(column(row, 1, 0), expected->process);
	check_equal(column(row, 2, 0), expected->thread);
	check_equal(column(row, 3, 0), (int64_t)expected->address);
	check_equal(column(row, 4, -1), (int64_t)expected->size);
	check_equal(column(row, 5, 0), expected->allocated_ns);
	check_equal(column(row, 6, -1), expected->freed_ns);
	check_equal(column(row, 7, 0), expected->freed_thread);
	check_equal(column(row, 8, -1), expected->call);
	check_equal(column(row, 9, -1), expected->end_kind);
	check_equal(column(row, 10, 0), expected->previous + 1);
}

static void check_blocks(sqlite3 *handle, const struct world *world)
{
	sqlite3_stmt *row = query(
		handle,
		"SELECT allocation.id, process.number, thread.number, address, size,"
		" allocated_ns, freed_ns, killer.number, call, end_kind, previous_allocation_id"
		" FROM allocation JOIN process ON process.id = allocation.process_id"
		" JOIN thread ON thread.id = thread_id"
		" LEFT JOIN thread AS killer ON killer.id = freed_thread_id"
		" ORDER BY allocation.id");
	int n = 0;

	for (; sqlite3_step(row) == SQLITE_ROW; n++) {
		check_equal(n < world->n_blocks, true);
		check_block(row, &world->blocks[n], n);
	}
	check_equal(n, world->n_blocks);
	sqlite3_finalize(row);
}

static int compare_mappings(const void *left, const void *right)
{
	const struct world_mapping *a = left, *b = right;

	if (a->allocated_ns != b->allocated_ns)
		return a->allocated_ns < b->allocated_ns ? -1 : 1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return 0;
}

static void check_mappings(sqlite3 *handle, const struct world *world)
{
	sqlite3_stmt *row = query(
		handle,
		"SELECT process.number, thread.number, mapping.address, mapping.size,"
		" mapping.allocated_ns, mapping.freed_ns, previous.allocated_ns, previous.address"
		" FROM mapping JOIN process ON process.id = mapping.process_id"
		" LEFT JOIN thread ON thread.id = mapping.thread_id"
		" LEFT JOIN mapping AS previous ON previous.id = mapping.previous_mapping_id"
		" ORDER BY mapping.allocated_ns, mapping.address");
	struct world_mapping *sorted = malloc(sizeof(world->mappings));
	int n = 0;

	memcpy(sorted, world->mappings, sizeof(world->mappings));
	qsort(sorted, (size_t)world->n_mappings, sizeof(*sorted), compare_mappings);
	for (; sqlite3_step(row) == SQLITE_ROW; n++) {
		check_equal(n < world->n_mappings, true);
		const struct world_mapping *expected = &sorted[n];
		const struct world_mapping *previous =
			expected->previous >= 0 ? &world->mappings[expected->previous] : NULL;
		check_equal(column(row, 0, 0), expected->process);
		check_equal(column(row, 1, 0), expected->thread);
		check_equal(column(row, 2, 0), (int64_t)expected->address);
		check_equal(column(row, 3, 0), (int64_t)expected->size);
		check_equal(column(row, 4, 0), expected->allocated_ns);
		check_equal(column(row, 5, -1), expected->freed_ns);
		check_equal(column(row, 6, -1), previous ? previous->allocated_ns : -1);
		check_equal(column(row, 7, -1), previous ? (int64_t)previous->address : -1);
	}
	check_equal(n, world->n_mappings);
	free(sorted);
	sqlite3_finalize(row);
}

static void check_counts(sqlite3 *handle, const struct world *world)
{
	int64_t n_temporary = 0;

	for (int i = 0; i < world->n_blocks; i++)
		n_temporary += world->blocks[i].is_temporary;
	ck_assert_int_eq(check_integer(handle, "SELECT sum(n_temporary) FROM site"), n_temporary);
	ck_assert_int_eq(
		check_integer(handle, "SELECT value FROM total WHERE name = 'missed_frees'"),
		(int64_t)world->n_missed);
	ck_assert_int_eq(
		check_integer(handle, "SELECT value FROM total WHERE name = 'before_trace_frees'"),
		(int64_t)world->n_before_trace);
	ck_assert_int_eq(
		check_integer(handle, "SELECT value FROM total WHERE name = 'inherited_frees'"),
		(int64_t)world->n_inherited_frees);
	ck_assert_int_eq(
		check_integer(handle, "SELECT value FROM total WHERE name = 'early_frees'"),
		(int64_t)world->n_early);
	ck_assert_int_eq(check_integer(handle, "SELECT value FROM total WHERE name = 'events'"),
			 (int64_t)world->n_events);
}

#define SEEDS_AT_ONCE 20

static void check_worlds(int first_seed, enum world_mode mode)
{
	struct world *world = malloc(sizeof(*world));

	for (int i = 0; i < SEEDS_AT_ONCE; i++) {
		uint64_t seed = (uint64_t)(first_seed * SEEDS_AT_ONCE + i + 1);
		set_up();
		world_make(world, &maker, seed, mode, 50 + (int)(seed * 37 % 1500));
		sqlite3 *handle = analyse(i % 3 == 0);
		check_blocks(handle, world);
		check_mappings(handle, world);
		check_counts(handle, world);
		check_aggregates(handle, 1);
		tear_down();
	}
	free(world);
}

START_TEST(rows_of_random_programs_are_what_happened)
{
	check_worlds(_i, WORLD_CLEAN);
}
END_TEST

START_TEST(frees_that_are_stamped_late_come_before_the_next_birth)
{
	check_worlds(_i, WORLD_SKEWED);
}
END_TEST

START_TEST(frees_that_are_stamped_before_the_birth_end_their_block)
{
	check_worlds(_i, WORLD_EARLY);
}
END_TEST

START_TEST(missing_events_are_repaired_and_counted)
{
	check_worlds(_i, WORLD_LOSSY);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("import");
	TCase *tcase = tcase_create("worlds");

	TCase *early = tcase_create("early");

	tcase_set_timeout(tcase, 120);
	tcase_set_timeout(early, 120);
	tcase_add_loop_test(tcase, rows_of_random_programs_are_what_happened, 0, fewer(25));
	tcase_add_loop_test(tcase, frees_that_are_stamped_late_come_before_the_next_birth, 0,
			    fewer(25));
	tcase_add_loop_test(tcase, missing_events_are_repaired_and_counted, 0, fewer(25));
	tcase_add_loop_test(early, frees_that_are_stamped_before_the_birth_end_their_block, 0,
			    fewer(15));
	suite_add_tcase(suite, tcase);
	suite_add_tcase(suite, early);
	return suite_run(suite);
}
