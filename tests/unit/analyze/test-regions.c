/*
 * Regions against a naive model: every trip keeps the list of all that happened in its thread from
 * its push to its end, and sums are made over those lists, by the trip's path as a text.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/live/regions.h"
#include "store/block-weight.h"
#include "store/database.h"
#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/unit/analyze/fixtures/make-records.h"
#include "tests/support/suite.h"

#define N_THREADS 3
#define N_NAMES	  4
#define N_STEPS	  3000
#define MAX_TRIPS N_STEPS
#define END_NS	  1000000000

struct model_trip {
	char path[4096];
	uint32_t thread;
	uint32_t name;
	int around; /* trip number; -1: none */
	int64_t start_ns, end_ns;
	int ending;
	bool is_open;
	uint64_t blocks, bytes, samples, time_ns, faults; /* its own */
};

static struct model_trip *trips;
static int n_trips;
static uint64_t n_bad_pops;

static struct db *db;
static char db_path[64];
static struct tasks *tasks;
static struct texts texts;
static struct regions *regions;
static uint64_t seed;

static uint64_t random_below(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static void set_up(void)
{
	char name[2] = "a";

	snprintf(db_path, sizeof(db_path), "/tmp/test-regions-%d.db", getpid());
	ck_assert_int_eq(db_begin(db_path, DB_REPLACE, &db), 0);
	ck_assert_int_eq(tasks_create(1, 1, &tasks), 0);
	struct trace_process *process = make_process(1, 0, 100, RING_BIRTH_EXEC);
	ck_assert_int_eq(tasks_add_process(tasks, process, 0), 0);
	free(process);
	for (uint32_t i = 1; i <= N_THREADS; i++) {
		struct trace_thread *thread = make_thread(i, 1, 100 + i);
		ck_assert_int_eq(tasks_add_thread(tasks, thread, 0), 0);
		free(thread);
	}
	for (uint64_t id = 1; id <= N_NAMES; id++, name[0]++)
		ck_assert_int_eq(texts_add(&texts, id, name, 1), 0);
	ck_assert_int_eq(regions_open(db, 7, tasks, &texts, &regions), 0);
	trips = calloc(MAX_TRIPS, sizeof(*trips));
	ck_assert_ptr_nonnull(trips);
	n_trips = 0;
	n_bad_pops = 0;
}

static void tear_down(void)
{
	regions = regions_close(regions);
	tasks = tasks_destroy(tasks);
	texts_finish(&texts);
	db = db_close(db);
	free(trips);
	unlink(db_path);
}

/* The trip that a thread is in, by looking at all of them: the one that began last. -1: none. */
static int current(uint32_t thread)
{
	for (int i = n_trips; i-- > 0;)
		if (trips[i].thread == thread && trips[i].is_open)
			return i;
	return -1;
}

static void model_push(uint32_t thread, uint32_t name, int64_t now)
{
	int around = current(thread);
	struct model_trip *trip = &trips[n_trips++];

	*trip = (struct model_trip){
		.thread = thread, .name = name, .around = around, .start_ns = now, .is_open = true
	};
	snprintf(trip->path, sizeof(trip->path), "%.4000s/%c",
		 around >= 0 ? trips[around].path : "", (char)('a' + name - 1));
}

static void model_end(int i, int64_t now, int ending)
{
	trips[i].is_open = false;
	trips[i].end_ns = now;
	trips[i].ending = ending;
}

static void model_pop(uint32_t thread, uint32_t name, int64_t now)
{
	int found = -1;

	for (int i = current(thread); i >= 0 && found < 0; i = trips[i].around)
		if (name == 0 || trips[i].name == name)
			found = i;
	if (found < 0) {
		n_bad_pops++;
		return;
	}
	for (int i = current(thread); i != found; i = current(thread))
		model_end(i, now, REGION_POPPED_AROUND);
	model_end(found, now, REGION_POPPED);
}

static void step(int64_t now)
{
	uint32_t thread = 1 + (uint32_t)random_below(N_THREADS);
	uint32_t name = 1 + (uint32_t)random_below(N_NAMES);
	int in = current(thread);
	uint64_t size = random_below(1000);

	switch (random_below(8)) {
	case 0:
	case 1:
		model_push(thread, name, now);
		ck_assert_int_eq(regions_push(regions, thread, name, now), 0);
		break;
	case 2:
		name = random_below(2) ? name : 0;
		model_pop(thread, name, now);
		ck_assert_int_eq(regions_pop(regions, thread, name, now), 0);
		break;
	case 3:
		if (in >= 0)
			trips[in].faults++;
		regions_fault(regions, thread);
		break;
	case 4:
		if (in >= 0) {
			trips[in].samples++;
			trips[in].time_ns += size;
		}
		regions_sample(regions, thread, (int64_t)size, 1);
		break;
	default:
		if (in >= 0) {
			trips[in].blocks++;
			trips[in].bytes += size;
		}
		regions_allocated(regions, thread, &(struct block_weight){ .n = 1, .bytes = size });
	}
}

static bool is_inside(int i, int around)
{
	for (; i >= 0; i = trips[i].around)
		if (i == around)
			return true;
	return false;
}

/* One path as the model has it; "all" is the sum over all trips inside each of its trips. */
static void check_path(const char *path, sqlite3_stmt *row)
{
	int64_t n = 0, n_left = 0, all_ns = 0, own_ns = 0, all[5] = { 0 }, own[5] = { 0 };

	for (int i = 0; i < n_trips; i++) {
		if (strcmp(trips[i].path, path) != 0)
			continue;
		n++;
		n_left += trips[i].ending != REGION_POPPED;
		all_ns += trips[i].end_ns - trips[i].start_ns;
		own_ns += trips[i].end_ns - trips[i].start_ns;
		for (int j = i; j < n_trips; j++) {
			const struct model_trip *part = &trips[j];
			const int64_t values[5] = { (int64_t)part->blocks, (int64_t)part->bytes,
						    (int64_t)part->samples, (int64_t)part->time_ns,
						    (int64_t)part->faults };

			if (part->around == i)
				own_ns -= part->end_ns - part->start_ns;
			for (int k = 0; k < 5 && is_inside(j, i); k++) {
				all[k] += values[k];
				own[k] += i == j ? values[k] : 0;
			}
		}
	}
	ck_assert_int_eq(sqlite3_column_int64(row, 1), n);
	ck_assert_int_eq(sqlite3_column_int64(row, 2), n_left);
	ck_assert_int_eq(sqlite3_column_int64(row, 3), all_ns);
	ck_assert_int_eq(sqlite3_column_int64(row, 4), own_ns);
	for (int k = 0; k < 5; k++) {
		ck_assert_int_eq(sqlite3_column_int64(row, 5 + 2 * k), all[k]);
		ck_assert_int_eq(sqlite3_column_int64(row, 6 + 2 * k), own[k]);
	}
}

#define PATHS                                                                                      \
	"WITH RECURSIVE path(id, text) AS (SELECT id, '/' || name FROM region_total"               \
	" WHERE run_id = 7 AND parent_id IS NULL UNION ALL SELECT part.id, text || '/' || name"    \
	" FROM path JOIN region_total AS part ON run_id = 7 AND parent_id = path.id) "

static int check_paths(void)
{
	sqlite3_stmt *stmt;
	int n = 0;

	ck_assert_int_eq(sqlite3_prepare_v2(
				 db_handle(db),
				 PATHS "SELECT text, n_trips, n_left_open, all_ns, own_ns,"
				       " all_blocks, own_blocks, all_bytes, own_bytes, all_samples,"
				       " own_samples, all_time_ns, own_time_ns, all_faults,"
				       " own_faults FROM path JOIN region_total USING (id)"
				       " WHERE run_id = 7",
				 -1, &stmt, NULL),
			 SQLITE_OK);
	for (; sqlite3_step(stmt) == SQLITE_ROW; n++)
		check_path((const char *)sqlite3_column_text(stmt, 0), stmt);
	sqlite3_finalize(stmt);
	return n;
}

/*
 * The rows add up to the aggregate: without what lies inside by path, with it by who lies in whom.
 */
static void check_rows(void)
{
	check_no_row(db_handle(db),
		     "SELECT id FROM region_total LEFT JOIN (SELECT path_id, count(*) AS n,"
		     " sum(ending <> 0) AS n_left, sum(n_blocks) AS blocks, sum(bytes) AS bytes,"
		     " sum(n_samples) AS samples, sum(time_ns) AS time, sum(n_faults) AS faults,"
		     " sum(end_ns - start_ns) AS wall FROM region WHERE run_id = 7 GROUP BY 1)"
		     " ON path_id = id WHERE run_id = 7 AND (n_trips IS NOT n OR n_left_open IS NOT"
		     " n_left OR own_blocks IS NOT blocks OR own_bytes IS NOT bytes OR own_samples"
		     " IS NOT samples OR own_time_ns IS NOT time OR own_faults IS NOT faults"
		     " OR all_ns IS NOT wall)");
	check_no_row(
		db_handle(db),
		"WITH RECURSIVE inside(outer_id, id) AS (SELECT id, id FROM region"
		" WHERE run_id = 7 UNION ALL SELECT outer_id, region.id FROM inside JOIN region"
		" ON region.parent_id = inside.id)"
		" SELECT outer.path_id FROM inside JOIN region AS outer ON outer.id = outer_id"
		" JOIN region ON region.id = inside.id"
		" JOIN region_total ON region_total.run_id = 7 AND region_total.id ="
		" outer.path_id GROUP BY outer.path_id"
		" HAVING sum(region.bytes) <> all_bytes OR sum(region.n_blocks) <> all_blocks"
		" OR sum(region.n_faults) <> all_faults");
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM region"), n_trips);
}

START_TEST(aggregates_are_those_of_a_naive_model)
{
	seed = 0x9e3779b97f4a7c15u + (uint64_t)_i;
	for (int i = 0; i < N_STEPS; i++)
		step(i * 100 + (int64_t)random_below(100));
	for (int i = 0; i < n_trips; i++)
		if (trips[i].is_open)
			model_end(i, END_NS, REGION_LEFT);
	ck_assert_int_eq(regions_finish(regions, END_NS), 0);
	ck_assert_uint_eq(regions_losses(regions)->n_pops, n_bad_pops);
	ck_assert_int_gt(n_trips, 100);
	ck_assert_int_gt(check_paths(), 20);
	check_rows();
}
END_TEST

START_TEST(regions_that_nest_too_deep_are_counted_and_want_their_pops)
{
	for (unsigned i = 0; i < REGIONS_MAX_DEPTH + 5; i++)
		ck_assert_int_eq(regions_push(regions, 1, 1, i), 0);
	ck_assert_uint_eq(regions_losses(regions)->n_too_deep, 5);
	for (unsigned i = 0; i < REGIONS_MAX_DEPTH + 5; i++)
		ck_assert_int_eq(regions_pop(regions, 1, 0, 10000 + i), 0);
	ck_assert_uint_eq(regions_losses(regions)->n_pops, 0);
	ck_assert_int_eq(regions_pop(regions, 1, 0, 20000), 0);
	ck_assert_uint_eq(regions_losses(regions)->n_pops, 1);
	ck_assert_int_eq(regions_finish(regions, END_NS), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM region"
						      " WHERE ending = 0"),
			 REGIONS_MAX_DEPTH);
}
END_TEST

