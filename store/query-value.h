#pragma once
#include <sqlite3.h>
#include <stdint.h>

#include "common/human-number.h"

/*
 * Small questions to the database, for reports. A statement that fails gives 0 or NULL; the error
 * stays in sqlite3_errcode(db), which the overview looks at in the end.
 */

/* Prepare with :run (and :limit, where it stands) bound; NULL on error. The caller finalizes. */
sqlite3_stmt *report_sql_prepare(sqlite3 *db, const char *sql, int64_t run_id, int64_t limit);

/*
 * Whether a run counted page faults, and allocations (calls of malloc and its family): what was not
 * recorded is unknown, and no 0. A selection keeps the sources of its run.
 */
#define REPORT_SQL_HAS_FAULTS(run)                                                                 \
	" EXISTS (SELECT 1 FROM source WHERE source.run_id = " run                                 \
	" AND source.measures = 'fault' AND source.error = 0)"
#define REPORT_SQL_HAS_BLOCKS(run)                                                                 \
	" (EXISTS (SELECT 1 FROM process WHERE process.run_id = " run                              \
	" AND traced) AND NOT EXISTS (SELECT 1" NO_BLOCKS(run) "))"
#define NO_BLOCKS(run)                                                                             \
	" FROM fact WHERE fact.run_id = " run " AND (key = 'recorded_by' AND value = 'perf'"       \
	" OR key = 'memsight.alloc' AND value = 'no' OR key = 'memsight.sink' AND value = 'null'"  \
	" OR key = 'memsight.events' AND value NOT GLOB '*heap*')"

/* Why a run has none, in words; no row where it was to have them. */
#define REPORT_SQL_WHY_NO_BLOCKS                                                                   \
	"SELECT CASE key WHEN 'recorded_by' THEN 'a perf.data has samples, no"                     \
	" allocations (memsight record makes a trace of them)'"                                    \
	" WHEN 'memsight.alloc' THEN '--no-alloc, or the natural run of a series'"                 \
	" WHEN 'memsight.sink' THEN '--sink null' ELSE '--events ' || value END AS why" NO_BLOCKS( \
		":run")

/* Columns of theirs: NULL where they were not recorded. */
#define REPORT_SQL_FAULTS(n)  "CASE WHEN" REPORT_SQL_HAS_FAULTS(":run") " THEN " n " END"
#define REPORT_SQL_SAMPLES(n) /* of any source but page faults */                                  \
	"CASE WHEN EXISTS (SELECT 1 FROM source WHERE source.run_id = :run"                        \
	" AND source.error = 0 AND source.measures NOT IN ('fault', 'tasks')) THEN " n " END"
#define REPORT_SQL_BLOCKS(n) "CASE WHEN" REPORT_SQL_HAS_BLOCKS(":run") " THEN " n " END"

/* The first column of the first row as a number; 0 without a row. */
int64_t report_sql_number(sqlite3 *db, const char *sql, int64_t run_id);

/* The first column of the first row as an allocated text, or NULL without a row. */
char *report_sql_text(sqlite3 *db, const char *sql, int64_t run_id);

/*
 * The text of a column of the row for a person, allocated: names come from programs, and what would
 * drive the terminal is '?'. "" for NULL; NULL without memory, which is kept (statement.h).
 */
char *report_sql_shown(sqlite3_stmt *row, int column);

/* The share in a column, with low and high behind it: format_share(); "-" where these are NULL. */
struct format_text report_sql_share(sqlite3_stmt *row, int column);
