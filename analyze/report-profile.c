#include "analyze/report-profile.h"

#include <errno.h>
#include <math.h>

#include "analyze/format.h"
#include "analyze/profile.h"
#include "analyze/report-hints.h"
#include "analyze/report-queries.h"
#include "analyze/report-sql.h"
#include "analyze/report-why.h"
#include "analyze/statement.h"
#include "analyze/table-text.h"

#define NUMBER(value) "CAST(round(" value ") AS INTEGER)"

/* Time is a share of the samples, with its interval; what is counted exactly is one of the whole. */
#define SHARE(value, n)                                                                            \
	"CASE WHEN whole.total_n > 0 THEN " n " / " CLOCK_SAMPLES " ELSE " value                   \
	" / nullif(whole.total, 0) END"
#define HALF(n, sq)                                                                                \
	"CASE WHEN whole.total_n > 0 THEN half_width(" n ", " sq ", " CLOCK_SAMPLES ") END"

/* "whole" as a table: the other rows are seen beside it. */
#define FROM_WHOLE " FROM (SELECT * FROM temp.profile_function WHERE id = 0) AS whole"

const char report_flat_sql[] = "SELECT " SHARE(
	"f.self",
	"f.self_n") " AS \"self %\","
		    " " HALF("f.self_n", "f.self_sq") " AS \"±95 %\", " NUMBER(
			    "f.self") " AS self,"
				      " " SHARE(
					      "f.total",
					      "f.total_n") " AS \"total %\","
							   " " HALF("f.total_n", "f.total_sq") " AS \"total ±95 %\", " NUMBER(
								   "f.total") " AS total,"
									      " f.module, f.function" FROM_WHOLE
									      ", temp.profile_function AS f"
									      " WHERE f.id <> 0 OR f.self > 0"
									      " ORDER BY f.self DESC, f.total DESC, f.function, f.module LIMIT :limit";

/* The same without intervals, for what is counted. */
static const char exact_sql[] = "SELECT f.self / nullif(whole.total, 0) AS \"self %\", " NUMBER(
	"f.self") " AS self,"
		  " f.total / nullif(whole.total, 0) AS \"total %\", " NUMBER(
			  "f.total") " AS total,"
				     " f.module, f.function" FROM_WHOLE
				     ", temp.profile_function AS f"
				     " WHERE f.id <> 0 OR f.self > 0"
				     " ORDER BY f.self DESC, f.total DESC, f.function, f.module LIMIT :limit";

/* One row for each caller and callee, in the order of the callees. */
const char report_calls_sql[] =
	"SELECT a.function AS caller, a.module AS caller_module, b.function AS callee,"
	" b.module AS callee_module, CASE WHEN value > 0 OR NOT is_cycle THEN " NUMBER(
		"value") " END"
			 " AS value, is_cycle AS closes_a_cycle, " NUMBER(
				 "b.self") " AS callee_self,"
					   " " NUMBER(
						   "b.total") " AS callee_total"
							      " FROM temp.profile_call JOIN temp.profile_function AS a ON a.id = caller"
							      " JOIN temp.profile_function AS b ON b.id = callee"
							      " ORDER BY b.total DESC, b.id, value DESC, a.id LIMIT :limit";

int report_profile_prepare(sqlite3 *db, const struct report_request *request)
{
	const struct profile_request wanted = { request->run_id, request->by, request->excluded };
	auto_profile struct profile *profile = NULL;
	int r = profile_open(db, &wanted, &profile);

	return r < 0 ? r : profile_tables(profile, db);
}

static struct format_text format_value(double value, enum table_kind kind)
{
	int64_t number = (int64_t)llround(value);

	return kind == TABLE_BYTES	? format_bytes(number)
	       : kind == TABLE_DURATION ? format_duration(number)
					: format_count(number);
}

static double whole_of(sqlite3 *db)
{
	return (double)report_sql_number(
		db, "SELECT " NUMBER("total") " FROM temp.profile_function WHERE id = 0", 0);
}

int report_flat_write(FILE *out, sqlite3 *db, const struct report_request *request)
{
	const struct profile_metric_row *metric =
		profile_metric_row_of(db, request->run_id, request->by);
	bool is_time = request->by == PROFILE_TIME;
	const enum table_kind kinds[] = { TABLE_PERCENT, TABLE_PERCENT, metric->kind,
					  TABLE_PERCENT, TABLE_PERCENT, metric->kind };
	const enum table_kind exact[] = { TABLE_PERCENT, metric->kind, TABLE_PERCENT,
					  metric->kind };
	const struct table_style style = { TABLE_TEXT, is_time ? kinds : exact, is_time ? 6 : 4,
					   request->width, true };
	sqlite3_stmt *stmt = report_sql_prepare(db, is_time ? report_flat_sql : exact_sql,
						request->run_id, request->limit);
	size_t n_rows = 0;

	if (!stmt)
		return -EPROTO;
	fprintf(out, "Functions by %s: %s in all\n", metric->title,
		format_value(whole_of(db), metric->kind).text);
	int r = table_write(out, stmt, &style, &n_rows);
	sqlite3_finalize(stmt);
	if (r < 0 || n_rows == 0)
		return r < 0 ? r
			     : report_why_write(out, db, request, (enum report_needs)metric->needs,
						NULL);
	fputs("self: at call stacks that end in the function; total: of what it called, too, once "
	      "per call stack however often it stands in it\n",
	      out);
	return report_line_hints_write(out, db, request->run_id);
}

