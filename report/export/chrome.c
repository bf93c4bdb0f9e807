/*
 * The trace event format of Chrome and Perfetto
 * (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): processes and threads
 * with their names and lives, regions and marks, live bytes, resident memory, touched and written
 * pages as counters. Times are in us.
 */
#include <errno.h>

#include "common/cleanup.h"
#include "common/utf8.h"
#include "report/export/export.h"
#include "store/query-value.h"
#include "store/statement.h"

/* Each query gives one JSON text a row. */
static const char *const events_sql[] = {
	"SELECT json_object('ph', 'M', 'name', 'process_name', 'pid', pid, 'tid', pid, 'args',"
	" json_object('name', CASE WHEN command <> '' THEN command ELSE exe END))"
	" FROM process WHERE run_id = :run",
	"SELECT json_object('ph', 'M', 'name', 'thread_name', 'pid', pid, 'tid', tid, 'args',"
	" json_object('name', coalesce((SELECT name FROM thread_name WHERE thread_id = thread.id"
	"  ORDER BY time_ns DESC LIMIT 1), CASE WHEN is_main THEN 'main' ELSE 'thread' END)))"
	" FROM thread JOIN process ON process.id = process_id WHERE thread.run_id = :run",
	"SELECT json_object('ph', 'X', 'cat', 'thread', 'name', 'lives', 'pid', pid, 'tid', tid,"
	" 'ts', thread.start_ns / 1e3, 'dur', (coalesce(thread.end_ns, process.end_ns, duration_ns)"
	"  - thread.start_ns) / 1e3, 'args', json_object('blocks', coalesce(n_blocks, 0),"
	"  'bytes', coalesce(bytes, 0), 'frees', coalesce(n_frees, 0)))"
	" FROM thread JOIN process ON process.id = process_id JOIN run ON run.id = :run"
	" LEFT JOIN thread_total ON thread_id = thread.id WHERE thread.run_id = :run",
	"SELECT json_object('ph', 'X', 'cat', 'region', 'name', region.name, 'pid', pid, 'tid',"
	" tid, 'ts', region.start_ns / 1e3, 'dur', (coalesce(region.end_ns, duration_ns)"
	"  - region.start_ns) / 1e3) FROM region JOIN thread ON thread.id = thread_id JOIN process"
	" ON process.id = process_id JOIN run ON run.id = :run WHERE region.run_id = :run",
	"SELECT json_object('ph', 'i', 's', CASE WHEN tid IS NULL THEN 'g' ELSE 't' END, 'cat',"
	" 'mark', 'name', mark.name, 'pid', pid, 'tid', tid, 'ts', time_ns / 1e3) FROM mark"
	" LEFT JOIN thread ON thread.id = thread_id LEFT JOIN process ON process.id = process_id"
	" WHERE mark.run_id = :run",
	"SELECT json_object('ph', 'C', 'name', 'live bytes', 'pid', (SELECT pid FROM process"
	"  WHERE run_id = :run ORDER BY id LIMIT 1), 'ts', time_ns / 1e3, 'args',"
	" json_object('bytes', max_live_bytes)) FROM timeline WHERE run_id = :run",
	"SELECT json_object('ph', 'C', 'name', 'events', 'pid', (SELECT pid FROM process"
	"  WHERE run_id = :run ORDER BY id LIMIT 1), 'ts', time_ns / 1e3, 'args',"
	" json_object('allocations', n_allocations, 'frees', n_frees))"
	" FROM timeline WHERE run_id = :run",
	"SELECT json_object('ph', 'C', 'name', 'resident memory', 'pid', pid, 'ts', time_ns / 1e3,"
	" 'args', json_object('bytes', rss)) FROM process_sample"
	" JOIN process ON process.id = process_id WHERE process_sample.run_id = :run",
	/* A counter holds its value up to the next one: each interval's from its begin. */
	"SELECT json_object('ph', 'C', 'name', 'touched pages', 'pid', pid, 'ts', begin_ns / 1e3,"
	" 'args', json_object('bytes', touched)) FROM page_interval"
	" JOIN process ON process.id = process_id WHERE page_interval.run_id = :run",
	"SELECT json_object('ph', 'C', 'name', 'written pages', 'pid', pid, 'ts', begin_ns / 1e3,"
	" 'args', json_object('bytes', written)) FROM write_interval"
	" JOIN process ON process.id = process_id WHERE write_interval.run_id = :run",
};

/* Of the tables that may be long. */
static const char n_events_sql[] =
	"SELECT (SELECT count(*) FROM region WHERE run_id = :run) + (SELECT count(*) FROM mark"
	" WHERE run_id = :run) + 2 * (SELECT count(*) FROM timeline WHERE run_id = :run) + (SELECT"
	" count(*) FROM process_sample WHERE run_id = :run) + (SELECT count(*) FROM thread WHERE"
	" run_id = :run)";

static int write_events(FILE *out, sqlite3 *db, const char *sql,
			const struct export_request *request, const char **comma)
{
	auto_statement sqlite3_stmt *stmt = report_sql_prepare(db, sql, request->run_id, -1);
	int code = SQLITE_DONE;

	while (stmt && (code = statement_advance(stmt)) == SQLITE_ROW && !ferror(out)) {
		const char *event = statement_string(stmt, 0);
		auto_free char *text = utf8_copy(*event ? event : "{}");
		if (!text)
			statement_keep(db, SQLITE_NOMEM);
		fprintf(out, "%s%s", *comma, text ? text : "{}");
		*comma = ",\n";
		export_row(out, request);
	}
	return ferror(out) ? -EIO : stmt && code == SQLITE_DONE ? 0 : -EPROTO;
}

int export_chrome_write(FILE *out, sqlite3 *db, const struct export_request *request)
{
	const char *comma = "";
	int r = 0;

	export_begin(db, request, "writing", n_events_sql);
	fputs("{\"traceEvents\":[\n", out);
	for (size_t i = 0; r == 0 && i < sizeof(events_sql) / sizeof(events_sql[0]); i++)
		r = write_events(out, db, events_sql[i], request, &comma);
	fputs("\n]}\n", out);
	return ferror(out) ? -EIO : r;
}
