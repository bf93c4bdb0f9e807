#pragma once
/*
 * A prepared statement that is run again and again. What fails where nobody looks at once, binding
 * and steps in the middle of a text, sticks to the connection until somebody asks
 * (statement_kept()).
 */
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define auto_statement __attribute__((cleanup(statement_cleanup)))

static inline void statement_cleanup(sqlite3_stmt **statement)
{
	sqlite3_finalize(*statement);
}

/* A result of SQLite as a negative errno; 0 for SQLITE_OK, _ROW and _DONE. */
int statement_errno(int result);

/*
 * Set ?1, ?2 ... from values as told by types: i int64_t, r double, t const char * (NULL: NULL; it
 * is copied). An i of INT64_MIN is NULL; n is an int64_t that never is. A result of SQLite.
 */
int statement_bind(sqlite3_stmt *statement, const char *types, va_list values);

/* Set them, run one that gives no rows, and make it ready for the next ones. 0 or an errno. */
int statement_put(sqlite3_stmt *statement, const char *types, ...);

/*
 * Prepare the INSERT of rows into a table and its columns, "call(id, name)", of which there are n.
 * 0 or a negative errno.
 */
int statement_insert(sqlite3 *db, const char *into, size_t n, sqlite3_stmt **ret_statement);

/*
 * The first column of the first row as an integer, of a statement with values as above; no row,
 * NULL or an error give fallback. An error is kept.
 */
int64_t statement_number(sqlite3 *db, int64_t fallback, const char *sql, const char *types, ...);

/*
 * These three keep -ENOMEM: who takes a statement that fails for one without rows must not answer
 * in silence. Prepare SQL. Returns 0 or a negative errno.
 */
int statement_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret_statement);

/*
 * Whether there is such a column; schema NULL: in any. No memory is kept, and there is none then.
 */
bool statement_has_column(sqlite3 *db, const char *schema, const char *table, const char *column);

/*
 * A statement that stands on a row until it is reset: nobody else writes meanwhile, and SQLite need
 * not look for that before each of many others. Returns 0 or a negative errno.
 */
int statement_hold(sqlite3 *db, sqlite3_stmt **ret_statement);

/* Run one that gives no rows, and make it ready for the next values. 0 or a negative errno. */
int statement_run(sqlite3_stmt *statement);

/* Step a SELECT. Returns 1 with a row, 0 at the end, or a negative errno. */
int statement_step(sqlite3_stmt *statement);

/*
 * The text of a column of the row, NULL for NULL. Without memory it is NULL as well, and that is
 * kept.
 */
const char *statement_string_or_null(sqlite3_stmt *statement, int i);

/* The same, with "" for NULL: whoever made the database, there is a text. */
static inline const char *statement_string(sqlite3_stmt *statement, int i)
{
	const char *text = statement_string_or_null(statement, i);

	return text ? text : "";
}

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

/*
 * Remember an SQLite result that is an error, unless there is one already. Uses the argument of the
 * connection's rollback hook, so only for connections of our own. NULL is none.
 */
void statement_keep(sqlite3 *db, int result);

/* What was kept, as a negative errno; 0: nothing, or no connection. */
int statement_kept(sqlite3 *db);

/* What was kept in words, else what SQLite says of its last failure. */
const char *statement_message(sqlite3 *db);

/* r, or -EPROTO when something was kept; a stream that failed (-EIO) is told first. */
int statement_verdict(sqlite3 *db, int r);

/* Nothing has failed so far. Before a connection is closed, too: what is kept has memory. */
void statement_forget(sqlite3 *db);

/* sqlite3_step() that keeps its error, for loops that end at the last row. */
static inline int statement_advance(sqlite3_stmt *statement)
{
	int result = sqlite3_step(statement);

	if (result != SQLITE_ROW && result != SQLITE_DONE)
		statement_keep(sqlite3_db_handle(statement), result);
	return result;
}

/* NULL gives NULL. The text is copied. */
static inline void statement_text(sqlite3_stmt *statement, int i, const char *text)
{
	int result = sqlite3_bind_text(statement, i, text, -1, SQLITE_TRANSIENT);

	if (result != SQLITE_OK) /* it would be NULL */
		statement_keep(sqlite3_db_handle(statement), result);
}
