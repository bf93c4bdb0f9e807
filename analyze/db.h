#pragma once
/*
 * The database of recordings (schemas/0001-first.sql and later). It is written in whole or not at
 * all: a new one under a temporary name that is renamed at the end, an existing one in one
 * transaction.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;

/*
 * Open an existing database for reading. Returns 0, -ENOENT, -EBADMSG (not one of ours),
 * -EPROTONOSUPPORT (made by a newer version), or another negative errno.
 */
int db_open(const char *path, struct db **ret_db);

/*
 * Begin to write: makes a new database, or opens an existing one, brings it to this version and
 * begins a transaction. Nothing of it can be seen before db_commit(). Errors as db_open(), and
 * -EBUSY: somebody else writes to it.
 */
int db_begin(const char *path, struct db **ret_db);

/* Make indexes and views, and publish what was written. Afterwards the database can only be closed. */
int db_commit(struct db *db);

/* Close; what was begun and not committed leaves no trace. Accepts NULL, returns NULL. */
struct db *db_close(struct db *db);

/* For statements; owned by db. */
sqlite3 *db_handle(const struct db *db);

/* Run statements without results. Returns 0 or a negative errno. */
int db_exec(struct db *db, const char *sql);

/* The first column of the first row as an integer; no row, NULL or an error give fallback. */
int64_t db_integer(struct db *db, const char *sql, int64_t fallback);

/* A result of SQLite as a negative errno; 0 for SQLITE_OK, _ROW and _DONE. */
int db_errno(sqlite3 *handle, int result);
