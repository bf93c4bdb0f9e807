/*
 * speedscope's own format (github.com/jlfwong/speedscope, "Importing from custom sources"): one
 * profile for each metric that the run has, with the call stacks of its sites, outermost first.
 */
#include <errno.h>
#include <math.h>

#include "common/cleanup.h"
#include "report/export/export.h"
#include "report/text/json.h"
#include "store/query-value.h"
#include "store/statement.h"

static const char *unit_of(enum table_kind kind)
{
	return kind == TABLE_BYTES ? "bytes" : kind == TABLE_DURATION ? "nanoseconds" : "none";
}

/* Frames are functions; number 0 stands for sites without a call stack. */
static void write_frames(struct json *json, const struct paths *paths)
{
	json_set_open(json, "shared", '{');
	json_set_open(json, "frames", '[');
	for (size_t i = 0; i < paths->n_functions; i++) {
		const struct path_function *function = &paths->functions[i];
		const char *file = function->source ? function->source : function->module;
		json_open(json, '{');
		json_set_text(json, "name", i ? function->name : "(no call stack)");
		if (file && *file)
			json_set_text(json, "file", file);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_close(json, '}');
}

/* Sites as samples; their values go into weights. Returns the sum, or a negative errno. */
static int64_t write_samples(struct json *json, struct json *weights, const struct paths *paths,
			     sqlite3_stmt *row, const struct export_request *request)
{
	struct path_step steps[PATHS_MAX_DEPTH];
	int64_t sum = 0;
	int code;

	while ((code = statement_advance(row)) == SQLITE_ROW) {
		int64_t value = llround(sqlite3_column_double(row, 1));
		size_t n = paths_walk(paths, sqlite3_column_int64(row, 0), steps);
		export_row(NULL, request);
		if (value <= 0)
			continue;
		json_open(json, '[');
		for (size_t i = 0; i < n; i++)
			json_integer(json, steps[i].function);
		if (n == 0)
			json_integer(json, 0);
		json_close(json, ']');
		json_integer(weights, value);
		sum += value;
	}
	return code == SQLITE_DONE ? sum : -EPROTO;
}

static int write_profile(struct json *json, sqlite3 *db, const struct paths *paths,
			 const struct export_request *request, enum profile_metric metric)
{
	int64_t run_id = request->run_id;
	const struct profile_metric_row *what = profile_metric_row_of(db, run_id, metric);
	auto_statement sqlite3_stmt *row = report_sql_prepare(db, what->sql, run_id, -1);
	auto_free char *title = profile_title(db, run_id, what->title);
	auto_json struct json weights = { .is_plain = true };

	json_open(json, '{');
	json_set_text(json, "type", "sampled");
	json_set_text(json, "name", title ? title : what->title);
	json_set_text(json, "unit", unit_of(what->kind));
	json_set_open(json, "samples", '[');
	json_open(&weights, '[');
	int64_t sum = row ? write_samples(json, &weights, paths, row, request) : -EPROTO;
	json_close(json, ']');
	json_close(&weights, ']');
	json_name(json, "weights");
	json_raw(json, &weights);
	json_set_integer(json, "startValue", 0);
	json_set_integer(json, "endValue", sum);
	json_close(json, '}');
	return sum < 0 ? (int)sum : 0;
}

static int write_all(struct json *json, sqlite3 *db, const struct export_request *request)
{
	auto_paths struct paths *paths = NULL;
	auto_free char *program =
		report_sql_text(db, "SELECT program FROM run WHERE id = :run", request->run_id);
	int r = paths_open(db, &request->paths, &paths);

	if (r < 0)
		return r;
	json_open(json, '{');
	json_set_text(json, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_set_text(json, "exporter", "memsight " MEMSIGHT_VERSION);
	json_set_text(json, "name", program ? program : "memsight");
	json_set_integer(json, "activeProfileIndex", request->metric);
	write_frames(json, paths);
	json_set_open(json, "profiles", '[');
	export_begin(db, request, "gathering", "SELECT 6 * count(*) FROM site WHERE run_id = :run");
	for (int metric = 0; r == 0 && metric < PROFILE_METRIC_COUNT; metric++)
		r = write_profile(json, db, paths, request, (enum profile_metric)metric);
	json_close(json, ']');
	json_close(json, '}');
	return r;
}

int export_speedscope_write(FILE *out, sqlite3 *db, const struct export_request *request)
{
	auto_json struct json json = { .is_plain = true };
	auto_free char *text = NULL;
	size_t n_bytes = 0;
	int r = write_all(&json, db, request) ?: json_finish(&json, &text, &n_bytes);

	if (r < 0)
		return r;
	return fwrite(text, 1, n_bytes, out) == n_bytes ? 0 : -EIO;
}
