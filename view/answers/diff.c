/* Two runs compared: request "diff"; the numbers of `memsight diff`. */
#include "view/answers/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/text.h"
#include "report/diff/diff.h"
#include "report/text/json.h"
#include "store/statement.h"

#define DEFAULT_LIMIT 2000

struct comparison {
	struct diff_request request;
	struct diff_rows rows;
	struct paths *paths; /* of both: it is one database */
	sqlite3_stmt *name; /* of a site, by its id */
};

static void finish(struct comparison *comparison)
{
	free_all(comparison->request.sides[0].runs, comparison->request.sides[1].runs);
	diff_rows_finish(&comparison->rows);
	paths_close(comparison->paths);
	sqlite3_finalize(comparison->name);
}
#define auto_comparison __attribute__((cleanup(finish)))

static int find_side(struct view_question *question, enum view_parameter parameter,
		     enum profile_metric metric, struct diff_side *side)
{
	const char *name = question->values->texts[parameter];

	side->db = question->db;
	if (!name)
		return view_context_refuse(question->context, -EINVAL,
					   "a and b say which runs are compared");
	int r = diff_runs(side->db, name, &side->runs, &side->n_runs);
	if (r == -ENOENT)
		return view_context_refuse(question->context, r, "%s: no run is called so",
					   view_parameter_name(parameter));
	auto_free char *why = r == 0 ? diff_why_not(side, metric) : NULL;
	return why ? view_context_refuse(question->context, -ENODATA, "%s %s",
					 view_parameter_name(parameter), why)
		   : r;
}

static int find_metric(struct view_question *question, enum profile_metric *ret_metric)
{
	const char *name = question->values->texts[VIEW_BY];
	int found = profile_metric_find(name ? name : "bytes");

	if (found < 0)
		return view_context_refuse(
			question->context, -EINVAL,
			"by is none of bytes, blocks, peak, leaked, time and faults");
	*ret_metric = (enum profile_metric)found;
	return 0;
}

/* "function at file:line", outermost first. */
static int write_path(struct json *json, const struct paths *paths, const struct path_step *steps,
		      size_t n)
{
	json_open(json, '[');
	for (size_t i = 0; i < n; i++) {
		const struct path_function *function = &paths->functions[steps[i].function];
		const char *source = function->source ? function->source : function->module;
		auto_free char *text = NULL;
		int r = steps[i].line ? asprintf(&text, "%s at %s:%d", function->name,
						 text_base_name(source), steps[i].line)
			: function->name[0] == '(' // "(in MODULE)" has it
				? asprintf(&text, "%s", function->name)
				: asprintf(&text, "%s in %s", function->name, function->module);
		if (r < 0) {
			text = NULL;
			return -ENOMEM;
		}
		json_text(json, text);
	}
	json_close(json, ']');
	return 0;
}

static const char *const column_names[] = { "function", "file", "line", "before", "after",
					    "change",	"low",	"high", "site",	  "run",
					    "name",	"was",	"path" };
enum {
	COLUMN_FUNCTION,
	COLUMN_FILE,
	COLUMN_LINE,
	COLUMN_BEFORE,
	COLUMN_SITE = 8,
	COLUMN_RUN,
	COLUMN_NAME,
	COLUMN_WAS,
	COLUMN_PATH,
	N_COLUMNS
};

/* As reports name it. */
static int write_name(struct columns *columns, const struct comparison *comparison,
		      const struct diff_row *row)
{
	const struct diff_side *side = &comparison->request.sides[row->side];
	sqlite3_stmt *name = comparison->name;

	sqlite3_reset(name);
	sqlite3_bind_int64(name, 1, row->stack_id);
	if (statement_advance(name) != SQLITE_ROW)
		return -EPROTO;
	json_text(columns_at(columns, COLUMN_NAME), statement_string_or_null(name, 0));
	json_integer(columns_at(columns, COLUMN_SITE), row->stack_id);
	json_integer(columns_at(columns, COLUMN_RUN), side->runs[0]);
	json_text(columns_at(columns, COLUMN_WAS), row->was);
	return 0;
}

