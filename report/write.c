
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/human-number.h"
#include "common/text.h"
#include "report/hints.h"
#include "report/queries.h"
#include "report/report.h"
#include "report/text/fit-text.h"
#include "report/text/sampling-notes.h"
#include "report/text/site-name.h"
#include "report/text/sql-functions.h"
#include "store/query-value.h"
#include "store/statement.h"

/*
 * The first query that gives a row tells the reason. A run without blocks: nothing was traced, or
 * what was traced did not allocate. Without samples: the source was refused, or the run was too
 * short.
 */
/* clang-format off */
static const char blocks_sql[] =
	"SELECT 'a selection (--window, --from, --to, --process, --thread, --addr, --region) holds"
	" none of what was recorded' WHERE EXISTS (SELECT 1 FROM main.site WHERE n_blocks > 0)"
	" AND NOT EXISTS (SELECT 1 FROM site WHERE run_id = :run AND n_blocks > 0) AND EXISTS"
	" (SELECT 1 FROM main.site WHERE run_id = :run)"
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
	"' AND n_samples > 0)" \
	" UNION ALL SELECT 'no sample was at a block that was recorded (--objects: what they" \
	" were at)' WHERE NOT EXISTS (SELECT 1 FROM main.site WHERE run_id = :run" \
	"  AND (n_samples > 0 OR n_faults > 0))"
/* clang-format on */

