/* What reports say of pages: resident, touched, written. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "store/selection/selection.h"
#include "tests/support/suite.h"
#include "tests/unit/analyze/fixtures/report-db.h"

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

/*
 * Of the site 5: 2 MiB, all resident, were touched up to 1 s, left alone up to 12 s, and then one
 * page of them was touched.
 */
static const char touches_sql[] =
	"UPDATE site SET byte_seconds = 12e9 WHERE stack_id = 5;"
	"INSERT INTO page_touch VALUES"
	" (1,1,'heap',5,0,1000000000,1,2097152,2097152,0,2097152,0,NULL),"
	" (1,1,'heap',5,1100000000,12000000000,11,2097152,2097152,0,0,0,NULL),"
	" (1,1,'heap',5,12100000000,12400000000,1,2097152,2097152,0,4096,0,NULL);";

START_TEST(unused_is_proven_where_pages_were_left_alone)
{
	sqlite3_exec(db, "UPDATE site SET byte_seconds = 12e9 WHERE stack_id = 5", NULL, NULL,
		     NULL);
	write_report("unused");
	ck_assert_has("  probable");
	sqlite3_exec(db, touches_sql, NULL, NULL, NULL);
	write_report("unused");
	ck_assert_has("proven 1.10 s to 12.0 s");
	/* Blocks of it ended at 5 s: how they were touched is not known. */
	sqlite3_exec(db,
		     "UPDATE page_touch SET end_ns = 5000000000, n_intervals = 4 WHERE most = 0;"
		     "INSERT INTO page_touch VALUES"
		     " (1,1,'heap',5,5100000000,6000000000,1,0,0,0,0,1,NULL),"
		     " (1,1,'heap',5,6100000000,12000000000,6,2097152,2097152,0,0,0,NULL)",
		     NULL, NULL, NULL);
	write_report("unused");
	ck_assert_has("proven 6.10 s to 12.0 s");
	sqlite3_exec(db, "DELETE FROM page_touch WHERE has_ended", NULL, NULL, NULL);
	write_report("unused"); /* 1.1 s without an interval are more than one of 1 s */
	ck_assert_has("proven 6.10 s to 12.0 s");
	/* A page that is not resident may be one of zeros, which is read without a mark. */
	sqlite3_exec(db, "UPDATE page_touch SET resident = resident - 4096", NULL, NULL, NULL);
	write_report("unused");
	ck_assert_has("  probable");
	sqlite3_exec(
		db,
		"INSERT INTO page_snapshot VALUES (1,1,1,9000000000,9000000001,'end',"
		"'PAGEMAP_SCAN',4096,1,1,1,0,0,1,1,0,0,1,NULL);"
		"INSERT INTO page_part VALUES (1,1,'heap',5,NULL,2,4242,0,0,0,0,4242,0,NULL,NULL)",
		NULL, NULL, NULL);
	write_report("unused");
	ck_assert_has("untouched to 9.00 s");
	/* All but the words of the allocator; also where no sample can say so. */
	sqlite3_exec(db, "UPDATE page_part SET untouched = 4100, resident = 142", NULL, NULL, NULL);
	sqlite3_exec(db, "UPDATE site SET byte_seconds = 1 WHERE stack_id = 5", NULL, NULL, NULL);
	write_report("unused");
	ck_assert_has("untouched to 9.00 s");
	write_request("unused", (struct report_request){ .format = TABLE_CSV });
	ck_assert_has(",4100,");
	/* It had pages at another look. */
	sqlite3_exec(
		db,
		"INSERT INTO page_snapshot VALUES (2,1,1,9500000000,9500000001,'end',"
		"'PAGEMAP_SCAN',4096,1,1,1,0,0,1,1,0,0,1,NULL);"
		"INSERT INTO page_part VALUES (2,1,'heap',5,NULL,2,4242,0,0,0,4242,0,0,NULL,NULL)",
		NULL, NULL, NULL);
	write_report("unused");
	ck_assert_has("None that pages or samples can speak for.");
	sqlite3_exec(db,
		     "DELETE FROM page_part WHERE snapshot_id = 2;"
		     "UPDATE site SET byte_seconds = 12e9 WHERE stack_id = 5;"
		     "UPDATE page_part SET untouched = 4000, zero = 242, resident = 0",
		     NULL, NULL, NULL);
	write_report("unused");
	ck_assert_has("  probable");
}
END_TEST

