#include "report/export/export.h"

#include <errno.h>
#include <string.h>

#include "report/text/table.h"
#include "store/query-value.h"
#include "store/statement.h"

struct watched {
	FILE *out;
	const struct export_request *request;
};

static void watch_row(void *user)
{
	const struct watched *watched = user;

	export_row(watched->out, watched->request);
}

/* The statement is ours to free. */
static int write_query(FILE *out, sqlite3_stmt *stmt, enum table_format format,
		       const struct export_request *request)
{
	struct watched watched = { out, request };
	const struct table_style style = { .format = format,
					   .on_row = watch_row,
					   .context = &watched };
	int r = stmt ? table_write(out, stmt, &style, NULL) : -EPROTO;

	sqlite3_finalize(stmt);
	return r;
}

/* All rows of a table or view; of this run where it tells runs apart. */
static int write_view(FILE *out, sqlite3 *db, const struct export_request *request,
		      enum table_format format)
{
	static const char find_sql[] =
		"SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE name = 'run_id')"
		" FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?1";
	sqlite3_stmt *find = report_sql_prepare(db, find_sql, 0, -1);

	if (!find)
		return -EPROTO;
	sqlite3_bind_text(find, 1, request->view, -1, SQLITE_STATIC);
	int is_there = statement_advance(find) == SQLITE_ROW;
	int has_run = is_there && sqlite3_column_int(find, 0);
	sqlite3_finalize(find);
	if (!is_there)
		return -ESRCH;

	const char *of_run = has_run ? " WHERE run_id = :run" : "";
	char *sql = sqlite3_mprintf("SELECT * FROM \"%w\"%s", request->view, of_run);
	char *n_sql = sqlite3_mprintf("SELECT count(*) FROM \"%w\"%s", request->view, of_run);
	sqlite3_stmt *stmt = sql ? report_sql_prepare(db, sql, request->run_id, -1) : NULL;
	if (n_sql)
		export_begin(db, request, "writing", n_sql);
	sqlite3_free(sql);
	sqlite3_free(n_sql);
	return write_query(out, stmt, format, request);
}

static int write_csv(FILE *out, sqlite3 *db, const struct export_request *request)
{
	return write_view(out, db, request, TABLE_CSV);
}

static int write_json(FILE *out, sqlite3 *db, const struct export_request *request)
{
	return write_view(out, db, request, TABLE_JSON);
}

/* The columns of heaptrack's table of locations, and the whole backtrace. */
static const char heaptrack_sql[] =
	"SELECT site.n_blocks AS allocations, n_temporary AS temporary, site.peak_bytes AS peak,"
	" coalesce(site_peak.bytes, 0) AS at_peak, live_bytes - exec_bytes AS leaked,"
	" site.bytes AS allocated,"
	" function, file, line, module, stack_text(site.stack_id, 1000) AS backtrace"
	" FROM site LEFT JOIN stack_line ON stack_line.stack_id = site.stack_id"
	" LEFT JOIN site_peak ON site_peak.run_id = site.run_id"
	"  AND site_peak.stack_id = site.stack_id"
	" WHERE site.run_id = :run ORDER BY site.peak_bytes DESC, site.stack_id";

static int write_heaptrack(FILE *out, sqlite3 *db, const struct export_request *request)
{
	export_begin(db, request, "writing", EXPORT_N_SITES);
	return write_query(out, report_sql_prepare(db, heaptrack_sql, request->run_id, -1),
			   TABLE_CSV, request);
}

const struct export_format export_formats[] = {
	{ "folded", 0, 0, export_folded_write },
	{ "callgrind", 0, 0, export_callgrind_write },
	{ "pprof", 1, 0, export_pprof_write },
	{ "speedscope", 0, 0, export_speedscope_write },
	{ "chrome", 0, 1, export_chrome_write },
	{ "perfetto", 0, 1, export_chrome_write },
	{ "heaptrack-csv", 0, 0, write_heaptrack },
	{ "csv", 0, 1, write_csv },
	{ "json", 0, 1, write_json },
	{ NULL, 0, 0, NULL },
};

const struct export_format *export_find(const char *name)
{
	for (const struct export_format *format = export_formats; format->name; format++)
		if (strcmp(format->name, name) == 0)
			return format;
	return NULL;
}

int export_write(FILE *out, sqlite3 *db, const struct export_format *format,
		 const struct export_request *request)
{
	statement_forget(db);
	return statement_verdict(db, format->write(out, db, request));
}
