/* How much of whose pages was touched: from records of the trace to rows. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "analyze/analyze.h"
#include "tests/support/suite.h"
#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/unit/analyze/fixtures/trace-maker.h"
#include "trace/varint.h"

#define PAGE   4096u
#define HEAP   0x500000u
#define CALLED 0x700000u

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
		at = trace_varint_put_slow(at, runs[i].first - end);
		at = trace_varint_put_slow(at, runs[i].n << TRACE_TOUCH_BITS | runs[i].bits);
		at = trace_varint_put_slow(at, runs[i].resident);
		at = trace_varint_put_slow(at, runs[i].touched);
		end = runs[i].first + runs[i].n;
	}
	return (size_t)(at - ret_bytes);
}

/* In two parts, which split the runs anywhere. */
static void interval(struct maker *maker, uint64_t time_ns, const uint8_t *runs, size_t n_bytes)
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

static void allocate(struct maker *maker, uint32_t stack, uint64_t address, uint64_t size)
{
	const struct trace_event event = { .op = TRACE_OP_ALLOC,
					   .call = TRACE_CALL_MALLOC,
					   .ticks = 100,
					   .begin_ticks = 100,
					   .stack_id = stack,
					   .address = address,
					   .size = size };

	maker_event(maker, 1, &event);
}

/* Two sites, 1 and 2, in one mapping of 16 pages, and a mapping of the program's, at 3. */
static void begin(struct maker *maker)
{
	const struct trace_event map = { .op = TRACE_OP_MMAP,
					 .call = TRACE_CALL_MMAP,
					 .ticks = 50,
					 .begin_ticks = 50,
					 .stack_id = 3,
					 .address = CALLED,
					 .size = 8 * PAGE,
					 .detail = PROT_READ | (uint64_t)MAP_PRIVATE << 32 };

	maker_init(maker);
	maker_process(maker, 1, 0, 0);
	maker_thread(maker, 1, 1, 0);
	for (uint32_t i = 1; i <= 3; i++)
		maker_node(maker, 1, i, 0, 0x400000 + 16 * i);
	maker_event(maker, 1, &map);
	allocate(maker, 1, HEAP + 16, 1000); /* page 0, twice: it is one page */
	allocate(maker, 1, HEAP + 1040, 1000);
	allocate(maker, 2, HEAP + 2048, 100); /* page 0 as well */
	allocate(maker, 1, HEAP + 2 * PAGE - 96, 10 * PAGE + 96); /* pages 1 to 11 */
	allocate(maker, 2, HEAP + 14 * PAGE, PAGE);
}

static void with_intervals(const struct run (*runs)[2], size_t n, void (*check)(sqlite3 *db))
{
	struct maker maker;
	struct db *db = NULL;
	uint8_t bytes[128];

	begin(&maker);
	for (size_t i = 0; i < n; i++)
		interval(&maker, 1000 + 100 * i, bytes, encode(runs[i], 2, bytes));
	maker_commit(&maker, 9000);
	maker_close(&maker, 100000);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	check(db_handle(db));
	db_close(db);
	maker_finish(&maker);
}

/* Of call site 1, 2 or 3, in its row number n (from 0). */
static int64_t of_site(sqlite3 *db, const char *what, unsigned site, unsigned n)
{
	char sql[320];

	snprintf(sql, sizeof(sql),
		 "SELECT %s FROM page_touch JOIN stack ON stack.id = stack_id JOIN frame ON"
		 " frame.id = frame_id WHERE offset = %u ORDER BY begin_ns LIMIT 1 OFFSET %u",
		 what, 0x400000 + 16 * site - 1, n);
	return check_integer(db, sql);
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
	with_intervals(divided, sizeof(divided) / sizeof(divided[0]), check_divided);
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
	with_intervals(divided, sizeof(divided) / sizeof(divided[0]), check_runs);
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
	TCase *tests = suite_case("all");

	tcase_add_test(tests, of_a_site_is_known_what_others_cannot_have_touched);
	tcase_add_test(tests, a_mapping_has_one_row_for_as_long_as_nothing_changes);
	tcase_add_test(tests, damaged_runs_are_no_reason_to_fail);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
