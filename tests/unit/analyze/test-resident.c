/* Whose resident pages are: from records of the trace to rows. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/analyze.h"
#include "tests/support/suite.h"
#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/unit/analyze/fixtures/page-victim.h"

#define PRESENT TRACE_PAGE_PRESENT

static const struct import_options plain;

/* Pages first .. first + n - 1 are in a state. */
struct run {
	uint64_t first;
	uint64_t n;
	unsigned bits;
	unsigned node; /* 1 + its number, where nodes are told */
};

static size_t encode(const struct run *runs, size_t n, bool is_told, uint8_t *ret_bytes)
{
	uint8_t *at = ret_bytes;
	uint64_t end = 0;

	for (size_t i = 0; i < n; i++) {
		at = victim_put(at,
				(uint64_t[]){ runs[i].first - end,
					      runs[i].n << TRACE_PAGE_BITS | runs[i].bits,
					      runs[i].node },
				is_told ? 3 : 2);
		end = runs[i].first + runs[i].n;
	}
	return (size_t)(at - ret_bytes);
}

/* In two parts, which split runs and maps anywhere. */
static bool has_nodes; /* runs tell of them */
static uint64_t leaving_bytes;

static void look(struct maker *maker, uint64_t time_ns, uint16_t reason, const uint8_t *runs,
		 size_t n_bytes, const char *maps)
{
	size_t n_maps = strlen(maps), first_runs = n_bytes / 2, first_maps = n_maps / 3;
	struct trace_pages record = {
		.head.type = TRACE_RECORD_PAGES,
		.ticks = MAKER_START + time_ns,
		.end_ticks = MAKER_START + time_ns + 10,
		.rss_bytes = 1,
		.rss_after_bytes = 2,
		.process_id = 1,
		.number = (uint32_t)time_ns,
		.page_bytes = PAGE,
		.reason = (uint8_t)reason,
		.has_shared = reason == TRACE_PAGES_END,
		.pss_bytes = reason == TRACE_PAGES_END ? 12345 : 0,
		.has_nodes = has_nodes,
		.leaving_bytes = leaving_bytes,
		.runs_bytes = (uint32_t)first_runs,
		.maps_bytes = (uint32_t)first_maps,
	};
	struct trace_string strings[2] = { { runs, record.runs_bytes },
					   { maps, record.maps_bytes } };

	ck_assert_int_eq(trace_writer_record(maker->writer, &record, sizeof(record), strings, 2),
			 0);
	record.is_last = 1;
	record.runs_bytes = (uint32_t)(n_bytes - first_runs);
	record.maps_bytes = (uint32_t)(n_maps - first_maps);
	strings[0] = (struct trace_string){ runs + first_runs, record.runs_bytes };
	strings[1] = (struct trace_string){ maps + first_maps, record.maps_bytes };
	ck_assert_int_eq(trace_writer_record(maker->writer, &record, sizeof(record), strings, 2),
			 0);
}

static void begin(struct maker *maker)
{
	victim_begin(maker);
	victim_allocate(maker, 1, HEAP + 16, 1000); /* page 0, ... */
	victim_allocate(maker, 2, HEAP + 1040, 1000); /* ... with this one */
	/* from the end of page 1 to the begin of page 4; page 3 was never touched */
	victim_allocate(maker, 1, HEAP + 2 * PAGE - 96, 2 * PAGE + 196);
	victim_allocate(maker, 2, HEAP + 9 * PAGE, 2 * PAGE); /* swapped, and the page of zeros */
}

static const char maps[] =
	"00400000-00402000 r-xp 00000000 00:01 77 /bin/program\n"
	"00402000-00403000 rw-p 00002000 00:01 77 /bin/program\n"
	"00403000-00405000 rw-p 00000000 00:00 0 \n"
	"00500000-00510000 rw-p 00000000 00:00 0                          [heap]\n"
	"00700000-00708000 rw-p 00000000 00:00 0 \n"
	"00800000-00801000 rw-s 00000000 00:02 88 /memfd:memsight-pool (deleted)\n"
	"00900000-00902000 rw-s 00000000 00:03 99 /dev/shm/some where\n"
	"7ff000000000-7ff000002000 rw-p 00000000 00:00 0 [stack]\n";

