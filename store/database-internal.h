#pragma once
/* Private to store/. */
#include "store/database.h"

struct db_writer;

struct db {
	sqlite3 *handle;
	sqlite3_stmt *last; /* that db_run() or db_insert() ran; NULL: none */
	const char *into; /* what db_insert() put into with it; NULL: it did not */
	struct db_writer *writer; /* takes batches of rows; NULL: none yet */
	struct db_writer *encoder; /* makes chunks of them; likewise */
	char *path; /* as the user named it */
	char *temporary; /* where a new database is written; NULL: an existing one */
	int lock_fd; /* holds the lock on the temporary file; -1 */
	bool is_protected; /* as a trace that it has is */
	bool is_writing; /* a transaction is open */
	bool replaces; /* the new database may take the place of one */
};

/* A closed database that remembers its path. Returns NULL without memory. */
struct db *db_new(const char *path);

/* Forget the last statement: an open one keeps the handle from being closed. */
void db_forget_last(struct db *db);

/* Open the handle. flags as of sqlite3_open_v2(). Returns 0 or a negative errno. */
int db_connect(struct db *db, const char *path, int flags);

/* Whether the open file is a database of ours, of this version: 0, or an error as of db_open(). */
int db_check(struct db *db);
