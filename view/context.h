#pragma once
/*
 * What one thread answers from: a connection of its own to the database, which cannot write, runs
 * none of its views and triggers and loads no code, and a store of pictures.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/text.h"
#include "view/request.h"

struct db;
struct picture_store;

/* Whether nobody waits for the answer any more; asked now and then while SQLite works. */
struct view_patience {
	bool (*is_over)(void *waiter);
	void *waiter;
};

/* How much an answer may hold; all zero: what a page that is served wants. */
struct view_limits {
	bool is_short; /* arrays of cells in runs (json.h) */
	size_t n_blocks; /* of a picture; 0: all that it draws */
	size_t n_points; /* of a picture: with more there are none */
	size_t n_nodes; /* of a call tree */
	size_t n_rows; /* of differences */
};

/*
 * A part of a run, from one time to another, counted anew (store/selection/selection.h) into a
 * connection of its own. Counting takes long, so the last part is kept for the questions that
 * follow. One thread at a time.
 */
struct view_span {
	int64_t run_id;
	int64_t from_ns; /* since the run's start */
	int64_t to_ns; /* not included; INT64_MAX: the end */
	unsigned wants; /* as selection.wants */
};

struct view_part {
	struct view_span span;
	struct db *db; /* its temporary tables hide the aggregates */
	unsigned names; /* as those of the context that has it: it goes from one to another */
};

struct view_context {
	struct db *db; /* owned */
	struct picture_store *pictures; /* owned; NULL until they are asked for */
	struct view_part *part; /* owned; NULL: none was counted */
	char *editor; /* owned; view_files.editor */
	char *labels[2]; /* owned; view_files.labels */
	struct view_limits limits;
	struct view_patience patience; /* is_over NULL: endless */
	unsigned names; /* enum report_names: how site_name() of its connections answers */
	int error; /* of the last answer: 0 or a negative errno */
	char message[VIEW_MESSAGE_BYTES]; /* why the last answer failed; may be "" */
};

/* What is shown. */
struct view_files {
	const char *database;
	const char *editor; /* a link with {file} and {line} for source files; NULL: no links */
	const char *labels[2]; /* what the first two runs are called; NULL: as their traces are */
};

/* The paths are not needed any more afterwards, nor are their files. Returns 0 or as db_open(). */
int view_context_open(const struct view_files *files, struct view_context **ret_context);
struct view_context *view_context_close(struct view_context *context); /* accepts NULL */

static inline void view_context_cleanup(struct view_context **context)
{
	*context = view_context_close(*context);
}
#define auto_view_context __attribute__((cleanup(view_context_cleanup)))

/*
 * The store of pictures. Returns 0, -ENODATA with a message when the database has none, or as
 * picture_store_open().
 */
int view_context_pictures(struct view_context *context, struct picture_store **ret_pictures);

/* The first error that a connection of it kept (statement.h), as a negative errno; 0: none. */
int view_context_kept(const struct view_context *context);

/* Nothing has failed so far. */
void view_context_forget(const struct view_context *context);

/* Set the message and return the error. */
#define view_context_refuse(context, error, ...)                                                   \
	text_refuse(error, (context)->message, sizeof((context)->message), __VA_ARGS__)

/*
 * Have context->part hold a span: count it, unless it does already (lines that were not asked for
 * do no harm); an older one is freed. Names are as the context's are now. Gives up
 * when the context's patience is over. Returns 0 or a negative errno, perhaps with a message in the
 * context.
 */
int view_part_take(struct view_context *context, const struct view_span *span);

struct view_part *view_part_free(struct view_part *part); /* accepts NULL, returns NULL */
