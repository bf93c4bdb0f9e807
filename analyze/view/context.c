#include "analyze/view/context.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyze/db.h"
#include "analyze/picture.h"
#include "analyze/report.h"
#include "common/cleanup.h"

#define PATIENCE_INSTRUCTIONS 20000 /* of SQLite's machine: some 1 ms */
#define MAX_VALUE_BYTES	      (64 << 20)
#define BUSY_TIMEOUT_MS	      10000

/* What a database that others made must not do. */
static const struct {
	int option;
	int value;
} settings[] = {
	{ SQLITE_DBCONFIG_DEFENSIVE, 1 },
	{ SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
	{ SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
	{ SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
	{ SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
};

static int look_up(void *user)
{
	const struct view_context *context = user;

	return context->patience.is_over && context->patience.is_over(context->patience.waiter);
}

static int set_up(struct view_context *context)
{
	sqlite3 *handle = db_handle(context->db);
	int code = SQLITE_OK;

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]) && code == SQLITE_OK; i++)
		code = sqlite3_db_config(handle, settings[i].option, settings[i].value, NULL);
	if (code == SQLITE_OK)
		code = report_functions_register(handle);
	if (code != SQLITE_OK)
		return -EIO;
	sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES);
	sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_busy_timeout(handle, BUSY_TIMEOUT_MS);
	sqlite3_progress_handler(handle, PATIENCE_INSTRUCTIONS, look_up, context);
	return 0;
}

int view_context_open(const char *path, struct view_context **ret_context)
{
	auto_view_context struct view_context *context = calloc(1, sizeof(*context));

	if (!context)
		return -ENOMEM;
	int r = db_open(path, &context->db);
	if (r == 0)
		r = set_up(context);
	if (r < 0)
		return r;
	*ret_context = steal_ptr(&context);
	return 0;
}

struct view_context *view_context_close(struct view_context *context)
{
	if (!context)
		return NULL;
	picture_store_close(context->pictures);
	db_close(context->db);
	free(context);
	return NULL;
}

int view_context_pictures(struct view_context *context, struct picture_store **ret_pictures)
{
	int r = 0;

	if (!context->pictures)
		r = picture_store_open(db_handle(context->db), &context->pictures);
	if (r == -ENODATA)
		return view_context_refuse(
			context, r,
			"the database holds no pictures (analyze --no-tiles, or an older version): "
			"memsight analyze makes them");
	if (r == 0)
		*ret_pictures = context->pictures;
	return r;
}

int view_context_refuse(struct view_context *context, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(context->message, sizeof(context->message), format, arguments);
	va_end(arguments);
	return error;
}