static const char *const reasons_sql[REPORT_NEEDS_COUNT] = {
	[REPORT_NEEDS_NOTHING] = NULL,
	[REPORT_NEEDS_BLOCKS] = blocks_sql,
	[REPORT_NEEDS_CLOCK] = NO_SOURCE(
		"time", "clock", "CPU time was not sampled: record with --source auto or clock"),
	[REPORT_NEEDS_FAULTS] = NO_SOURCE(
		"fault", "faults", "page faults were not recorded: record with --source auto"),
	[REPORT_NEEDS_DATA_SOURCE] =
		"SELECT 'no source of this run has levels and nodes: that takes a PMU that samples"
		" memory accesses'",
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

/* ---- A report on a stream: its title, rows, notes and hints ---- */

#define N_ROWS 20 /* of text, when nobody says how many */

/* It also says of each source what was not lost. */
static bool is_of_losses(const struct report *report)
{
	return report == &report_losses;
}

static int write_lines(FILE *out, sqlite3 *db, const struct report *report,
		       const struct report_request *request)
{
	return report->foot_sql ? report_lines_write(out, db, report->foot_sql, request->run_id, "")
				: 0;
}

int report_foot_write(FILE *out, sqlite3 *db, const struct report *report,
		      const struct report_request *request, size_t n_rows)
{
	if (n_rows > 0) {
		auto_free char *stop = report_stop_text(db, request->run_id);

		if (report->note)
			report_sampling_note(out, db, request->run_id, report->note);
		if (report->counts_blocks && report_picked_foot(out, db, request->run_id) < 0)
			return -EPROTO;
		if (report->is_sampled && report_sampling_foot(out, db, request->run_id) < 0)
			return -EPROTO;
		if (is_of_losses(report) && report_ledger_write(out, db, request->run_id) < 0)
			return -EPROTO;
		if (report->note && stop)
			fprintf(out, "%s: what lived then counts as not freed\n", stop);
		if (write_lines(out, db, report, request) < 0)
			return -EPROTO;
		if (report->hints_sql &&
		    report_hint_write(out, db, report->hints_sql, request->run_id) < 0)
			return -EPROTO;
		return report->has_lines ? report_line_hints_write(out, db, request->run_id) : 0;
	}
	int r = report_why_write(out, db, request, report->needs, report->nothing);

	r = r ?: write_lines(out, db, report, request);
	return r == 0 && is_of_losses(report) ? report_ledger_write(out, db, request->run_id) : r;
}

int report_rows_count(sqlite3 *db, const struct report *report, int64_t run_id, int64_t *ret_n)
{
	const char *shown = report->text_sql ? report->text_sql : report->sql;
	char *sql = report->n_sql ? sqlite3_mprintf("%s", report->n_sql)
				  : sqlite3_mprintf("SELECT count(*) FROM (%s)", shown);

	if (!sql)
		return -ENOMEM;
	*ret_n = report_sql_number(db, sql, run_id);
	sqlite3_free(sql);
	return 0;
}

sqlite3_stmt *report_rows_prepare(sqlite3 *db, const struct report *report, bool is_text,
				  int64_t run_id, int64_t limit)
{
	const char *sql = is_text && report->text_sql ? report->text_sql : report->sql;
	auto_free char *more =
		report->columns_sql ? report_sql_text(db, report->columns_sql, run_id) : NULL;

	if (!more)
		return report_sql_prepare(db, sql, run_id, limit);
	const char *at = strstr(sql, REPORT_MORE_COLUMNS);
	auto_free char *whole = NULL;
	return asprintf(&whole, "%.*s%s%s", (int)(at - sql), sql, more, at) < 0
		       ? NULL
		       : report_sql_prepare(db, whole, run_id, limit);
}

static int write_list(FILE *out, sqlite3_stmt *stmt, const struct report *report,
		      const struct report_request *request)
{
	struct table_style style = { request->format, report->kinds, report->n_kinds,
				     request->width,  true,	     .rest = report->rest };
	bool is_text = request->format == TABLE_TEXT;
	size_t n_rows = 0;

	if (is_text)
		fprintf(out, request->is_coloured ? "\033[1m%s\033[0m\n" : "%s\n", report->title);
	int r = is_text && report->draw ? report->draw(out, sqlite3_db_handle(stmt), request) : 0;
	r = r ?: table_write(out, stmt, &style, &n_rows);
	if (r < 0 || !is_text)
		return r;
	int64_t n_all = request->limit;
	if (request->limit > 0 && (int64_t)n_rows >= request->limit)
		r = report_rows_count(sqlite3_db_handle(stmt), report, request->run_id, &n_all);
	report_rest_write(out, n_all - request->limit);
	return r < 0 ? r : report_foot_write(out, sqlite3_db_handle(stmt), report, request, n_rows);
}

static int write_rows(FILE *out, sqlite3 *db, const struct report *report,
		      const struct report_request *request)
{
	bool is_text = request->format == TABLE_TEXT;
	auto_statement sqlite3_stmt *stmt =
		report_rows_prepare(db, report, is_text, request->run_id, request->limit);

	if (!stmt)
		return -EPROTO;
	return write_list(out, stmt, report, request);
}

/* "window 2: 2.03 s-4.03 s", of windows as they begin and end. */
static void write_span(FILE *out, sqlite3 *db, const struct report_request *request)
{
	const struct selection *selection = request->selection;
	auto_statement sqlite3_stmt *row = report_sql_prepare(
		db,
		"SELECT min(first.number), max(last.number), run.duration_ns FROM run LEFT JOIN"
		" window AS first ON first.run_id = run.id AND first.start_ns = :from LEFT JOIN"
		" window AS last ON last.run_id = run.id AND last.end_ns = :to WHERE run.id = :run",
		request->run_id, -1);

	if (!row)
		return;
	sqlite3_bind_int64(row, sqlite3_bind_parameter_index(row, ":from"), selection->from_ns);
	sqlite3_bind_int64(row, sqlite3_bind_parameter_index(row, ":to"), selection->to_ns);
	if (statement_advance(row) != SQLITE_ROW)
		return;
	int64_t first = sqlite3_column_int64(row, 0), last = sqlite3_column_int64(row, 1);
	int64_t end_ns = sqlite3_column_int64(row, 2);
	if (first && first == last)
		fprintf(out, "window %lld: ", (long long)first);
	else if (first && first < last)
		fprintf(out, "windows %lld to %lld: ", (long long)first, (long long)last);
	fprintf(out, "%s of %s",
		format_interval(selection->from_ns,
				selection->to_ns < end_ns ? selection->to_ns : end_ns)
			.text,
		format_duration(end_ns).text);
}

/* Which of several runs of the database this is about, and which part of it. */
static void write_run(FILE *out, sqlite3 *db, const struct report_request *request)
{
	const struct selection *selection = request->selection;

	if (selection && selection->n_runs > 1) {
		fprintf(out, "%zu runs added up\n", selection->n_runs);
		return;
	}
	report_summary_run(out, db, request->run_id);
	if (!selection || !selection_is_part(selection))
		return;
	fputs("part: ", out);
	write_span(out, db, request);
	if (selection->pid)
		fprintf(out, ", process %lld", (long long)selection->pid);
	if (selection->tid)
		fprintf(out, ", thread %lld", (long long)selection->tid);
	if (selection->high)
		fprintf(out, ", addresses %#" PRIx64 "-%#" PRIx64, selection->low, selection->high);
	if (selection->region) {
		auto_free char *name = strdup(selection->region);
		fprintf(out, ", region %s", name ? text_hide_controls(name) : "?");
	}
	fputc('\n', out);
}

/* What is read by a program holds all. */
static int64_t limit_of(const struct report *report, const struct report_request *request)
{
	if (request->limit)
		return request->limit;
	return request->format != TABLE_TEXT ? -1 : report->n_rows ? report->n_rows : N_ROWS;
}

/* What write_text() needs. */
struct text {
	sqlite3 *db;
	const struct report *report;
	const struct report_request *request;
};

static int write_text(FILE *out, void *user)
{
	const struct text *text = user;

	write_run(out, text->db, text->request);
	return text->report->write ? text->report->write(out, text->db, text->request)
				   : write_rows(out, text->db, text->report, text->request);
}

/* What only all blocks, and the order of all events, could tell. */
static const struct report not_of_picked = {
	.title = "Not known of picked blocks",
	.nothing = "Not known: blocks were picked (--sample-bytes), and it takes all of them.",
	.sql = "SELECT NULL AS \"not known\" WHERE 0",
};

const struct report *report_resolve(sqlite3 *db, const struct report *report, int64_t run_id)
{
	static const char has_own_time[] =
		"SELECT EXISTS (SELECT 1 FROM own_time WHERE run_id = :run)";

	if (report->own_time && report_sql_number(db, has_own_time, run_id))
		return report->own_time;
	if ((report->picked || report->needs_all_blocks) &&
	    report_sql_number(db, "SELECT " REPORT_IS_PICKED, run_id))
		return report->picked ? report->picked : &not_of_picked;
	return report;
}

int report_write(FILE *out, sqlite3 *db, const struct report *report,
		 const struct report_request *given)
{
	struct report_request resolved = *given;
	const struct report_request *request = &resolved;

	report = report_resolve(db, report, given->run_id);
	struct text text = { db, report, request };
	resolved.limit = limit_of(report, given);
	statement_forget(db);
	int r = report->prepare ? report->prepare(db, request) : 0;

	/* A picture that has as many cells as were asked for is as wide as it is. */
	if (r == 0 && request->format == TABLE_TEXT)
		r = fit_lines_write(out, request->cells[0] ? 0 : request->width, write_text, &text);
	else if (r == 0)
		r = write_rows(out, db, report, request);
	return statement_verdict(db, r);
}

int report_functions_register(sqlite3 *db)
{
	int code = report_functions_add(db);

	if (code == SQLITE_OK)
		code = report_stat_register(db);
	return code == SQLITE_OK ? site_name_register(db, NULL) : code;
}

int report_names_set(sqlite3 *db, const unsigned *names)
{
	return site_name_register(db, names);
}

/* ---- SQL of a user ---- */

/* A statement without columns, as PRAGMA x = y or ATTACH, is stepped once. */
static int write_statement(FILE *out, sqlite3_stmt *stmt, const struct table_style *style)
{
	if (sqlite3_column_count(stmt) > 0)
		return table_write(out, stmt, style, NULL);
	return sqlite3_step(stmt) == SQLITE_DONE ? 0 : -EPROTO;
}

struct statements {
	sqlite3 *db;
	const char *sql;
	const struct table_style *style;
};

static int write_statements(FILE *out, void *user)
{
	const struct statements *statements = user;
	sqlite3 *db = statements->db;
	const char *sql = statements->sql;
	size_t n_statements = 0;

	while (*sql) {
		sqlite3_stmt *stmt = NULL;
		if (sqlite3_prepare_v2(db, sql, -1, &stmt, &sql) != SQLITE_OK)
			return -EPROTO;
		if (!stmt)
			continue; /* white space or a comment */

		n_statements++;
		int r = write_statement(out, stmt, statements->style);
		sqlite3_finalize(stmt);
		if (r < 0)
			return r;
	}
	return n_statements ? 0 : -EINVAL;
}

int query_write(FILE *out, sqlite3 *db, const char *sql, const struct table_style *style)
{
	struct statements statements = { db, sql, style };

	return fit_lines_write(out, style->format == TABLE_TEXT ? style->width : 0,
			       write_statements, &statements);
}