static int write_place(struct columns *columns, const struct paths *paths, int64_t stack_id)
{
	struct path_step steps[PATHS_MAX_DEPTH];
	size_t n = paths_walk(paths, stack_id, steps);
	const struct path_function *inner = n ? &paths->functions[steps[n - 1].function] : NULL;

	json_text(columns_at(columns, COLUMN_FUNCTION), inner ? inner->name : "(no call stack)");
	json_text(columns_at(columns, COLUMN_FILE), !inner	    ? NULL
						    : inner->source ? inner->source
								    : inner->module);
	if (n && steps[n - 1].line)
		json_integer(columns_at(columns, COLUMN_LINE), steps[n - 1].line);
	else
		json_null(columns_at(columns, COLUMN_LINE));
	return write_path(columns_at(columns, COLUMN_PATH), paths, steps, n);
}

static int write_row(struct columns *columns, const struct comparison *comparison,
		     const struct diff_row *row)
{
	double change = row->after - row->before;
	const double values[] = { row->before, row->after, change, change - row->half,
				  change + row->half };
	int r = write_place(columns, comparison->paths, row->stack_id);

	r = r ?: write_name(columns, comparison, row);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		json_real(columns_at(columns, COLUMN_BEFORE + i),
			  i < 3 || row->half >= 0 ? values[i] : NAN);
	columns_end_row(columns);
	return r;
}

static int write_rows(struct view_question *question, const struct comparison *comparison)
{
	size_t limit = (size_t)view_value(question, VIEW_LIMIT, DEFAULT_LIMIT);
	size_t most = question->context->limits.n_rows;
	auto_columns struct columns columns;
	int r = 0;

	columns_begin(&columns, column_names, N_COLUMNS);
	for (size_t i = 0; i < comparison->rows.n && i < limit && (!most || i < most) && r == 0;
	     i++)
		r = write_row(&columns, comparison, &comparison->rows.rows[i]);
	columns_set(&question->json, "rows", &columns);
	return r;
}

static void write_took(struct json *json, const struct diff_request *request)
{
	static const char *const names[] = { "name", "unit", "before", "after", "half" };
	struct diff_measure found[DIFF_MEASURES];
	size_t n = diff_measure(request, found);
	auto_columns struct columns columns;

	columns_begin(&columns, names, 5);
	for (size_t i = 0; i < n; i++) {
		json_text(columns_at(&columns, 0), found[i].name);
		json_text(columns_at(&columns, 1), found[i].kind == TABLE_BYTES ? "bytes" : "ns");
		json_real(columns_at(&columns, 2), found[i].before);
		json_real(columns_at(&columns, 3), found[i].after);
		json_real(columns_at(&columns, 4), found[i].half >= 0 ? found[i].half : NAN);
		columns_end_row(&columns);
	}
	columns_set(json, "took", &columns);
}

static int write_diff(struct view_question *question, const struct comparison *comparison)
{
	struct json *json = &question->json;

	const struct diff_side *after = &comparison->request.sides[1];
	const char *metric = profile_metric_row(comparison->request.metric)->title;
	auto_free char *title = profile_title(after->db, after->runs[0], metric);

	json_open(json, '{');
	json_set_text(json, "unit", title ? title : metric);
	json_set_text(json, "before", question->values->texts[VIEW_A]);
	json_set_text(json, "after", question->values->texts[VIEW_B]);
	json_set_integer(json, "n_before", (int64_t)comparison->request.sides[0].n_runs);
	json_set_integer(json, "n_after", (int64_t)comparison->request.sides[1].n_runs);
	json_set_real(json, "total_before", comparison->rows.whole[0]);
	json_set_real(json, "total_after", comparison->rows.whole[1]);
	write_took(json, &comparison->request);
	json_set_integer(json, "n_all", (int64_t)comparison->rows.n);
	int r = write_rows(question, comparison);
	json_close(json, '}');
	return r;
}

int view_diff(struct view_question *question)
{
	auto_comparison struct comparison comparison = { 0 };
	sqlite3 *failed = NULL;
	const struct paths_options options = {
		.fold = view_value(question, VIEW_FULL, 0) ? PATHS_WHOLE : PATHS_ASKED,
	};
	int r = find_metric(question, &comparison.request.metric);

	if (r == 0)
		r = find_side(question, VIEW_A, comparison.request.metric,
			      &comparison.request.sides[0]);
	if (r == 0)
		r = find_side(question, VIEW_B, comparison.request.metric,
			      &comparison.request.sides[1]);
	r = r ?: diff_find(&comparison.request, &comparison.rows, &failed);
	r = r ?: paths_open(question->db, &options, &comparison.paths);
	r = r ?: statement_prepare(question->db, "SELECT site_name(?1, 5)", &comparison.name);
	return r < 0 ? r : write_diff(question, &comparison);
}
