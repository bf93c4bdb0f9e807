#include "report/queries.h"

#include <errno.h>

#include "common/cleanup.h"
#include "common/human-number.h"
#include "report/callgraph/profile.h"
#include "report/hints.h"
#include "report/text/fit-text.h"
#include "report/text/sampling-notes.h"
#include "store/query-value.h"
#include "store/statement.h"

#define NUMBER(value) "CAST(round(" value ") AS INTEGER)"

/*
 * Time is a share of the samples, with its interval; what is counted exactly is one of the whole. A
 * function of several sites: their ends bound its interval, and so does the binomial one of their
 * sum. NULL: it lies anywhere between the ends.
 */
#define CLOCK_TIME PROFILE_CLOCK_TIME
#define IS_COUNT   "whole.total_n = 0 AND whole.total_unknown = 0"
#define SHARE(of)                                                                                  \
	"CASE WHEN " IS_COUNT " THEN f." of " / nullif(whole.total, 0)"                            \
	" WHEN f." of "_unknown = 0 THEN coalesce(CASE WHEN f." of "_high IS NOT NULL"             \
	" THEN f." of " / " CLOCK_TIME " END, f." of "_n / " CLOCK_SAMPLES ") END"
#define HALF(of) "half_width(f." of "_n, f." of "_sq, " CLOCK_SAMPLES ")"
#define ANYBODY                                                                                    \
	"coalesce((SELECT share_high FROM kind_share WHERE run_id = :run AND owner_kind = 0), 0)"
#define LOW(of)                                                                                    \
	"CASE WHEN " IS_COUNT " THEN NULL WHEN f." of "_sites = 0 THEN 0.0"                        \
	" WHEN f." of "_high IS NULL THEN max(0, f." of "_n / " CLOCK_SAMPLES                      \
	" - " HALF(of) ")"                                                                         \
		       " WHEN f." of "_sites = 1 THEN f." of "_low / " CLOCK_TIME                  \
		       " ELSE max(0, f." of "_low / " CLOCK_TIME ", f." of "_told / " CLOCK_TIME   \
		       " - " HALF(of) ") END"
#define HIGH(of)                                                                                   \
	"CASE WHEN " IS_COUNT " THEN NULL WHEN f." of "_sites = 0 THEN 0.0"                        \
	" WHEN f." of "_high IS NULL THEN min(1, f." of "_n / " CLOCK_SAMPLES                      \
	" + " HALF(of) ")"                                                                         \
		       " WHEN f." of "_sites = 1 OR f." of "_unknown THEN min(1, f." of            \
		       "_high / " CLOCK_TIME ")"                                                   \
		       " ELSE min(1, f." of "_high / " CLOCK_TIME ", f." of "/ " CLOCK_TIME        \
		       " + " HALF(of) " + " ANYBODY ") END"
/* For an order: where only the ends are known, what is between them, or what surely is theirs. */
#define MIDDLE(of)                                                                                 \
	"CASE WHEN f." of "_unknown THEN (f." of "_low + f." of "_high) / 2 ELSE f." of " END"
#define SURE(of)  "CASE WHEN f." of "_unknown THEN " LOW(of) " ELSE f." of " / " CLOCK_TIME " END"
#define VALUE(of) "CASE WHEN f." of "_unknown = 0 THEN " NUMBER("f." of) " END"

#define FUNCTIONS "temp.profile_function AS f WHERE (f.id <> 0 OR f.self > 0 OR f.self_unknown > 0)"
/* As the text has it, anything from 0.0 to 100.0 %. */
#define VAGUE	 LOW("total") " < 0.0005 AND " HIGH("total") " >= 0.9995"
#define IS_VAGUE "(f.total_unknown > 0 AND " VAGUE ")"

/* "whole" as a table: the other rows are seen beside it. */
#define FROM_WHOLE " FROM (SELECT * FROM temp.profile_function WHERE id = 0) AS whole"

/* clang-format off */
#define FLAT_SQL(also, order) \
	"SELECT " SHARE("self") " AS \"self %\", " LOW("self") " AS \"self low\", " HIGH("self") \
	" AS \"self high\", " VALUE("self") " AS self, " SHARE("total") " AS \"total %\", " \
	LOW("total") " AS \"total low\", " HIGH("total") " AS \"total high\", " VALUE("total") \
	" AS total," \
	" f.module, f.function" FROM_WHOLE ", " FUNCTIONS also \
	" ORDER BY " order("self") " DESC, " order("total") \
	" DESC, f.function, f.module LIMIT :limit"

