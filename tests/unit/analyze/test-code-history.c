#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/samples/code/code-history.h"
#include "tests/unit/common/trace-items.h"
#include "tests/support/suite.h"
#include "trace/writer.h"

#define PAGE  0x7f0000001000u
#define LINE  TRACE_CODE_LINE_BYTES
#define MS    INT64_C(1000000)
#define IMAGE 5u

static char path[256];
static struct trace_writer *writer;
static struct code_history *history;

static int64_t same(void *user, uint64_t raw_ns)
{
	(void)user;
	return (int64_t)raw_ns;
}

static const struct sample_clock raw = { NULL, same, same };

static void begin(void)
{
	trace_temporary_path(path, "code-history");
	writer = trace_create_writer(path);
}

/* A reading of 10 us that found n lines from the first on new, each byte of them the value. */
static void found(uint32_t image, int64_t ms, size_t first, size_t n, uint8_t value)
{
	uint8_t bytes[TRACE_CODE_PAGE_BYTES];
	const struct trace_code head = { .address = PAGE + first * LINE,
					 .begin_raw_ns = (uint64_t)(ms * MS),
					 .end_raw_ns = (uint64_t)(ms * MS + 10000),
					 .n_bytes = (uint32_t)(n * LINE),
					 .kind = TRACE_CODE_CHANGING };

	memset(bytes, value, sizeof(bytes));
	ck_assert_int_eq(trace_writer_code(writer, image, &head, bytes), 0);
}

static void seen(uint32_t image, int64_t ms)
{
	const uint64_t page = PAGE;
	const struct trace_code_seen record = { .head.type = TRACE_RECORD_CODE_SEEN,
						.process_id = image,
						.pages_bytes = sizeof(page),
						.begin_raw_ns = (uint64_t)(ms * MS),
						.end_raw_ns = (uint64_t)(ms * MS + 10000) };
	const struct trace_string pages = { &page, sizeof(page) };

	ck_assert_int_eq(trace_writer_record(writer, &record, sizeof(record), &pages, 1), 0);
}

static void read_back(void)
{
	const struct trace_commit commit = { .ticks = 1 };

	ck_assert_int_eq(trace_writer_finish(writer, &commit), 0);
	trace_writer_close(writer);
	ck_assert_int_eq(code_history_read(path, &raw, &history), 0);
}

/* The value of a line at a time, -1: not known. */
static int value_at(int64_t ms, size_t line)
{
	uint8_t bytes[8];
	const struct code_question question = { PAGE + line * LINE + 8, ms * MS, bytes,
						sizeof(bytes) };
	size_t n = code_history_bytes(history, IMAGE, &question);

	ck_assert(n == 0 || n == sizeof(bytes));
	return n ? bytes[0] : -1;
}

START_TEST(what_two_readings_saw_alike_was_there_between_and_nothing_else_is_known)
{
	begin();
	seen(IMAGE, 30); /* frames and records of a segment come in no order */
	found(IMAGE, 10, 0, 64, 1);
	found(IMAGE, 20, 2, 1, 2);
	seen(IMAGE, 40);
	read_back();
	ck_assert_int_eq(value_at(9, 0), -1);
	ck_assert_int_eq(value_at(15, 0), 1);
	ck_assert_int_eq(value_at(39, 0), 1);
	ck_assert_int_eq(value_at(41, 0), -1);
	ck_assert_int_eq(value_at(15, 2), -1);
	ck_assert_int_eq(value_at(20, 2), -1);
	ck_assert_int_eq(value_at(21, 2), 2);
	ck_assert(code_history_has(history, IMAGE, PAGE + 100));
	ck_assert(!code_history_has(history, IMAGE, PAGE + 4096));
	ck_assert(!code_history_has(history, IMAGE + 1, PAGE));
	history = code_history_destroy(history);
}
END_TEST

START_TEST(a_version_is_another_number_wherever_other_bytes_are_known)
{
	int before[64], now[64];
	uint32_t version = 0, last = 0;

	begin();
	found(IMAGE, 10, 0, 64, 1);
	found(IMAGE, 20, 2, 1, 2);
	found(IMAGE, 30, 2, 3, 3);
	seen(IMAGE, 40);
	read_back();
	ck_assert_uint_eq(code_history_version(history, IMAGE, PAGE + 4096, 15 * MS), 0);
	for (int64_t ms = 5; ms < 45; ms++, last = version) {
		version = code_history_version(history, IMAGE, PAGE + 70, ms * MS);
		ck_assert_uint_ne(version, 0);
		for (size_t i = 0; i < 64; i++)
			now[i] = value_at(ms, i);
		if (ms > 5 && version == last)
			ck_assert_mem_eq(before, now, sizeof(now));
		memcpy(before, now, sizeof(now));
	}
	history = code_history_destroy(history);
}
END_TEST