/* Of 12 MiB, a Pss of 9: 8 its own, and 1 of 4 that others have; on two nodes. */
START_TEST(resident_rows_have_nodes_and_the_foot_has_pss)
{
	sqlite3_exec(db,
		     "INSERT INTO page_snapshot VALUES (1,1,1,9000000000,9000000001,'end',"
		     "'PAGEMAP_SCAN',4096,12582912,12582912,12582912,0,0,12582912,1,0,0,1,9437184);"
		     "INSERT INTO page_part VALUES (1,1,'heap',5,NULL,2,8388608,8388608,0,0,0,0,0,"
		     "0,'{\"0\": 1048576, \"10\": 7340032}'), (1,1,'file',NULL,'/lib/a.so',0,"
		     "4194304,4194304,0,0,0,0,0,4194304,'{\"10\": 4194304}')",
		     NULL, NULL, NULL);
	write_report("resident");
	ck_assert_has("0: 1.00 MiB, 10: 7.00 MiB");
	ck_assert_has("Pss 9.00 MiB: 8.00 MiB in pages of its own, 1.00 MiB its part of 4.00 MiB");
}
END_TEST

/* The looks at 1, 2 and 3 s; that at 2 s found most. */
START_TEST(resident_memory_is_that_of_the_selected_time_and_process)
{
	struct selection early = { .to_ns = 2000000000 },
			 late = { .from_ns = 2000000001, .to_ns = INT64_MAX };
	struct selection other = { .to_ns = INT64_MAX, .pid = 11 };

	sqlite3_exec(
		db,
		"INSERT INTO page_snapshot SELECT value, 1, 1, value * 1000000000, value *"
		" 1000000000 + 1, 'tick', 'PAGEMAP_SCAN', 4096, 1, 1, 1, 0, 0, 10 - abs(value -"
		" 2), 1, 0, 0, 1, NULL FROM json_each('[1,2,3]');"
		"INSERT INTO page_part SELECT value, 1, 'heap', 5, NULL, 2, 1, value * 1111, 0, 0,"
		" 0, 0, 0, NULL, NULL FROM json_each('[1,2,3]')",
		NULL, NULL, NULL);
	write_request("resident", (struct report_request){ .format = TABLE_CSV });
	ck_assert_has("\n2222,");
	write_request("resident",
		      (struct report_request){ .format = TABLE_CSV, .selection = &early });
	ck_assert_has("\n1111,");
	write_request("resident",
		      (struct report_request){ .format = TABLE_CSV, .selection = &late });
	ck_assert_has("\n3333,");
	write_request("resident", (struct report_request){ .selection = &other });
	ck_assert_has("No look at the pages");
}
END_TEST

