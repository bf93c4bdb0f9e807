#pragma once
/* What every database must fulfil, whatever was recorded. Failures abort the test (ck_assert). */
#include <check.h>
#include <sqlite3.h>
#include <stdint.h>

/*
 * ck_assert_int_eq() for loops: Check writes a message for each of its assertions that holds, which
 * takes longer than what is tested.
 */
#define check_equal(actual, expected)                                                              \
	do {                                                                                       \
		long long check_actual = (long long)(actual);                                      \
		long long check_expected = (long long)(expected);                                  \
		if (check_actual != check_expected)                                                \
			ck_abort_msg("%s is %lld, not %lld", #actual, check_actual,                \
				     check_expected);                                              \
	} while (0)

/* The first column of the first row. */
int64_t check_integer(sqlite3 *db, const char *sql);

/* A query about the database that must give no row. */
void check_no_row(sqlite3 *db, const char *sql);

/* The tables site, total and timeline of a run are what its rows give. */
void check_aggregates(sqlite3 *db, int64_t run_id);

/*
 * Lines that two threads share, each through one owner, against the touches of a span of time put in order. Returns how many
 * lines it compared.
 */
int64_t check_lines(sqlite3 *db, int64_t run_id, int64_t from_ns, int64_t to_ns, const char *order);
