#pragma once
/* A database in memory with the tables of schemas/, for tests of single parts. */
#include <check.h>
#include <sqlite3.h>
#include <stdio.h>

#include "store/schema.h"

/* The schema that the program carries; the caller closes it with sqlite3_close(). */
static inline sqlite3 *memory_db_open(void)
{
	sqlite3 *db = NULL;

	ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
	for (int i = 0; i < db_n_groups; i++)
		ck_assert_int_eq(sqlite3_exec(db, db_groups[i].sql, NULL, NULL, NULL), SQLITE_OK);
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
