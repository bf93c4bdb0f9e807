#include "view/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "report/report.h"
#include "store/compact/virtual-table.h"
#include "store/database.h"
#include "store/heatmap/heatmap.h"
#include "store/schema.h"
#include "store/selection/selection.h"
#include "store/statement.h"

#define PATIENCE_INSTRUCTIONS 20000 /* of SQLite's machine: some 1 ms */
#define KEEP_BYTES	      ((size_t)8 << 20) /* of each compact table, for each thread */
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

/*
 * The views of the database are off; those that reports need are made anew from our own text, as
 * temporary ones.
 */
static int make_views(sqlite3 *handle)
{
	static const char create[] = "CREATE VIEW";
	int code = SQLITE_OK;

	for (const char *at = strstr(db_views, create); at && code == SQLITE_OK;
	     at = strstr(at, create)) {
		at += sizeof(create) - 1;
		const char *end = strchr(at, ';');
		char *sql =
			end ? sqlite3_mprintf("CREATE TEMP VIEW%.*s", (int)(end - at), at) : NULL;
		code = sql ? sqlite3_exec(handle, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
		sqlite3_free(sql);
	}
	return code;
}

static int set_up(sqlite3 *handle, const unsigned *names)
{
	int code = SQLITE_OK;

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]) && code == SQLITE_OK; i++)
		code = sqlite3_db_config(handle, settings[i].option, settings[i].value, NULL);
	if (code == SQLITE_OK)
		code = chunk_table_register(handle, KEEP_BYTES);
	if (code == SQLITE_OK)
		code = report_functions_register(handle);
	if (code == SQLITE_OK)
		code = report_names_set(handle, names);
	if (code == SQLITE_OK)
		code = make_views(handle);
	sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES);
	sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_busy_timeout(handle, BUSY_TIMEOUT_MS);
	return db_errno(handle, code);
}

/* Let a connection of view_context_connect() give up when this context's patience is over. */
static void view_context_be_patient(struct view_context *context, sqlite3 *connection)
{
	sqlite3_progress_handler(connection, PATIENCE_INSTRUCTIONS, look_up, context);
}

/*
 * Another connection to a database, likewise. Its temporary tables may be written, and views.sql
 * made is there as temporary views; names outlive it. Returns 0 or as db_open().
 */
static int view_context_connect(struct view_context *context, const char *path,
				const unsigned *names, struct db **ret_db)
{
	auto_db struct db *db = NULL;
	int r = db_open(path, &db) ?: set_up(db_handle(db), names);

	if (r < 0)
		return r;
	view_context_be_patient(context, db_handle(db));
	*ret_db = steal_ptr(&db);
	return 0;
}

/* ---- A part of a run ---- */

struct view_part *view_part_free(struct view_part *part)
{
	if (!part)
		return NULL;
	db_close(part->db);
	free(part);
	return NULL;
}

static int count(struct view_context *context, struct view_part *part)
{
	const struct selection selection = {
		.runs = &part->span.run_id,
		.n_runs = 1,
		.from_ns = part->span.from_ns,
		.to_ns = part->span.to_ns,
		.wants = part->span.wants,
	};
	const char *path = sqlite3_db_filename(db_handle(context->db), "main");
	int r = view_context_connect(context, path, &part->names, &part->db);

	r = r ?: selection_apply(part->db, &selection);
	if (r < 0 && part->db && sqlite3_errcode(db_handle(part->db)) == SQLITE_INTERRUPT)
		return -EINTR;
	if (r == -EINTR || r == -ENOMEM || r >= 0)
		return r;
	return view_context_refuse(context, -EIO, "the part of the run cannot be counted: %s",
				   part->db ? statement_message(db_handle(part->db))
					    : strerror(-r));
}

static bool holds(const struct view_span *part, const struct view_span *wanted)
{
	return part->run_id == wanted->run_id && part->from_ns == wanted->from_ns &&
	       part->to_ns == wanted->to_ns && !(wanted->wants & ~part->wants);
}

int view_part_take(struct view_context *context, const struct view_span *span)
{
	struct view_part *part = context->part;

	if (part && holds(&part->span, span)) {
		view_context_be_patient(context, db_handle(part->db));
		part->names = context->names;
		return 0;
	}
	context->part = view_part_free(part);
	part = calloc(1, sizeof(*part));
	if (!part)
		return -ENOMEM;
	part->span = *span;
	part->names = context->names;
	int r = count(context, part);
	if (r < 0)
		view_part_free(part);
	else
		context->part = part;
	return r;
}

/* ---- The whole ---- */

int view_context_open(const struct view_files *files, struct view_context **ret_context)
{
	auto_view_context struct view_context *context = calloc(1, sizeof(*context));

	if (!context)
		return -ENOMEM;
	int r = view_context_connect(context, files->database, &context->names, &context->db);
	if (r == 0 && files->editor) {
		context->editor = strdup(files->editor);
		r = context->editor ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < 2 && r == 0; i++) {
		if (files->labels[i] && !(context->labels[i] = strdup(files->labels[i])))
			r = -ENOMEM;
	}
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
	view_part_free(context->part);
	db_close(context->db);
	free_all(context->editor, context->labels[0], context->labels[1], context);
	return NULL;
}

int view_context_pictures(struct view_context *context, struct picture_store **ret_pictures)
{
	int r = 0;

	if (!context->pictures)
		r = picture_store_open(db_handle(context->db), &context->pictures);
	if (r == -ENODATA)
		return view_context_refuse(context, r,
					   "the database holds nothing that a picture "
					   "could be drawn of: no run in it has "
					   "blocks or touches with an address");
	if (r == 0)
		*ret_pictures = context->pictures;
	return r;
}

int view_context_kept(const struct view_context *context)
{
	int kept = statement_kept(db_handle(context->db));

	return kept == 0 && context->part ? statement_kept(db_handle(context->part->db)) : kept;
}

void view_context_forget(const struct view_context *context)
{
	statement_forget(db_handle(context->db));
	if (context->part)
		statement_forget(db_handle(context->part->db));
}
