/* A report on a stream: its title, rows, notes and hints. */
#include <errno.h>
#include <stdbool.h>

#include "analyze/report-functions.h"
#include "analyze/report-hints.h"
#include "analyze/report-queries.h"
#include "analyze/report-sampling.h"
#include "analyze/report-sql.h"
#include "analyze/report-stat.h"
#include "analyze/report-stop.h"
#include "analyze/report-summary.h"
#include "analyze/report-why.h"
#include "analyze/report.h"
#include "analyze/stack-text.h"
#include "analyze/statement.h"
#include "common/cleanup.h"

/* It also says of each source what was not lost. */
static bool is_of_losses(const struct report *report)
{
	return report->text_sql == report_losses_sql;
}

/* Under the rows, or instead of them. */
static int write_foot(FILE *out, sqlite3 *db, const struct report *report,
		      const struct report_request *request, size_t n_rows)
{
	if (n_rows > 0) {
		auto_free char *stop = report_stop_text(db, request->run_id);

		if (report->note)
			report_sampling_note(out, db, request->run_id, report->note);
		if (report->is_sampled && report_sampling_foot(out, db, request->run_id) < 0)
			return -EPROTO;
		if (is_of_losses(report) && report_ledger_write(out, db, request->run_id) < 0)
			return -EPROTO;
		if (report->note && stop)
			fprintf(out, "%s: what lived then counts as not freed\n", stop);
		if (report->hints_sql &&
		    report_hint_write(out, db, report->hints_sql, request->run_id) < 0)
			return -EPROTO;
		return report->has_lines ? report_line_hints_write(out, db, request->run_id) : 0;
	}
	int r = report_why_write(out, db, request, report->needs, report->nothing);

	return r == 0 && is_of_losses(report) ? report_ledger_write(out, db, request->run_id) : r;
}

static int write_list(FILE *out, sqlite3_stmt *stmt, const struct report *report,
		      const struct report_request *request)
{
	struct table_style style = { request->format, report->kinds, report->n_kinds,
				     request->width, true };
	bool is_text = request->format == TABLE_TEXT;
	size_t n_rows = 0;

	if (is_text)
		fprintf(out, request->is_coloured ? "\033[1m%s\033[0m\n" : "%s\n", report->title);
	int r = is_text && report->draw ? report->draw(out, sqlite3_db_handle(stmt), request) : 0;
	if (r == 0)
		r = table_write(out, stmt, &style, &n_rows);
	if (r < 0 || !is_text)
		return r;
	return write_foot(out, sqlite3_db_handle(stmt), report, request, n_rows);
}

static int write_rows(FILE *out, sqlite3 *db, const struct report *report,
		      const struct report_request *request)
{
	bool is_text = request->format == TABLE_TEXT;
	const char *sql = is_text && report->text_sql ? report->text_sql : report->sql;
	int64_t limit = report->is_whole && !is_text ? -1 : request->limit;
	sqlite3_stmt *stmt = report_sql_prepare(db, sql, request->run_id, limit);

	if (!stmt)
		return -EPROTO;
	int r = write_list(out, stmt, report, request);
	sqlite3_finalize(stmt);
	return r;
}

/* Which of several runs of the database this is about. */
static void write_run(FILE *out, sqlite3 *db, const struct report_request *request)
{
	size_t n_runs = request->selection ? request->selection->n_runs : 1;

	if (n_runs > 1)
		fprintf(out, "%zu runs added up\n", n_runs);
	else
		report_summary_run(out, db, request->run_id);
}

int report_write(FILE *out, sqlite3 *db, const struct report *report,
		 const struct report_request *request)
{
	statement_forget(db);
	int r = report->prepare ? report->prepare(db, request) : 0;

	if (r == 0 && request->format == TABLE_TEXT)
		write_run(out, db, request);

	if (r == 0 && report->write && request->format == TABLE_TEXT)
		r = report->write(out, db, request);
	else if (r == 0)
		r = write_rows(out, db, report, request);
	return statement_verdict(db, r);
}

int report_functions_register(sqlite3 *db)
{
	int code = report_functions_add(db);

	if (code == SQLITE_OK)
		code = report_stat_register(db);
	return code == SQLITE_OK ? stack_text_register(db) : code;
}
