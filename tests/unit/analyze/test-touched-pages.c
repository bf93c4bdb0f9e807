/* How much of whose pages was touched: from records of the trace to rows. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "analyze/analyze.h"
#include "tests/support/suite.h"
#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/unit/analyze/fixtures/page-victim.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

static const struct import_options plain;

struct run {
	uint64_t first;
	uint64_t n;
	uint64_t resident;
	uint64_t touched;
	unsigned bits;
};

static size_t encode(const struct run *runs, size_t n, uint8_t *ret_bytes)
{
	uint8_t *at = ret_bytes;
	uint64_t end = 0;

	for (size_t i = 0; i < n; i++) {
		at = victim_put(at,
				(uint64_t[]){ runs[i].first - end,
					      runs[i].n << TRACE_TOUCH_BITS | runs[i].bits,
					      runs[i].resident, runs[i].touched },
				4);
		end = runs[i].first + runs[i].n;
	}
	return (size_t)(at - ret_bytes);
}

/* In two parts, which split the runs anywhere. */
static void interval_of(struct maker *maker, uint64_t time_ns, const uint8_t *runs, size_t n_bytes,
			bool has_nodes)
{
	size_t first = n_bytes / 2;
	struct trace_touches record = {
		.head.type = TRACE_RECORD_TOUCHES,
		.begin_ticks = MAKER_START + time_ns - 90,
		.ticks = MAKER_START + time_ns,
		.end_ticks = MAKER_START + time_ns + 5,
		.resident_bytes = 3 * PAGE,
		.touched_bytes = PAGE,
		.process_id = 1,
		.number = (uint32_t)time_ns,
		.page_bytes = PAGE,
		.has_nodes = has_nodes,
		.runs_bytes = (uint32_t)first,
	};
	struct trace_string string = { runs, record.runs_bytes };

	ck_assert_int_eq(trace_writer_record(maker->writer, &record, sizeof(record), &string, 1),
			 0);
	record.is_last = 1;
	record.runs_bytes = (uint32_t)(n_bytes - first);
	string = (struct trace_string){ runs + first, record.runs_bytes };
	ck_assert_int_eq(trace_writer_record(maker->writer, &record, sizeof(record), &string, 1),
			 0);
}

static void interval(struct maker *maker, uint64_t time_ns, const uint8_t *runs, size_t n_bytes)
{
	interval_of(maker, time_ns, runs, n_bytes, false);
}

static void begin(struct maker *maker)
{
	victim_begin(maker);
	victim_allocate(maker, 1, HEAP + 16, 1000); /* page 0, twice: it is one page */
	victim_allocate(maker, 1, HEAP + 1040, 1000);
	victim_allocate(maker, 2, HEAP + 2048, 100); /* page 0 as well */
	victim_allocate(maker, 1, HEAP + 2 * PAGE - 96, 10 * PAGE + 96); /* pages 1 to 11 */
	victim_allocate(maker, 2, HEAP + 14 * PAGE, PAGE);
}

/* Each of 90 ns, which end at 1000, 1100, ... ns. */
struct intervals {
	const struct run (*runs)[2];
	size_t n;
	void (*prepare)(struct maker *maker); /* NULL: nothing more happens */
	void (*check)(sqlite3 *db);
};

static void with_intervals(const struct intervals *intervals)
{
	struct maker maker;
	struct db *db = NULL;
	uint8_t bytes[128];

	begin(&maker);
	if (intervals->prepare)
		intervals->prepare(&maker);
	for (size_t i = 0; i < intervals->n; i++) {
		size_t n_bytes = encode(intervals->runs[i], 2, bytes);

		if (intervals->runs[i][0].n > 0)
			interval(&maker, 1000 + 100 * i, bytes, n_bytes);
	}
	maker_commit(&maker, 9000);
	maker_close(&maker, 100000);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	intervals->check(db_handle(db));
	db_close(db);
	maker_finish(&maker);
}

