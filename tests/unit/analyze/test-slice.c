/*
 * Parts of a run's time counted from slices are what all rows say: random rows with many events at one moment,
 * empty blocks, lives of no time, processes that end before the run, and spans that begin and end at events.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/owners.h"
#include "common/cleanup.h"
#include "report/selection/selection.h"
#include "schemas/trace-format.h"
#include "store/database-internal.h"
#include "store/heatmap/heatmap.h"
#include "store/slices/blob.h"
#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/unit/analyze/fixtures/memory-db.h"
#include "tests/unit/common/trace-random.h"
#include "tests/support/suite.h"

#define DURATION_NS 20000
#define N_SITES	    7 /* 0: none */

struct world {
	struct trace_random random;
	struct db db;
	size_t n_blocks;
	size_t n_samples;
};

static uint32_t below(struct world *world, uint32_t n)
{
	return trace_random_below(&world->random, n);
}

static void run_sql(struct world *world, const char *sql)
{
	ck_assert_msg(sqlite3_exec(world->db.handle, sql, NULL, NULL, NULL) == SQLITE_OK, "%s",
		      sqlite3_errmsg(world->db.handle));
}

static sqlite3_stmt *prepare(struct world *world, const char *sql)
{
	sqlite3_stmt *statement;

	ck_assert_msg(sqlite3_prepare_v2(world->db.handle, sql, -1, &statement, NULL) == SQLITE_OK,
		      "%s: %s", sql, sqlite3_errmsg(world->db.handle));
	return statement;
}

