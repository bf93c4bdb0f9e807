#include "view/answers/answers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "report/report.h"
#include "store/database.h"
#include "store/statement.h"
#include "view/answers/internal.h"
#include "view/columns.h"
#include "view/selected-part.h"

static int (*const makers[VIEW_COUNT])(struct view_question *question) = {
	[VIEW_RUNS] = view_runs,	  [VIEW_RUN] = view_run,
	[VIEW_BANDS] = view_bands,	  [VIEW_PICTURE] = view_picture,
	[VIEW_TIMELINE] = view_timeline,  [VIEW_FLAME] = view_flame,
	[VIEW_OBJECTS] = view_objects,	  [VIEW_OBJECT] = view_object,
	[VIEW_SERIES] = view_series,	  [VIEW_DIFF] = view_diff,
	[VIEW_SOURCE_TEXT] = view_source, [VIEW_AT] = view_at,
};

static int find_run(struct view_question *question)
{
	const char *name = question->values->texts[VIEW_RUN_NAME];
	int r = report_run_find(question->db, name, &question->run);

	if (r == -ENOENT)
		return view_context_refuse(question->context, r, "no run is called so");
	if (r == -ENODATA)
		return view_context_refuse(question->context, r, "the database holds no run");
	return r;
}

static const struct {
	int error;
	unsigned status;
	const char *message; /* where none was set; NULL: SQLite tells */
} statuses[] = {
	{ -EINVAL, 400, "the parameters do not fit together" },
	{ -ENOENT, 404, "there is nothing like that in the database" },
	{ -ENODATA, 404, "the database does not hold that" },
	{ -EINTR, 499, "nobody waits for the answer" },
	{ -EFBIG, 500, "the answer would be too large: ask for less at once" },
	{ -ENOMEM, 503, "out of memory: ask for less at once" },
	{ -EPROTO, 500, NULL },
	{ -ENOSYS, 404, "this version does not answer that" },
};

char *view_error_text(const char *message, size_t *ret_n_bytes)
{
	struct json json = { 0 };
	char *text = NULL;

	json_open(&json, '{');
	json_set_text(&json, "error", message);
	json_close(&json, '}');
	return json_finish(&json, &text, ret_n_bytes) < 0 ? NULL : text;
}

static unsigned refuse(struct view_question *question, int error, char **ret_text,
		       size_t *ret_n_bytes)
{
	const char *message = statement_message(question->db);
	unsigned status = 500;

	if (error == -EPROTO && sqlite3_errcode(question->db) == SQLITE_INTERRUPT)
		error = -EINTR;
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		if (statuses[i].error != error)
			continue;
		status = statuses[i].status;
		message = statuses[i].message ? statuses[i].message : message;
	}
	if (question->context->message[0])
		message = question->context->message;
	*ret_text = view_error_text(message, ret_n_bytes);
	return status;
}

/*
 * Half an answer is none: what failed where nobody looked is asked for. Who found no memory may have gone on with
 * too little, and then have found nothing like that in the database.
 */
static int verdict(const struct view_question *question, int r)
{
	int kept = view_context_kept(question->context);

	if (kept != -ENOMEM)
		return r == 0 && kept < 0 ? -EPROTO : r;
	question->context->message[0] = '\0';
	return kept;
}

unsigned view_answer_make(struct view_context *context, enum view_answer answer,
			  const struct view_values *values, char **ret_text, size_t *ret_n_bytes)
{
	struct view_question question = { .context = context,
					  .db = db_handle(context->db),
					  .values = values };

	*ret_text = NULL;
	context->message[0] = '\0';
	view_context_forget(context);
	int r = makers[answer] ? 0 : -ENOSYS;
	if (r == 0 && view_answer_takes(answer, VIEW_RUN_NAME))
		r = find_run(&question);
	if (r == 0)
		r = makers[answer](&question);
	r = verdict(&question, r);
	if (r == 0)
		r = json_finish(&question.json, ret_text, ret_n_bytes);
	json_drop(&question.json);
	context->error = r;
	return r == 0 ? 200 : refuse(&question, r, ret_text, ret_n_bytes);
}

/* ---- Parts of a run ---- */

