#include "report/no-data.h"

#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "store/query-value.h"

/*
 * The first query that gives a row tells the reason. A run without blocks: nothing was traced, or
 * what was traced did not allocate. Without samples: the source was refused, or the run was too
 * short.
 */
/* clang-format off */
static const char blocks_sql[] =
	"SELECT 'a selection (--from, --to, --process, --thread, --addr,"
	" --region) holds none of what was recorded'"
	" WHERE EXISTS (SELECT 1 FROM main.site WHERE n_blocks > 0)"
	" AND NOT EXISTS (SELECT 1 FROM site WHERE run_id = :run AND n_blocks > 0)"
	" AND EXISTS (SELECT 1 FROM main.site WHERE run_id = :run)"
	" UNION ALL SELECT 'allocations were not recorded: ' || why FROM (" REPORT_SQL_WHY_NO_BLOCKS
	"  ) AS of_run WHERE NOT EXISTS (SELECT 1 FROM main.site WHERE run_id = :run)"
	" UNION ALL SELECT exe || ' was not traced: ' || coalesce(why_not, 'unknown') FROM process"
	" WHERE run_id = :run AND NOT traced AND NOT EXISTS"
	"  (SELECT 1 FROM main.site WHERE run_id = :run)"
	" UNION ALL SELECT value FROM fact WHERE run_id = :run AND key LIKE 'hint.allocator%'"
	"  AND NOT EXISTS (SELECT 1 FROM main.site WHERE run_id = :run)"
	" UNION ALL SELECT 'no call of malloc or its family was recorded' WHERE NOT EXISTS"
	"  (SELECT 1 FROM main.site WHERE run_id = :run)";

#define NO_SOURCE(kind, source, text) \
	"SELECT name || ' was not sampled: ' || coalesce(remedy, 'error ' || error)" \
	" FROM main.source" \
	" WHERE run_id = :run AND measures = '" kind "' AND error <> 0" \
	" UNION ALL SELECT '" text "' WHERE NOT EXISTS (SELECT 1 FROM main.source" \
	" WHERE run_id = :run" \
	"  AND measures = '" kind "')" \
	" UNION ALL SELECT 'the run was too short for a sample of source " source \
	"' WHERE NOT EXISTS" \
	"  (SELECT 1 FROM main.source WHERE run_id = :run AND measures = '" kind \
	"' AND n_samples > 0)"
/* clang-format on */

static const char *const reasons_sql[REPORT_NEEDS_COUNT] = {
	[REPORT_NEEDS_NOTHING] = NULL,
	[REPORT_NEEDS_BLOCKS] = blocks_sql,
	[REPORT_NEEDS_CLOCK] = NO_SOURCE(
		"time", "clock", "CPU time was not sampled: record with --source auto or clock"),
	[REPORT_NEEDS_FAULTS] = NO_SOURCE(
		"fault", "faults", "page faults were not recorded: record with --source auto"),
	[REPORT_NEEDS_DATA_SOURCE] =
		"SELECT 'no source of this run has levels and nodes: that takes a PMU that"
		" samples memory"
		" accesses'",
};

int report_why_write(FILE *out, sqlite3 *db, const struct report_request *request,
		     enum report_needs needs, const char *nothing)
{
	const char *sql = reasons_sql[needs];
	auto_free char *reason = sql ? report_sql_text(db, sql, request->run_id) : NULL;

	if (sqlite3_errcode(db) != SQLITE_OK && sqlite3_errcode(db) != SQLITE_DONE &&
	    sqlite3_errcode(db) != SQLITE_ROW)
		return -EPROTO;
	fputs(nothing ? nothing : "Nothing to show.", out);
	if (reason)
		fprintf(out, " The reason: %s.", reason);
	fputc('\n', out);
	return ferror(out) ? -EIO : 0;
}
