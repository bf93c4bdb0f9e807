/*
 * Parts of a run are what SQL says about its rows, and scans of chunks have its values: random rows
 * with many events at one moment, empty blocks, lives of no time, processes that end before the
 * run, late rows, and spans that begin and end at events.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/owners.h"
#include "common/cleanup.h"
#include "schemas/trace-format.h"
#include "store/compact/scan.h"
#include "store/touch.h"
#include "store/database-internal.h"
#include "store/selection/selection.h"
#include "store/selection/stretches.h"
#include "store/statement.h"
#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/unit/analyze/fixtures/chunk-rows.h"
#include "tests/unit/analyze/fixtures/memory-db.h"
#include "tests/unit/analyze/fixtures/stretch-rows.h"
#include "tests/unit/common/trace-random.h"
#include "tests/support/fewer.h"
#include "tests/support/suite.h"

#define DURATION_NS 20000
#define N_SITES	    7 /* 0: none */

struct world {
	struct trace_random random;
	struct db db;
	size_t n_blocks;
	size_t n_samples;
	bool has_time; /* samples of CPU time */
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
	" start_unix_ns, duration_ns, clock_error_ns, ended_cleanly, committed_ns) VALUES"
	" (1,'a','default',1,'a','/','a.mst','00',0,20000,0,1,0);"
	"INSERT INTO source(id, run_id, number, name, measures, unit, exclude_kernel, error,"
	" kind) VALUES (1,1,1,'clock','time','ns of user CPU time',0,0,2),"
	" (2,1,2,'faults','fault','page faults',0,0,3), (3,1,3,'loads','access','loads',0,0,4),"
	" (4,1,4,'watch','watch','accesses',0,0,7);"
	"INSERT INTO process(id, run_id, number, pid, ns_pid, exec_seq, birth, exe, command,"
	" traced, start_ns, end_ns) VALUES (1,1,1,10,10,0,'exec','/a','a',1,0,NULL),"
	" (2,1,2,11,11,0,'exec','/a','a',1,0,9000), (3,1,3,12,12,0,'exec','/a','a',1,0,15000);"
	"INSERT INTO thread(id, run_id, process_id, number, tid, is_main, start_ns) VALUES"
	" (5,1,1,1,20,1,0), (6,1,1,2,21,0,0), (7,1,2,3,22,1,0), (8,1,3,4,23,1,0);"
	"INSERT INTO data_source(data_src, level) VALUES (5,'L1'), (6,'RAM');"
	"INSERT INTO stack(id, depth) VALUES (1,1), (2,1), (3,1), (4,1), (5,1), (6,1);"
	"INSERT INTO region(run_id, thread_id, name, start_ns, end_ns) VALUES"
	" (1,5,'loop',100,9000), (1,6,'loop',4000,4800), (1,6,'loop',5000,NULL),"
	" (1,7,'loop',8000,8900);"
	"INSERT INTO instruction_owner VALUES (1,91,0,0,9,1,3,50,5e7), (1,91,0,0,9,4,2,25,2e7),"
	" (1,92,0,0,9,1,4,100,1e8);";

static int64_t end_of(int64_t process)
{
	return process == 2 ? 9000 : process == 3 ? 15000 : DURATION_NS;
}

static void add_block(struct world *world, sqlite3_stmt *block, int64_t id, int64_t allocated_ns)
{
	int64_t process = allocated_ns < 9000 ? 1 + below(world, 3) : allocated_ns < 15000 ? 3 : 1;
	int64_t most = (end_of(process) - allocated_ns) >> below(world, 12);
	int64_t freed_ns = allocated_ns + below(world, (uint32_t)most + 1);
	bool is_freed = below(world, 8) > 0;
	int64_t site = below(world, N_SITES);

	INSERT(block, id, process, 5 + below(world, 4), 0x1000 + 64 * id,
	       below(world, 4) ? below(world, 1u << below(world, 20)) : 0, allocated_ns,
	       is_freed ? freed_ns : INT64_MIN,
	       is_freed && below(world, 10) ? 5 + below(world, 4) : INT64_MIN,
	       site ? site : INT64_MIN);
}

static void add_blocks(struct world *world)
{
	sqlite3_stmt *block = prepare(
		world, "INSERT INTO allocation(id, run_id, process_id, thread_id, address, size,"
		       " allocated_ns, freed_ns, freed_thread_id, stack_id, call, end_kind)"
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
		int64_t id = 50 + (int64_t)i,
			source = world->has_time ? 1 + below(world, 4) : 2 + below(world, 3);
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
	*world = (struct world){ { seed }, .n_blocks = n_blocks, .n_samples = n_samples };
	world->has_time = seed % 4 != 3;
	world->db = (struct db){ .handle = memory_db_open(), .lock_fd = -1 };
	run_sql(world, "PRAGMA temp_store = MEMORY; BEGIN");
	run_sql(world, world_sql);
	add_blocks(world);
	add_samples(world);
	run_sql(world, "COMMIT");
}

static void end(struct world *world)
{
	db_forget_last(&world->db);
	ck_assert_int_eq(sqlite3_close(world->db.handle), SQLITE_OK);
}

/* ---- Chunks ---- */

static const char *const chunked[] = { "allocation", "touch" };

/* A scan beside the rows of its table, in their order. */
struct beside {
	sqlite3_stmt *row;
	int n_columns;
	bool has_others; /* the column behind them says which rows are the table's */
	const struct scan_bound *bound; /* NULL: none */
	struct scan *scan;
	const struct scan_rows *rows;
	uint32_t next; /* of rows */
	int n_left_out;
};

static int64_t value_of(sqlite3_stmt *row, int column)
{
	double real = sqlite3_column_double(row, column);
	int64_t value = sqlite3_column_int64(row, column);

	if (sqlite3_column_type(row, column) == SQLITE_FLOAT)
		memcpy(&value, &real, sizeof(value));
	return sqlite3_column_type(row, column) == SQLITE_NULL ? SCAN_NULL : value;
}

static bool is_next(const struct beside *beside)
{
	for (int i = 0; i < beside->n_columns && beside->rows; i++) {
		if (beside->rows->columns[i][beside->next] != value_of(beside->row, i))
			return false;
	}
	return beside->rows;
}

static bool fits(const struct beside *beside)
{
	if (!beside->bound)
		return true;
	int64_t value = value_of(beside->row, (int)beside->bound->column);
	return value == SCAN_NULL ? beside->bound->or_null
				  : value >= beside->bound->low && value <= beside->bound->high;
}

static void go_on(struct beside *beside)
{
	do {
		if (beside->rows && ++beside->next < beside->rows->n)
			continue;
		int r = scan_next(beside->scan, &beside->rows);
		ck_assert(r == 0 || r == 1);
		ck_assert(r == 0 || beside->rows->n > 0);
		beside->next = 0;
		if (r == 0)
			beside->rows = NULL;
	} while (beside->rows && beside->has_others &&
		 !(beside->rows->columns[beside->n_columns][beside->next] & SHOWN_TOUCH));
}

/* Rows that a scan leaves out do not fit. Returns how many it does. */
static int check_scan(struct world *world, const char *table, const struct scan_bound *bound)
{
	char columns[400], sql[500];
	struct beside beside = { .bound = bound };

	snprintf(sql, sizeof(sql), "SELECT group_concat(name, ', ') FROM pragma_table_info('%s')",
		 table);
	snprintf(columns, sizeof(columns), "%s", memory_db_text(world->db.handle, sql));
	snprintf(sql, sizeof(sql), "SELECT %s FROM %s ORDER BY rowid", columns, table);
	beside.row = prepare(world, sql);
	beside.n_columns = sqlite3_column_count(beside.row);
	beside.has_others = strcmp(table, "touch") == 0;
	if (beside.has_others)
		strcat(columns, ", tables");
	const struct scan_query query = { table, columns, 1 };
	ck_assert_int_eq(scan_open(world->db.handle, &query, &beside.scan), 0);
	if (bound)
		scan_bound(beside.scan, bound);
	go_on(&beside);
	while (sqlite3_step(beside.row) == SQLITE_ROW) {
		if (!is_next(&beside)) {
			ck_assert_msg(!fits(&beside), "%s lacks row %lld of %s", table,
				      (long long)sqlite3_column_int64(beside.row, 0), sql);
			beside.n_left_out++;
			continue;
		}
		go_on(&beside);
	}
	ck_assert_ptr_null(beside.rows);
	sqlite3_finalize(beside.row);
	scan_close(beside.scan);
	return beside.n_left_out;
}

/* A column of whole numbers, and values between those of two rows. */
static struct scan_bound pick_bound(struct world *world, const char *table)
{
	struct scan_bound bound = { .or_null = below(world, 2) };
	sqlite3_stmt *row;
	char sql[200];

	snprintf(sql, sizeof(sql),
		 "SELECT * FROM %s WHERE rowid %% 2 = %u ORDER BY rowid LIMIT 1 OFFSET %u", table,
		 below(world, 2), below(world, 300));
	row = prepare(world, sql);
	do
		bound.column = below(world, (uint32_t)sqlite3_column_count(row));
	while (strcmp(sqlite3_column_name(row, (int)bound.column), "share") == 0);
	if (sqlite3_step(row) == SQLITE_ROW)
		bound.low = bound.high = sqlite3_column_int64(row, (int)bound.column);
	bound.high += below(world, 2) ? below(world, 2000) : 0;
	sqlite3_finalize(row);
	return bound;
}

static void check_scans(struct world *world)
{
	int n_left_out = 0, n_bounds = fewer(20);

	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(check_scan(world, chunked[i], NULL), 0);
		for (int n = 0; n < n_bounds; n++) {
			struct scan_bound bound = pick_bound(world, chunked[i]);
			n_left_out += check_scan(world, chunked[i], &bound);
		}
	}
	/* A few bounds, or a few chunks, may by chance leave out none. */
	ck_assert(n_left_out > 0 || n_bounds < 10 || world->n_blocks + world->n_samples < 200);
}

/* ---- Against SQL ---- */

/*
 * Blocks as the selection sees them, and what is live when each of them is born: the sum of all
 * changes before it. What was there when the time begins is there before anything ends.
 */
static const char blocks_sql[] =
	"DROP TABLE IF EXISTS temp.b;"
	" CREATE TEMP TABLE b AS SELECT allocation.id, thread_id, coalesce(stack_id, 0) AS site,"
	" size, allocated_ns, freed_ns, freed_thread_id AS killer, max(allocated_ns, %lld) AS t,"
	" allocated_ns < %lld AS old, coalesce(freed_ns, process.end_ns, 1 << 60) AS e"
	" FROM main.allocation JOIN main.process ON process.id = process_id"
	" WHERE allocated_ns < %lld AND e >= %lld AND (%lld = 0 OR pid = %lld) AND (%lld = 0"
	" OR thread_id IN (SELECT id FROM main.thread WHERE tid = %lld));"
	"DROP TABLE IF EXISTS temp.l;"
	" CREATE TEMP TABLE l AS SELECT id, t, old, live FROM (SELECT id, t, old, is_end,"
	" sum(change) OVER (ORDER BY at, id, is_end ROWS UNBOUNDED PRECEDING) AS live FROM"
	" (SELECT id, t, old, iif(old, -1, t) AS at, 0 AS is_end, size AS change FROM b"
	" UNION ALL SELECT id, t, old, e, 1, -size FROM b)) WHERE NOT is_end";

/* Each gives no row. %lld: the end of the time that there is. */
static const char *const block_checks[] = {
	"WITH s AS (SELECT site, sum(NOT old) AS n, sum(CASE WHEN NOT old THEN size ELSE 0 END) AS"
	" bytes, sum(NOT old AND freed_ns IS NOT NULL) AS frees, sum(CASE WHEN NOT old"
	" AND freed_ns IS NULL THEN size ELSE 0 END) AS unfreed, min(t) AS first, max(min(e,"
	" %1$lld)) AS last, sum(size * (min(e, %1$lld) - t) / 1e9) AS bs"
	" FROM b GROUP BY 1) SELECT site FROM s LEFT JOIN temp.site AS k ON k.stack_id = site"
	" WHERE NOT (n IS n_blocks AND frees IS n_frees AND s.bytes IS k.bytes"
	" AND unfreed IS live_bytes AND first IS first_ns AND last IS last_ns"
	" AND abs(bs - byte_seconds) <= 1e-9 * (bs + 1e-9))"
	/* A site that is left out has nothing. */
	" AND NOT (k.stack_id IS NULL AND n = 0 AND NOT EXISTS (SELECT 1 FROM b"
	" WHERE b.site = s.site AND size > 0))",
	"SELECT 1 FROM temp.total WHERE name = 'peak_bytes' AND value IS NOT"
	" (SELECT coalesce(max(live), 0) FROM l)",
	"SELECT 1 FROM temp.total WHERE name = 'peak_ns' AND value IS NOT"
	" (SELECT coalesce((SELECT t FROM l WHERE live > 0 ORDER BY live DESC, id LIMIT 1),"
	" value))",
	"WITH p AS (SELECT id, t, old FROM l WHERE live > 0 ORDER BY live DESC, id LIMIT 1),"
	" s AS (SELECT site, sum(size) AS bytes FROM b, p WHERE b.id <= p.id AND"
	" (b.id = p.id OR p.old OR b.e > p.t) GROUP BY 1) SELECT site FROM s LEFT"
	" JOIN temp.site_peak AS k ON k.stack_id = site WHERE coalesce(k.bytes, 0) <> s.bytes",
	"SELECT 1 FROM (SELECT sum(n_allocations) AS a, sum(n_frees) AS f FROM temp.timeline) WHERE"
	" a <> (SELECT count(*) FROM b WHERE NOT old) OR f <> (SELECT count(*) FROM b WHERE"
	" freed_ns < %2$lld)",
	"WITH s AS (SELECT id, (SELECT count(*) FROM b WHERE NOT old AND thread_id = thread.id) AS"
	" n, (SELECT count(*) FROM b WHERE killer = thread.id AND freed_ns < %2$lld) AS f FROM"
	" main.thread) SELECT id FROM s LEFT JOIN temp.thread_total ON thread_id = id"
	" WHERE coalesce(n_blocks, 0) <> n OR coalesce(n_frees, 0) <> f",
	"SELECT 1 FROM (SELECT coalesce(sum(n_blocks), 0) AS n, coalesce(sum(bytes),"
	" 0) AS bytes FROM temp.histogram) WHERE n <> (SELECT count(*) FROM b WHERE NOT old)"
	" OR bytes <> (SELECT coalesce(sum(size), 0) FROM b WHERE NOT old)",
};

/* Of sites, whether they are of the selection or not. */
static const char touched_sql[] =
	"WITH heap AS (SELECT coalesce(allocation.stack_id, 0) AS site, role, share"
	" FROM main.touch JOIN main.sample ON sample.id = sample_id JOIN main.allocation ON"
	" allocation.id = owner_id WHERE owner_kind = 1 AND source_id <> 4"
	" AND time_ns >= %lld AND time_ns < %lld AND (%lld = 0 OR sample.process_id IN"
	" (SELECT id FROM main.process WHERE pid = %lld)) AND (%lld = 0 OR sample.thread_id IN"
	" (SELECT id FROM main.thread WHERE tid = %lld))), sums AS (SELECT site,"
	" sum(CASE WHEN role = 1 THEN share ELSE 0 END) AS n, sum(role = 3) AS faults"
	" FROM heap GROUP BY 1) SELECT site FROM sums LEFT JOIN temp.site AS k ON k.stack_id ="
	" site WHERE abs(n - coalesce(n_samples, 0)) > 1e-6 OR faults <> coalesce(n_faults, 0)";

static void check_none(struct world *world, const char *text, const char *what)
{
	sqlite3_stmt *row = prepare(world, text);

	ck_assert_msg(sqlite3_step(row) == SQLITE_DONE, "%s: row %s of %s", what,
		      (const char *)sqlite3_column_text(row, 0) ?: "NULL", text);
	sqlite3_finalize(row);
}

static void check_sums(struct world *world, const struct selection *selection, const char *what)
{
	long long from = selection->from_ns, to = selection->to_ns, pid = selection->pid,
		  tid = selection->tid, end = to < DURATION_NS ? to : DURATION_NS;
	char text[2000];

	snprintf(text, sizeof(text), blocks_sql, from, from, to, from, pid, pid, tid, tid);
	run_sql(world, text);
	for (size_t i = 0; i < sizeof(block_checks) / sizeof(block_checks[0]); i++) {
		snprintf(text, sizeof(text), block_checks[i], end, to);
		check_none(world, text, what);
	}
	snprintf(text, sizeof(text), touched_sql, from, to, pid, pid, tid, tid);
	check_none(world, text, what);
}

/* ---- Against the same from other rows, to the last digit ---- */

static void check_row(sqlite3_stmt *found, sqlite3_stmt *expected, const char *what)
{
	for (int i = 0; i < sqlite3_column_count(expected); i++) {
		const char *a = (const char *)sqlite3_column_text(found, i) ?: "";
		const char *b = (const char *)sqlite3_column_text(expected, i) ?: "";
		ck_assert_msg(strcmp(a, b) == 0, "%s: %s is %s, not %s", what,
			      sqlite3_column_name(found, i), a, b);
	}
}

/* The rows of a table, in an order of them, beside those that were kept of it. */
static void check_again(struct world *world, const char *table, const char *order, const char *what)
{
	char text[200];

	snprintf(text, sizeof(text), "SELECT * FROM temp.%s ORDER BY %s", table, order);
	sqlite3_stmt *found = prepare(world, text);
	snprintf(text, sizeof(text), "SELECT * FROM temp.kept_%s ORDER BY %s", table, order);
	sqlite3_stmt *expected = prepare(world, text);

	while (sqlite3_step(expected) == SQLITE_ROW) {
		ck_assert_msg(sqlite3_step(found) == SQLITE_ROW, "%s: %s lacks a row", what, table);
		check_row(found, expected, what);
	}
	ck_assert_msg(sqlite3_step(found) == SQLITE_DONE, "%s: %s has more rows", what, table);
	sqlite3_finalize(found);
	sqlite3_finalize(expected);
}

static void keep(struct world *world, const char *table)
{
	char text[200];

	snprintf(text, sizeof(text),
		 "DROP TABLE IF EXISTS temp.kept_%1$s; CREATE TEMP TABLE kept_%1$s AS SELECT *"
		 " FROM temp.%1$s",
		 table);
	run_sql(world, text);
}

/* Any time, or that of an event, which many others may share. */
static int64_t pick(struct world *world)
{
	static const char *const events[] = {
		"SELECT allocated_ns FROM allocation WHERE id = 100 + %u",
		"SELECT coalesce(freed_ns, 9000) FROM allocation WHERE id = 100 + %u",
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

static void check_selection(struct world *world, const struct selection *selection)
{
	char what[100];

	snprintf(what, sizeof(what), "%lld to %lld of %zu and %zu", (long long)selection->from_ns,
		 (long long)selection->to_ns, world->n_blocks, world->n_samples);
	ck_assert_int_eq(selection_apply(&world->db, selection), 0);
	if (!selection->high && !selection->region)
		check_sums(world, selection, what);
}

static void check_span(struct world *world, int64_t from_ns, int64_t to_ns)
{
	int64_t run_id = 1;

	check_selection(world,
			&(struct selection){ .runs = &run_id,
					     .n_runs = 1,
					     .from_ns = from_ns,
					     .to_ns = to_ns,
					     .wants = SELECTION_LINES | SELECTION_TIMELINE });
}

START_TEST(a_part_of_time_is_what_all_rows_say)
{
	static const struct {
		size_t n_blocks, n_samples;
		int n_spans;
	} cases[] = {
		{ 0, 0, 3 },	  { 1, 1, 10 },	    { 0, 300, 20 },    { 300, 0, 20 },
		{ 200, 200, 60 }, { 900, 800, 20 }, { 400, 1500, 20 }, { 1000, 1000, 15 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world world;
		make(&world, 17 * i + (uint64_t)_i, cases[i].n_blocks, cases[i].n_samples);
		ck_assert_int_eq(chunk_rows_in_pieces(&world.db), 0);
		check_scans(&world);
		for (int n = 0; n < fewer(cases[i].n_spans); n++) {
			int64_t a = pick(&world), b = pick(&world);
			check_span(&world, a < b ? a : b, (a < b ? b : a) + 1);
		}
		check_span(&world, 0, INT64_MAX - 1);
		check_span(&world, DURATION_NS, INT64_MAX);
		end(&world);
	}
}
END_TEST

START_TEST(a_process_a_thread_a_region_and_addresses_are_what_rows_say)
{
	int64_t run_id = 1;
	struct world world;

	make(&world, 11, 500, 900);
	ck_assert_int_eq(chunk_rows_in_pieces(&world.db), 0);
	for (int n = 0; n < fewer(100); n++) {
		int64_t a = pick(&world), b = pick(&world);
		const struct selection selection = {
			.runs = &run_id,
			.n_runs = 1,
			.from_ns = n % 5 == 4 ? 0
				   : a < b    ? a
					      : b,
			.to_ns = n % 5 == 4 ? INT64_MAX : (a < b ? b : a) + 1,
			.pid = n % 4 == 1 ? 10 : 0,
			.tid = n % 4 == 2 ? 21 : 0,
			.low = 0x1100,
			.high = n % 3 ? 0 : 0x9000,
			.region = n % 4 == 3 ? "loop" : NULL,
			.wants = SELECTION_TIMELINE | n % 2,
		};
		check_selection(&world, &selection);
		/* Of blocks that were not born in it no times are known. */
		ck_assert_int_eq(memory_db_integer(world.db.handle,
						   "SELECT count(*) FROM temp.site WHERE"
						   " first_ns > 4000000000000000000"),
				 0);
	}
	end(&world);
}
END_TEST

/* Blocks in a region are those that SQL finds in one of its spans, which may lie in each other. */
START_TEST(a_region_has_the_blocks_of_its_spans)
{
	int64_t run_id = 1;
	const struct selection selection = {
		.runs = &run_id, .n_runs = 1, .to_ns = INT64_MAX, .region = "loop"
	};
	struct world world;

	make(&world, 7, 600, 0);
	ck_assert_int_eq(chunk_rows_in_pieces(&world.db), 0);
	run_sql(&world, "INSERT INTO region(run_id, thread_id, name, start_ns, end_ns) VALUES"
			" (1,5,'loop',200,300), (1,5,'loop',8000,9500), (1,5,'other',0,20000)");
	ck_assert_int_eq(selection_apply(&world.db, &selection), 0);
	ck_assert_int_eq(
		memory_db_integer(world.db.handle,
				  "SELECT value - (SELECT count(*) FROM main.allocation AS a"
				  " WHERE EXISTS (SELECT 1 FROM main.region AS r WHERE"
				  " r.name = 'loop' AND r.thread_id = a.thread_id AND"
				  " start_ns <= allocated_ns AND coalesce(end_ns, 1 << 60) >"
				  " allocated_ns)) FROM temp.total WHERE name = 'allocations'"),
		0);
	ck_assert_int_gt(memory_db_integer(world.db.handle, "SELECT value FROM temp.total"
							    " WHERE name = 'allocations'"),
			 20);
	end(&world);
}
END_TEST

/* Of what is shared, in the order of time and then of sample.id. Returns how many were compared. */
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
	ck_assert_int_eq(chunk_rows_in_pieces(&world.db), 0);
	for (int n = 0; n < 10; n++) {
		int64_t a = pick(&world), b = pick(&world);
		const struct selection selection = { .runs = &run_id,
						     .n_runs = 1,
						     .from_ns = a < b ? a : b,
						     .to_ns = (a < b ? b : a) + 1,
						     .wants =
							     SELECTION_LINES | SELECTION_TIMELINE };
		n_lines += check_shared(&world, &selection);
		keep(&world, "shared_line");
		run_sql(&world, "BEGIN; CREATE TEMP TABLE mixed AS SELECT * FROM touch"
				" ORDER BY random(); DELETE FROM touch;"
				" INSERT INTO touch SELECT * FROM mixed");
		ck_assert_int_eq(chunk_rows_in_pieces(&world.db), 0);
		check_shared(&world, &selection);
		check_again(&world, "shared_line", "2, 3", "rows in another order");
		run_sql(&world, "ROLLBACK");
	}
	ck_assert_int_gt(n_lines, 15);
	end(&world);
}
END_TEST

/* ---- Stretches ---- */

static const struct {
	const char *table, *order; /* what tells rows apart */
} summed[] = {
	{ "site", "2" },
	{ "site_peak", "2" },
	{ "total", "2" },
	{ "timeline", "1" },
	{ "histogram", "2, 3" },
	{ "thread_total", "2" },
	{ "object_total", "2, 3" },
	{ "shared_line", "1" },
	{ "access_total", "2, 3, 4, 5" },
	{ "fault_node", "2, 3, 4, 5" },
	{ "kind_share", "2" },
	{ "sample_stack", "2, 3" },
	{ "source", "1" },
};
#define N_SUMMED (sizeof(summed) / sizeof(summed[0]))

/* The same again, as another run whose rows come behind those of the first one. */
static const char second_sql[] =
	"INSERT INTO run(id, program, mode, repetition, command, directory, trace, recording_id,"
	" start_unix_ns, duration_ns, clock_error_ns, ended_cleanly, committed_ns) SELECT 2,"
	" program, mode, 2, command, directory, 'b.mst', '01', 0, duration_ns, 0, 1, 0 FROM run;"
	"CREATE TEMP TABLE s AS SELECT * FROM source; UPDATE s SET id = id + 10, run_id = 2;"
	"INSERT INTO source SELECT * FROM s; CREATE TEMP TABLE p AS SELECT * FROM process;"
	"UPDATE p SET id = id + 10, run_id = 2; INSERT INTO process SELECT * FROM p;"
	"CREATE TEMP TABLE h AS SELECT * FROM thread; UPDATE h SET id = id + 10, run_id = 2,"
	" process_id = process_id + 10; INSERT INTO thread SELECT * FROM h;"
	"CREATE TEMP TABLE a AS SELECT * FROM allocation; UPDATE a SET id = id + 5000, run_id = 2,"
	" process_id = process_id + 10, thread_id = thread_id + 10, size = size + id % 3,"
	" freed_thread_id = freed_thread_id + 10; INSERT INTO allocation SELECT * FROM a;"
	"CREATE TEMP TABLE m AS SELECT * FROM sample; UPDATE m SET id = id + 5000, run_id = 2,"
	" source_id = source_id + 10, process_id = 11, thread_id = thread_id + 10;"
	"INSERT INTO sample SELECT * FROM m; CREATE TEMP TABLE t AS SELECT * FROM touch;"
	"UPDATE t SET sample_id = sample_id + 5000, run_id = 2, owner_id ="
	" iif(owner_kind = 1, owner_id + 5000, owner_id); INSERT INTO touch SELECT * FROM t;";

static int64_t pick_border(struct world *world)
{
	char sql[100];

	snprintf(sql, sizeof(sql),
		 "SELECT from_ns FROM main.stretch ORDER BY from_ns * %u %% 1009 LIMIT 1",
		 below(world, 1000));
	return below(world, 3) ? pick(world) : memory_db_integer(world->db.handle, sql);
}

/* From sums of stretches, and from all rows. */
static void check_both_ways(struct world *world, const struct selection *selection)
{
	char what[100];

	snprintf(what, sizeof(what), "%lld to %lld of %zu and %zu", (long long)selection->from_ns,
		 (long long)selection->to_ns, world->n_blocks, world->n_samples);
	ck_assert_int_eq(selection_apply(&world->db, selection), 0);
	for (size_t i = 0; i < N_SUMMED; i++)
		keep(world, summed[i].table);
	run_sql(world, "BEGIN; DELETE FROM main.stretch");
	ck_assert_int_eq(selection_apply(&world->db, selection), 0);
	for (size_t i = 0; i < N_SUMMED; i++)
		check_again(world, summed[i].table, summed[i].order, what);
	run_sql(world, "ROLLBACK");
}

static void check_ways(struct world *world, size_t n_runs)
{
	static const int64_t runs[] = { 1, 2 };
	struct selection selection = { .runs = runs, .n_runs = n_runs };

	for (int n = 0; n < fewer(25); n++) {
		int64_t a = pick_border(world), b = pick_border(world);
		selection.from_ns = n % 9 == 0 ? 0 : a < b ? a : b;
		selection.to_ns = n % 7 == 0 ? INT64_MAX : a < b ? b : a;
		check_both_ways(world, &selection);
	}
}

START_TEST(sums_of_stretches_are_what_all_rows_say)
{
	static const struct {
		size_t n_blocks, n_samples, n_runs;
		uint32_t rows; /* of a stretch */
	} cases[] = {
		{ 0, 300, 1, 20 }, { 300, 0, 1, 20 },	 { 900, 800, 1, 100 },
		{ 900, 0, 2, 60 }, { 400, 1500, 2, 60 }, { 900, 0, 1, 6 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world world;
		make(&world, 16 * i + 3 * (uint64_t)_i, cases[i].n_blocks, cases[i].n_samples);
		if (cases[i].n_runs > 1)
			run_sql(&world, second_sql);
		ck_assert_int_eq(chunk_rows_in_pieces(&world.db), 0);
		for (int64_t run_id = 1; run_id <= (int64_t)cases[i].n_runs; run_id++)
			stretch_rows(&world.db, run_id, cases[i].rows);
		ck_assert_int_ge(
			memory_db_integer(world.db.handle, "SELECT count(*) FROM main.stretch"),
			10);
		/* Times of CPU do not add up. */
		ck_assert_int_eq(memory_db_integer(world.db.handle,
						   "SELECT count(touches) > 0 FROM main.stretch"),
				 !world.has_time || world.n_samples == 0);
		check_ways(&world, cases[i].n_runs);
		end(&world);
	}
}
END_TEST

static int64_t count_stretches(struct world *world, uint32_t rows)
{
	stretch_rows(&world->db, 1, rows);
	return memory_db_integer(world->db.handle, "SELECT count(*) FROM main.stretch");
}

START_TEST(there_are_no_stretches_where_nothing_adds_up)
{
	struct world world;

	make(&world, 3, 500, 500);
	ck_assert_int_eq(chunk_rows_in_pieces(&world.db), 0);
	ck_assert_int_ge(count_stretches(&world, 50), 15);
	ck_assert_int_eq(count_stretches(&world, 1000), 0);
	ck_assert_int_eq(count_stretches(&world, 0), 0);
	/* Blocks that were picked, and such that end before they begin. */
	run_sql(&world, "UPDATE allocation SET stands_for = 2.5 WHERE id = 333");
	ck_assert_int_eq(chunk_rows_in_pieces(&world.db), 0);
	ck_assert_int_eq(count_stretches(&world, 50), 0);
	run_sql(&world, "UPDATE allocation SET stands_for = 0 WHERE id = 333;"
			"UPDATE allocation SET freed_ns = 1 WHERE id = 444");
	ck_assert_int_eq(chunk_rows_in_pieces(&world.db), 0);
	ck_assert_int_eq(count_stretches(&world, 50), 0);
	end(&world);
}
END_TEST

START_TEST(damaged_stretches_are_refused)
{
	static const char *const changes[] = {
		"UPDATE stretch SET %s = CAST(substr(%s, 1, %u) || x'%02x' || substr(%s, %u) AS"
		" BLOB) WHERE from_ns %% 3 = %u",
		"UPDATE stretch SET %s = CAST(substr(%s || x'00', 1, %u + 0 * x'%02x') AS BLOB)"
		" WHERE %s IS NOT NULL AND from_ns %% %u <= %u",
	};
	int64_t run_id = 1;
	const struct selection selection = { &run_id, 1, .from_ns = 1000, .to_ns = 18000 };
	struct world world;
	int n_refused = 0;

	make(&world, 3, 1000, 1000);
	ck_assert_int_eq(chunk_rows_in_pieces(&world.db), 0);
	ck_assert_int_ge(count_stretches(&world, 100), 15);
	for (int i = 0; i < fewer(200); i++) {
		const char *column = below(&world, 2) ? "blocks" : "touches";
		char sql[400];
		snprintf(sql, sizeof(sql), changes[below(&world, 2)], column, column,
			 below(&world, 1500), below(&world, 256), column, 1 + below(&world, 1500),
			 below(&world, 3));
		run_sql(&world, "BEGIN");
		run_sql(&world, sql);
		int r = selection_apply(&world.db, &selection);
		ck_assert(r == 0 || r == -EBADMSG);
		n_refused += r != 0;
		run_sql(&world, "ROLLBACK");
	}
	ck_assert_int_gt(n_refused, fewer(200) / 2 - 1);
	run_sql(&world, "DELETE FROM stretch WHERE from_ns BETWEEN 8000 AND 9000");
	ck_assert_int_eq(selection_apply(&world.db, &selection), -EBADMSG);
	end(&world);
}
END_TEST

START_TEST(damaged_chunks_are_refused)
{
	static const char *const changes[] = {
		"UPDATE %s_column SET data = CAST(substr(data, 1, %u) || x'%02x' || substr(data,"
		" %u) AS BLOB) WHERE id %% 256 = %u",
		"UPDATE %s_chunk SET head = CAST(substr(head, 1, %u) || x'%02x' || substr(head, %u)"
		" AS BLOB) WHERE id = %u",
		"DELETE FROM %s_column WHERE id > %u AND id %% 256 = %u * 0 + %u * 0 + %u",
		"UPDATE %s_chunk SET first_row = first_row + %u, n_rows = n_rows + %u - %u WHERE"
		" id = %u",
	};
	int64_t run_id = 1;
	struct selection selection = { &run_id, 1, .from_ns = 3000, .to_ns = 12000 };
	struct world world;
	int n_refused = 0;

	make(&world, 3, 1000, 1000);
	ck_assert_int_eq(chunk_rows_in_pieces(&world.db), 0);
	for (int i = 0; i < fewer(300); i++) {
		char sql[300];
		snprintf(sql, sizeof(sql), changes[below(&world, 4)], chunked[below(&world, 2)],
			 below(&world, 300), below(&world, 256), below(&world, 300),
			 below(&world, 12));
		run_sql(&world, "BEGIN");
		run_sql(&world, sql);
		selection.wants = i % 4;
		selection.pid = i % 4 ? 0 : 10;
		int r = selection_apply(&world.db, &selection);
		ck_assert(r == 0 || r == -EBADMSG);
		n_refused += r != 0;
		run_sql(&world, "ROLLBACK");
	}
	ck_assert_int_gt(n_refused, fewer(50));
	/* Whole, but with a number that readers have for "none". */
	run_sql(&world, "UPDATE touch_column SET id = id % 256 WHERE id / 256 = 1");
	run_sql(&world, "UPDATE touch_chunk SET id = 0 WHERE id = 1");
	ck_assert_int_eq(selection_apply(&world.db, &selection), -EBADMSG);
	end(&world);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("selection");
	TCase *tcase = tcase_create("selection");

	tcase_set_timeout(tcase, 0);
	tcase_add_loop_test(tcase, a_part_of_time_is_what_all_rows_say, 0, 3);
	tcase_add_test(tcase, a_process_a_thread_a_region_and_addresses_are_what_rows_say);
	tcase_add_test(tcase, a_region_has_the_blocks_of_its_spans);
	tcase_add_loop_test(tcase, who_shares_a_line_first_does_not_depend_on_the_order_of_rows, 0,
			    2);
	tcase_add_loop_test(tcase, sums_of_stretches_are_what_all_rows_say, 0, 2);
	tcase_add_test(tcase, there_are_no_stretches_where_nothing_adds_up);
	tcase_add_test(tcase, damaged_stretches_are_refused);
	tcase_add_test(tcase, damaged_chunks_are_refused);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