static const struct run pages[] = {
	{ 0x400, 2, PRESENT | TRACE_PAGE_FILE },
	{ 0x402, 1, PRESENT },
	{ 0x403, 1, PRESENT },
	{ 0x500, 1, PRESENT | TRACE_PAGE_SHARED },
	{ 0x501, 2, PRESENT },
	{ 0x504, 2, PRESENT | TRACE_PAGE_HUGE }, /* the second one holds no block */
	{ 0x509, 1, TRACE_PAGE_SWAPPED },
	{ 0x50a, 1, PRESENT | TRACE_PAGE_ZERO },
	{ 0x701, 3, PRESENT },
	{ 0x800, 1, PRESENT | TRACE_PAGE_FILE },
	{ 0x900, 1, PRESENT | TRACE_PAGE_FILE },
	{ 0xa00, 1, PRESENT }, /* mapped since the maps were read */
	{ 0x7ff000000, 1, PRESENT },
};

#define N_PAGES_RESIDENT 16 /* of these, without the swapped one and that of zeros */

static void import_looks(struct maker *maker, struct db **ret_db)
{
	maker_commit(maker, 5000);
	maker_close(maker, 100000);
	ck_assert_int_eq(db_open_any(maker->trace, &plain, ret_db), 0);
}

static int64_t of_kind(struct db *db, const char *what, const char *kind)
{
	char sql[256];

	snprintf(sql, sizeof(sql), "SELECT coalesce(sum(%s), -1) FROM page_part WHERE kind = '%s'",
		 what, kind);
	return check_integer(db_handle(db), sql);
}

/* Of call site 1 or 2. */
static int64_t of_site(struct db *db, const char *what, unsigned site)
{
	char sql[160];

	snprintf(sql, sizeof(sql),
		 "SELECT sum(%s) FROM page_part WHERE kind = 'heap' AND stack_id IN its", what);
	return victim_site(db_handle(db), sql, site);
}

static void with_looks(const struct run *runs, size_t n, void (*check)(struct db *db))
{
	struct maker maker;
	struct db *db = NULL;
	uint8_t bytes[512];
	size_t n_bytes = encode(runs, n, has_nodes, bytes);

	begin(&maker);
	look(&maker, 1000, TRACE_PAGES_END, bytes, n_bytes, maps);
	import_looks(&maker, &db);
	check(db);
	db_close(db);
	maker_finish(&maker);
}

static void check_sites(struct db *db)
{
	/* In page 1 and 2 and 4: 96 + 4096 + 100. */
	ck_assert_int_eq(of_site(db, "n_blocks", 1), 2);
	ck_assert_int_eq(of_site(db, "resident", 1), 1000 + 96 + PAGE + 100);
	ck_assert_int_eq(of_site(db, "untouched", 1), PAGE);
	ck_assert_int_eq(of_site(db, "huge", 1), 100);
	/* Page 0 is shared by halves, what is left of pages 1 and 4 is its own. */
	ck_assert_int_eq(of_site(db, "beside", 1), (PAGE - 2000) / 2 + (PAGE - 96) + (PAGE - 100));
	ck_assert_int_eq(of_site(db, "shared", 1), 1000 + (PAGE - 2000) / 2);
	ck_assert_int_eq(of_site(db, "shared", 2), 1000 + (PAGE - 2000) / 2);
	ck_assert_int_eq(of_site(db, "resident", 2), 1000);
	ck_assert_int_eq(of_site(db, "beside", 2), (PAGE - 2000) / 2);
	ck_assert_int_eq(of_site(db, "swapped", 2), PAGE);
	ck_assert_int_eq(of_site(db, "zero", 2), PAGE);
	ck_assert_int_eq(of_site(db, "untouched", 2), 0);
}

START_TEST(bytes_of_a_page_are_the_call_sites_that_have_blocks_in_it)
{
	with_looks(pages, sizeof(pages) / sizeof(pages[0]), check_sites);
}
END_TEST

/* Page 0 with parts of two sites, pages of site 1, one behind it without a block, a mapping. */
static const struct run on_nodes[] = {
	{ 0x500, 1, PRESENT, 2 },  { 0x501, 1, PRESENT, 1 }, { 0x502, 1, PRESENT, 3 },
	{ 0x504, 1, PRESENT, 3 },  { 0x505, 1, PRESENT, 0 }, { 0x701, 2, PRESENT, 64 },
	{ 0x703, 1, PRESENT, 65 },
};

