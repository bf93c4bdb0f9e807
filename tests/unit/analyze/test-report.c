#include "report/report.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/io.h"
#include "tests/unit/analyze/fixtures/memory-db.h"
#include "tests/unit/analyze/fixtures/report-db.h"
#include "tests/support/suite.h"

static sqlite3 *db;
static char *text;

static void setup(void)
{
	db = report_db_open();
	text = NULL;
}

static void teardown(void)
{
	sqlite3_close(db);
	free(text);
}

static void write_request(const char *name, struct report_request request)
{
	report_db_write(db, name, request, &text);
}

static void write_report(const char *name)
{
	write_request(name, (struct report_request){ 0 });
}

static int64_t count_lines(const char *name, int64_t limit)
{
	int64_t n = -1; /* the head */

	write_request(name, (struct report_request){ .limit = limit, .format = TABLE_CSV });
	for (const char *at = text; *at; at++)
		n += *at == '\n';
	return n;
}

START_TEST(the_first_screen_answers_what_ran_and_what_is_hot)
{
	write_report("summary");
	ck_assert_has("app -n 100   12.4 s   2 processes (1 not traced: ping, setuid)   1 thread   "
		      "clock + faults\n");
	ck_assert_has(
		"allocations  6    peak 1.21 GiB at 8.30 s    not freed at exit 4.14 KiB in 2 "
		"blocks\n");
	ck_assert_has("\nmemory       max RSS 1.21 GiB\n");
	ck_assert_has("samples      1,000 x 1.00 ms user CPU time; 310,201 page faults    losses: "
		      "none\n");
	ck_assert_has("owners       heap 40.0 \u00b13.0 %  globals 10.0  unknown 50.0");
	ck_assert_has("40.0 \u00b13.0 %  512 MiB    1 ");
	ck_assert_has("0.2-12.1 s      build_table table.c:88 < main app.c:21\n");
	ck_assert_has("global counters in /bin/app");
	ck_assert_has("hint: not traced: /bin/ping (set-user-ID");
	ck_assert_has("next: memsight report app.mst --sites");
}
END_TEST

