#include "analyze/batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyze/input/input.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "store/query-value.h"
#include "store/statement.h"

struct batch {
	const struct batch_request *request;
	struct db *db;
	int *errors; /* of each: why it cannot be read */
	int64_t first_new_run;
	const struct result *group; /* one of the repetitions at hand; NULL: none */
	bool has_rows; /* one of them has, for good */
	struct batch_told held; /* has rows for want of a better one; what NULL: none */
	struct batch_told *told; /* n_told of them, until the database is written */
	size_t n_told;
	size_t n_failed;
};

/* Whether it can be read at all. Returns 0 or a negative errno. */
static int look(const struct batch_request *request, const struct result *what)
{
	auto_feed struct feed feed = { 0 };

	return request->options.growing ? feed_open_growing(request->options.growing, &feed)
					: feed_open(what->path, &feed);
}

/* Whether two names are of one file. */
static bool is_same_file(const char *left, const char *right)
{
	struct stat a, b;

	if (strcmp(left, right) == 0)
		return true;
	return stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* Keep what became of one. What it says of the database is true when that is written. */
static void tell(struct batch *batch, const struct batch_told *told)
{
	struct batch_told *kept = &batch->told[batch->n_told++];
	sqlite3 *db = batch->db ? db_handle(batch->db) : NULL;

	*kept = *told;
	batch->n_failed += told->error < 0;
	if (told->error == 0 && told->result.is_skipped)
		kept->same_as = report_sql_text(db, "SELECT trace FROM run WHERE id = :run",
						told->result.run_id);
	if (kept->same_as && is_same_file(kept->same_as, told->what->path))
		free(steal_ptr(&kept->same_as));
}

static void tell_all(struct batch *batch)
{
	for (size_t i = 0; i < batch->n_told; i++)
		batch->request->end(batch->request->context, &batch->told[i]);
}

static void finish(struct batch *batch)
{
	array_free(batch->told, batch->n_told, it, free((char *)it->same_as));
	free(batch->errors);
	db_close(batch->db);
}
#define auto_batch __attribute__((cleanup(finish)))

/* What was held back is decided on. */
static void release(struct batch *batch)
{
	if (batch->held.what)
		tell(batch, &batch->held);
	batch->held.what = NULL;
}

/*
 * Errors that are not a trace's: whatever comes next would meet them too. Of a trace that is still
 * recorded nothing is kept.
 */
static bool is_fatal(const struct batch *batch, int error)
{
	return (error < 0 && batch->request->options.growing) || error == -ENOSPC ||
	       error == -EDQUOT || error == -EFBIG || error == -ENOMEM || error == -EROFS ||
	       error == -EIO || error == -EBUSY || error == -EAGAIN;
}

static int import(struct batch *batch, const struct result *what, enum import_enough totals,
		  struct import_result *ret_result)
{
	struct import_options options = batch->request->options;
	int64_t run_id = db_integer(batch->db, "SELECT max(id) FROM run", 0) + 1;

	if (run_id < batch->first_new_run)
		run_id = batch->first_new_run;
	options.totals = totals;
	options.name = what->run;
	options.first_new_run = batch->first_new_run;
	options.shown_path = what->path;
	options.verdict = what->verdict;
	options.is_undrawn = totals == IMPORT_ENOUGH;
	int r = import_trace(batch->db, what->path, &options, ret_result);
	if (r == 0 || is_fatal(batch, r))
		return r;
	int undone = import_delete_run(batch->db, run_id);
	return undone < 0 ? undone : r;
}

/* Whether the run keeps its rows: 1, 0, or a negative errno. */
static int judge(struct batch *batch, const struct batch_told *told, bool wants_rows)
{
	bool is_good = told->result.ended_cleanly && !told->result.is_failure;
	int r = 0;

	if (told->result.is_skipped)
		return report_sql_number(db_handle(batch->db),
					 "SELECT detail = 'full' FROM run WHERE id = :run",
					 told->result.run_id) != 0;
	if (wants_rows && (is_good || !told->what->is_one_of_many || batch->request->all))
		return 1;
	if (wants_rows && !batch->held.what)
		return 1;
	r = import_drop_rows(batch->db, told->result.run_id);
	return r < 0 ? r : 0;
}

/* One that succeeded takes the place of one that was held for want of it. */
static int settle(struct batch *batch, struct batch_told *told)
{
	bool is_good =
		told->result.is_skipped || (told->result.ended_cleanly && !told->result.is_failure);
	int r = 0;

	if (told->has_rows && !is_good && told->what->is_one_of_many && !batch->request->all) {
		batch->held = *told;
		return 0;
	}
	if (told->has_rows && batch->held.what) {
		r = import_drop_rows(batch->db, batch->held.result.run_id);
		batch->held.has_rows = false;
	}
	if (told->has_rows) {
		batch->has_rows = true;
		release(batch);
	}
	tell(batch, told);
	return r;
}

static int import_next(struct batch *batch, size_t i)
{
	const struct batch_request *request = batch->request;
	const struct result *what = &request->results->items[i];
	struct batch_told told = { .what = what, .error = batch->errors[i] };

	if (!batch->group || !results_are_repetitions(batch->group, what)) {
		release(batch);
		batch->group = what;
		batch->has_rows = false;
	}
	bool wants_rows = !what->is_one_of_many || request->all || !batch->has_rows;
	bool is_choosy = what->is_one_of_many && !request->all;
	enum import_enough totals = !wants_rows ? IMPORT_ENOUGH
				    : is_choosy ? IMPORT_ENOUGH_OF_FAILED
						: IMPORT_NOT_ENOUGH;
	if (request->begin)
		request->begin(request->context, i, what);
	if (told.error == 0)
		told.error = import(batch, what, totals, &told.result);
	if (is_fatal(batch, told.error))
		return told.error;
	if (told.error < 0) {
		tell(batch, &told);
		return 0;
	}
	int r = judge(batch, &told, wants_rows);
	told.has_rows = r > 0;
	return r < 0 ? r : settle(batch, &told);
}

/* Traces hold what the program held: their database is not more open than they are. */
static int protect(struct batch *batch, size_t i)
{
	const struct feed_growing *growing = batch->request->options.growing;
	struct stat st;

	if (stat(growing ? growing->path : batch->request->results->items[i].path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode)) /* what may be listed may be read */
		st.st_mode &= 0666;
	return db_protect(batch->db, &st);
}

static int import_all(struct batch *batch)
{
	size_t n = batch->request->results->n;
	int r = 0;

	batch->first_new_run = db_integer(batch->db, "SELECT max(id) FROM run", 0) + 1;
	for (size_t i = 0; i < n && r == 0; i++) {
		if (batch->errors[i] == 0)
			r = protect(batch, i);
	}
	for (size_t i = 0; i < n && r == 0; i++)
		r = import_next(batch, i);
	if (r == 0)
		release(batch);
	if (r < 0)
		return r;
	import_begin_phase(&batch->request->options, "making indexes");
	return db_commit(batch->db);
}

/* None can be read: the database is not touched. */
static void tell_errors(struct batch *batch)
{
	for (size_t i = 0; i < batch->request->results->n; i++) {
		struct batch_told told = {
			.what = &batch->request->results->items[i],
			.error = batch->errors[i],
		};
		tell(batch, &told);
	}
}

int batch_import(const struct batch_request *request, size_t *ret_n_failed)
{
	struct results *results = request->results;
	auto_batch struct batch batch = { .request = request };
	size_t n_readable = 0;

	batch.errors = calloc(results->n + 1, sizeof(*batch.errors));
	batch.told = calloc(results->n + 1, sizeof(*batch.told));
	if (!batch.errors || !batch.told)
		return -ENOMEM;
	results_sort(results);
	for (size_t i = 0; i < results->n; i++) {
		batch.errors[i] = look(request, &results->items[i]);
		n_readable += batch.errors[i] == 0;
	}
	unsigned mode = request->mode | (request->options.compact ? DB_COMPACT : 0);
	int r = n_readable ? db_begin(request->db_path, mode, &batch.db) : 0;
	/* What an older one made no command reads any more. */
	if (r == -ESTALE && request->options.force)
		r = db_begin(request->db_path, mode | DB_REPLACE, &batch.db);
	if (r == 0 && n_readable)
		r = import_all(&batch);
	else if (r == 0)
		tell_errors(&batch);
	/* Why the rest failed; without memory SQLite rolls back, and then finds no tables. */
	if (r < 0 && r != -ENOMEM && batch.db && statement_kept(db_handle(batch.db)) < 0)
		r = statement_kept(db_handle(batch.db));
	if (r == 0)
		tell_all(&batch);
	*ret_n_failed = batch.n_failed;
	return r;
}
