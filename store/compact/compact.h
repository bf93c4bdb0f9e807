#pragma once
/*
 * Compact databases: `allocation`, `sample` and `touch` are virtual tables (virtual-table.h) of the
 * same names and columns as the plain ones, made from the plain schema, whatever columns it has.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;

/* Whether a table of the database is compact. */
bool compact_is(sqlite3 *db, const char *table);

/* Whether a table holds a part of a compact one (chunk-store.h). */
bool compact_is_part(sqlite3 *db, const char *table);

/* Whether the database is: all of the tables, or none, are. */
bool compact_is_database(sqlite3 *db);

/* Put virtual tables in the place of plain ones, which must be empty. 0 or a negative errno. */
int compact_make(struct db *db);

/* Delete a run's rows of a compact table. 0 or a negative errno. */
int compact_delete_run(struct db *db, const char *table, int64_t run_id);

/*
 * Make what indexes a plain database has, but for those of compact tables. 0 or a negative errno.
 */
int compact_make_indexes(struct db *db, const char *sql);
