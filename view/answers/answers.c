#include "view/answers/answers.h"

#include <errno.h>

#include "report/report.h"
#include "store/database.h"
#include "store/statement.h"
#include "view/answers/internal.h"

static int (*const makers[VIEW_COUNT])(struct view_question *question) = {
	[VIEW_RUNS] = view_runs,	  [VIEW_RUN] = view_run,
	[VIEW_BANDS] = view_bands,	  [VIEW_PICTURE] = view_picture,
	[VIEW_TIMELINE] = view_timeline,  [VIEW_FLAME] = view_flame,
	[VIEW_OBJECTS] = view_objects,	  [VIEW_OBJECT] = view_object,
	[VIEW_SERIES] = view_series,	  [VIEW_DIFF] = view_diff,
	[VIEW_SOURCE_TEXT] = view_source, [VIEW_AT] = view_at,
	[VIEW_REPORT] = view_report,	  [VIEW_STACK] = view_site_stack,
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
 * Half an answer is none: what failed where nobody looked is asked for. Who found no memory may
 * have gone on with too little, and then have found nothing like that in the database.
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
	context->names = view_value(&question, VIEW_FULL, 0) ? REPORT_NAMES_FULL : 0;
	view_context_forget(context);
	int r = makers[answer] ? 0 : -ENOSYS;
	if (r == 0 && view_answer_takes(answer, VIEW_RUN_NAME))
		r = find_run(&question);
	r = r ?: makers[answer](&question);
	r = verdict(&question, r) ?: json_finish(&question.json, ret_text, ret_n_bytes);
	json_drop(&question.json);
	context->error = r;
	return r == 0 ? 200 : refuse(&question, r, ret_text, ret_n_bytes);
}
