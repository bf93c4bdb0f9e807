#include "store/statement.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

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

static const struct kept *look_up(sqlite3 *db)
{
	void *kept = sqlite3_rollback_hook(db, do_nothing, NULL);

	sqlite3_rollback_hook(db, do_nothing, kept);
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
	struct kept *kept = to_errno(result) == -ENOMEM ? NULL : malloc(sizeof(*kept));

	if (!kept)
		return &no_memory;
	kept->error = to_errno(result);
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
	if (db && to_errno(result) < 0 && !look_up(db))
		sqlite3_rollback_hook(db, do_nothing, (void *)keep(db, result));
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
	return to_errno(sqlite3_errcode(db)) == 0 ? "a part of it is missing or damaged"
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
