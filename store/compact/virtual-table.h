#pragma once
/*
 * The virtual table over chunks (chunk-store.h): the same columns, rows and order as the plain
 * table has. CREATE VIRTUAL TABLE name USING libmemsight_sqlite(of CHUNKS N ID ROW TABLES BIT
 * PLACE..., column definitions, as of CREATE TABLE). CHUNKS: whose chunks; N: columns that these
 * have; the others are places of columns there: ID of their rows' number, ROW of the number that
 * the table's rows have, TABLES of a word that has BIT (if not 0) in rows of the table, PLACE of
 * each of its columns.
 */
#include <sqlite3.h>
#include <stddef.h>

/* The module is called as the file that has it: so says "no such module" to who lacks it. */
#define CHUNK_MODULE "libmemsight_sqlite"

#define CHUNK_KEEP_BYTES ((size_t)128 << 20)

/*
 * Make the module known to a connection, in the place of one that is known already. keep_bytes: of
 * decoded columns that nobody uses at the moment, for each table. Returns a result of SQLite.
 */
int chunk_table_register(sqlite3 *db, size_t keep_bytes);