START_TEST(a_number_has_the_digits_of_its_interval)
{
	static const struct {
		const char *sql, *text;
	} cases[] = {
		{ "1628.66, 1193.98", "1600" },
		{ "474.23, 283.2", "470" },
		{ "8.437, 7.2", "8.4" },
		{ "8.437, 0.72", "8.44" },
		{ "0.5, 12.0", "1" },
		{ "-0.0123456, 0.00034", "-0.01235" },
		{ "1234.5678, 0", "1234.5678" },
		{ "99.99, 9.99", "100.0" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char sql[100];
		snprintf(sql, sizeof(sql), "SELECT of_interval(%s)", cases[i].sql);
		sqlite3_stmt *row;
		ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
		ck_assert_int_eq(sqlite3_step(row), SQLITE_ROW);
		ck_assert_str_eq((const char *)sqlite3_column_text(row, 0), cases[i].text);
		sqlite3_finalize(row);
	}
}
END_TEST

START_TEST(a_process_counts_once_however_often_it_called_exec)
{
	sqlite3_exec(db,
		     "INSERT INTO process VALUES"
		     " (3,1,3,1,12,12,0,'fork','/bin/app','app',NULL,1,NULL,0,5,NULL),"
		     " (4,1,4,3,12,12,1,'exec','/bin/env','env sort',NULL,1,NULL,5,9,NULL),"
		     " (5,1,5,4,12,12,2,'exec','/bin/sort','sort',NULL,1,NULL,9,20,0);"
		     "INSERT INTO thread VALUES (2,1,3,2,12,1,0,0,0,NULL,0),"
		     " (3,1,4,3,12,1,0,0,5,NULL,0), (4,1,5,4,12,1,0,0,9,NULL,0),"
		     " (5,1,5,5,13,0,0,0,9,NULL,0)",
		     NULL, NULL, NULL);
	write_report("summary");
	ck_assert_has("   3 processes (1 not traced: ping, setuid)   3 threads   ");
}
END_TEST

START_TEST(a_run_of_which_nothing_was_traced_has_no_count_of_allocations)
{
	sqlite3_exec(db, "UPDATE process SET traced = 0, why_not = 'static' WHERE id = 1", NULL,
		     NULL, NULL);
	write_report("summary");
	ck_assert_has("allocations  not recorded: app was not traced: static\n");
	/* With --no-alloc nobody is missing. */
	sqlite3_exec(
		db,
		"UPDATE process SET why_not = 'not followed';"
		"INSERT INTO fact(run_id, key, at_end, value) VALUES (1,'memsight.alloc',0,'no')",
		NULL, NULL, NULL);
	write_report("summary");
	ck_assert_has("app -n 100   12.4 s   2 processes   1 thread   ");
	ck_assert_has("allocations  not recorded: --no-alloc");
}
END_TEST

START_TEST(time_of_ours_that_is_much_is_told)
{
	write_report("summary");
	ck_assert_ptr_null(strstr(text, "memsight's own"));
	sqlite3_exec(db, "UPDATE owner_share SET owner_kind = 12 WHERE owner_kind = 13", NULL, NULL,
		     NULL);
	write_report("summary");
	ck_assert_has(
		"hint: more than a tenth of the samples of CPU time fell into memsight's own");
}
END_TEST

START_TEST(time_that_samples_do_not_stand_for_is_told)
{
	write_report("summary");
	ck_assert_ptr_null(strstr(text, "have no samples"));
	/* 1,000 samples of 1 ms, and 3 s of CPU time. */
	sqlite3_exec(db,
		     "UPDATE source SET unsampled_ns = 2000000000;"
		     "INSERT INTO loss SELECT 1, NULL, NULL, name, 'samples that never came: late "
		     "interrupts', 2000, NULL, NULL FROM source WHERE id = 1",
		     NULL, NULL, NULL);
	write_report("summary");
	ck_assert_has("hint: 2.00 s of 3.00 s of user CPU time have no samples");
}
END_TEST

START_TEST(accesses_to_blocks_given_back_are_told_with_what_is_usual)
{
	write_report("summary");
	ck_assert_ptr_null(strstr(text, "(freed)"));
	sqlite3_exec(db, "INSERT INTO kind_share VALUES (1,9,30,0,0,0,0.03,0.02,0.04,0,0,0)", NULL,
		     NULL, NULL);
	write_report("summary");
	ck_assert_has(
		"hint: 30.0 samples of CPU time fell into memory of blocks that were given back");
}
END_TEST

START_TEST(unknown_time_beside_that_of_the_stack_names_the_source_that_knows)
{
	const char *const kinds =
		"INSERT OR REPLACE INTO kind_share SELECT 1, id, n, 0, 0, 0, 0, 0,"
		" 0, 0, 0, 0 FROM (SELECT 13 AS id, 120 AS n UNION SELECT 5, %s)";

	for (int is_plain = 0; is_plain < 2; is_plain++) {
		char sql[300];
		snprintf(sql, sizeof(sql), kinds, is_plain ? "600" : "400");
		ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
		for (size_t i = 0; i < 2; i++) {
			write_report(i ? "objects" : "summary");
			if (is_plain)
				ck_assert_has("clock: 12 % of the time is at addresses that its");
			else
				ck_assert_ptr_null(strstr(text, "--source signal"));
		}
	}
}
END_TEST

START_TEST(few_samples_say_how_many_more_it_takes)
{
	static const struct {
		const char *samples, *hint;
	} cases[] = {
		{ "100, period = 1000000",
		  "hint: too few samples: 100 of CPU time show a share of a half to \u00b110 "
		  "points; "
		  "--freq 4100, 4.1 times the rate, makes it \u00b15" },
		{ "4, period = 1000000", "show a share of a half to \u00b135 points; --freq 20000 "
					 "makes it \u00b111, beyond that only a longer run" },
		{ "4, period = 50000", "\u00b135 points; only a longer run makes that less" },
	};

	write_report("summary");
	ck_assert_ptr_null(strstr(text, "too few"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char sql[100];
		snprintf(sql, sizeof(sql), "UPDATE source SET n_samples = %s WHERE name = 'clock'",
			 cases[i].samples);
		sqlite3_exec(db, sql, NULL, NULL, NULL);
		write_report("summary");
		ck_assert_has(cases[i].hint);
	}
}
END_TEST

/* 1,000 samples of 1 ms stand for half of the time: what no sample stands for may be anybody's. */
static void leave_half_unsampled(void)
{
	ck_assert_int_eq(sqlite3_exec(db,
				      "UPDATE source SET unsampled_ns = 1000000000 WHERE id = 1;"
				      "INSERT INTO source_ledger VALUES "
				      "(1,1,1,1000,0,1,0,0,0,0,0,0,0,0,0,1000000000,"
				      "0,0,0,0,0,0,1.0)",
				      NULL, NULL, NULL),
			 SQLITE_OK);
}

START_TEST(shares_of_threads_and_regions_have_time_without_samples_in_their_interval)
{
	ck_assert_int_eq(
		sqlite3_exec(
			db,
			"INSERT INTO thread_total(run_id, thread_id, n_blocks, bytes, n_frees, "
			"n_foreign, live_blocks,"
			" live_bytes, n_temporary, n_samples, time_ns, n_faults) VALUES"
			" (1,1,0,0,0,0,0,0,0,400,4e8,0), (1,2,0,0,0,0,0,0,0,600,6e8,0);"
			"INSERT INTO region_total VALUES "
			"(1,1,NULL,'solve',1,1,0,1,1,0,0,0,0,400,200,4e8,2e8,0,0,0,0)",
			NULL, NULL, NULL),
		SQLITE_OK);
	write_report("threads");
	ck_assert_has("  40.0 \u00b13.0 %  ");
	write_report("regions");
	ck_assert_has("  40.0 \u00b13.0 %    20.0 \u00b12.5 %  ");
	leave_half_unsampled();
	write_report("threads");
	ck_assert_has("  18.5-71.5 %  ");
	write_report("regions");
	ck_assert_has("  18.5-71.5 %     8.8-61.2 %  ");
}
END_TEST

START_TEST(the_share_of_a_kind_of_memory_has_in_it_what_is_not_resolved_of_the_heap)
{
	static const char kinds[] =
		"INSERT INTO heap_kind VALUES (1,'hbw'), (2,'libc');"
		"INSERT INTO kind_total VALUES (1,1,1,100,0,0,100,300,300,3e8,0)";

	ck_assert_int_eq(sqlite3_exec(db, kinds, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_exec(db,
		     "UPDATE kind_share SET share = NULL, share_low = 0.27, share_high = 0.63,"
		     " n_samples = 300, n_imputed = 100 WHERE owner_kind = 1",
		     NULL, NULL, NULL);
	/* One kind: all of the heap's is its. */
	write_report("summary");
	ck_assert_has(
		"blocks in    hbw: 1 block, 100 B, peak 100 B, 27.0-63.0 % of CPU time, 0 page "
		"faults");
	/* Of two each may have all that is not resolved. */
	sqlite3_exec(db,
		     "INSERT INTO kind_total VALUES (1,2,2,50,0,0,50,0,0,0,0);"
		     "UPDATE kind_total SET n_samples = 200, n_samples_sq = 200 WHERE kind_id = 1;"
		     "UPDATE kind_total SET n_samples = 100, n_samples_sq = 100 WHERE kind_id = 2",
		     NULL, NULL, NULL);
	write_report("summary");
	ck_assert_has("hbw: 1 block, 100 B, peak 100 B, 17.5-52.6 % of CPU time");
	ck_assert_has("libc: 2 blocks, 50 B, peak 50 B, 8.1-42.0 % of CPU time");
	/* Where all is resolved, two numbers. */
	sqlite3_exec(db,
		     "UPDATE kind_share SET share = 0.3, share_low = 0.27, share_high = 0.329,"
		     " n_imputed = 0 WHERE owner_kind = 1",
		     NULL, NULL, NULL);
	write_report("summary");
	ck_assert_has("hbw: 1 block, 100 B, peak 100 B, 20.0 \u00b12.5 % of CPU time");
}
END_TEST

START_TEST(what_was_waited_for_stands_beside_the_time)
{
	ck_assert_int_eq(sqlite3_exec(db,
				      "INSERT INTO owner_share VALUES (1,1,2,4,0,250,250,2.5e8),"
				      " (1,1,2,1,0,750,750,7.5e8);"
				      "UPDATE kind_share SET n_stalls = 750, stall_share = 0.75,"
				      " stall_low = 0.723, stall_high = 0.777 WHERE owner_kind = 1",
				      NULL, NULL, NULL),
			 SQLITE_OK);
	write_report("summary");
	ck_assert_has("waited for   heap 75.0 \u00b12.7 %  globals 25.0   (% of CPU time)");
	ck_assert_has("10.0 \u00b12.0 %    25.0 \u00b13.0 %  256 B ");
}
END_TEST

START_TEST(sites_that_read_alike_are_one_row_with_bounds)
{
	/*
	 * main called itself once more: another call stack, whose three innermost frames are the
	 * same.
	 */
	ck_assert_int_eq(
		sqlite3_exec(
			db,
			"INSERT INTO frame VALUES (20,'aa','/bin/app',40,'outer',0);"
			"INSERT INTO stack VALUES (20,NULL,20,NULL,1,20), (21,20,2,NULL,2,21), "
			"(22,21,2,NULL,3,22),"
			" (23,22,1,NULL,4,23), (24,1,2,NULL,2,24), (25,24,1,NULL,3,25);"
			"INSERT INTO site(run_id, stack_id, n_blocks, n_frees, bytes, "
			"live_blocks, live_bytes,"
			" peak_bytes, peak_ns, first_ns, last_ns, n_temporary, byte_seconds, "
			"n_samples, n_samples_sq,"
			" time_ns, n_faults, first_touch_ns, last_touch_ns, share, share_low, "
			"share_high) VALUES"
			" (1,23,2,2,2048,0,0,1048576,1,0,1,0,1,60,50,6e7,0,NULL,NULL,"
			"0.06,0.04,0.08),"
			" (1,25,3,3,2048,0,0,1048576,1,0,1,0,1,40,30,4e7,0,NULL,NULL,"
			"0.04,0.02,0.06)",
			NULL, NULL, NULL),
		SQLITE_OK);
	write_report("summary");
	/*
	 * 60 + 40 of 1,000 samples: the binomial half of 1.9 is less than 2 + 2; 0.3 could be
	 * anybody's.
	 */
	ck_assert_has("10.0 \u00b12.2 %  \u22642.00 MiB  5 ");
	ck_assert_has("build_table table.c:88 < main app.c:21 < main app.c:21");
}
END_TEST

START_TEST(blocks_of_a_killed_program_are_not_called_unfreed)
{
	sqlite3_exec(db, "UPDATE run SET exit_status = 9", NULL, NULL, NULL);
	write_report("summary");
	ck_assert_has("alive when killed 4.14 KiB");
	sqlite3_exec(db, "UPDATE run SET ended_cleanly = 0", NULL, NULL, NULL);
	write_report("summary");
	ck_assert_has("live when the trace was cut off 4.14 KiB");
}
END_TEST

START_TEST(a_recording_that_stopped_early_says_so_and_what_it_cannot_know)
{
	sqlite3_exec(db,
		     "INSERT INTO loss VALUES (1,NULL,NULL,'collector','--max-size is "
		     "reached',1,5000000,"
		     "9000000)",
		     NULL, NULL, NULL);
	write_report("summary");
	ck_assert_has(
		"recording stopped at 5.00 ms: --max-size is reached; of what came later nothing");
	ck_assert_has("live when recording stopped 4.14 KiB");
	write_report("leaks");
	ck_assert_has(
		"recording stopped at 5.00 ms: --max-size is reached: what lived then counts as "
		"not freed");
}
END_TEST

START_TEST(losses_are_on_the_first_screen)
{
	sqlite3_exec(db,
		     "INSERT INTO loss VALUES (1,1,1,'tracealloc','pool full',12000,1,2),"
		     " (1,NULL,NULL,'clock','ring overrun',5,1,2)",
		     NULL, NULL, NULL);
	write_report("summary");
	ck_assert_has("losses: 12,005 of 2 kinds, see --losses");
	write_report("losses");
	ck_assert_has("pool full");
	ck_assert_has("12,000");
	ck_assert_has("/bin/app");
}
END_TEST

START_TEST(the_stack_leaves_out_operator_new_and_says_where_it_stopped)
{
	write_report("leaks");
	ck_assert_has(
		"4.14 KiB       2          5   0.000 s  main app.c:21 < (no frame pointer)\n");
	write_report("sites");
	ck_assert_has("build_table table.c:88 < main app.c:21\n");
}
END_TEST

START_TEST(blocks_from_before_the_attach_are_a_site_and_no_leak)
{
	int code = sqlite3_exec(
		db,
		"INSERT INTO stack VALUES (6,NULL,NULL,'before the attach',1,NULL);"
		"INSERT INTO site(run_id, stack_id, n_blocks, n_frees, bytes, live_blocks,"
		" live_bytes, peak_bytes, peak_ns, first_ns, last_ns, n_temporary,"
		" byte_seconds, n_samples, n_samples_sq, time_ns, n_faults)"
		" VALUES (1,6,100,23,9000,77,8192,9000,1,0,1,0,1,0,0,0,0)",
		NULL, NULL, NULL);
	ck_assert_msg(code == SQLITE_OK, "%s", sqlite3_errmsg(db));
	write_report("sites");
	ck_assert_has("(before the attach)");
	write_report("leaks");
	ck_assert_has("(no frame pointer)");
	ck_assert_has(
		"there before the attach, no leak: 8.00 KiB in 77 blocks; 23 more ended since");
	ck_assert_ptr_null(strstr(text, "(before the attach)"));
}
END_TEST

START_TEST(operator_new_is_named_where_its_caller_is_not_known)
{
	sqlite3_exec(db,
		     "INSERT INTO stack VALUES (6,4,3,NULL,2,NULL);"
		     "UPDATE site SET stack_id = 6 WHERE stack_id = 5",
		     NULL, NULL, NULL);
	write_report("leaks");
	ck_assert_has("  operator new < (no frame pointer)\n");
}
END_TEST

START_TEST(a_place_without_a_line_is_told_from_others_by_its_offset)
{
	sqlite3_exec(db, "DELETE FROM frame_line WHERE frame_id = 1", NULL, NULL, NULL);
	write_report("sites");
	ck_assert_has("build_table (app+0x10) < main app.c:21\n");
}
END_TEST

START_TEST(a_section_is_not_called_a_global)
{
	sqlite3_exec(db, "UPDATE symbol SET name = '[.got.plt]'", NULL, NULL, NULL);
	write_report("summary");
	ck_assert_has("section .got.plt in /bin/app\n");
}
END_TEST

START_TEST(what_several_processes_left_is_called_a_sum)
{
	sqlite3_exec(db,
		     "INSERT INTO process VALUES"
		     " (3,1,3,1,12,12,0,'fork','/bin/app','app',NULL,1,NULL,0,5,NULL)",
		     NULL, NULL, NULL);
	write_report("summary");
	ck_assert_has("not freed at exit 4.14 KiB in 2 blocks (sum over processes)\n");
}
END_TEST

START_TEST(unused_is_said_only_where_samples_would_have_shown_use)
{
	write_report("unused");
	ck_assert_has("None that pages or samples can speak for.");
	/* Held twice as much for as long as the hot site, 400 samples expected at its rate. */
	sqlite3_exec(db, "UPDATE site SET byte_seconds = 12e9 WHERE stack_id = 5", NULL, NULL,
		     NULL);
	write_report("unused");
	ck_assert_has("main app.c:21");
}
END_TEST

static const struct {
	const char *selector;
	int result;
} selectors[] = {
	{ NULL, 0 },
	{ "1", 0 },
	{ "app", 0 },
	{ "app.default", 0 },
	{ "app.default.1", 0 },
	{ "app.default.2", -ENOENT },
	{ "2", -ENOENT },
	{ "", -ENOENT },
};

START_TEST(a_run_is_selected_by_id_or_by_the_parts_of_its_name)
{
	int64_t id = 0;

	ck_assert_int_eq(report_run_find(db, selectors[_i].selector, &id), selectors[_i].result);
	ck_assert_int_eq(id, selectors[_i].result == 0);
}
END_TEST

START_TEST(every_report_works_on_an_empty_database)
{
	sqlite3_exec(
		db,
		"DELETE FROM object_total; DELETE FROM run; DELETE FROM site; DELETE FROM source;"
		" DELETE FROM owner_share; DELETE FROM total; DELETE FROM process",
		NULL, NULL, NULL);
	for (const struct report *const *next = reports, *report; (report = *next); next++) {
		write_report(report->name);
		ck_assert_str_ne(text, "");
		if (report->nothing)
			ck_assert_has(report->nothing);
	}
}
END_TEST

/* 40 of all that lists are made of. */
static const char many_sql[] =
	"WITH RECURSIVE n(i) AS (SELECT 11 UNION ALL SELECT i + 1 FROM n WHERE i < 50)"
	" INSERT INTO stack SELECT i, NULL, 1 + i % 2, NULL, 1, i FROM n;"
	"INSERT INTO site(run_id, stack_id, n_blocks, n_frees, bytes, live_blocks, live_bytes,"
	" peak_bytes, peak_ns, first_ns, last_ns, n_temporary, byte_seconds, n_samples, "
	"n_samples_sq,"
	" time_ns, n_faults) SELECT 1, id, 9, 1, id, 8, id, id, 1, 1, 2, 3, 1e9, 0, 0, 0, 0 FROM "
	"stack WHERE id > 10;"
	"INSERT INTO site_peak(run_id, stack_id, bytes, n_blocks) SELECT 1, stack_id, bytes, 1 "
	"FROM site;"
	"INSERT INTO mark(run_id, thread_id, time_ns, name) SELECT 1, 1, id, 'm' FROM stack;"
	"INSERT INTO process SELECT id + 100, 1, id, 1, id, id, 1, 'fork', '/bin/app', 'app', "
	"NULL, 1, NULL, 7, 9, 0"
	" FROM stack WHERE id > 10;"
	"INSERT INTO loss(run_id, source, reason, count, from_ns, to_ns)"
	" SELECT 1, 'recorder', 'reason ' || id, 1, 1, 2 FROM stack WHERE id > 10;"
	"INSERT INTO run(id, program, mode, repetition, command, directory, trace, recording_id,"
	" start_unix_ns, duration_ns, exit_status, user_ns, system_ns, max_rss, collector_cpu_ns,"
	" clock_error_ns, ended_cleanly, committed_ns) SELECT id, 'p' || id, 'default', 1, 'app', "
	"'/', id, id, 0, 1, 0,"
	" 1, 1, 1, 1, 1, 1, 1 FROM stack WHERE id > 10;";

START_TEST(a_profile_says_which_time_it_is_of)
{
	static const char *const units[] = { "user CPU time", "CPU time", "kernel CPU time" };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		char sql[100], head[100];
		snprintf(sql, sizeof(sql), "UPDATE source SET unit = 'ns of %s' WHERE id = 1",
			 units[i]);
		sqlite3_exec(db, sql, NULL, NULL, NULL);
		write_request("flat", (struct report_request){ .by = PROFILE_TIME });
		snprintf(head, sizeof(head), "Functions by %s at blocks", units[i]);
		ck_assert_has(head);
		write_request("hierarchical", (struct report_request){ .by = PROFILE_TIME });
		snprintf(head, sizeof(head), "callees by %s at blocks", units[i]);
		ck_assert_has(head);
	}
}
END_TEST

START_TEST(what_was_mapped_at_the_peak_is_told_by_its_maker)
{
	/*
	 * at 8.3 s, in MiB: 64 by the program; 3 of a file; 5 of an allocator; 7 gone before; 9
	 * later
	 */
	ck_assert_int_eq(
		sqlite3_exec(
			db,
			"INSERT INTO mapping(id, run_id, process_id, address, size, allocated_ns, "
			"freed_ns,"
			" prot, flags, path, is_nested, seen) VALUES "
			"(1,1,1,4096,64<<20,5,NULL,3,34,'',0,0),"
			" (2,1,1,4096,3<<20,5,NULL,5,2,'/lib/x.so',0,1), "
			"(3,1,1,4096,5<<20,5,NULL,3,34,'',1,0),"
			" (4,1,1,4096,7<<20,5,6,3,34,'',0,0), "
			"(5,1,1,4096,9<<20,8400000000,NULL,3,34,'',0,0)",
			NULL, NULL, NULL),
		SQLITE_OK);
	write_report("summary");
	ck_assert_has(
		"\n             mapped beside blocks at their peak: 64.0 MiB by the program, 3.00 "
		"MiB files ");
}
END_TEST

START_TEST(no_row_is_left_out_in_silence)
{
	int n_cut = 0;

	ck_assert_msg(sqlite3_exec(db, many_sql, NULL, NULL, NULL) == SQLITE_OK, "%s",
		      sqlite3_errmsg(db));
	for (const struct report *const *next = reports, *report; (report = *next); next++) {
		int64_t n = count_lines(report->name, -1);
		char rest[64];

		ck_assert_msg(count_lines(report->name, 0) == n, "csv of %s is cut", report->name);
		ck_assert_int_eq(count_lines(report->name, 3), n < 3 ? n : 3);
		if (report->text_sql || report->write || n <= 20)
			continue;
		for (int64_t limit = 0; limit < 40; limit += 7) {
			int64_t shown = limit ? limit : 20;
			snprintf(rest, sizeof(rest), "\n\u2026 %lld more (-n 0 shows all)\n",
				 (long long)(n - shown));
			write_request(report->name, (struct report_request){ .limit = limit });
			ck_assert_has(rest);
		}
		write_request(report->name, (struct report_request){ .limit = -1 });
		ck_assert_msg(!strstr(text, "\u2026"), "%s", text);
		n_cut++;
	}
	ck_assert_int_ge(n_cut, 7);
}
END_TEST

START_TEST(text_of_its_own_says_what_it_leaves_out)
{
	ck_assert_int_eq(sqlite3_exec(db, many_sql, NULL, NULL, NULL), SQLITE_OK);
	int64_t n = count_lines("stat", -1);
	ck_assert_int_gt(n, 100);
	write_report("stat");
	char rest[64];
	snprintf(rest, sizeof(rest), "\n\u2026 %lld more (-n 0 shows all)\n", (long long)n - 20);
	ck_assert_has(rest);
	write_request("flat", (struct report_request){ .limit = 1 });
	ck_assert_has("\n\u2026 2 more (-n 0 shows all)\n");
	write_request("hierarchical", (struct report_request){ .limit = 1 });
	ck_assert_has("\n\u2026 3 more (-n 0 shows all)\n");
	write_request("losses", (struct report_request){ .limit = 35 });
	ck_assert_has("\n\u2026 6 more (-n 0 shows all)\n"); /* with one process not traced */
	write_request("summary", (struct report_request){ .limit = 2 });
	ck_assert_has("\n\u2026 3 more (-n 0 shows all)\n");
}
END_TEST

START_TEST(every_report_is_also_json)
{
	for (const struct report *const *next = reports, *report; (report = *next); next++) {
		struct report_request request = { .run_id = 1, .limit = 20, .format = TABLE_JSON };
		char *json = NULL;
		size_t n_bytes = 0;
		FILE *out = open_memstream(&json, &n_bytes);

		ck_assert_int_eq(report_write(out, db, report, &request), 0);
		fclose(out);
		sqlite3_stmt *stmt = NULL;
		sqlite3_prepare_v2(db, "SELECT json_valid(?)", -1, &stmt, NULL);
		sqlite3_bind_text(stmt, 1, json, -1, SQLITE_STATIC);
		ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
		ck_assert_msg(sqlite3_column_int(stmt, 0), "%s: %s", report->name, json);
		sqlite3_finalize(stmt);
		free(json);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("report");
	TCase *tcase = tcase_create("report");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, the_first_screen_answers_what_ran_and_what_is_hot);
	tcase_add_test(tcase, a_number_has_the_digits_of_its_interval);
	tcase_add_test(tcase, a_process_counts_once_however_often_it_called_exec);
	tcase_add_test(tcase, a_run_of_which_nothing_was_traced_has_no_count_of_allocations);
	tcase_add_test(tcase, time_of_ours_that_is_much_is_told);
	tcase_add_test(tcase, time_that_samples_do_not_stand_for_is_told);
	tcase_add_test(tcase, accesses_to_blocks_given_back_are_told_with_what_is_usual);
	tcase_add_test(tcase, unknown_time_beside_that_of_the_stack_names_the_source_that_knows);
	tcase_add_test(tcase, few_samples_say_how_many_more_it_takes);
	tcase_add_test(tcase,
		       shares_of_threads_and_regions_have_time_without_samples_in_their_interval);
	tcase_add_test(tcase,
		       the_share_of_a_kind_of_memory_has_in_it_what_is_not_resolved_of_the_heap);
	tcase_add_test(tcase, sites_that_read_alike_are_one_row_with_bounds);
	tcase_add_test(tcase, what_was_waited_for_stands_beside_the_time);
	tcase_add_test(tcase, blocks_of_a_killed_program_are_not_called_unfreed);
	tcase_add_test(tcase, a_recording_that_stopped_early_says_so_and_what_it_cannot_know);
	tcase_add_test(tcase, losses_are_on_the_first_screen);
	tcase_add_test(tcase, the_stack_leaves_out_operator_new_and_says_where_it_stopped);
	tcase_add_test(tcase, blocks_from_before_the_attach_are_a_site_and_no_leak);
	tcase_add_test(tcase, operator_new_is_named_where_its_caller_is_not_known);
	tcase_add_test(tcase, a_place_without_a_line_is_told_from_others_by_its_offset);
	tcase_add_test(tcase, a_section_is_not_called_a_global);
	tcase_add_test(tcase, what_several_processes_left_is_called_a_sum);
	tcase_add_test(tcase, unused_is_said_only_where_samples_would_have_shown_use);
	tcase_add_loop_test(tcase, a_run_is_selected_by_id_or_by_the_parts_of_its_name, 0,
			    sizeof(selectors) / sizeof(*selectors));
	tcase_add_test(tcase, every_report_works_on_an_empty_database);
	tcase_add_test(tcase, every_report_is_also_json);
	tcase_add_test(tcase, a_profile_says_which_time_it_is_of);
	tcase_add_test(tcase, what_was_mapped_at_the_peak_is_told_by_its_maker);
	tcase_add_test(tcase, no_row_is_left_out_in_silence);
	tcase_add_test(tcase, text_of_its_own_says_what_it_leaves_out);
	suite_add_tcase(suite, tcase);

	return suite_run(suite);
}