/* ---- Callers, function, callees ---- */

static const char functions_sql[] =
	"SELECT id, function, self, total FROM temp.profile_function WHERE total > 0"
	" ORDER BY total DESC, id LIMIT :limit";

static const char callers_sql[] =
	"SELECT caller, function, value, is_cycle FROM temp.profile_call"
	" JOIN temp.profile_function AS f ON f.id = caller WHERE callee = :run"
	" ORDER BY value, function DESC LIMIT :limit";

static const char callees_sql[] =
	"SELECT callee, function, value, is_cycle FROM temp.profile_call"
	" JOIN temp.profile_function AS f ON f.id = callee WHERE caller = :run"
	" ORDER BY value DESC, function LIMIT :limit";

struct calls {
	FILE *out;
	sqlite3 *db;
	const struct report_request *request;
	const struct profile_metric_row *metric;
	double whole;
};

#define NAME_COLUMN 44

static void write_name(const struct calls *calls, sqlite3_stmt *row, unsigned indent)
{
	unsigned width = calls->request->width;
	unsigned left = width > NAME_COLUMN + 30 ? width - NAME_COLUMN - indent - 10 : 0;

	fprintf(calls->out, "%*s", (int)indent, "");
	table_text_cut(calls->out, statement_string(row, 1), left);
	if (sqlite3_column_int64(row, 0))
		fprintf(calls->out, " [%lld]", sqlite3_column_int64(row, 0));
	fputc('\n', calls->out);
}

/* A caller or callee: what it hands on, and whether it also, or only, closes a cycle. */
static int write_relatives(const struct calls *calls, const char *sql, int64_t id)
{
	sqlite3_stmt *stmt = report_sql_prepare(calls->db, sql, id, -1);
	int code = SQLITE_DONE;

	while (stmt && (code = statement_advance(stmt)) == SQLITE_ROW) {
		double value = sqlite3_column_double(stmt, 2);
		bool is_cycle = sqlite3_column_int(stmt, 3) != 0;
		struct format_text text = format_value(value, calls->metric->kind);

		fprintf(calls->out, "%*s%11s%s", 29, "", value > 0 ? text.text : "-",
			is_cycle ? " *" : "  ");
		write_name(calls, stmt, 6);
	}
	sqlite3_finalize(stmt);
	return stmt && code == SQLITE_DONE ? 0 : -EPROTO;
}

static int write_function(const struct calls *calls, sqlite3_stmt *row)
{
	int64_t id = sqlite3_column_int64(row, 0);
	double self = sqlite3_column_double(row, 2), total = sqlite3_column_double(row, 3);
	char index[32];
	int r = write_relatives(calls, callers_sql, id);

	snprintf(index, sizeof(index), "[%lld]", (long long)id);
	fprintf(calls->out, "%-8s%6.1f %%  ", id ? index : "", 100 * total / calls->whole);
	fprintf(calls->out, "%11s ", format_value(self, calls->metric->kind).text);
	fprintf(calls->out, "%11s  ", format_value(total, calls->metric->kind).text);
	write_name(calls, row, 0);
	if (r == 0)
		r = write_relatives(calls, callees_sql, id);
	fputs("--------\n", calls->out);
	return r;
}

static void write_head(const struct calls *calls)
{
	fprintf(calls->out,
		"Callers, function, callees by %s: %s in all\n"
		"A function counts once per call stack, however often it stands in it. A call marked * "
		"leads back to a function\nfurther out (recursion): that part of it carries nothing. "
		"The callers of a function add up to its total.\n",
		calls->metric->title, format_value(calls->whole, calls->metric->kind).text);
	fprintf(calls->out, "%-8s%8s %12s %11s  %s\n", "index", "total", "self", "total",
		"function");
}

int report_calls_write(FILE *out, sqlite3 *db, const struct report_request *request)
{
	const struct calls calls = { out, db, request,
				     profile_metric_row_of(db, request->run_id, request->by),
				     whole_of(db) };
	sqlite3_stmt *stmt = report_sql_prepare(db, functions_sql, request->run_id, request->limit);
	int code = SQLITE_DONE;
	int r = stmt ? 0 : -EPROTO;

	if (calls.whole > 0)
		write_head(&calls);
	while (r == 0 && (code = statement_advance(stmt)) == SQLITE_ROW)
		r = write_function(&calls, stmt);
	sqlite3_finalize(stmt);
	if (r == 0 && code == SQLITE_DONE && !(calls.whole > 0))
		return report_why_write(out, db, request, (enum report_needs)calls.metric->needs,
					NULL);
	if (r == 0 && code == SQLITE_DONE)
		return report_line_hints_write(out, db, request->run_id);
	return r < 0 ? r : -EPROTO;
}