START_TEST(an_open_region_ends_with_its_thread)
{
	ck_assert_int_eq(regions_push(regions, 2, 1, 100), 0);
	ck_assert_int_eq(regions_push(regions, 3, 1, 100), 0);
	ck_assert_int_eq(tasks_end_thread(tasks, 2, 700), 0);
	ck_assert_int_eq(regions_finish(regions, END_NS), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT end_ns FROM region WHERE"
						      " thread_id = 2"),
			 700);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT end_ns FROM region WHERE"
						      " thread_id = 3"),
			 END_NS);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT n_left_open FROM region_total"), 2);
}
END_TEST

START_TEST(trips_beyond_the_bound_are_in_the_aggregate)
{
	for (unsigned i = 0; i < REGIONS_MAX_ROWS + 10; i++) {
		ck_assert_int_eq(regions_push(regions, 1, 1, i), 0);
		ck_assert_int_eq(regions_pop(regions, 1, 1, i + 1), 0);
	}
	ck_assert_int_eq(regions_finish(regions, END_NS), 0);
	ck_assert_uint_eq(regions_losses(regions)->n_rows, 10);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM region"),
			 REGIONS_MAX_ROWS);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT n_trips FROM region_total"),
			 REGIONS_MAX_ROWS + 10);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT all_ns FROM region_total"),
			 REGIONS_MAX_ROWS + 10);
}
END_TEST

