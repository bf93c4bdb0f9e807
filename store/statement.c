#include "store/statement.h"

#include <errno.h>
#include <stddef.h>

static int to_errno(int result)
{
	if (result == SQLITE_IOERR_NOMEM)
		return -ENOMEM;
	switch (result & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW:
		return 0;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EBADMSG;
	default:
		return -EIO;
	}
}

/* The argument of a hook is the only place that a connection has for us. */
static void do_nothing(void *kept)
{
	(void)kept;
}

void statement_keep(sqlite3 *db, int result)
{
	/* Of a statement that could not be prepared; who prepared it was told. */
	if (!db)
		return;
	void *kept = sqlite3_rollback_hook(db, do_nothing, NULL);

	if (!kept && to_errno(result) < 0)
		kept = (void *)(intptr_t)-to_errno(result);
	sqlite3_rollback_hook(db, do_nothing, kept);
}

int statement_kept(sqlite3 *db)
{
	if (!db)
		return 0;
	void *kept = sqlite3_rollback_hook(db, do_nothing, NULL);

	sqlite3_rollback_hook(db, do_nothing, kept);
	return -(int)(intptr_t)kept;
}

const char *statement_message(sqlite3 *db)
{
	int kept = statement_kept(db);

	if (kept == -ENOMEM)
		return "out of memory";
	/* What SQLite found nothing wrong with may still be no number, or bytes of no picture. */
	return kept < 0 || to_errno(sqlite3_errcode(db)) == 0 ? "a part of it is missing or damaged"
							      : sqlite3_errmsg(db);
}

int statement_verdict(sqlite3 *db, int r)
{
	return r != -EIO && statement_kept(db) < 0 ? -EPROTO : r;
}

void statement_forget(sqlite3 *db)
{
	sqlite3_rollback_hook(db, NULL, NULL);
}

/* As to_errno(). */
static int keep_memory(sqlite3 *db, int result)
{
	if (to_errno(result) == -ENOMEM)
		statement_keep(db, result);
	return to_errno(result);
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
