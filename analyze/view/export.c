#include "analyze/view/export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/db.h"
#include "analyze/statement.h"
#include "analyze/view/context.h"
#include "analyze/view/page.h"
#include "analyze/view/stored.h"
#include "common/cleanup.h"
#include "common/io.h"

/* ---- The file ---- */

/* Nobody may read it who may not read the database. */
static mode_t mode_of(const char *database)
{
	struct stat st;
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask & (stat(database, &st) == 0 ? st.st_mode | 0600 : 0600);
}

static int publish(const struct view_export *export, const char *temporary)
{
	if (export->force)
		return rename(temporary, export->output) < 0 ? -errno : 0;
	if (link(temporary, export->output) < 0)
		return -errno;
	unlink(temporary);
	return 0;
}

static int write_file(const struct view_export *export, const char *text, size_t n_bytes)
{
	auto_free char *temporary = NULL;
	auto_close int fd = -1;

	if (asprintf(&temporary, "%s.XXXXXX", export->output) < 0) {
		temporary = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = io_write_all(fd, text, n_bytes);
	if (r == 0 && fchmod(fd, mode_of(export->files.database)) < 0)
		r = -errno;
	if (r == 0 && fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
		r = -errno;
	if (r == 0)
		r = publish(export, temporary);
	if (r < 0)
		unlink(temporary);
	return r;
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
	return r < 0 ? r : write_file(export, text, n_bytes);
}