/* Of call site 1, 2 or 3, in its row number n (from 0). */
static int64_t of_site(sqlite3 *db, const char *what, unsigned site, unsigned n)
{
	char sql[200];

	snprintf(sql, sizeof(sql),
		 "SELECT %s FROM page_touch WHERE stack_id IN its ORDER BY begin_ns LIMIT 1 OFFSET"
		 " %u",
		 what, n);
	return victim_site(db, sql, site);
}

/* 16 pages, of which site 1 has 12 and site 2 has 2. */
static const struct run divided[][2] = {
	{ { 0x500, 16, 16, 0, 0 }, { 0x700, 8, 8, 8, 0 } },
	{ { 0x500, 16, 16, 1, 0 }, { 0x700, 8, 8, 8, 0 } },
	{ { 0x500, 16, 16, 5, 0 }, { 0x700, 8, 8, 8, 0 } },
	{ { 0x500, 16, 16, 15, 0 }, { 0x700, 8, 8, 8, 0 } },
	{ { 0x500, 16, 16, 16, 0 }, { 0x700, 8, 8, 8, 0 } },
	{ { 0x500, 16, 10, 1, TRACE_TOUCH_SWAPPED }, { 0x700, 8, 8, 8, 0 } },
};

static void check_divided(sqlite3 *db)
{
	static const int64_t least[2][6] = { { 0, 0, 1, 11, 12, 0 }, { 0, 0, 0, 1, 2, 0 } };
	static const int64_t most[2][6] = { { 0, 1, 5, 12, 12, 12 }, { 0, 1, 2, 2, 2, 2 } };

	for (unsigned i = 0; i < 6; i++) {
		ck_assert_int_eq(of_site(db, "least", 1, i), least[0][i] * PAGE);
		ck_assert_int_eq(of_site(db, "most", 1, i), most[0][i] * PAGE);
	}
	/* Equal rows one behind the other are one. */
	ck_assert_int_eq(of_site(db, "sum(n_intervals)", 2, 0), 6);
	ck_assert_int_eq(of_site(db, "count(*)", 3, 0), 1);
	ck_assert_int_eq(of_site(db, "n_intervals", 3, 0), 6);
	ck_assert_int_eq(of_site(db, "least", 3, 0), 8 * PAGE);
	ck_assert_int_eq(of_site(db, "size", 1, 0), 12 * PAGE);
	ck_assert_int_eq(of_site(db, "resident", 1, 0), 12 * PAGE);
	ck_assert_int_eq(of_site(db, "resident", 1, 5), 6 * PAGE);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(of_site(db, "most", 2, i), most[1][i] * PAGE);
	ck_assert_int_eq(of_site(db, "sum(least)", 2, 0), 3 * PAGE);
	check_no_row(db, "SELECT * FROM page_touch WHERE least > most OR most > size");
	check_no_row(db, "SELECT * FROM loss");
}

START_TEST(of_a_site_is_known_what_others_cannot_have_touched)
{
	with_intervals(&(struct intervals){ divided, N(divided), NULL, check_divided });
}
END_TEST

static void check_runs(sqlite3 *db)
{
	ck_assert_int_eq(check_integer(db, "SELECT count(*) FROM page_interval WHERE end_ns -"
					   " begin_ns = 90 AND read_ns - end_ns = 5"),
			 6);
	ck_assert_int_eq(check_integer(db, "SELECT count(*) FROM page_run WHERE address ="
					   " 0x700000 AND n_intervals = 6 AND touched = 32768 AND"
					   " end_ns - begin_ns = 590"),
			 1);
	ck_assert_int_eq(check_integer(db, "SELECT count(*) FROM page_run WHERE address ="
					   " 0x500000"),
			 6);
}

START_TEST(a_mapping_has_one_row_for_as_long_as_nothing_changes)
{
	with_intervals(&(struct intervals){ divided, N(divided), NULL, check_runs });
}
END_TEST

