#include "store/statement.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
	int result;
	int error;
} errors[] = {
	{ SQLITE_OK, 0 },
	{ SQLITE_ROW, 0 },
	{ SQLITE_DONE, 0 },
	{ SQLITE_NOMEM, -ENOMEM },
	{ SQLITE_FULL, -ENOSPC },
	{ SQLITE_BUSY, -EBUSY },
	{ SQLITE_LOCKED, -EBUSY },
	{ SQLITE_CORRUPT, -EBADMSG },
	{ SQLITE_NOTADB, -EBADMSG },
	{ SQLITE_READONLY, -EROFS },
	{ SQLITE_PERM, -EACCES },
	{ SQLITE_INTERRUPT, -EINTR },
	{ SQLITE_TOOBIG, -EFBIG },
	{ SQLITE_CONSTRAINT, -EEXIST },
};

int statement_errno(int result)
{
	if (result == SQLITE_IOERR_NOMEM)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].result == (result & 0xff))
			return errors[i].error;
	}
	return -EIO;
}

/* The first failure of a connection. */
struct kept {
	int error; /* negative errno */
	char message[200];
};

/* For when there is no memory to keep anything. */
static const struct kept no_memory = { -ENOMEM, "out of memory" };

/* The argument of a hook is the only place that a connection has for us. */
static void do_nothing(void *kept)
{
	(void)kept;
}

/* It is taken out for a moment, in which no other thread may look. */
static const struct kept *look_up(sqlite3 *db)
{
	sqlite3_mutex_enter(sqlite3_db_mutex(db));
	void *kept = sqlite3_rollback_hook(db, do_nothing, NULL);
	sqlite3_rollback_hook(db, do_nothing, kept);
	sqlite3_mutex_leave(sqlite3_db_mutex(db));
	return kept;
}

/*
 * What SQLite answers a statement that does not fit the tables: a part of them was removed, or the
 * statement is wrong, which is ours. Both want its words.
 */
static bool is_misfit(int result)
{
	return (result & 0xff) == SQLITE_ERROR || (result & 0xff) == SQLITE_RANGE ||
	       (result & 0xff) == SQLITE_MISUSE;
}

static const struct kept *keep(sqlite3 *db, int result)
{
	struct kept *kept = statement_errno(result) == -ENOMEM ? NULL : malloc(sizeof(*kept));

	if (!kept)
		return &no_memory;
	kept->error = statement_errno(result);
	snprintf(kept->message, sizeof(kept->message), "a part of it is missing or damaged");
	if (is_misfit(result) && sqlite3_errcode(db) != SQLITE_OK)
		snprintf(kept->message, sizeof(kept->message),
			 "a part of it is missing or damaged, or memsight asks it a wrong question "
			 "(SQLite says: %s)",
			 sqlite3_errmsg(db));
	return kept;
}

void statement_keep(sqlite3 *db, int result)
{
	/* Of a statement that could not be prepared; who prepared it was told. */
	if (!db || statement_errno(result) == 0)
		return;
	sqlite3_mutex_enter(sqlite3_db_mutex(db)); /* the first of two threads that fail */
	if (!look_up(db))
		sqlite3_rollback_hook(db, do_nothing, (void *)keep(db, result));
	sqlite3_mutex_leave(sqlite3_db_mutex(db));
}

int statement_kept(sqlite3 *db)
{
	const struct kept *kept = db ? look_up(db) : NULL;

	return kept ? kept->error : 0;
}

const char *statement_message(sqlite3 *db)
{
	const struct kept *kept = look_up(db);

	if (kept)
		return kept->message;
	/* What SQLite found nothing wrong with may still be no number, or bytes of no picture. */
	return statement_errno(sqlite3_errcode(db)) == 0 ? "a part of it is missing or damaged"
							 : sqlite3_errmsg(db);
}

int statement_verdict(sqlite3 *db, int r)
{
	return r != -EIO && statement_kept(db) < 0 ? -EPROTO : r;
}

void statement_forget(sqlite3 *db)
{
	void *kept = db ? sqlite3_rollback_hook(db, NULL, NULL) : NULL;

	if (kept != &no_memory)
		free(kept);
}