/* 1 MiB of 2 is written in one interval of two; the last block is left alone since its write. */
START_TEST(written_bytes_are_means_and_large_blocks_say_what_never_was)
{
	write_report("written");
	ck_assert_has("No written pages are known");
	sqlite3_exec(
		db,
		"INSERT INTO site_write VALUES (1,1,'heap',5,0,1000000000,1,4194304,2097152,"
		"4096,1048576), (1,1,'heap',5,1000000000,2000000000,1,4194304,2097152,0,0);"
		"INSERT INTO write_interval VALUES (1,1,0,1000000000,4096,2097152,1048576,0,0),"
		" (1,1,1000000000,2000000000,4096,2097152,0,0,0);"
		"INSERT INTO allocation(id, run_id, process_id, thread_id, address, size,"
		" allocated_ns, call, end_kind, stack_id) SELECT 90 + value, 1, 1, 1, 0, 1, 0,"
		" 1, 0, 5 FROM json_each('[1,2]');"
		"INSERT INTO page_block VALUES (1,1,'heap',91,NULL,NULL,NULL,500000000,2,0,0,0,0,"
		"1048576,262144,1000000000), (1,1,'heap',92,0,0,0,1500000000,2,0,0,0,0,1048576,"
		"65536,1000000000)",
		NULL, NULL, NULL);
	write_request("written", (struct report_request){ .format = TABLE_CSV });
	ck_assert_has("\n524288,2048,1048576,2097152,4194304,1769472,262144,2,");
}
END_TEST

START_TEST(untouched_bytes_are_those_that_no_interval_can_have_touched)
{
	write_report("untouched");
	ck_assert_has("record --source pages");
	sqlite3_exec(db, touches_sql, NULL, NULL, NULL);
	write_request("untouched", (struct report_request){ .format = TABLE_CSV });
	ck_assert_has("\n2097152,2097152,,10900000000,2097152,");
	/* One page in each of 11 intervals, and 1 s is 2 of them, 10 s are all. */
	sqlite3_exec(db, "UPDATE page_touch SET most = 4096 WHERE most = 0", NULL, NULL, NULL);
	write_request("untouched", (struct report_request){ .format = TABLE_CSV });
	ck_assert_has("\n2088960,2052096,,,2097152,");
}
END_TEST

static void write_cold(int64_t ns)
{
	const struct report_request request = {
		.run_id = 1, .format = TABLE_CSV, .cold_ns = ns, .limit = -1
	};
	size_t n_bytes = 0;

	free(text);
	FILE *out = open_memstream(&text, &n_bytes);
	int r = report_write(out, db, &report_cold_for, &request);
	fclose(out);
	ck_assert_msg(r == 0, "%s", sqlite3_errmsg(db));
}

/* Of 12 s in which 2 MiB were live 400 samples were expected at the average rate. */
START_TEST(cold_memory_is_proven_by_pages_and_else_probable)
{
	sqlite3_exec(db,
		     "UPDATE site SET byte_seconds = 12e9, live_bytes = 1e9,"
		     " peak_bytes = 1e9, peak_ns = 0, first_ns = 0, first_touch_ns = NULL,"
		     " last_touch_ns = NULL, n_samples = 0 WHERE stack_id = 5;"
		     " UPDATE run SET duration_ns = 12400000000",
		     NULL, NULL, NULL);
	write_cold(10000000000);
	ck_assert_has(",probable,12400000000,");
	write_cold(60000000000);
	ck_assert(!strstr(text, "probable"));
	sqlite3_exec(db, touches_sql, NULL, NULL, NULL);
	sqlite3_exec(db,
		     "INSERT INTO page_interval VALUES (1,1,1,0,1000000000,1000000001,4096,2097152,"
		     "2097152,0,0,0)",
		     NULL, NULL, NULL);
	write_cold(10000000000);
	ck_assert_has("2097152,proven,10900000000,,");
	ck_assert(!strstr(text, "probable"));
	write_cold(11000000000);
	ck_assert(!strstr(text, "proven,"));
}
END_TEST

