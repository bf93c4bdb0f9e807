#pragma once
#include <sqlite3.h>
#include <stdint.h>

/*
 * Small questions to the database, for reports. A statement that fails gives 0 or NULL; the error
 * stays in sqlite3_errcode(db), which report_summary_write() looks at in the end.
 */

/* Prepare with :run (and :limit, where it stands) bound; NULL on error. The caller finalizes. */
sqlite3_stmt *report_sql_prepare(sqlite3 *db, const char *sql, int64_t run_id, int64_t limit);

/* Whether the allocations of :run were left out: --no-alloc, or the natural run of a series. Their counts are 0, and say nothing. */
#define REPORT_SQL_LEFT_OUT                                                                        \
	" EXISTS (SELECT 1 FROM fact WHERE run_id = :run AND key = 'memsight.alloc' AND value = "  \
	"'no')"

/* The first column of the first row as a number; 0 without a row. */
int64_t report_sql_number(sqlite3 *db, const char *sql, int64_t run_id);

/* The first column of the first row as an allocated text, or NULL without a row. */
char *report_sql_text(sqlite3 *db, const char *sql, int64_t run_id);
