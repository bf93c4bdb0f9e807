#include "report/plot/series-data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/statistics.h"
#include "report/queries.h"
#include "store/query-value.h"
#include "store/statement.h"

enum {
	COLUMN_PROGRAM,
	COLUMN_MODE,
	COLUMN_NATURAL,
	COLUMN_NUMBER,
	COLUMN_NAME,
	COLUMN_UNIT,
	COLUMN_VALUE
};

void series_finish(struct series *series)
{
	for (size_t i = 0; i < series->n; i++) {
		free(series->boxes[i].program);
		free(series->boxes[i].mode);
		free(series->boxes[i].values);
	}
	free(series->boxes);
	*series = (struct series){ 0 };
}

/* The box of the row: rows of one follow each other. */
static struct series_box *box_of(struct series *series, size_t *n_allocated, sqlite3_stmt *stmt)
{
	const char *program = statement_string(stmt, COLUMN_PROGRAM),
		   *mode = statement_string(stmt, COLUMN_MODE);
	struct series_box *last = series->n ? &series->boxes[series->n - 1] : NULL;

	if (last && strcmp(last->program, program) == 0 && strcmp(last->mode, mode) == 0)
		return last;
	if (grow_array(&series->boxes, series->n, n_allocated, sizeof(*series->boxes)) < 0)
		return NULL;
	struct series_box *box = &series->boxes[series->n++];
	*box = (struct series_box){ .program = strdup(program), .mode = strdup(mode) };
	box->is_natural = sqlite3_column_int(stmt, COLUMN_NATURAL);
	snprintf(series->unit, sizeof(series->unit), "%s", statement_string(stmt, COLUMN_UNIT));
	return box->program && box->mode ? box : NULL;
}

static int add_value(struct series_box *box, sqlite3_stmt *stmt)
{
	if (sqlite3_column_type(stmt, COLUMN_VALUE) == SQLITE_NULL) {
		box->n_failed++;
		return 0;
	}
	double *larger = reallocarray(box->values, box->n + 1, sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	box->values = larger;
	box->values[box->n++] = sqlite3_column_double(stmt, COLUMN_VALUE);
	return 0;
}

static int take_row(struct series *series, size_t *n_allocated, sqlite3_stmt *stmt)
{
	struct series_box *box = box_of(series, n_allocated, stmt);

	return box ? add_value(box, stmt) : -ENOMEM;
}

static int read_rows(sqlite3_stmt *stmt, const char *program, const char *metric,
		     struct series *series)
{
	size_t n_allocated = 0, n_rows = 0;
	int code, r = 0;

	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		n_rows++;
		if (strcmp(statement_string(stmt, COLUMN_NAME), metric) == 0 &&
		    (!program || strcmp(statement_string(stmt, COLUMN_PROGRAM), program) == 0))
			r = take_row(series, &n_allocated, stmt);
	}
	if (r < 0)
		return r;
	if (code != SQLITE_DONE)
		return -EPROTO;
	return series->n ? 0 : n_rows ? -ENXIO : -ENOENT;
}

static void summarise(struct series_box *box)
{
	double low, high;

	if (box->n == 0)
		return;
	statistics_sort(box->values, box->n);
	for (int i = 0; i < 3; i++)
		box->quartiles[i] = statistics_quantile(box->values, box->n, 0.25 * (i + 1));
	statistics_fences(box->values, box->n, &low, &high);
	box->whiskers[0] = box->quartiles[0];
	box->whiskers[1] = box->quartiles[2];
	for (size_t i = 0; i < box->n; i++) {
		double value = box->values[i];
		if (value >= low && value < box->whiskers[0])
			box->whiskers[0] = value;
		if (value <= high && value > box->whiskers[1])
			box->whiskers[1] = value;
	}
	box->has_interval = box->n >= STATISTICS_INTERVAL_VALUES;
	if (box->has_interval)
		statistics_interval(box->values, box->n, &box->interval[0], &box->interval[1]);
}

int series_read(sqlite3 *db, long long run_id, const char *metric, struct series *series)
{
	auto_free char *program =
		run_id ? report_sql_text(db, "SELECT program FROM run WHERE id = :run", run_id)
		       : NULL;
	sqlite3_stmt *stmt = report_sql_prepare(db, report_stat_values_sql, 0, -1);

	*series = (struct series){ 0 };
	if (!stmt)
		return -EPROTO;
	int r = read_rows(stmt, program, metric, series);
	sqlite3_finalize(stmt);
	for (size_t i = 0; r == 0 && i < series->n; i++)
		summarise(&series->boxes[i]);
	return r;
}

char *series_metrics(sqlite3 *db)
{
	sqlite3_stmt *stmt = report_sql_prepare(db, report_stat_values_sql, 0, -1);
	sqlite3_str *text = sqlite3_str_new(db);
	auto_free char *seen = strdup(",");

	while (stmt && seen && sqlite3_step(stmt) == SQLITE_ROW) {
		auto_free char *name = NULL;
		char *longer = NULL;
		if (asprintf(&name, ",%s,", statement_string(stmt, COLUMN_NAME)) < 0 ||
		    strstr(seen, name))
			continue;
		if (asprintf(&longer, "%s%s,", seen, statement_string(stmt, COLUMN_NAME)) < 0)
			break;
		free(seen);
		seen = longer;
		sqlite3_str_appendf(text, "%s%s", sqlite3_str_length(text) ? ", " : "",
				    statement_string(stmt, COLUMN_NAME));
	}
	sqlite3_finalize(stmt);
	char *list = sqlite3_str_finish(text);
	char *copy = list ? strdup(list) : NULL;
	sqlite3_free(list);
	return copy;
}
