#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/process/stacks.h"
#include "tests/unit/analyze/fixtures/make-records.h"
#include "store/database.h"
#include "tests/unit/analyze/fixtures/memory-db.h"
#include "tests/support/suite.h"

#define MS   INT64_C(1000000)
#define A_SO UINT64_C(0x10000)
#define B_SO UINT64_C(0x20000)

static struct db *file;
static sqlite3 *db; /* of file */
static struct objects *objects;
static struct tasks *tasks;
static struct modules *modules;
static struct stacks *stacks;

static void begin_import(void)
{
	ck_assert_int_eq(objects_create(NULL, &objects), 0);
	ck_assert_int_eq(tasks_create(1, 1, &tasks), 0);
	ck_assert_int_eq(modules_create(tasks, objects, &modules), 0);
	ck_assert_int_eq(stacks_create(db, tasks, modules, objects, &stacks), 0);
}

static void end_import(void)
{
	stacks = stacks_destroy(stacks);
	modules = modules_destroy(modules);
	tasks = tasks_destroy(tasks);
	objects = objects_destroy(objects);
}

static void set_up(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/test-stacks-%d.db", getpid());
	ck_assert_int_eq(db_begin(path, DB_REPLACE, &file), 0);
	db = db_handle(file);
	begin_import();
}

static void tear_down(void)
{
	end_import();
	db_close(file); /* which leaves nothing behind */
}

static void add_process(uint32_t number)
{
	struct trace_process *record = make_process(number, 0, 100 + number, RING_BIRTH_EXEC);

	ck_assert_int_eq(tasks_add_process(tasks, record, 0), 0);
	free(record);
}

static void add_thread(uint32_t number, uint32_t process)
{
	struct trace_thread *record = make_thread(number, process, 200 + number);

	ck_assert_int_eq(tasks_add_thread(tasks, record, 0), 0);
	free(record);
}

static void load(uint32_t process, const char *build_id, uint64_t start, int64_t time_ns)
{
	struct trace_module *record =
		make_module(process, "/lib/x.so", build_id, start, start + 0x1000);

	ck_assert_int_eq(modules_load(modules, record, time_ns), 0);
	free(record);
}

static void unload(uint32_t process, uint64_t start, int64_t time_ns)
{
	struct trace_module *record = make_module(process, "/lib/x.so", "", start, start + 0x1000);

	record->head.type = TRACE_RECORD_MODULE_UNLOAD;
	ck_assert_int_eq(modules_unload(modules, record, time_ns), 0);
	free(record);
}

static void tell(uint32_t thread, uint32_t id, uint32_t parent, uint64_t pc)
{
	const struct trace_node node = { id, parent, pc };

	ck_assert_int_eq(stacks_nodes(stacks, thread, &node, 1), 0);
}

START_TEST(one_path_is_one_row_over_threads_processes_and_addresses)
{
	add_process(1);
	add_process(2);
	add_thread(1, 1);
	add_thread(2, 1);
	add_thread(3, 2);
	load(1, "\xaa", A_SO, 0);
	load(2, "\xaa", B_SO, 0); /* the same file elsewhere */
	tell(1, 1, 0, A_SO + 0x100);
	tell(1, 2, 1, A_SO + 0x200);
	tell(2, 1, 0, A_SO + 0x300); /* another path in between: other ids */
	tell(2, 2, 0, A_SO + 0x100);
	tell(2, 3, 2, A_SO + 0x200);
	tell(3, 1, 0, B_SO + 0x100);
	tell(3, 2, 1, B_SO + 0x200);

	int64_t row = stacks_row(stacks, 1, 2, 5);
	ck_assert_int_gt(row, 0);
	ck_assert_int_eq(stacks_row(stacks, 2, 3, 5), row);
	ck_assert_int_eq(stacks_row(stacks, 3, 2, 5), row);
	ck_assert_int_ne(stacks_row(stacks, 2, 1, 5), stacks_row(stacks, 1, 1, 5));
	ck_assert_int_eq(stacks_row(stacks, 1, 0, 5), 0);
	ck_assert_uint_eq(stacks_n_lost(stacks), 0);
}
END_TEST

START_TEST(a_node_that_is_told_again_under_another_id_is_the_same_row)
{
	add_process(1);
	add_thread(1, 1);
	load(1, "\xaa", A_SO, 0);
	tell(1, 1, 0, A_SO + 0x100);
	tell(1, 2, 1, A_SO + 0x200);
	tell(1, 3, 2, A_SO + 0x300);
	int64_t row = stacks_row(stacks, 1, 3, 5);
	/*
	 * The one in the middle was displaced and is told again; the ids of the others stay good.
	 */
	tell(1, 4, 1, A_SO + 0x200);
	tell(1, 5, 4, A_SO + 0x300);
	ck_assert_int_eq(stacks_row(stacks, 1, 5, 6), row);
	ck_assert_int_eq(stacks_row(stacks, 1, 3, 7), row);
	ck_assert_int_eq(stacks_row(stacks, 1, 4, 7), stacks_row(stacks, 1, 2, 7));
	ck_assert_int_eq(stacks_write(stacks, file), 0);
	ck_assert_int_eq(memory_db_integer(db, "SELECT count(*) FROM stack"), 3);
}
END_TEST

