/*
 * Small traces cut at every byte, and with every byte turned: read as far as they are whole, and
 * said.
 */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/analyze.h"
#include "common/io.h"
#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/unit/analyze/fixtures/trace-maker.h"
#include "tests/unit/analyze/fixtures/world.h"
#include "tests/support/fewer.h"
#include "tests/support/suite.h"

#define PARTS 17 /* of the bytes, each a test: in turn; odd, so that each turns every bit */

static struct maker maker;
static char *whole;
static size_t n_whole;
static int64_t whole_sum;

static void set_up(void)
{
	struct world *world = malloc(sizeof(*world));

	maker_init(&maker);
	world_make(world, &maker, 7, WORLD_CLEAN, 60);
	free(world);
	ck_assert_int_eq(io_read_file(maker.trace, 1 << 20, &whole, &n_whole), 0);
	ck_assert_uint_gt(n_whole, 500);
}

static void tear_down(void)
{
	free(whole);
	maker_finish(&maker);
}

static void write_trace(const char *bytes, size_t n_bytes)
{
	int fd = open(maker.trace, O_WRONLY | O_TRUNC | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(io_write_all(fd, bytes, n_bytes), 0);
	close(fd);
}

/* Analyse it into a new database. Returns what came of it; *ret_db is NULL when it failed. */
static int analyse(struct db **ret_db)
{
	static const struct import_options options = { .force = true };

	*ret_db = NULL;
	return db_open_any(maker.trace, &options, ret_db);
}

/* All that a trace tells, as one number. */
static int64_t sum_of(sqlite3 *handle)
{
	return check_integer(
		handle,
		"SELECT (SELECT sum(value * length(name)) FROM total)"
		" + (SELECT coalesce(sum(id * (allocated_ns + 3 * coalesce(freed_ns, 1) + size)),"
		"    0) FROM allocation)"
		" + (SELECT coalesce(sum(id * (allocated_ns + 3 * coalesce(freed_ns, 1) + size)),"
		"    0) FROM mapping)"
		" + (SELECT sum(id * start_ns) FROM thread) + (SELECT sum(id * pid) FROM process)"
		" + (SELECT duration_ns + length(program) + 7 * length(command) FROM run)");
}

/* Whatever was read adds up, and what was not is counted: or nothing was lost at all. */
static void check_part(sqlite3 *handle, const char *what, size_t at)
{
	int64_t n_lost = check_integer(
		handle, "SELECT coalesce(sum(count), 0) FROM loss WHERE source = 'trace'");

	ck_assert_msg(n_lost > 0 || sum_of(handle) == whole_sum, "%s at %zu: nothing is said", what,
		      at);
	ck_assert_int_eq(
		check_integer(handle, "SELECT count(*) FROM allocation"),
		check_integer(handle, "SELECT value FROM total WHERE name = 'allocations'"));
	check_no_row(handle, "SELECT id FROM allocation WHERE freed_ns < allocated_ns");
	check_no_row(handle, "SELECT 1 FROM pragma_foreign_key_check");
}

/* A byte that is turned without a word is one that fills a frame up: it means nothing. */
static void sum_whole(void)
{
	struct db *db;

	ck_assert_int_eq(analyse(&db), 0);
	whole_sum = sum_of(db_handle(db));
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM loss"), 0);
	db_close(db);
}

START_TEST(a_trace_cut_at_any_byte_is_read_up_to_there)
{
	for (size_t at = (size_t)_i; at < n_whole; at += PARTS) {
		struct db *db;

		write_trace(whole, at);
		int r = analyse(&db);
		if (at < 64) { /* less than the header of a file */
			ck_assert_int_lt(r, 0);
			continue;
		}
		ck_assert_msg(r == 0, "cut at %zu: %s", at, strerror(-r));
		ck_assert_int_eq(check_integer(db_handle(db), "SELECT ended_cleanly FROM run"), 0);
		check_part(db_handle(db), "cut", at);
		db_close(db);
	}
}
END_TEST

START_TEST(what_only_a_newer_version_knows_is_counted)
{
	static const struct import_options options = { .force = true };
	static const struct trace_event events[] = {
		{ .op = TRACE_OP_NOTE, .call = 0xfe, .ticks = 10 },
		{ .op = TRACE_OP_NOTE, .call = TRACE_CALL_OWN_TIME, .ticks = 20, .address = 99 },
	};
	struct maker newer;
	struct db *db;

	maker_init(&newer);
	maker_process(&newer, 1, 0, 0);
	maker_thread(&newer, 1, 1, 0);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		maker_event(&newer, 1, &events[i]);
	maker_commit(&newer, 100);
	maker_close(&newer, 100);
	ck_assert_int_eq(db_open_any(newer.trace, &options, &db), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT sum(count) FROM loss"
						      " WHERE reason = 'records of a newer"
						      " version'"),
			 2);
	db_close(db);
	maker_finish(&newer);
}
END_TEST

START_TEST(a_trace_with_any_byte_turned_says_so)
{
	sum_whole();
	for (size_t at = (size_t)_i; at < n_whole; at += PARTS) {
		struct db *db;

		whole[at] ^= (char)(1 << at % 8);
		write_trace(whole, n_whole);
		whole[at] ^= (char)(1 << at % 8);
		int r = analyse(&db);
		if (r < 0) { /* it is no trace any more, or one of another version */
			ck_assert_uint_lt(at, 64);
			continue;
		}
		check_part(db_handle(db), "a bit turned", at);
		db_close(db);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("damage");
	TCase *tcase = tcase_create("damage");

	suite_add_tcase(suite, tcase);
	tcase_set_timeout(tcase, 600);
	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, what_only_a_newer_version_knows_is_counted);
	tcase_add_loop_test(tcase, a_trace_cut_at_any_byte_is_read_up_to_there, 0, fewer(PARTS));
	tcase_add_loop_test(tcase, a_trace_with_any_byte_turned_says_so, 0, fewer(PARTS));
	return suite_run(suite);
}