/* A page of site 2 is left within the second interval, and taken by site 1 in the third. */
static void leave_page(struct maker *maker)
{
	victim_free(maker, 1050, HEAP + 14 * PAGE);
	victim_allocate_at(maker, 1150, 1, HEAP + 14 * PAGE, PAGE);
}

static const struct run left[][2] = {
	{ { 0x500, 16, 16, 15, 0 }, { 0x700, 8, 8, 0, 0 } },
	{ { 0x500, 16, 16, 15, 0 }, { 0x700, 8, 8, 0, 0 } },
	{ { 0x500, 16, 16, 15, 0 }, { 0x700, 8, 8, 0, 0 } },
	{ { 0x500, 16, 16, 15, 0 }, { 0x700, 8, 8, 0, 0 } },
};

static void check_left(sqlite3 *db)
{
	/* 12 of 16 pages; one of the others was left, which may have been one of its own; 13. */
	ck_assert_int_eq(of_site(db, "least", 1, 0), 11 * PAGE);
	ck_assert_int_eq(of_site(db, "least", 1, 1), 10 * PAGE);
	ck_assert_int_eq(of_site(db, "least", 1, 2), 12 * PAGE);
	ck_assert_int_eq(of_site(db, "n_intervals", 1, 2), 2);
	ck_assert_int_eq(of_site(db, "sum(has_ended)", 1, 0), 0);
	ck_assert_int_eq(of_site(db, "has_ended", 2, 0), 0);
	ck_assert_int_eq(of_site(db, "has_ended", 2, 1), 1);
	ck_assert_int_eq(of_site(db, "n_intervals", 2, 1), 1);
	ck_assert_int_eq(of_site(db, "has_ended", 2, 2), 0);
}

START_TEST(what_a_block_has_touched_before_its_end_is_nobody_elses)
{
	with_intervals(&(struct intervals){ left, N(left), leave_page, check_left });
}
END_TEST

/* Its only block ends before each interval does: it has rows all the same. */
static void come_and_go(struct maker *maker)
{
	victim_free(maker, 950, HEAP + 14 * PAGE);
	victim_free(maker, 960, HEAP + 2048);
	for (unsigned i = 0; i < 3; i++) {
		victim_allocate_at(maker, 1020 + 100 * i, 2, HEAP + 14 * PAGE, PAGE);
		victim_free(maker, 1080 + 100 * i, HEAP + 14 * PAGE);
	}
}

static void check_gone(sqlite3 *db)
{
	ck_assert_int_eq(of_site(db, "count(*)", 2, 0), 4);
	ck_assert_int_eq(of_site(db, "sum(has_ended)", 2, 0), 4);
	ck_assert_int_eq(of_site(db, "sum(size)", 2, 0), 0);
}

START_TEST(of_a_site_whose_blocks_have_all_ended_it_is_said_that_they_did)
{
	with_intervals(&(struct intervals){ left, N(left), come_and_go, check_gone });
}
END_TEST

/* Nothing was seen for ten intervals: what was before and what is behind are two rows. */
static void check_gap(sqlite3 *db)
{
	ck_assert_int_eq(of_site(db, "count(*)", 3, 0), 2);
	ck_assert_int_eq(check_integer(db, "SELECT count(*) FROM page_run WHERE address ="
					   " 0x700000"),
			 2);
}

START_TEST(a_row_does_not_reach_over_a_time_that_nobody_saw)
{
	static const struct run gap[13][2] = {
		[0] = { { 0x500, 16, 16, 1, 0 }, { 0x700, 8, 8, 0, 0 } },
		[11] = { { 0x500, 16, 16, 1, 0 }, { 0x700, 8, 8, 0, 0 } },
		[12] = { { 0x500, 16, 16, 1, 0 }, { 0x700, 8, 8, 0, 0 } },
	};

	with_intervals(&(struct intervals){ gap, N(gap), NULL, check_gap });
}
END_TEST

/* A block of 20 pages in a mapping of its own, two that have one of 40 pages together. */
#define ALONE	 0x900000u
#define TOGETHER 0xa00000u