/* For people: without functions of which nothing is known. */
static const char known_sql[] = FLAT_SQL(" AND NOT " IS_VAGUE, SURE);
/* clang-format on */

static const char vague_sql[] = "SELECT count(*)" FROM_WHOLE ", " FUNCTIONS " AND " IS_VAGUE;

/* The same without intervals, for what is counted. */
/* clang-format off */
static const char exact_sql[] =
	"SELECT f.self / nullif(whole.total, 0) AS \"self %\", " NUMBER("f.self") " AS self,"
	" f.total / nullif(whole.total, 0) AS \"total %\", " NUMBER("f.total") " AS total,"
	" f.module, f.function" FROM_WHOLE ", " FUNCTIONS
	" ORDER BY f.self DESC, f.total DESC, f.function, f.module LIMIT :limit";
/* clang-format on */

/* One row for each caller and callee, in the order of the callees. */
/* clang-format off */
static const char calls_sql[] =
	"SELECT a.function AS caller, a.module AS caller_module, b.function AS callee,"
	" b.module AS callee_module, CASE WHEN value > 0 OR NOT is_cycle THEN " NUMBER("value")
	" END"
	" AS value, is_cycle AS closes_a_cycle, " NUMBER("b.self") " AS callee_self,"
	" " NUMBER("b.total") " AS callee_total"
	" FROM temp.profile_call JOIN temp.profile_function AS a ON a.id = caller"
	" JOIN temp.profile_function AS b ON b.id = callee"
	" ORDER BY b.total DESC, b.id, value DESC, a.id LIMIT :limit";
/* clang-format on */

/* The tables of profile.h that the queries of both reports read. */
static int prepare(sqlite3 *db, const struct report_request *request)
{
	const struct profile_request wanted = { request->run_id, request->by, request->paths };
	auto_profile struct profile *profile = NULL;
	return profile_open(db, &wanted, &profile) ?: profile_tables(profile, db);
}

static double whole_of(sqlite3 *db)
{
	return (double)report_sql_number(
		db, "SELECT " NUMBER("total") " FROM temp.profile_function WHERE id = 0", 0);
}

static bool has_unknown(sqlite3 *db)
{
	return report_sql_number(db, "SELECT total_unknown FROM temp.profile_function WHERE id = 0",
				 0) > 0;
}

/* Of sites whose time is known as a range only, trees and sums have what surely is theirs. */
static void write_unknown(FILE *out, sqlite3 *db, const struct report_request *request)
{
	auto_free char *text = report_sql_text(
		db,
		"SELECT printf('of %d call stack%s the time is not known: sums have what surely is"
		" theirs, and there may be up to %.1f %% of the CPU time more (--sites shows from"
		" where to where)', total_unknown, CASE total_unknown WHEN 1 THEN '' ELSE 's' END,"
		" 100 * min(1, (total_high -"
		" total) /" CLOCK_TIME
		")) FROM temp.profile_function WHERE id = 0 AND total_unknown > 0",
		request->run_id);

	if (text)
		fprintf(out, "%s\n", text);
}

static int write_flat(FILE *out, sqlite3 *db, const struct report_request *request)
{
	const struct profile_metric_row *metric =
		profile_metric_row_of(db, request->run_id, request->by);
	bool is_time = request->by == PROFILE_TIME;
	const enum table_kind kinds[] = { TABLE_SHARE, TABLE_PERCENT, TABLE_PERCENT, metric->kind,
					  TABLE_SHARE, TABLE_PERCENT, TABLE_PERCENT, metric->kind };
	const enum table_kind exact[] = { TABLE_PERCENT, metric->kind, TABLE_PERCENT,
					  metric->kind };
	const struct table_style style = { TABLE_TEXT, is_time ? kinds : exact, is_time ? 8 : 4,
					   request->width, true };
	sqlite3_stmt *stmt = report_sql_prepare(db, is_time ? known_sql : exact_sql,
						request->run_id, request->limit);
	size_t n_rows = 0;

	if (!stmt)
		return -EPROTO;
	auto_free char *title = profile_title(db, request->run_id, metric->title);
	if (whole_of(db) > 0 ||
	    has_unknown(db)) /* else the reason is told: what was not recorded is no 0 */
		fprintf(out, "Functions by %s: %s%s in all\n", title ? title : metric->title,
			has_unknown(db) ? "at least " : "",
			table_value_text(whole_of(db), metric->kind).text);
	int r = table_write(out, stmt, &style, &n_rows);
	sqlite3_finalize(stmt);
	int64_t n_all = report_sql_number(db, "SELECT count(*) FROM " FUNCTIONS, 0);
	int64_t n_vague = is_time ? report_sql_number(db, vague_sql, request->run_id) : 0;
	if (r == 0 && request->limit > 0)
		report_rest_write(out, n_all - n_vague - request->limit);
	if (r == 0 && n_vague > 0)
		fprintf(out, "of %s more functions nothing is known: anything from 0 to 100 %%\n",
			format_count(n_vague).text);
	if (r < 0 || n_rows == 0)
		return r < 0 ? r : report_why_write(out, db, request, metric->needs, NULL);
	fputs("self: at call stacks that end in the function; total: of what it called, too, once "
	      "per call stack however often it stands in it\n",
	      out);
	if (is_time)
		fputs("\u00b195 %: with what samples leave unresolved; two numbers: anywhere"
		      " between them\n",
		      out);
	write_unknown(out, db, request);
	if (report_picked_foot(out, db, request->run_id) < 0)
		return -EPROTO;
	return report_line_hints_write(out, db, request->run_id);
}