static void call(int64_t begin_ns, int64_t end_ns)
{
	const struct region_call begin = { .text = 1, .slot = 0x7000, .time_ns = begin_ns };
	const struct region_call end = { .text = 1, .slot = 0x7000, .time_ns = end_ns };

	ck_assert_int_eq(regions_enter(regions, 1, &begin), 0);
	ck_assert_int_eq(regions_leave(regions, 1, &end), 0);
}

static int run_empty(enum own_cost cost, int64_t time_ns, double work_ns)
{
	return regions_empty(regions, 1, &(struct own_empty){ cost, time_ns, work_ns });
}

/*
 * Empty calls: 40 ns between their moments and 20 between them, beside 100 of work; one of them was
 * interrupted. An empty hook of a block takes 8.
 */
START_TEST(times_are_without_what_hooks_took)
{
	int64_t now = 1000;

	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(run_empty(OWN_OUTSIDE, now, 100), 0);
		now += i == 50 ? 5000 : 140;
		ck_assert_int_eq(run_empty(OWN_INSIDE, now, 100), 0);
		now += 120;
	}
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(run_empty(OWN_BLOCK, now += 8, 0), 0);
	ck_assert_int_eq(regions_hook(regions, 1, OWN_BLOCK), 0); /* in no region */
	ck_assert_int_eq(regions_push(regions, 1, 2, 10000), 0);
	for (int i = 0; i < 10; i++)
		call(10000 + i * 100, 10070 + i * 100);
	ck_assert_int_eq(regions_hook(regions, 1, OWN_BLOCK), 0);
	ck_assert_int_eq(regions_took(regions, 1, TRACE_OWN_WALK, 12), 0);
	ck_assert_int_eq(regions_pop(regions, 1, 2, 11000), 0);
	/* Shorter than that: nothing is left of it, and not less. */
	call(12000, 12010);
	ck_assert_int_eq(regions_finish(regions, END_NS), 0);