static void allocate_large(struct maker *maker)
{
	victim_allocate(maker, 1, ALONE, 20 * PAGE);
	victim_allocate(maker, 2, TOGETHER, 20 * PAGE);
	victim_allocate(maker, 2, TOGETHER + 20 * PAGE, 20 * PAGE);
}

static const struct run large[][2] = {
	{ { 0x900, 20, 20, 0, 0 }, { 0xa00, 40, 40, 0, 0 } },
	{ { 0x900, 20, 20, 3, 0 }, { 0xa00, 40, 40, 5, 0 } },
	{ { 0x900, 20, 20, 0, 0 }, { 0xa00, 40, 40, 25, 0 } },
	{ { 0x900, 20, 20, 20, 0 }, { 0xa00, 40, 40, 20, 0 } },
	{ { 0x900, 20, 20, 0, 0 }, { 0xa00, 40, 40, 0, 0 } },
};

#define OF_BLOCK(place)                                                                            \
	" FROM page_block JOIN allocation ON allocation.id = owner_id WHERE"                       \
	" page_block.kind = 'heap' AND address = " place

static void check_a_block(sqlite3 *db, unsigned address, const char *what)
{
	char sql[400];

	snprintf(sql, sizeof(sql), "SELECT count(*) %s%u%s", OF_BLOCK(""), address, what);
	ck_assert_int_eq(check_integer(db, sql), 1);
}

static void check_blocks(sqlite3 *db)
{
	static const char alone[] =
		" AND first_from_ns = 1010 AND first_to_ns = 1100 AND last_from_ns = 1210"
		" AND last_to_ns = 1300 AND n_intervals = 5 AND least = 81920";
	/* Of 25 pages at least 5 are each one's; of 20 all may be one's. */
	static const char together[] =
		" AND page_block.size = 81920 AND first_from_ns = 1010 AND first_to_ns = 1200"
		" AND last_from_ns = 1110 AND last_to_ns = 1300 AND least = 20480";

	check_a_block(db, 0x900000, alone);
	check_a_block(db, 0xa00000, together);
	check_a_block(db, 0xa14000, together);
	check_no_row(db, "SELECT 1" OF_BLOCK("address") " AND allocation.size < 65536");
}

START_TEST(large_blocks_have_the_intervals_of_their_first_and_last_touch)
{
	with_intervals(&(struct intervals){ large, N(large), allocate_large, check_blocks });
}
END_TEST

/* Each of two blocks has a half of a huge page: who touched it is not known. */
static void check_huge(sqlite3 *db)
{
	ck_assert_int_eq(of_site(db, "sum(least)", 2, 0), 0);
	ck_assert_int_eq(of_site(db, "max(most)", 2, 0), 20 * PAGE);
	check_no_row(db, "SELECT 1" OF_BLOCK("0xa00000") " AND first_to_ns IS NOT NULL");
	/* All of its mapping is its own. */
	check_a_block(db, 0x900000, " AND first_to_ns = 1000");
}

static void allocate_halves(struct maker *maker)
{
	victim_allocate(maker, 3, ALONE, 20 * PAGE);
	victim_allocate(maker, 1, TOGETHER, 20 * PAGE);
	victim_allocate(maker, 2, TOGETHER + 20 * PAGE, 20 * PAGE);
}

START_TEST(a_huge_page_may_have_been_touched_by_any_that_has_a_part_of_it)
{
	static const struct run huge[][2] = {
		{ { 0x900, 20, 20, 20, TRACE_TOUCH_HUGE },
		  { 0xa00, 40, 40, 40, TRACE_TOUCH_HUGE } },
	};

	with_intervals(&(struct intervals){ huge, N(huge), allocate_halves, check_huge });
}
END_TEST

