#pragma once
/* What every database must fulfil, whatever was recorded. Failures abort the test (ck_assert). */
#include <sqlite3.h>
#include <stdint.h>

/* The first column of the first row. */
int64_t check_integer(sqlite3 *db, const char *sql);

/* A query about the database that must give no row. */
void check_no_row(sqlite3 *db, const char *sql);

/* The tables site, total and timeline of a run are what its rows give. */
void check_aggregates(sqlite3 *db, int64_t run_id);