#define OF(depth, column)                                                                          \
	check_integer(db_handle(db), "SELECT " column " FROM region_total WHERE depth = " #depth   \
				     " ORDER BY n_trips DESC")
	ck_assert_int_eq(OF(2, "n_trips"), 10);
	ck_assert_int_eq(OF(2, "all_ns"), 10 * 30);
	ck_assert_int_eq(OF(2, "own_cost_ns"), 10 * 40);
	ck_assert_int_eq(OF(1, "all_ns"), 1000 - 10 * 60 - 8 - 12);
	ck_assert_int_eq(OF(1, "all_cost_ns"), 10 * 60 + 8 + 12);
	ck_assert_int_eq(OF(1, "own_ns"), 1000 - 10 * 70 - 10 * 20 - 8 - 12);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT all_ns FROM region_total WHERE"
						      " depth = 1 AND all_cost_ns = 10"),
			 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT n FROM hook_cost WHERE"
						      " hook = 'functions' AND mean_ns = 40"),
			 100);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT sum(ns) FROM own_time"),
			 11 * 40 + 10 * 20 + 8 + 12);
}
END_TEST

/* A damaged trace may lack several: their calls are one row, and the import goes on. */
START_TEST(counted_functions_whose_names_are_lost_are_one_row)
{
	for (uint64_t id = 1; id <= 3; id++) {
		int64_t lost = texts_number(&texts, 1000 + id);

		ck_assert_int_gt(lost, N_NAMES);
		ck_assert_int_eq(regions_count(regions, (uint32_t)lost, id), 0);
		ck_assert_int_eq(regions_count(regions, 1, 10), 0);
	}
	ck_assert_int_eq(regions_finish(regions, END_NS), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT n_trips FROM function_trips"
						      " WHERE name = '(name lost)'"),
			 1 + 2 + 3);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT n_trips FROM function_trips"
						      " WHERE name = 'a'"),
			 30);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM function_trips"), 2);
}
END_TEST

static Suite *regions_suite(void)
{
	Suite *suite = suite_create("regions");
	TCase *tests = tcase_create("all");

	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_loop_test(tests, aggregates_are_those_of_a_naive_model, 0, 6);
	tcase_add_test(tests, regions_that_nest_too_deep_are_counted_and_want_their_pops);
	tcase_add_test(tests, an_open_region_ends_with_its_thread);
	tcase_add_test(tests, trips_beyond_the_bound_are_in_the_aggregate);
	tcase_add_test(tests, counted_functions_whose_names_are_lost_are_one_row);
	tcase_add_test(tests, times_are_without_what_hooks_took);
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	return suite_run(regions_suite());
}