const struct report report_flat = {
	.name = "flat",
	.scope = REPORT_OF_SUM,
	.prepare = prepare,
	.sql = FLAT_SQL("", MIDDLE),
	.write = write_flat,
};

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
	auto_free char *name = report_sql_shown(row, 1);
	unsigned left = width > NAME_COLUMN + 30 ? width - NAME_COLUMN - indent - 10 : 0;

	fprintf(calls->out, "%*s", (int)indent, "");
	fit_write(calls->out, name ? name : "", left);
	if (sqlite3_column_int64(row, 0))
		fprintf(calls->out, " [%lld]", sqlite3_column_int64(row, 0));
	fputc('\n', calls->out);
}

/* A caller or callee: what it hands on, and whether it also, or only, closes a cycle. */
static int write_relatives(const struct calls *calls, const char *sql, int64_t id)
{
	auto_statement sqlite3_stmt *stmt = report_sql_prepare(calls->db, sql, id, -1);
	int code = SQLITE_DONE;

	while (stmt && (code = statement_advance(stmt)) == SQLITE_ROW) {
		double value = sqlite3_column_double(stmt, 2);
		bool is_cycle = sqlite3_column_int(stmt, 3) != 0;
		struct format_text text = table_value_text(value, calls->metric->kind);

		fprintf(calls->out, "%*s%11s%s", 29, "", value > 0 ? text.text : "-",
			is_cycle ? " *" : "  ");
		write_name(calls, stmt, 6);
	}
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
	fprintf(calls->out, "%11s ", table_value_text(self, calls->metric->kind).text);
	fprintf(calls->out, "%11s  ", table_value_text(total, calls->metric->kind).text);
	write_name(calls, row, 0);
	r = r ?: write_relatives(calls, callees_sql, id);
	fputs("--------\n", calls->out);
	return r;
}

static void write_head(const struct calls *calls)
{
	auto_free char *title =
		profile_title(calls->db, calls->request->run_id, calls->metric->title);

	fprintf(calls->out,
		"Callers, function, callees by %s: %s%s in all\n"
		"A function counts once per call stack, however often it stands in it. A call"
		" marked * leads back to a function\nfurther out (recursion): that part of it"
		" carries nothing. The callers of a function add up to its total.\n",
		title ? title : calls->metric->title, has_unknown(calls->db) ? "at least " : "",
		table_value_text(calls->whole, calls->metric->kind).text);
	fprintf(calls->out, "%-8s%8s %12s %11s  %s\n", "index", "total", "self", "total",
		"function");
}

static int write_calls(FILE *out, sqlite3 *db, const struct report_request *request)
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
		return report_why_write(out, db, request, calls.metric->needs, NULL);
	if (r == 0 && code == SQLITE_DONE && request->limit > 0)
		report_rest_write(out,
				  report_sql_number(db,
						    "SELECT count(*) FROM temp.profile_function"
						    " WHERE total > 0",
						    0) -
					  request->limit);
	if (r == 0 && code == SQLITE_DONE) {
		write_unknown(out, db, request);
		r = report_picked_foot(out, db, request->run_id);
	}
	if (r == 0 && code == SQLITE_DONE)
		return report_line_hints_write(out, db, request->run_id);
	return r < 0 ? r : -EPROTO;
}

const struct report report_hierarchical = {
	.name = "hierarchical",
	.scope = REPORT_OF_SUM,
	.prepare = prepare,
	.sql = calls_sql,
	.write = write_calls,
};
