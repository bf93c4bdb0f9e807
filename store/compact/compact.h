#pragma once
/*
 * Rows of `allocation`, `sample`, `touch` and `access_detail` are in chunks (chunk-store.h) in
 * every database. In a compact one the tables themselves are virtual (virtual-table.h), with the
 * names and columns of the plain schema, whatever columns it has. In a plain one they are real and
 * hold the same rows once more, for programs that know nothing of chunks.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;

/* Whether rows of a table of this name are in chunks. */
bool compact_has_chunks(const char *table);

/* Whether a table of the database is virtual. */
bool compact_is(sqlite3 *db, const char *table);

/* Whether a table holds chunks of another one. */
bool compact_is_part(const char *table);

/* Whether the database is: all of the tables, or none, are. */
bool compact_is_database(sqlite3 *db);

/*
 * Add tables for chunks to the plain ones, which must be empty; is_compact: put virtual tables in
 * their place. 0 or a negative errno.
 */
int compact_make(struct db *db, bool is_compact);

/* Delete a run's chunks of a table. 0 or a negative errno. */
int compact_delete_run(struct db *db, const char *table, int64_t run_id);