/* In two parts, as an interval of touches. */
static void writes(struct maker *maker, uint64_t time_ns, const uint8_t *runs, size_t n_bytes)
{
	size_t first = n_bytes / 2;
	struct trace_writes record = {
		.head.type = TRACE_RECORD_WRITES,
		.begin_ticks = MAKER_START + time_ns - 95,
		.ticks = MAKER_START + time_ns,
		.end_ticks = MAKER_START + time_ns + 5,
		.known_bytes = 6 * PAGE,
		.written_bytes = 2 * PAGE,
		.process_id = 1,
		.number = (uint32_t)time_ns,
		.page_bytes = PAGE,
		.runs_bytes = (uint32_t)first,
	};
	struct trace_string string = { runs, record.runs_bytes };

	ck_assert_int_eq(trace_writer_record(maker->writer, &record, sizeof(record), &string, 1),
			 0);
	record.is_last = 1;
	record.runs_bytes = (uint32_t)(n_bytes - first);
	string = (struct trace_string){ runs + first, record.runs_bytes };
	ck_assert_int_eq(trace_writer_record(maker->writer, &record, sizeof(record), &string, 1),
			 0);
}

/* Pages 0x500 to 0x503, 0x504 and 0x505, and a huge one, which differ in the third interval. */
static void write_thrice(struct maker *maker)
{
	for (unsigned i = 0; i < 3; i++) {
		uint8_t bytes[64];
		const uint64_t runs[] = {
			0x500,
			4 << TRACE_WRITE_BITS,
			0,
			2 << TRACE_WRITE_BITS | (i == 2 ? TRACE_WRITE_NEW : TRACE_WRITE_WRITTEN),
			10,
			512 << TRACE_WRITE_BITS | TRACE_WRITE_HUGE
		};

		writes(maker, 1000 + 100 * i, bytes, (size_t)(victim_put(bytes, runs, 6) - bytes));
	}
}

START_TEST(written_pages_have_a_row_for_as_long_as_they_are_written)
{
	struct maker maker;
	struct db *db = NULL;
	sqlite3 *sql;

	begin(&maker);
	write_thrice(&maker);
	writes(&maker, 1300, (const uint8_t *)"\xff\xff", 2); /* a varint without an end */
	maker_commit(&maker, 9000);
	maker_close(&maker, 100000);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	sql = db_handle(db);
	ck_assert_int_eq(check_integer(sql, "SELECT count(*) FROM write_interval WHERE known ="
					    " 24576 AND written = 8192 AND end_ns - begin_ns = 95"),
			 3);
	ck_assert_int_eq(check_integer(sql, "SELECT count(*) FROM page_write"), 4);
	ck_assert_int_eq(check_integer(sql, "SELECT count(*) FROM page_write WHERE n_intervals = 3"
					    " AND begin_ns = 905 AND end_ns = 1200 AND (state ="
					    " 'clean' AND size = 16384 OR state = 'huge')"),
			 2);
	ck_assert_int_eq(check_integer(sql, "SELECT n_intervals FROM page_write WHERE state ="
					    " 'written' AND address = 0x504000 AND size = 8192"
					    " AND end_ns = 1100"),
			 2);
	ck_assert_int_eq(check_integer(sql, "SELECT begin_ns FROM page_write WHERE state = 'new'"),
			 1105);
	ck_assert_int_eq(check_integer(sql, "SELECT count(*) FROM loss WHERE reason = 'interval of"
					    " writes damaged'"),
			 1);
	db_close(db);
	maker_finish(&maker);
}
END_TEST

/*
 * Site 1 has pages 0 and 1 to 11, site 2 a part of page 0, and page 14. The fourth interval writes
 * what site 3 has, which was allocated in it.
 */