static void check_nodes(struct db *db)
{
	sqlite3 *sql = db_handle(db);

	ck_assert_int_eq(of_site(db, "json_extract(node_bytes, '$.0')", 1), PAGE);
	ck_assert_int_eq(of_site(db, "json_extract(node_bytes, '$.1')", 1), PAGE / 2);
	ck_assert_int_eq(of_site(db, "json_extract(node_bytes, '$.1')", 2), PAGE / 2);
	ck_assert_int_eq(of_site(db, "json_extract(node_bytes, '$.2')", 1), 2 * PAGE);
	ck_assert_int_eq(of_kind(db, "json_extract(node_bytes, '$.63')", "mapping"), 2 * PAGE);
	/* Not known of the free page, and of more than 64 nodes. */
	check_no_row(sql, "SELECT * FROM page_part WHERE kind = 'free' AND node_bytes IS NOT NULL");
	ck_assert_int_eq(check_integer(sql, "SELECT sum(each.value) FROM page_part,"
					    " json_each(node_bytes) AS each"),
			 6 * PAGE);
	ck_assert_int_eq(check_integer(sql, "SELECT pss FROM page_snapshot"), 12345);
}

START_TEST(bytes_are_on_the_nodes_of_their_pages)
{
	has_nodes = true;
	with_looks(on_nodes, sizeof(on_nodes) / sizeof(on_nodes[0]), check_nodes);
	has_nodes = false;
}
END_TEST

static void check_others(struct db *db)
{
	ck_assert_int_eq(of_kind(db, "resident", "free"), PAGE);
	ck_assert_int_eq(of_kind(db, "resident", "mapping"), 3 * PAGE);
	ck_assert_int_eq(of_kind(db, "untouched", "mapping"), 5 * PAGE);
	ck_assert_int_eq(of_kind(db, "resident", "file"), 2 * PAGE);
	ck_assert_int_eq(of_kind(db, "resident", "data"), 2 * PAGE);
	ck_assert_int_eq(of_kind(db, "resident", "tool"), PAGE);
	ck_assert_int_eq(of_kind(db, "resident", "shared"), PAGE);
	ck_assert_int_eq(of_kind(db, "resident", "stack"), PAGE);
	ck_assert_int_eq(of_kind(db, "resident", "other"), PAGE);
	check_no_row(db_handle(db), "SELECT * FROM page_part WHERE kind = 'shared' AND name IS NOT"
				    " '/dev/shm/some where'");
	check_no_row(db_handle(db), "SELECT * FROM page_part WHERE kind = 'mapping' AND stack_id"
				    " IS NULL");
	check_no_row(db_handle(db), "SELECT * FROM loss");
}

START_TEST(pages_without_blocks_are_the_mappings_they_lie_in)
{
	with_looks(pages, sizeof(pages) / sizeof(pages[0]), check_others);
}
END_TEST

static void check_sum(struct db *db)
{
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT resident FROM page_snapshot"),
			 N_PAGES_RESIDENT * PAGE);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT sum(resident + beside) FROM"
						      " page_part"),
			 N_PAGES_RESIDENT * PAGE);
	check_no_row(db_handle(db), "SELECT * FROM page_part WHERE bytes <> resident + swapped +"
				    " zero + untouched");
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT heap_pages FROM page_snapshot"), 4);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT half_empty FROM page_snapshot"), 3);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT nearly_empty FROM page_snapshot"), 2);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT end_ns - time_ns FROM"
						      " page_snapshot"),
			 10);
}

START_TEST(the_parts_of_a_look_add_up_to_what_is_resident)
{
	with_looks(pages, sizeof(pages) / sizeof(pages[0]), check_sum);
}
END_TEST

static void check_leaving(struct db *db)
{
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT resident FROM page_snapshot"),
			 (N_PAGES_RESIDENT + 7) * PAGE);
	ck_assert_int_eq(of_kind(db, "resident", "unmapping"), 7 * PAGE);
	check_no_row(db_handle(db), "SELECT * FROM page_part WHERE bytes <> resident + swapped +"
				    " zero + untouched");
}

START_TEST(pages_that_no_mapping_has_any_more_are_a_part_as_well)
{
	leaving_bytes = 7 * PAGE;
	with_looks(pages, sizeof(pages) / sizeof(pages[0]), check_leaving);
	leaving_bytes = 0;
}
END_TEST

START_TEST(of_looks_for_peaks_the_last_one_keeps_its_parts)
{
	const struct run one = { 0x500, 1, PRESENT };
	struct maker maker;
	struct db *db = NULL;
	uint8_t bytes[64];
	size_t n_bytes = encode(&one, 1, false, bytes);

	begin(&maker);
	for (uint64_t i = 1; i <= 3; i++)
		look(&maker, 1000 * i, TRACE_PAGES_PEAK, bytes, n_bytes, maps);
	look(&maker, 4000, TRACE_PAGES_TICK, bytes, n_bytes, maps);
	import_looks(&maker, &db);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM page_snapshot WHERE"
						      " resident = 4096"),
			 4);
	check_no_row(db_handle(db), "SELECT * FROM page_part WHERE shared IS NOT NULL AND kind NOT"
				    " IN ('file', 'shared')");
	check_no_row(db_handle(db), "SELECT * FROM page_snapshot WHERE has_parts <> (time_ns >="
				    " 3000) OR has_parts <> (id IN (SELECT snapshot_id FROM"
				    " page_part))");
	db_close(db);
	maker_finish(&maker);
}
END_TEST