START_TEST(rows_tell_the_path_with_the_call_before_the_return_address)
{
	add_process(1);
	add_thread(1, 1);
	load(1, "\xaa", A_SO, 0);
	tell(1, 1, 0, A_SO + 0x100);
	tell(1, 2, 1, A_SO + 0x200);
	int64_t row = stacks_row(stacks, 1, 2, 5);
	int64_t parent = stacks_row(stacks, 1, 1, 5);
	ck_assert_int_eq(stacks_write(stacks, file), 0);

	char sql[256];
	snprintf(sql, sizeof(sql), "SELECT parent_id FROM stack WHERE id = %ld", (long)row);
	ck_assert_int_eq(memory_db_integer(db, sql), parent);
	snprintf(sql, sizeof(sql),
		 "SELECT offset FROM stack JOIN frame ON frame.id = frame_id WHERE stack.id = %ld",
		 (long)row);
	ck_assert_int_eq(memory_db_integer(db, sql), 0x1ff);
	ck_assert_str_eq(memory_db_text(db, "SELECT object FROM frame WHERE offset = 255"), "aa");
	ck_assert_str_eq(memory_db_text(db, "SELECT path FROM frame WHERE offset = 255"),
			 "/lib/x.so");
	ck_assert_int_eq(memory_db_integer(db, "SELECT max(depth) FROM stack"), 2);
	ck_assert_int_eq(
		memory_db_integer(db, "SELECT count(*) FROM stack WHERE parent_id IS NULL"), 1);
}
END_TEST

START_TEST(a_second_import_takes_the_rows_that_are_there)
{
	int64_t rows[2];

	for (int i = 0; i < 2; i++) {
		add_process(1);
		add_thread(1, 1);
		load(1, "\xaa", i ? B_SO : A_SO, 0);
		tell(1, 1, 0, TRACE_STOP_NO_FRAME_POINTER);
		tell(1, 2, 1, (i ? B_SO : A_SO) + 0x100);
		rows[i] = stacks_row(stacks, 1, 2, 5);
		if (i == 1) {
			tell(1, 3, 2, B_SO + 0x300);
			ck_assert_int_gt(stacks_row(stacks, 1, 3, 5), rows[1]);
		}
		ck_assert_int_eq(stacks_write(stacks, file), 0);
		end_import();
		begin_import();
	}
	ck_assert_int_eq(rows[1], rows[0]);
	ck_assert_int_eq(memory_db_integer(db, "SELECT count(*) FROM stack"), 3);
	ck_assert_int_eq(memory_db_integer(db, "SELECT count(*) FROM frame"), 2);
	ck_assert_int_eq(memory_db_integer(db, "SELECT max(depth) FROM stack"), 3);
}
END_TEST

START_TEST(why_a_stack_ends_stands_in_its_outermost_row)
{
	static const char *const names[] = {
		"unknown reason",   "no frame pointer",	 "depth",
		"no unwind rule",   "outside the stack", "stack table full",
		"before the attach"
	};

	add_process(1);
	add_thread(1, 1);
	load(1, "\xaa", A_SO, 0);
	for (uint32_t i = 0; i <= TRACE_STOP_BEFORE; i++) {
		tell(1, 2 * i + 1, 0, i);
		tell(1, 2 * i + 2, 2 * i + 1, A_SO + 0x100);
		ck_assert_int_gt(stacks_row(stacks, 1, 2 * i + 2, 5), 0);
	}
	ck_assert_int_eq(stacks_write(stacks, file), 0);
	for (unsigned i = 0; i <= TRACE_STOP_BEFORE; i++) {
		char sql[256];

		snprintf(sql, sizeof(sql),
			 "SELECT count(*) FROM stack s JOIN stack p ON p.id = s.parent_id"
			 " WHERE p.stop = '%s' AND p.frame_id IS NULL AND s.stop IS NULL",
			 names[i]);
		ck_assert_int_eq(memory_db_integer(db, sql), 1);
	}
}
END_TEST

START_TEST(a_node_whose_definition_is_lost_says_so_and_is_counted)
{
	add_process(1);
	add_thread(1, 1);
	tell(1, 5, 0, A_SO);
	tell(1, 9, 8, A_SO); /* its caller is not told */

	int64_t lost = stacks_row(stacks, 1, 3, 5);
	ck_assert_int_gt(lost, 0);
	ck_assert_int_eq(stacks_row(stacks, 1, 77, 5), lost);
	ck_assert_int_eq(stacks_row(stacks, 42, 1, 5), lost);
	ck_assert_uint_eq(stacks_n_lost(stacks), 3);

	int64_t half = stacks_row(stacks, 1, 9, 5);
	ck_assert_int_gt(half, 0);
	ck_assert_int_ne(half, lost);
	ck_assert_int_eq(stacks_write(stacks, file), 0);
	ck_assert_str_eq(memory_db_text(db, "SELECT stop FROM stack WHERE stop IS NOT NULL"),
			 "definition lost");
}
END_TEST