/* INT64_MIN is NULL. */
static void insert(sqlite3_stmt *statement, const int64_t *values, int n)
{
	for (int i = 0; i < n; i++) {
		if (values[i] == INT64_MIN)
			sqlite3_bind_null(statement, i + 1);
		else
			sqlite3_bind_int64(statement, i + 1, values[i]);
	}
	ck_assert_int_eq(sqlite3_step(statement), SQLITE_DONE);
	sqlite3_reset(statement);
}
#define INSERT(statement, ...)                                                                     \
	insert(statement, (const int64_t[]){ __VA_ARGS__ },                                        \
	       (int)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

/* ---- Rows ---- */

static const char world_sql[] =
	"INSERT INTO run(id, program, mode, repetition, command, directory, trace, recording_id,"
	" start_unix_ns, duration_ns, clock_error_ns, ended_cleanly, committed_ns)"
	" VALUES (1,'a','default',1,'a','/','a.mst','00',0,20000,0,1,0);"
	"INSERT INTO source(id, run_id, number, name, measures, unit, exclude_kernel, error, kind) VALUES"
	" (1,1,1,'clock','time','ns of user CPU time',0,0,2), (2,1,2,'faults','fault','page faults',0,0,3),"
	" (3,1,3,'loads','access','loads',0,0,4), (4,1,4,'watch','watch','accesses',0,0,7);"
	"INSERT INTO process(id, run_id, number, pid, ns_pid, exec_seq, birth, exe, command,"
	" traced, start_ns, end_ns) VALUES (1,1,1,10,10,0,'exec','/a','a',1,0,NULL),"
	" (2,1,2,11,11,0,'exec','/a','a',1,0,9000), (3,1,3,12,12,0,'exec','/a','a',1,0,15000);"
	"INSERT INTO thread(id, run_id, process_id, number, tid, is_main, start_ns) VALUES"
	" (5,1,1,1,20,1,0), (6,1,1,2,21,0,0), (7,1,2,3,22,1,0), (8,1,3,4,23,1,0);"
	"INSERT INTO data_source(data_src, level) VALUES (5,'L1'), (6,'RAM');"
	"INSERT INTO stack(id, depth) VALUES (1,1), (2,1), (3,1), (4,1), (5,1), (6,1);"
	"INSERT INTO region(run_id, thread_id, name, start_ns, end_ns) VALUES (1,5,'loop',100,9000),"
	" (1,6,'loop',4000,4800), (1,6,'loop',5000,NULL), (1,7,'loop',8000,8900);"
	"INSERT INTO instruction_owner VALUES (1,91,0,0,9,1,3,50,5e7), (1,91,0,0,9,4,2,25,2e7),"
	" (1,92,0,0,9,1,4,100,1e8);";

static int64_t end_of(int64_t process)
{
	return process == 2 ? 9000 : process == 3 ? 15000 : DURATION_NS;
}

static void add_block(struct world *world, sqlite3_stmt *block, int64_t id, int64_t birth_ns)
{
	int64_t process = birth_ns < 9000 ? 1 + below(world, 3) : birth_ns < 15000 ? 3 : 1;
	int64_t most = (end_of(process) - birth_ns) >> below(world, 12);
	int64_t death_ns = birth_ns + below(world, (uint32_t)most + 1);
	bool is_freed = below(world, 8) > 0;
	int64_t site = below(world, N_SITES);

	INSERT(block, id, process, 5 + below(world, 4), 0x1000 + 64 * id,
	       below(world, 4) ? below(world, 1u << below(world, 20)) : 0, birth_ns,
	       is_freed ? death_ns : INT64_MIN,
	       is_freed && below(world, 10) ? 5 + below(world, 4) : INT64_MIN,
	       site ? site : INT64_MIN);
}

static void add_blocks(struct world *world)
{
	sqlite3_stmt *block = prepare(
		world, "INSERT INTO allocation(id, run_id, process_id, thread_id, address, size,"
		       " birth_ns, death_ns, death_thread_id, stack_id, call, death)"
		       " VALUES(?, 1, ?, ?, ?, ?, ?, ?, ?, ?, 1, 0)");
	int64_t time_ns = 0;

	for (size_t i = 0; i < world->n_blocks; i++) {
		uint32_t step = 2 * DURATION_NS / (uint32_t)world->n_blocks + 1;
		time_ns += below(world, 3) ? below(world, step) : 0;
		add_block(world, block, 100 + (int64_t)i,
			  time_ns < DURATION_NS ? time_ns : DURATION_NS);
	}
	sqlite3_finalize(block);
}

static void add_touch(struct world *world, sqlite3_stmt *touch, int64_t sample, int64_t source)
{
	static const int kinds[] = { OWNER_heap,  OWNER_heap,  OWNER_global,
				     OWNER_stack, OWNER_named, OWNER_unknown };
	static const int roles[][4] = {
		{ TRACE_ROLE_WINDOW, TRACE_ROLE_WINDOW, TRACE_ROLE_STALL, TRACE_ROLE_MIX },
		{ TRACE_ROLE_FAULT, TRACE_ROLE_FAULT, TRACE_ROLE_FAULT, TRACE_ROLE_FAULT },
		{ TRACE_ROLE_EXACT, TRACE_ROLE_EXACT, TRACE_ROLE_EXACT, TRACE_ROLE_EXACT },
		{ TRACE_ROLE_EXACT, TRACE_ROLE_EXACT, TRACE_ROLE_EXACT, TRACE_ROLE_EXACT },
	};
	int kind = kinds[below(world, 6)];
	int64_t owner = kind == OWNER_unknown  ? INT64_MIN
			: kind != OWNER_heap   ? 1 + below(world, 3)
			: world->n_blocks == 0 ? 1
					       : 100 + below(world, (uint32_t)world->n_blocks);

	sqlite3_bind_double(touch, 11, (1 + below(world, 3)) / 3.0);
	INSERT(touch, sample, roles[source - 1][below(world, 4)],
	       kind == OWNER_unknown ? INT64_MIN : 0x1000 + below(world, 5000),
	       below(world, 3) ? below(world, 2) : INT64_MIN, kind, owner, below(world, 2),
	       90 + below(world, 4), below(world, 3) ? 4 + below(world, 3) : INT64_MIN,
	       below(world, 2) ? 8 : INT64_MIN);
}

static void add_samples(struct world *world)
{
	sqlite3_stmt *sample =
		prepare(world, "INSERT INTO sample(id, run_id, source_id, process_id,"
			       " thread_id, time_ns, weight, is_kernel)"
			       " VALUES(?, 1, ?, 1, ?, ?, ?, 0)");
	sqlite3_stmt *touch = prepare(
		world, "INSERT INTO touch(sample_id, run_id, role, address, is_write, owner_kind,"
		       " owner_id, phase, frame_id, data_src, size, share)"
		       " VALUES(?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
	sqlite3_stmt *detail =
		prepare(world, "INSERT INTO access_detail(sample_id, run_id, latency,"
			       " node) VALUES(?, 1, ?, ?)");

	for (size_t i = 0; i < world->n_samples; i++) {
		int64_t id = 50 + (int64_t)i, source = 1 + below(world, 4);
		int64_t time_ns = (int64_t)(i * DURATION_NS / world->n_samples);
		if (below(world, 5) == 0) /* nearly in order */
			time_ns -= time_ns > 300 ? below(world, 300) : 0;
		INSERT(sample, id, source, below(world, 9) ? 5 + below(world, 4) : INT64_MIN,
		       time_ns, 1000 + below(world, 9));
		for (uint32_t n = below(world, 4); n > 0; n--)
			add_touch(world, touch, id, source);
		if (below(world, 2))
			INSERT(detail, id, below(world, 500),
			       source == 2 ? below(world, 2) : INT64_MIN);
	}
	sqlite3_finalize(sample);
	sqlite3_finalize(touch);
	sqlite3_finalize(detail);
}

static void make(struct world *world, uint64_t seed, size_t n_blocks, size_t n_samples)
{
	*world = (struct world){ .random = { seed }, .n_blocks = n_blocks, .n_samples = n_samples };
	world->db = (struct db){ .handle = memory_db_open(), .lock_fd = -1 };
	run_sql(world, "BEGIN");
	run_sql(world, world_sql);
	add_blocks(world);
	add_samples(world);
	run_sql(world, "COMMIT");
}

/* ---- Comparing ---- */

/* With the columns that tell their rows apart. */
static const struct {
	const char *name, *order;
} tables[] = {
	{ "site", "2" },
	{ "site_peak", "2" },
	{ "total", "2" },
	{ "histogram", "2, 3" },
	{ "thread_total", "2" },
	{ "object_total", "2, 3" },
	{ "access_total", "2, 3, 4, 5" },
	{ "fault_node", "2, 3, 4, 5" },
	{ "source", "1" },
	{ "timeline", "2" },
	{ "shared_line", "2, 3" },
};
#define N_TABLES    (sizeof(tables) / sizeof(tables[0]))
#define N_OF_SLICES (N_TABLES - 2) /* but for the last two */

static void count(struct world *world, int64_t from_ns, int64_t to_ns, enum selection_order order)
{
	int64_t run_id = 1;
	const struct selection selection = {
		.runs = &run_id, .n_runs = 1, .from_ns = from_ns, .to_ns = to_ns, .order = order
	};

	ck_assert_int_eq(selection_apply(&world->db, &selection), 0);
	ck_assert_int_eq(memory_db_integer(world->db.handle, "SELECT count(*) FROM temp.timeline") >
				 0,
			 order == SELECTION_TIMELINE);
}

static void keep(struct world *world)
{
	for (size_t i = 0; i < N_TABLES; i++) {
		char sql[200];
		snprintf(
			sql, sizeof(sql),
			"DROP TABLE IF EXISTS temp.all_%s; CREATE TEMP TABLE all_%s AS SELECT * FROM %s",
			tables[i].name, tables[i].name, tables[i].name);
		run_sql(world, sql);
	}
}

static void check_cell(sqlite3_stmt *found, sqlite3_stmt *expected, int column, const char *what)
{
	const char *name = sqlite3_column_name(found, column);
	double a = sqlite3_column_double(found, column);
	double b = sqlite3_column_double(expected, column);
	bool is_real = sqlite3_column_type(expected, column) == SQLITE_FLOAT;

	/* Intervals know of neighbours, and slices of none across their ends. */
	if (strstr(name, "share") || strncmp(name, "stall_", 6) == 0)
		return;
	ck_assert_msg(sqlite3_column_type(found, column) == sqlite3_column_type(expected, column),
		      "%s: type of %s", what, name);
	ck_assert_msg(is_real ? fabs(a - b) <= 1e-9 * fabs(b)
			      : strcmp((const char *)sqlite3_column_text(found, column) ?: "",
				       (const char *)sqlite3_column_text(expected, column) ?: "") ==
					0,
		      "%s: %s is %.17g, not %.17g", what, name, a, b);
}

static void check_table(struct world *world, size_t number, const char *what)
{
	const char *table = tables[number].name, *order = tables[number].order;
	char sql[200], text[200];
	int result;

	snprintf(text, sizeof(text), "%s of %s", table, what);
	snprintf(sql, sizeof(sql), "SELECT * FROM %s ORDER BY %s", table, order);
	sqlite3_stmt *found = prepare(world, sql);
	snprintf(sql, sizeof(sql), "SELECT * FROM all_%s ORDER BY %s", table, order);
	sqlite3_stmt *expected = prepare(world, sql);
	while ((result = sqlite3_step(expected)) == SQLITE_ROW) {
		ck_assert_msg(sqlite3_step(found) == SQLITE_ROW, "%s: rows are missing", text);
		for (int i = 0; i < sqlite3_column_count(expected); i++)
			check_cell(found, expected, i, text);
	}
	ck_assert_int_eq(result, SQLITE_DONE);
	ck_assert_msg(sqlite3_step(found) == SQLITE_DONE, "%s: rows too many", text);
	sqlite3_finalize(found);
	sqlite3_finalize(expected);
}

/* Any time, or that of an event, which many others may share. */
static int64_t pick(struct world *world)
{
	static const char *const events[] = {
		"SELECT birth_ns FROM allocation WHERE id = 100 + %u",
		"SELECT coalesce(death_ns, 9000) FROM allocation WHERE id = 100 + %u",
		"SELECT time_ns FROM sample WHERE id = 50 + %u",
	};
	uint32_t which = below(world, 4);
	char sql[100];

	if (which == 3 || world->n_blocks == 0 || world->n_samples == 0)
		return below(world, DURATION_NS + 100);
	snprintf(sql, sizeof(sql), events[which],
		 below(world, (uint32_t)(which == 2 ? world->n_samples : world->n_blocks)));
	return memory_db_integer(world->db.handle, sql) + below(world, 2);
}

static void check_span(struct world *world, int64_t from_ns, int64_t to_ns)
{
	char what[100];

	snprintf(what, sizeof(what), "%lld to %lld of %zu and %zu", (long long)from_ns,
		 (long long)to_ns, world->n_blocks, world->n_samples);
	count(world, from_ns, to_ns, SELECTION_OF_SUMS);
	keep(world);
	count(world, from_ns, to_ns, SELECTION_TIMELINE);
	for (size_t i = 0; i < N_OF_SLICES; i++)
		check_table(world, i, what);
	keep(world);
	run_sql(world, "BEGIN; DELETE FROM slice");
	count(world, from_ns, to_ns, SELECTION_TIMELINE);
	for (size_t i = 0; i < N_TABLES; i++)
		check_table(world, i, what);
	run_sql(world, "ROLLBACK");
}

START_TEST(a_part_of_time_is_what_all_rows_say)
{
	static const struct {
		size_t n_blocks, n_samples, n_events;
		int n_spans;
	} cases[] = {
		{ 0, 0, 1, 3 },		{ 1, 1, 1, 10 },	{ 0, 300, 10, 20 },
		{ 300, 0, 10, 20 },	{ 200, 200, 5, 100 },	{ 1500, 800, 10, 60 },
		{ 800, 1500, 400, 60 }, { 9000, 9000, 20, 15 }, { 1000, 1000, 100000, 30 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world world;
		make(&world, 17 * i + (uint64_t)_i, cases[i].n_blocks, cases[i].n_samples);
		ck_assert_int_eq(picture_write_sliced(&world.db, 1, cases[i].n_events), 0);
		for (int n = 0; n < cases[i].n_spans; n++) {
			int64_t a = pick(&world), b = pick(&world);
			check_span(&world, a < b ? a : b, (a < b ? b : a) + 1);
		}
		check_span(&world, 0, INT64_MAX - 1);
		check_span(&world, DURATION_NS, INT64_MAX);
		sqlite3_close(world.db.handle);
	}
}
END_TEST

/* Of a process, a thread, a region and a range of addresses; with the timeline. */
START_TEST(rows_that_slices_lead_to_are_all_there_are)
{
	int64_t run_id = 1;
	struct world world;

	make(&world, 11, 900, 1500);
	ck_assert_int_eq(picture_write_sliced(&world.db, 1, 30), 0);
	for (int n = 0; n < 100; n++) {
		int64_t a = pick(&world), b = pick(&world);
		const struct selection selection = {
			.runs = &run_id,
			.n_runs = 1,
			.from_ns = a < b ? a : b,
			.to_ns = (a < b ? b : a) + 1,
			.pid = n % 4 == 1 ? 10 : 0,
			.tid = n % 4 == 2 ? 21 : 0,
			.low = 0x1100,
			.high = n % 3 ? 0x9000 : 0,
			.region = n % 4 == 3 ? "loop" : NULL,
			.order = SELECTION_TIMELINE,
		};
		ck_assert_int_eq(selection_apply(&world.db, &selection), 0);
		/* Of blocks that were not born in it no times are known. */
		ck_assert_int_eq(memory_db_integer(world.db.handle,
						   "SELECT count(*) FROM temp.site WHERE"
						   " first_ns > 4000000000000000000"),
				 0);
		keep(&world);
		run_sql(&world, "BEGIN; DELETE FROM slice");
		ck_assert_int_eq(selection_apply(&world.db, &selection), 0);
		for (size_t i = 0; i < N_TABLES; i++)
			check_table(&world, i, "rows");
		run_sql(&world, "ROLLBACK");
	}
	sqlite3_close(world.db.handle);
}
END_TEST

/* Of what is shared, in the order of time and then of sample.id. Returns how many lines were compared. */
static int64_t check_shared(struct world *world, const struct selection *selection)
{
	ck_assert_int_eq(selection_apply(&world->db, selection), 0);
	return check_lines(
		world->db.handle, 1, selection->from_ns, selection->to_ns,
		"time_ns, sample.id, touch.address, role, owner_kind, owner_id, is_write,"
		" touch.size, share");
}

START_TEST(who_shares_a_line_first_does_not_depend_on_the_order_of_rows)
{
	int64_t run_id = 1, n_lines = 0;
	struct world world;

	make(&world, 23 + (uint64_t)_i, 200, 2500);
	/* Several samples at one moment. */
	run_sql(&world, "UPDATE sample SET time_ns = time_ns / 30 * 30");
	/* Two threads, and few lines. */
	run_sql(&world,
		"UPDATE sample SET thread_id = iif(id * 7919 % 13 < 5, (SELECT min(id) FROM"
		" thread), (SELECT max(id) FROM thread)) WHERE thread_id IS NOT NULL;"
		"UPDATE touch SET address = address % 64 + 64 * (sample_id % 41) + 65536,"
		" owner_kind = 4, owner_id = 1 WHERE address IS NOT NULL AND role IN (0, 1)");
	if (_i > 0)
		ck_assert_int_eq(picture_write_sliced(&world.db, 1, 100), 0);
	for (int n = 0; n < 10; n++) {
		int64_t a = pick(&world), b = pick(&world);
		const struct selection selection = { .runs = &run_id,
						     .n_runs = 1,
						     .from_ns = a < b ? a : b,
						     .to_ns = (a < b ? b : a) + 1,
						     .order = SELECTION_LINES };
		n_lines += check_shared(&world, &selection);
		keep(&world);
		run_sql(&world, "BEGIN; DELETE FROM slice; CREATE TEMP TABLE mixed AS SELECT *"
				" FROM touch ORDER BY random(); DELETE FROM touch;"
				" INSERT INTO touch SELECT * FROM mixed");
		check_shared(&world, &selection);
		check_table(&world, N_TABLES - 1, "rows in another order");
		run_sql(&world, "ROLLBACK");
	}
	ck_assert_int_gt(n_lines, 15);
	sqlite3_close(world.db.handle);
}
END_TEST

START_TEST(slices_lie_in_groups_of_sixteen)
{
	struct world world;

	make(&world, 5, 9000, 9000);
	ck_assert_int_eq(picture_write_sliced(&world.db, 1, 20), 0);
	for (int is_blocks = 0; is_blocks < 2; is_blocks++) {
		int64_t n[3];
		for (int level = 0; level < 3; level++) {
			char sql[100];
			snprintf(sql, sizeof(sql),
				 "SELECT count(*) FROM slice WHERE is_blocks = %d AND level = %d",
				 is_blocks, level);
			n[level] = memory_db_integer(world.db.handle, sql);
		}
		ck_assert_int_gt(n[0], 48);
		ck_assert_int_eq(n[1], (n[0] + 15) / 16);
		ck_assert_int_eq(n[2], (n[1] + 15) / 16);
	}
	/* Slices of blocks share no moment. */
	ck_assert_int_eq(
		memory_db_integer(world.db.handle,
				  "SELECT count(*) FROM slice AS a JOIN slice AS b ON"
				  " b.number > a.number AND b.first_ns <= a.last_ns WHERE"
				  " a.is_blocks AND b.is_blocks AND a.level = 0 AND b.level = 0"),
		0);
	sqlite3_close(world.db.handle);
}
END_TEST

START_TEST(blocks_out_of_order_are_counted_from_rows)
{
	static const char *const changes[] = {
		"UPDATE allocation SET birth_ns = birth_ns + 900 WHERE id = 120",
		"UPDATE allocation SET death_ns = birth_ns - 1 WHERE id = 120",
		"UPDATE allocation SET birth_ns = 9001, death_ns = NULL, process_id = 2 WHERE id = 399",
	};

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		int64_t run_id = 1;
		const struct selection selection = { &run_id, 1, .from_ns = 1, .to_ns = INT64_MAX };
		struct world world;
		make(&world, i, 300, 100);
		run_sql(&world, changes[i]);
		ck_assert_int_eq(picture_write_sliced(&world.db, 1, 10), 0);
		ck_assert_int_eq(memory_db_integer(world.db.handle,
						   "SELECT count(*) FROM slice WHERE is_blocks"),
				 0);
		ck_assert_int_eq(selection_apply(&world.db, &selection), 0);
		ck_assert_int_gt(
			memory_db_integer(world.db.handle, "SELECT count(*) FROM temp.timeline"),
			0);
		sqlite3_close(world.db.handle);
	}
}
END_TEST

START_TEST(damaged_slices_are_refused)
{
	int64_t run_id = 1;
	struct selection selection = { &run_id, 1, .from_ns = 3000, .to_ns = 12000 };
	struct world world;

	make(&world, 3, 1000, 1000);
	ck_assert_int_eq(picture_write_sliced(&world.db, 1, 50), 0);
	for (int i = 0; i < 300; i++) {
		char sql[200];
		int result;
		snprintf(sql, sizeof(sql),
			 "UPDATE slice SET data = CAST(substr(data, 1, %u) || x'%02x' ||"
			 " substr(data, %u) AS BLOB) WHERE id = %u",
			 below(&world, 600), below(&world, 256), below(&world, 600),
			 1 + below(&world, 40));
		run_sql(&world, "BEGIN");
		run_sql(&world, sql);
		selection.order = (enum selection_order)(i % 3);
		selection.pid = i % 4 ? 0 : 10;
		result = selection_apply(&world.db, &selection);
		ck_assert(result == 0 || result == -EBADMSG);
		run_sql(&world, "ROLLBACK");
	}
	selection.pid = 0;
	run_sql(&world, "DELETE FROM slice WHERE level = 1 AND number = 0");
	ck_assert_int_eq(selection_apply(&world.db, &selection), -EBADMSG);
	sqlite3_close(world.db.handle);
}
END_TEST

/* ---- Bytes ---- */

struct rows {
	size_t n;
	int64_t sum;
};

static int add_row(void *context, enum slice_section section, const int64_t *values)
{
	struct rows *rows = context;

	ck_assert_int_eq(section, SLICE_NODES);
	ck_assert_int_eq(values[0], (int64_t)rows->n);
	ck_assert_int_eq(values[2], INT64_MIN);
	ck_assert_int_eq(values[SLICE_COLUMNS - 1], 0);
	rows->n++;
	rows->sum += values[1];
	return 0;
}

START_TEST(more_rows_than_a_chunk_has_come_back)
{
	struct slice_blob *blob = slice_blob_open();
	struct slice_reader *reader = slice_reader_open();
	struct rows rows = { 0 };
	const struct slice_visitor visitor = { 1u << SLICE_NODES, add_row, &rows };
	const uint8_t *bytes;
	size_t n_bytes;

	ck_assert_ptr_nonnull(blob);
	ck_assert_ptr_nonnull(reader);
	for (int64_t i = 0; i < 70000; i++) {
		const int64_t values[] = { i, i % 3, INT64_MIN };
		ck_assert_int_eq(slice_blob_row(blob, SLICE_NODES, values, 3), 0);
	}
	for (int64_t i = 0; i < 10; i++)
		ck_assert_int_eq(slice_blob_row(blob, SLICE_ENDS, &i, 1), 0);
	ck_assert_int_eq(slice_blob_bytes(blob, &bytes, &n_bytes), 0);
	ck_assert_int_eq(slice_read(reader, bytes, n_bytes, &visitor), 0);
	ck_assert_uint_eq(rows.n, 70000);
	ck_assert_int_eq(rows.sum, 69999);
	for (size_t n = 1; n < n_bytes; n += n_bytes / 50) {
		rows = (struct rows){ 0 };
		int r = slice_read(reader, bytes, n_bytes - n, &visitor);
		ck_assert(r == 0 || r == -EBADMSG);
	}
	slice_blob_close(blob);
	slice_reader_close(reader);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("slice");
	TCase *tcase = tcase_create("slice");

	tcase_set_timeout(tcase, 0);
	tcase_add_loop_test(tcase, a_part_of_time_is_what_all_rows_say, 0, 3);
	tcase_add_test(tcase, rows_that_slices_lead_to_are_all_there_are);
	tcase_add_loop_test(tcase, who_shares_a_line_first_does_not_depend_on_the_order_of_rows, 0,
			    2);
	tcase_add_test(tcase, slices_lie_in_groups_of_sixteen);
	tcase_add_test(tcase, blocks_out_of_order_are_counted_from_rows);
	tcase_add_test(tcase, damaged_slices_are_refused);
	tcase_add_test(tcase, more_rows_than_a_chunk_has_come_back);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