static void write_sites(struct maker *maker)
{
	static const struct {
		uint64_t first;
		uint64_t n;
		unsigned bits;
	} runs[][3] = {
		{ { 0x500, 1, TRACE_WRITE_WRITTEN }, { 0x501, 11, 0 }, { 0x50e, 1, 0 } },
		{ { 0x500, 3, 0 }, { 0x503, 2, TRACE_WRITE_WRITTEN }, { 0x505, 1, 0 } },
		{ { 0x500, 3, 0 }, { 0x504, 3, TRACE_WRITE_WRITTEN }, { 0x50e, 1, 0 } },
		{ { 0x500, 12, 0 }, { 0x50e, 1, TRACE_WRITE_NEW }, { 0x600, 32, 1 } },
	};

	for (unsigned i = 0; i < N(runs); i++) {
		uint8_t bytes[64], *at = bytes;
		uint64_t end = 0;

		if (i == 3)
			victim_allocate_at(maker, 1250, 3, HEAP + 256 * PAGE + 16, 31 * PAGE);
		for (unsigned k = 0; k < 3; end = runs[i][k].first + runs[i][k].n, k++)
			at = victim_put(
				at,
				(uint64_t[]){ runs[i][k].first - end,
					      runs[i][k].n << TRACE_WRITE_BITS | runs[i][k].bits },
				2);
		writes(maker, 1000 + 100 * i, bytes, (size_t)(at - bytes));
	}
}

static int64_t written_of_site(sqlite3 *db, const char *what, unsigned site, unsigned n)
{
	char sql[200];

	snprintf(sql, sizeof(sql),
		 "SELECT %s FROM site_write WHERE stack_id IN its ORDER BY begin_ns LIMIT 1 OFFSET"
		 " %u",
		 what, n);
	return victim_site(db, sql, site);
}

static void check_written_sites(sqlite3 *db)
{
	/* A page with parts of two sites is written by either, one with a whole block by its. */
	static const int64_t first[2][4] = { { 12, 6, 6, 12 }, { 2, 1, 2, 1 } };
	static const int64_t most[2][4] = { { 1, 2, 3, 0 }, { 1, 0, 0, 0 } };
	static const int64_t least[4] = { 0, 2, 3, 0 };

	for (unsigned i = 0; i < 4; i++) {
		for (unsigned site = 0; site < 2; site++) {
			ck_assert_int_eq(written_of_site(db, "known", site + 1, i),
					 first[site][i] * PAGE);
			ck_assert_int_eq(written_of_site(db, "most", site + 1, i),
					 most[site][i] * PAGE);
		}
		ck_assert_int_eq(written_of_site(db, "least", 1, i), least[i] * PAGE);
		ck_assert_int_eq(written_of_site(db, "size", 1, i), 12 * PAGE);
	}
	/* Who had these pages before it was allocated may have written them; row 0 is a mapping. */
	ck_assert_int_eq(written_of_site(db, "least", 3, 1), 0);
	ck_assert_int_eq(written_of_site(db, "most", 3, 1), 32 * PAGE);
	ck_assert_int_eq(check_integer(db, "SELECT write_known FROM page_block WHERE size = 0 AND"
					   " written = 4096 * 30 AND last_write_ns = 1300"),
			 30 * PAGE);
}

START_TEST(written_pages_are_whose_blocks_lie_in_them)
{
	struct maker maker;
	struct db *db = NULL;

	begin(&maker);
	write_sites(&maker);
	maker_commit(&maker, 9000);
	maker_close(&maker, 100000);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	check_written_sites(db_handle(db));
	db_close(db);
	maker_finish(&maker);
}
END_TEST

/* Of 16 pages 10 were touched, 12 lie on node 0 and 4 on node 3. Site 1 has 12, site 2 has 2. */
static size_t put_with_nodes(uint8_t *bytes, uint64_t n_nodes, uint64_t node)
{
	uint8_t *at = victim_put(
		bytes,
		(uint64_t[]){ 0x500, 16 << TRACE_TOUCH_BITS, 16, 10, n_nodes, 0, 12, node, 4 }, 9);

	at = victim_put(at, (uint64_t[]){ 0x1f0, 8 << TRACE_TOUCH_BITS, 8, 8, 0 }, 5);
	return (size_t)(at - bytes);
}

