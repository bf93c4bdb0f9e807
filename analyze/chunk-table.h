#pragma once
/*
 * The virtual table over chunks (chunk-store.h): the same columns, rows and order as the plain table
 * has. CREATE VIRTUAL TABLE name USING libmemsight_sqlite(column definitions, as of CREATE TABLE).
 */
#include <sqlite3.h>

/* The module is called as the file that has it: so says "no such module" to who lacks it. */
#define CHUNK_MODULE "libmemsight_sqlite"

/* Make the module known to a connection. Returns a result of SQLite. */
int chunk_table_register(sqlite3 *db);
