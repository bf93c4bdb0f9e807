#pragma once
/*
 * A prepared statement that is run again and again, with errors that stick: binding can only fail
 * without memory, and running tells.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#define auto_statement __attribute__((cleanup(statement_cleanup)))

static inline void statement_cleanup(sqlite3_stmt **statement)
{
	sqlite3_finalize(*statement);
}

/* Prepare SQL. Returns 0 or a negative errno. */
int statement_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret_statement);

/* Run one that gives no rows, and make it ready for the next values. 0 or a negative errno. */
int statement_run(sqlite3_stmt *statement);

/* Step a SELECT. Returns 1 with a row, 0 at the end, or a negative errno. */
int statement_step(sqlite3_stmt *statement);

static inline void statement_integer(sqlite3_stmt *statement, int i, int64_t value)
{
	sqlite3_bind_int64(statement, i, value);
}

static inline void statement_integer_or_null(sqlite3_stmt *statement, int i, int64_t value,
					     bool is_known)
{
	if (is_known)
		sqlite3_bind_int64(statement, i, value);
	else
		sqlite3_bind_null(statement, i);
}

static inline void statement_real(sqlite3_stmt *statement, int i, double value)
{
	sqlite3_bind_double(statement, i, value);
}

/* NULL gives NULL. The text is copied. */
static inline void statement_text(sqlite3_stmt *statement, int i, const char *text)
{
	sqlite3_bind_text(statement, i, text, -1, SQLITE_TRANSIENT);
}
