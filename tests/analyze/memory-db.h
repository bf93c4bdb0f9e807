#pragma once
/* A database in memory with the tables of schemas/, for tests of single parts. */
#include <check.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

/* Fails the test when the schema cannot be read. The caller closes it with sqlite3_close(). */
static inline sqlite3 *memory_db_open(void)
{
	char path[4096];
	sqlite3 *db = NULL;
	static char sql[1 << 16];

	snprintf(path, sizeof(path), "%s/0001-first.sql", getenv("MEMSIGHT_SCHEMAS"));
	FILE *file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	size_t n = fread(sql, 1, sizeof(sql) - 1, file);
	fclose(file);
	sql[n] = '\0';
	ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	return db;
}

/* The first column of the first row; -1 when there is none. */
static inline int64_t memory_db_integer(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *statement;
	int64_t value = -1;

	ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, "%s: %s", sql,
		      sqlite3_errmsg(db));
	if (sqlite3_step(statement) == SQLITE_ROW)
		value = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return value;
}

/* The same as text, valid until the next call; "" when there is none. */
static inline const char *memory_db_text(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *statement;
	static char value[4096];

	value[0] = '\0';
	ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, "%s: %s", sql,
		      sqlite3_errmsg(db));
	if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0))
		snprintf(value, sizeof(value), "%s",
			 (const char *)sqlite3_column_text(statement, 0));
	sqlite3_finalize(statement);
	return value;
}