/* Whether a span of time holds all that the run has. */
static bool is_whole(struct view_question *question, const struct view_span *span)
{
	return span->from_ns == 0 &&
	       span->to_ns > view_number(question, "SELECT duration_ns FROM run WHERE id = :run");
}

int view_take_part(struct view_question *question)
{
	const struct view_span span = {
		.run_id = question->run,
		.from_ns = view_value(question, VIEW_FROM, 0),
		.to_ns = view_value(question, VIEW_TO, INT64_MAX),
	};

	if (is_whole(question, &span))
		return 0;
	if (span.to_ns <= span.from_ns)
		return view_context_refuse(question->context, -EINVAL, "to lies before from");
	if (view_number(question, "SELECT detail = 'totals' FROM run WHERE id = :run"))
		return view_context_refuse(question->context, -ENODATA,
					   "of this run only the totals are in the database, not "
					   "its rows: a part of it cannot be counted");
	int r = view_part_take(question->context, &span);
	if (r == 0)
		question->db = db_handle(question->context->part->db);
	return r;
}

/* ---- Small questions ---- */

int view_prepare(struct view_question *question, const char *sql, sqlite3_stmt **ret_stmt)
{
	const struct view_values *values = question->values;
	sqlite3_stmt *stmt = NULL;
	char name[40];

	int result = sqlite3_prepare_v2(question->db, sql, -1, &stmt, NULL);
	if (result != SQLITE_OK) {
		statement_keep(question->db, result);
		return -EPROTO;
	}
	for (int i = 0; i < VIEW_PARAMETER_COUNT; i++) {
		snprintf(name, sizeof(name), ":%s", view_parameter_name((enum view_parameter)i));
		int at = sqlite3_bind_parameter_index(stmt, name);
		if (at == 0 || !values->is_given[i])
			continue;
		if (view_parameter_is_text((enum view_parameter)i))
			sqlite3_bind_text(stmt, at, values->texts[i], -1, SQLITE_STATIC);
		else
			sqlite3_bind_int64(stmt, at, values->numbers[i]);
	}
	int at = sqlite3_bind_parameter_index(stmt, ":run");
	if (at)
		sqlite3_bind_int64(stmt, at, question->run);
	*ret_stmt = stmt;
	return 0;
}

int view_columns(struct view_question *question, const char *name, const char *sql)
{
	sqlite3_stmt *stmt = NULL;
	int r = view_prepare(question, sql, &stmt);

	if (name)
		json_name(&question->json, name);
	if (r == 0)
		r = columns_of(&question->json, stmt, NULL);
	sqlite3_finalize(stmt);
	return r;
}

int view_pairs(struct view_question *question, const char *name, const char *sql)
{
	sqlite3_stmt *stmt = NULL;
	int r = view_prepare(question, sql, &stmt);
	int code = SQLITE_DONE;

	json_name(&question->json, name);
	json_open(&question->json, '{');
	while (r == 0 && (code = statement_advance(stmt)) == SQLITE_ROW) {
		json_name(&question->json, statement_string(stmt, 0));
		json_column(&question->json, stmt, 1);
	}
	json_close(&question->json, '}');
	sqlite3_finalize(stmt);
	return r == 0 && code != SQLITE_DONE ? -EPROTO : r;
}

int view_members(struct view_question *question, const char *sql)
{
	sqlite3_stmt *stmt = NULL;
	int r = view_prepare(question, sql, &stmt);

	if (r < 0)
		return r;
	int code = statement_advance(stmt);
	for (int i = 0; i < sqlite3_column_count(stmt); i++) {
		json_name(&question->json, sqlite3_column_name(stmt, i));
		if (code == SQLITE_ROW)
			json_column(&question->json, stmt, i);
		else
			json_null(&question->json);
	}
	sqlite3_finalize(stmt);
	return code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : -EPROTO;
}

int64_t view_number(struct view_question *question, const char *sql)
{
	sqlite3_stmt *stmt = NULL;
	int64_t number = 0;

	if (view_prepare(question, sql, &stmt) == 0 && statement_advance(stmt) == SQLITE_ROW)
		number = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return number;
}