static void check_with_nodes(const uint8_t *bytes, size_t n_bytes, int64_t n_rows)
{
	struct maker maker;
	struct db *db = NULL;

	begin(&maker);
	interval_of(&maker, 1000, bytes, n_bytes, true);
	interval_of(&maker, 1100, bytes, n_bytes, true);
	maker_commit(&maker, 9000);
	maker_close(&maker, 100000);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM page_run"), n_rows);
	if (n_rows > 0) {
		sqlite3 *sql = db_handle(db);

		ck_assert_int_eq(of_site(sql, "n_intervals", 1, 0), 2);
		ck_assert_int_eq(
			of_site(sql, "node_touched = '{\"0\": [8192, 40960], \"3\": [0, 16384]}'",
				1, 0),
			1);
		ck_assert_int_eq(
			of_site(sql, "node_touched = '{\"0\": [0, 8192], \"3\": [0, 8192]}'", 2, 0),
			1);
		ck_assert_int_eq(of_site(sql, "node_touched IS NULL", 3, 0), 1);
		ck_assert_int_eq(check_integer(sql, "SELECT count(*) FROM page_run WHERE CASE"
						    " address WHEN 0x500000 THEN node_bytes ="
						    " '{\"0\": 49152, \"3\": 16384}' ELSE"
						    " node_bytes IS NULL END"),
				 2);
	}
	db_close(db);
	maker_finish(&maker);
}

START_TEST(touched_pages_lie_where_the_mappings_pages_do)
{
	uint8_t bytes[128];
	size_t n_bytes = put_with_nodes(bytes, 2, 3);

	check_with_nodes(bytes, n_bytes, 2);
	check_with_nodes(bytes, 9, 0); /* cut in the numbers of nodes */
	check_with_nodes(bytes, put_with_nodes(bytes, 65, 3), 0);
	check_with_nodes(bytes, put_with_nodes(bytes, 2, 64), 0);
}
END_TEST

START_TEST(damaged_runs_are_no_reason_to_fail)
{
	static const struct run wild[] = {
		{ 0, UINT64_MAX >> 6, 1, 1, 0 },
		{ UINT64_MAX / 2, 1, 1, 1, 0 },
	};
	static const struct run greedy[] = { { 5, 2, 3, 1, 0 }, { 9, 2, 1, 2, 0 } };
	struct maker maker;
	struct db *db = NULL;
	uint8_t bytes[128];
	size_t n_bytes = encode(wild, 2, bytes);

	bytes[n_bytes++] = 0xff; /* a varint without an end */
	begin(&maker);
	for (size_t n = 0; n <= n_bytes; n++)
		interval(&maker, 1000 + 100 * n, bytes, n);
	interval(&maker, 8000, bytes, encode(greedy, 2, bytes));
	maker_commit(&maker, 9000);
	maker_close(&maker, 100000);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	ck_assert_int_gt(check_integer(db_handle(db), "SELECT sum(count) FROM loss WHERE source ="
						      " 'pages'"),
			 0);
	check_no_row(db_handle(db), "SELECT * FROM page_run");
	db_close(db);
	maker_finish(&maker);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("touched-pages");
	TCase *tests = tcase_create("all");

	tcase_add_test(tests, of_a_site_is_known_what_others_cannot_have_touched);
	tcase_add_test(tests, a_mapping_has_one_row_for_as_long_as_nothing_changes);
	tcase_add_test(tests, what_a_block_has_touched_before_its_end_is_nobody_elses);
	tcase_add_test(tests, of_a_site_whose_blocks_have_all_ended_it_is_said_that_they_did);
	tcase_add_test(tests, a_row_does_not_reach_over_a_time_that_nobody_saw);
	tcase_add_test(tests, large_blocks_have_the_intervals_of_their_first_and_last_touch);
	tcase_add_test(tests, a_huge_page_may_have_been_touched_by_any_that_has_a_part_of_it);
	tcase_add_test(tests, written_pages_have_a_row_for_as_long_as_they_are_written);
	tcase_add_test(tests, written_pages_are_whose_blocks_lie_in_them);
	tcase_add_test(tests, touched_pages_lie_where_the_mappings_pages_do);
	tcase_add_test(tests, damaged_runs_are_no_reason_to_fail);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