START_TEST(a_line_that_comes_back_soon_is_not_known_and_one_that_takes_its_time_is)
{
	begin();
	found(IMAGE, 10, 0, 64, 1);
	for (int64_t ms = 20; ms < 1000; ms += 10) {
		if (ms == 100 || ms == 120)
			found(IMAGE, ms, 3, 1, ms == 100 ? 7 : 1);
		else if (ms == 200 || ms == 600)
			found(IMAGE, ms, 8, 1, ms == 200 ? 7 : 1);
		else
			seen(IMAGE, ms);
	}
	read_back();
	ck_assert_int_eq(value_at(50, 3), -1); /* long before it was found out */
	ck_assert_int_eq(value_at(900, 3), -1);
	ck_assert_int_eq(value_at(50, 4), 1);
	ck_assert_int_eq(value_at(900, 4), 1);
	history = code_history_destroy(history);

	begin();
	found(IMAGE, 10, 0, 64, 1);
	for (int64_t ms = 20; ms < 1000; ms += 10) {
		if (ms == 200 || ms == 600)
			found(IMAGE, ms, 8, 1, ms == 200 ? 7 : 1);
		else
			seen(IMAGE, ms);
	}
	read_back();
	ck_assert_int_eq(value_at(50, 8), 1);
	ck_assert_int_eq(value_at(400, 8), 7);
	ck_assert_int_eq(value_at(900, 8), 1);
	ck_assert_int_eq(value_at(195, 8), -1);
	history = code_history_destroy(history);
}
END_TEST

static int inherited_at(const struct code_fork *fork, int64_t ms, size_t line)
{
	uint8_t bytes[4];
	const struct code_question question = { PAGE + line * LINE, ms * MS, bytes, sizeof(bytes) };

	return code_history_inherited(history, fork, &question) ? bytes[0] : -1;
}

START_TEST(a_forked_child_has_its_parent_s_code_where_its_own_first_reading_saw_the_same)
{
	const struct code_fork fork = { IMAGE, 1, 50 * MS };

	begin();
	found(1, 10, 0, 64, 1);
	found(1, 60, 0, 64, 2); /* behind the fork */
	found(IMAGE, 70, 0, 32, 1);
	found(IMAGE, 70, 32, 32, 3);
	seen(IMAGE, 80);
	read_back();
	ck_assert_int_eq(inherited_at(&fork, 55, 0), 1);
	ck_assert_int_eq(inherited_at(&fork, 45, 0), -1);
	ck_assert_int_eq(inherited_at(&fork, 55, 40), -1);
	history = code_history_destroy(history);
}
END_TEST

START_TEST(of_a_damaged_trace_nothing_is_known)
{
	uint8_t *bytes;
	size_t n_bytes;

	begin();
	found(IMAGE, 10, 0, 64, 1);
	seen(IMAGE, 20);
	read_back();
	ck_assert_int_eq(value_at(15, 0), 1);
	history = code_history_destroy(history);
	bytes = trace_get_file(path, &n_bytes);
	for (size_t i = sizeof(struct trace_file_header); i < n_bytes / 2; i += 16)
		bytes[i] ^= 0x55;
	trace_put_file(path, bytes, n_bytes);
	free(bytes);
	ck_assert_int_eq(code_history_read(path, &raw, &history), 0);
	ck_assert_int_eq(value_at(15, 0), -1);
	history = code_history_destroy(history);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("code-history");
	TCase *tcase = tcase_create("history");

	tcase_add_test(tcase,
		       what_two_readings_saw_alike_was_there_between_and_nothing_else_is_known);
	tcase_add_test(tcase, a_version_is_another_number_wherever_other_bytes_are_known);
	tcase_add_test(tcase,
		       a_line_that_comes_back_soon_is_not_known_and_one_that_takes_its_time_is);
	tcase_add_test(
		tcase,
		a_forked_child_has_its_parent_s_code_where_its_own_first_reading_saw_the_same);
	tcase_add_test(tcase, of_a_damaged_trace_nothing_is_known);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
