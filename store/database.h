#pragma once
/*
 * The database of recordings (schemas/schema.sql). It is written in whole or not at
 * all: a new one under a temporary name that is renamed at the end, an existing one in one
 * transaction.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "store/statement.h"

struct db;

/*
 * Open an existing database for reading. Returns 0, -ENOENT, -EBADMSG (not one of ours),
 * -EPROTONOSUPPORT (made by a newer memsight), -ESTALE (by an older one), or another negative
 * errno.
 */
int db_open(const char *path, struct db **ret_db);

enum db_begin_mode {
	DB_ADD = 0, /* to the database that is there; a new one when there is none */
	DB_REPLACE = 1, /* a new one, which takes the place of what is there */
	DB_COMPACT = 2, /* with either: a new one has no plain tables (compact.h) */
};

/*
 * Begin to write. Nothing of it can be seen before db_commit(). Errors as db_open(), and -EBUSY:
 * somebody else writes to it.
 */
int db_begin(const char *path, unsigned mode, struct db **ret_db);

/*
 * Between db_begin() and db_commit(): let nobody read the database who may not read a file of this
 * kind (st_mode, st_uid, st_gid). To be called for each trace that goes into it; without it a new
 * database is its writer's alone. Returns 0 or a negative errno.
 */
int db_protect(struct db *db, const struct stat *trace);

/* Make the views already, for who reads what is not committed. Returns 0 or a negative errno. */
int db_make_views(struct db *db);

/*
 * Make indexes and views, and publish what was written. Afterwards the database can only be closed.
 * -EEXIST: another one has appeared in its place since.
 */
int db_commit(struct db *db);

/* Close; what was begun and not committed leaves no trace. Accepts NULL, returns NULL. */
struct db *db_close(struct db *db);

static inline void db_cleanup(struct db **db)
{
	*db = db_close(*db);
}
#define auto_db __attribute__((cleanup(db_cleanup)))

/* For statements; owned by db. */
sqlite3 *db_handle(const struct db *db);

/* Run statements without results. Returns 0 or a negative errno. */
int db_exec(struct db *db, const char *sql);

/*
 * Run one statement with its ?1, ?2 ... set from arguments as statement_bind() has them. It is kept
 * for a next call with the same text: calls are one thread's. 0 or a negative errno.
 */
int db_run(struct db *db, const char *sql, const char *types, ...);

/*
 * Insert a row: into is the table and its columns, "call(id, name)", a text that stays; types and
 * values as db_run() has them, one for each column. A statement is prepared once for rows that
 * follow each other. A real that is no number is NULL.
 */
int db_insert(struct db *db, const char *into, const char *types, ...);

/*
 * The first column of the first row as an integer; no row, NULL or an error give fallback. An error
 * is kept (statement.h), so that nothing is committed.
 */
int64_t db_integer(struct db *db, const char *sql, int64_t fallback);

/* The same of a statement with ?1, ?2 ..., set from arguments as db_run() does. */
#define db_integer_of(db, ...) statement_number(db_handle(db), __VA_ARGS__)

/* A result of SQLite as a negative errno; 0 for SQLITE_OK, _ROW and _DONE. */
int db_errno(sqlite3 *handle, int result);

/*
 * What went wrong, of the results of two threads that write to one database: when one has no memory
 * or no room SQLite takes back what both have written, be it tables, and what the other one does
 * next fails without a reason of its own (-EIO). 0: nothing did.
 */
int db_cause(int first, int second);