START_TEST(damaged_nodes_do_no_harm)
{
	add_process(1);
	add_thread(1, 1);
	tell(1, 0, 0, A_SO);
	tell(1, 3, 3, A_SO); /* its own caller */
	tell(1, 4, 9, A_SO); /* a caller that is told later */
	tell(1, UINT32_MAX, 0, A_SO);
	tell(7, 1, 0, A_SO); /* a thread that is not there */
	ck_assert_int_gt(stacks_row(stacks, 1, 3, 5), 0);
	ck_assert_int_gt(stacks_row(stacks, 1, 4, 5), 0);
	ck_assert_int_gt(stacks_row(stacks, 1, UINT32_MAX, 5), 0);
	ck_assert_uint_eq(stacks_n_lost(stacks), 3);
}
END_TEST

START_TEST(code_that_was_replaced_at_its_address_is_another_frame)
{
	add_process(1);
	add_thread(1, 1);
	load(1, "\xaa", A_SO, 0);
	tell(1, 1, 0, A_SO + 0x100);
	int64_t before = stacks_row(stacks, 1, 1, 10 * MS);

	unload(1, A_SO, 100 * MS);
	load(1, "\xbb", A_SO, 200 * MS);
	ck_assert_int_eq(stacks_row(stacks, 1, 1, 99 * MS), before);

	int64_t after = stacks_row(stacks, 1, 1, 300 * MS);
	ck_assert_int_ne(after, before);
	ck_assert_int_eq(stacks_write(stacks, file), 0);
	ck_assert_int_eq(memory_db_integer(db, "SELECT count(DISTINCT object) FROM frame"), 2);
}
END_TEST

START_TEST(code_in_no_module_is_a_frame_at_its_address)
{
	add_process(1);
	add_thread(1, 1);
	tell(1, 1, 0, 0x7000);
	ck_assert_int_gt(stacks_row(stacks, 1, 1, 5), 0);
	ck_assert_int_gt(stacks_frame(stacks, 1, 0x8000, 5), 0);
	ck_assert_int_gt(stacks_kernel_frame(stacks, 0xffffffff81000000), 0);
	ck_assert_int_eq(stacks_write(stacks, file), 0);
	ck_assert_int_eq(memory_db_integer(db, "SELECT count(*) FROM frame WHERE object = ''"
					       " AND path = '' AND offset IN (28671, 32768)"),
			 2);
	ck_assert_int_eq(
		memory_db_integer(db, "SELECT count(*) FROM frame WHERE object = '[kernel]'"), 1);
}
END_TEST

/* Random trees of nodes in several threads: a row for each distinct path of addresses, no more. */
START_TEST(rows_are_as_many_as_distinct_paths)
{
	enum { N_THREADS = 5, N_NODES = 400 };
	static uint64_t hashes[N_THREADS * N_NODES];
	static int64_t rows[N_THREADS * N_NODES];
	uint32_t seed = (uint32_t)_i * 2654435761u + 1;
	size_t n = 0;

	add_process(1);
	load(1, "\xaa", A_SO, 0);
	for (uint32_t thread = 1; thread <= N_THREADS; thread++) {
		uint64_t path[N_NODES + 1] = { 0 };

		add_thread(thread, 1);
		for (uint32_t id = 1; id <= N_NODES; id++) {
			seed = seed * 1664525u + 1013904223u;
			uint32_t parent = (seed >> 8) % id;
			uint64_t pc = A_SO + 1 + (seed >> 20) % 7;

			tell(thread, id, parent, pc);
			path[id] = (path[parent] ^ pc) * UINT64_C(0x9e3779b97f4a7c15) + 1;
			hashes[n] = path[id];
			rows[n++] = stacks_row(stacks, thread, id, 5);
		}
	}
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < i; k += 7)
			ck_assert_int_eq(hashes[i] == hashes[k], rows[i] == rows[k]);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("stacks");
	TCase *tcase = tcase_create("stacks");

	suite_add_tcase(suite, tcase);
	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, one_path_is_one_row_over_threads_processes_and_addresses);
	tcase_add_test(tcase, a_node_that_is_told_again_under_another_id_is_the_same_row);
	tcase_add_test(tcase, rows_tell_the_path_with_the_call_before_the_return_address);
	tcase_add_test(tcase, a_second_import_takes_the_rows_that_are_there);
	tcase_add_test(tcase, why_a_stack_ends_stands_in_its_outermost_row);
	tcase_add_test(tcase, a_node_whose_definition_is_lost_says_so_and_is_counted);
	tcase_add_test(tcase, damaged_nodes_do_no_harm);
	tcase_add_test(tcase, code_that_was_replaced_at_its_address_is_another_frame);
	tcase_add_test(tcase, code_in_no_module_is_a_frame_at_its_address);
	tcase_add_loop_test(tcase, rows_are_as_many_as_distinct_paths, 0, 8);
	return suite_run(suite);
}