/* As statement_errno(). */
static int keep_memory(sqlite3 *db, int result)
{
	if (statement_errno(result) == -ENOMEM)
		statement_keep(db, result);
	return statement_errno(result);
}

int statement_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret_statement)
{
	return keep_memory(db, sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT,
						  ret_statement, NULL));
}

bool statement_has_column(sqlite3 *db, const char *schema, const char *table, const char *column)
{
	return keep_memory(db, sqlite3_table_column_metadata(db, schema, table, column, NULL, NULL,
							     NULL, NULL, NULL)) == 0;
}

int statement_hold(sqlite3 *db, sqlite3_stmt **ret_statement)
{
	int r = statement_prepare(db, "SELECT 1 FROM main.sqlite_master", ret_statement);

	r = r ?: statement_step(*ret_statement);
	return r < 0 ? r : 0;
}

int statement_run(sqlite3_stmt *statement)
{
	int result = sqlite3_step(statement);

	sqlite3_reset(statement);
	return keep_memory(sqlite3_db_handle(statement), result);
}

int statement_step(sqlite3_stmt *statement)
{
	int result = sqlite3_step(statement);

	return result == SQLITE_ROW ? 1 : keep_memory(sqlite3_db_handle(statement), result);
}

const char *statement_string_or_null(sqlite3_stmt *statement, int i)
{
	const char *text = (const char *)sqlite3_column_text(statement, i);
	sqlite3 *db = sqlite3_db_handle(statement);

	if (!text && sqlite3_errcode(db) == SQLITE_NOMEM)
		statement_keep(db, SQLITE_NOMEM);
	return text;
}

int statement_bind(sqlite3_stmt *statement, const char *types, va_list values)
{
	int r = SQLITE_OK;

	for (int i = 0; types[i] && r == SQLITE_OK; i++) {
		if (types[i] == 'i') {
			int64_t value = va_arg(values, int64_t);
			if (value != INT64_MIN)
				r = sqlite3_bind_int64(statement, i + 1, value);
		} else if (types[i] == 'n') {
			r = sqlite3_bind_int64(statement, i + 1, va_arg(values, int64_t));
		} else if (types[i] == 'r') {
			r = sqlite3_bind_double(statement, i + 1, va_arg(values, double));
		} else if (types[i] == 't') {
			r = sqlite3_bind_text(statement, i + 1, va_arg(values, const char *), -1,
					      SQLITE_TRANSIENT);
		}
	}
	return r;
}

int statement_put(sqlite3_stmt *statement, const char *types, ...)
{
	va_list values;

	va_start(values, types);
	int r = statement_errno(statement_bind(statement, types, values));
	va_end(values);
	r = r ?: statement_run(statement);
	sqlite3_clear_bindings(statement);
	return r;
}

int statement_insert(sqlite3 *db, const char *into, size_t n, sqlite3_stmt **ret_statement)
{
	sqlite3_str *text = sqlite3_str_new(db);

	sqlite3_str_appendf(text, "INSERT INTO %s VALUES(?", into);
	for (size_t i = 1; i < n; i++)
		sqlite3_str_appendall(text, ", ?");
	sqlite3_str_appendchar(text, 1, ')');
	char *sql = sqlite3_str_finish(text);
	int r = sql ? statement_prepare(db, sql, ret_statement) : -ENOMEM;
	sqlite3_free(sql);
	return r;
}

int64_t statement_number(sqlite3 *db, int64_t fallback, const char *sql, const char *types, ...)
{
	auto_statement sqlite3_stmt *row = NULL;
	va_list values;

	va_start(values, types);
	int result = sqlite3_prepare_v2(db, sql, -1, &row, NULL);
	if (result == SQLITE_OK)
		result = statement_bind(row, types, values);
	va_end(values);
	if (result != SQLITE_OK)
		statement_keep(db, result);
	return result == SQLITE_OK && statement_advance(row) == SQLITE_ROW &&
			       sqlite3_column_type(row, 0) != SQLITE_NULL
		       ? sqlite3_column_int64(row, 0)
		       : fallback;
}
