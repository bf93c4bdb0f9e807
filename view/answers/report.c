/* A report's rows and what stands under them: request "report". */
#include "view/answers/internal.h"

#include <errno.h>

#include "common/cleanup.h"
#include "common/text-stream.h"
#include "report/report.h"
#include "store/selection/selection.h"
#include "store/statement.h"

#define DEFAULT_LIMIT 200

static const char *const kind_names[] = {
	[TABLE_PLAIN] = "plain",
	[TABLE_COUNT] = "count",
	[TABLE_BYTES] = "bytes",
	[TABLE_DURATION] = "duration",
	[TABLE_TIME] = "time",
	[TABLE_PERCENT] = "percent",
	[TABLE_SHARE] = "share",
	[TABLE_SHARE_HALF] = "share_half",
	[TABLE_WITH_INTERVAL] = "with_interval",
	[TABLE_BYTES_ESTIMATE] = "bytes_estimate",
	[TABLE_COUNT_ESTIMATE] = "count_estimate",
	[TABLE_PERCENT_CHANGE] = "percent_change",
	[TABLE_BAR] = "bar",
};

static int find_report(struct view_question *question, const struct report **ret_report)
{
	const char *name = question->values->texts[VIEW_KIND];
	const struct report *report = name ? report_find(name) : NULL;

	/* pictures have an answer of their own */
	if (!report || report->scope == REPORT_OF_PICTURE)
		return view_context_refuse(question->context, -EINVAL, "kind is no list of report");
	*ret_report = report;
	return 0;
}

static void write_head(struct json *json, const struct report *report, sqlite3_stmt *rows)
{
	json_set_text(json, "title", report->title);
	json_set_open(json, "kinds", '[');
	/* What names the rows comes last. */
	for (size_t i = 0; i < report->n_kinds || i + 1 < (size_t)sqlite3_column_count(rows); i++)
		json_text(json, kind_names[i < report->n_kinds ? report->kinds[i] : report->rest]);
	json_close(json, ']');
	json_set_open(json, "names", '[');
	for (int i = 0; i < sqlite3_column_count(rows); i++)
		json_text(json, sqlite3_column_name(rows, i));
	json_close(json, ']');
}

/* At most so many; those behind them are only counted. */
static int write_rows(struct json *json, sqlite3_stmt *rows, int64_t limit, int64_t *ret_n_all)
{
	int r;

	json_set_open(json, "rows", '[');
	while ((r = statement_step(rows)) == 1) {
		if (++*ret_n_all > limit)
			continue;
		json_open(json, '[');
		for (int i = 0; i < sqlite3_column_count(rows); i++)
			json_column(json, rows, i);
		json_close(json, ']');
	}
	json_close(json, ']');
	return r < 0 ? -EPROTO : 0;
}

static int write_foot(struct view_question *question, const struct report *report,
		      const struct report_request *request, size_t n_rows)
{
	auto_free char *text = NULL;
	size_t n_bytes = 0;
	FILE *out = text_stream_open(&text, &n_bytes);
	int r = out ? report_foot_write(out, question->db, report, request, n_rows) : -ENOMEM;

	if (out && text_stream_close(out, &text) < 0)
		r = -ENOMEM;
	json_set_text(&question->json, "foot", text);
	return r;
}

static int write_list(struct view_question *question, const struct report *report,
		      const struct report_request *request)
{
	/* Without a query that counts rows the list itself is read to its end. */
	int64_t limit = report->n_sql ? request->limit : -1;
	auto_statement sqlite3_stmt *rows =
		report_rows_prepare(question->db, report, false, request->run_id, limit);
	int64_t n_all = 0;

	if (!rows)
		return -EPROTO;
	write_head(&question->json, report, rows);
	int r = write_rows(&question->json, rows, request->limit, &n_all);
	size_t n = (size_t)(n_all < request->limit ? n_all : request->limit);
	if (r == 0 && limit > 0 && n_all >= limit)
		r = report_rows_count(question->db, report, request->run_id, &n_all);
	json_set_integer(&question->json, "n_all", n_all);
	return r < 0 ? r : write_foot(question, report, request, n);
}

int view_report(struct view_question *question)
{
	const struct report *report = NULL;
	int r = find_report(question, &report);

	if (r == 0)
		report = report_resolve(question->db, report, question->run);

	question->context->names |= REPORT_NAMES_LINKED; /* those of a part are taken with it */
	if (r == 0 && report->scope != REPORT_OF_RUN && report->scope != REPORT_OF_SPAN)
		r = view_take_part(question, report->wants);
	if (r < 0)
		return r;
	const struct view_span span = view_span_asked(question);
	const struct selection selection = {
		.runs = &question->run,
		.n_runs = 1,
		.from_ns = span.from_ns,
		.to_ns = span.to_ns,
	};
	const struct report_request request = {
		.run_id = question->run,
		.selection = &selection,
		.limit = view_value(question, VIEW_LIMIT, DEFAULT_LIMIT),
	};
	r = report->prepare ? report->prepare(question->db, &request) : 0;
	json_open(&question->json, '{');
	json_set_integer(&question->json, "is_part", report->scope != REPORT_OF_RUN);
	r = r ?: write_list(question, report, &request);
	json_close(&question->json, '}');
	if (report->scope == REPORT_OF_SPAN) /* the connection also answers for other spans */
		report->prepare(question->db, &(struct report_request){ .run_id = question->run });
	return r;
}