/* A look that was passed counts pages as wholes: with small blocks over their borders, too. */
START_TEST(sums_of_a_look_that_was_passed_are_those_of_one_that_was_not)
{
	struct maker maker;
	struct db *db = NULL;
	uint8_t bytes[256];
	size_t n_bytes = encode(pages, sizeof(pages) / sizeof(pages[0]), has_nodes, bytes);

	begin(&maker);
	victim_allocate(&maker, 1, HEAP + PAGE + 16, 64);
	victim_allocate(&maker, 2, HEAP + 4 * PAGE + 512, 30);
	victim_allocate(&maker, 1, HEAP + 5 * PAGE - 32, 100);
	victim_allocate(&maker, 1, HEAP + 9 * PAGE - 16, 16);
	for (uint64_t i = 1; i <= 3; i++)
		look(&maker, 1000 * i, TRACE_PAGES_PEAK, bytes, n_bytes, maps);
	import_looks(&maker, &db);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM page_snapshot"), 3);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT sum(has_parts) FROM page_snapshot"),
			 1);
	ck_assert_int_eq(check_integer(db_handle(db),
				       "SELECT count(*) FROM (SELECT DISTINCT resident,"
				       " heap_pages, half_empty, nearly_empty FROM page_snapshot)"),
			 1);
	check_no_row(db_handle(db), "SELECT * FROM page_snapshot WHERE heap_pages < 5 OR"
				    " half_empty < 2 OR nearly_empty < 1");
	db_close(db);
	maker_finish(&maker);
}
END_TEST

START_TEST(damaged_runs_and_maps_are_no_reason_to_fail)
{
	static const char *const texts[] = { "", "nothing\n", "5-3 rw-p 0 0:0 0\n",
					     "00500000-ffffffffffffffff rw-p 0 0:0 0 [heap]\n",
					     ("00500000-00501000 rw-p 0 0:0 0\n"
					      "00400000-00600000 rw-p 0 0:0 0\n") };
	static const struct run wild[] = { { 0, UINT64_MAX >> 6, PRESENT },
					   { UINT64_MAX / 2, 1, PRESENT } };
	struct maker maker;
	struct db *db = NULL;
	uint8_t bytes[64];
	size_t n_bytes = encode(wild, 2, has_nodes, bytes);

	bytes[n_bytes++] = 0xff; /* a varint without an end */
	begin(&maker);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (size_t n = 0; n <= n_bytes; n++)
			look(&maker, 1000 + 100 * i + n, TRACE_PAGES_TICK, bytes, n, texts[i]);
	import_looks(&maker, &db);
	/* The longest ends in a byte too few; others are cut in a run, or whole. */
	ck_assert_int_gt(check_integer(db_handle(db), "SELECT count(*) FROM page_snapshot"), 0);
	ck_assert_int_ge(check_integer(db_handle(db), "SELECT sum(count) FROM loss WHERE reason ="
						      " 'look at the pages damaged'"),
			 (int64_t)(sizeof(texts) / sizeof(texts[0])));
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT (SELECT count(*) FROM page_snapshot)"
						      " + (SELECT sum(count) FROM loss WHERE"
						      " reason = 'look at the pages damaged')"),
			 (int64_t)(sizeof(texts) / sizeof(texts[0]) * (n_bytes + 1)));
	db_close(db);
	maker_finish(&maker);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resident");
	TCase *tests = tcase_create("all");

	tcase_add_test(tests, bytes_of_a_page_are_the_call_sites_that_have_blocks_in_it);
	tcase_add_test(tests, bytes_are_on_the_nodes_of_their_pages);
	tcase_add_test(tests, pages_without_blocks_are_the_mappings_they_lie_in);
	tcase_add_test(tests, pages_that_no_mapping_has_any_more_are_a_part_as_well);
	tcase_add_test(tests, the_parts_of_a_look_add_up_to_what_is_resident);
	tcase_add_test(tests, of_looks_for_peaks_the_last_one_keeps_its_parts);
	tcase_add_test(tests, sums_of_a_look_that_was_passed_are_those_of_one_that_was_not);
	tcase_add_test(tests, damaged_runs_and_maps_are_no_reason_to_fail);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
