#include "view/server/export.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/atomic-file.h"
#include "common/cleanup.h"
#include "store/database.h"
#include "store/statement.h"
#include "view/context.h"
#include "view/server/page.h"
#include "view/server/stored-answers.h"

/* Nobody may read it who may not read the database. */
static mode_t mode_of(const char *database)
{
	struct stat st;

	return 0666 & (stat(database, &st) == 0 ? st.st_mode | 0600 : 0600);
}

/* ---- What is in it ---- */

/* How large the page is without answers. */
static int page_bytes(size_t *ret_n_bytes)
{
	auto_free char *text = NULL;

	return view_page_store("{}", &text, ret_n_bytes);
}

static int make_answers(const struct view_export *export, size_t max_bytes, char **ret_text,
			char *message)
{
	auto_view_context struct view_context *context = NULL;
	const struct view_stored stored = { export->run_id, max_bytes };
	auto_json struct json json = { 0 };
	size_t n_bytes = 0;
	int r = view_context_open(&export->files, &context);

	if (r == 0)
		r = view_stored_make(context, &stored, &json);
	if (r == -EPROTO)
		snprintf(message, VIEW_MESSAGE_BYTES, "%s",
			 context->message[0] ? context->message
					     : statement_message(db_handle(context->db)));
	return r < 0 ? r : json_finish(&json, ret_text, &n_bytes);
}

int view_export_write(const struct view_export *export, char *message)
{
	auto_free char *answers = NULL;
	auto_free char *text = NULL;
	size_t n_bytes = 0;

	message[0] = '\0';
	if (!export->force && access(export->output, F_OK) == 0)
		return -EEXIST;
	int r = page_bytes(&n_bytes);
	if (r == 0 && n_bytes + VIEW_EXPORT_MAX_BYTES / 4 > VIEW_EXPORT_MAX_BYTES)
		r = -EFBIG;
	if (r == 0) /* the answer that tells of all others comes on top */
		r = make_answers(export, VIEW_EXPORT_MAX_BYTES - n_bytes - 4096, &answers, message);
	if (r == 0)
		r = view_page_store(answers, &text, &n_bytes);
	if (r < 0)
		return r;
	const struct new_file file = { export->output, mode_of(export->files.database),
				       export->force };
	return new_file_write(&file, text, n_bytes);
}