/* Of one mapping of 10 pages 4 are touched in each interval, of another one 5 in every second. */
START_TEST(a_working_set_lies_between_its_busiest_interval_and_the_sum_of_all)
{
	write_report("working-set");
	ck_assert_has("record --source pages");
	for (unsigned i = 0; i < 10; i++) {
		char sql[400];

		snprintf(
			sql, sizeof(sql),
			"INSERT INTO page_interval VALUES (%u,1,1,%u00000000,%u99000000,%u99000000,"
			"4096,81920,%u,1000000,0,0); INSERT INTO page_run VALUES (1,1,8192,40960,"
			"'anonymous',0,%u00000000,%u99000000,1,40960,%u,NULL)",
			i + 1, i, i, i, 16384 + i % 2 * 20480, i, i, i % 2 * 20480);
		ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	}
	sqlite3_exec(db,
		     "INSERT INTO page_run VALUES (1,1,81920,40960,'anonymous',0,0,999000000,10,"
		     "40960,16384,NULL)",
		     NULL, NULL, NULL);
	write_request("working-set", (struct report_request){ .format = TABLE_CSV });
	/* Each interval: 4 pages, or 9; in the second: 4 to 10, and 5 to 10. */
	ck_assert_has("\n99000000,10,26624,26624,36864,36864,81920,1.0,");
	ck_assert_has("\n1000000000,1,36864,81920,36864,81920,81920,0.99,");
	/* 40 KiB hold each interval, and perhaps the second; 80 KiB hold both. */
	write_request("working-set-curve", (struct report_request){ .format = TABLE_CSV });
	ck_assert_has("\n24576,0.3,0.5,0.0,0.0,,,,,");
	ck_assert_has("\n40960,0.5,1.0,0.0,1.0,,,,,");
	ck_assert_has("\n81920,1.0,1.0,1.0,1.0,,,,,");
	/* It merges with a page below it: what is touched there may be what was touched before. */
	sqlite3_exec(db,
		     "UPDATE page_run SET end_ns = 499000000, n_intervals = 5 WHERE address ="
		     " 81920; INSERT INTO page_run VALUES (1,1,77824,45056,'anonymous',0,500000000,"
		     "999000000,5,40960,16384,NULL)",
		     NULL, NULL, NULL);
	write_request("working-set", (struct report_request){ .format = TABLE_CSV });
	ck_assert_has("\n1000000000,1,36864,126976,36864,126976,81920,0.99,");
	/* The first mapping lies on node 0; of the other one's 10 pages 2 lie on node 1. */
	sqlite3_exec(db,
		     "UPDATE page_run SET node_bytes = CASE address WHEN 8192 THEN '{\"0\": 40960}'"
		     " ELSE '{\"0\": 32768, \"1\": 8192}' END",
		     NULL, NULL, NULL);
	write_request("working-set", (struct report_request){ .format = TABLE_CSV });
	ck_assert_has(",\"0: 18.0 KiB to 26.0 KiB, 1: 0 B to 8.00 KiB\"\n");
	write_report("working-set");
	ck_assert_has("10 intervals of 99.0 ms; reading and clearing marks took 1.00 %");
	write_report("summary");
	ck_assert_has("touched      26.0 KiB within 99.0 ms on average, 36.0 KiB at most, of 80.0"
		      " KiB resident   (--working-set, --untouched)\n");
	/* Bytes times ns of a large program for a minute are no integer of 64 bits. */
	sqlite3_exec(db, "UPDATE page_interval SET touched = touched << 24, end_ns = end_ns + 60e9",
		     NULL, NULL, NULL);
	write_report("summary");
	ck_assert_has("touched      416 GiB within 60.1 s on average");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("page-reports");
	TCase *tcase = tcase_create("reports");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, unused_is_proven_where_pages_were_left_alone);
	tcase_add_test(tcase, resident_rows_have_nodes_and_the_foot_has_pss);
	tcase_add_test(tcase, resident_memory_is_that_of_the_selected_time_and_process);
	tcase_add_test(tcase, written_bytes_are_means_and_large_blocks_say_what_never_was);
	tcase_add_test(tcase, untouched_bytes_are_those_that_no_interval_can_have_touched);
	tcase_add_test(tcase, cold_memory_is_proven_by_pages_and_else_probable);
	tcase_add_test(tcase, a_working_set_lies_between_its_busiest_interval_and_the_sum_of_all);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
