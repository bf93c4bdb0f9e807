#include "analyze/analyze.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "analyze/batch.h"
#include "analyze/input/input.h"
#include "common/cleanup.h"
#include "store/compact/compact.h"

bool analyze_is_trace(const char *path)
{
	return feed_is_known(path);
}

char *analyze_default_path(const char *trace)
{
	char *path = NULL;

	return asprintf(&path, "%s.db", trace) < 0 ? NULL : path;
}

static bool is_older(const struct stat *a, const struct stat *b)
{
	if (a->st_mtim.tv_sec != b->st_mtim.tv_sec)
		return a->st_mtim.tv_sec < b->st_mtim.tv_sec;
	return a->st_mtim.tv_nsec < b->st_mtim.tv_nsec;
}

/* Whether the database beside a trace is there and not older than it. */
static bool is_fresh(const char *trace, const char *db_path)
{
	struct stat trace_stat, db_stat;

	return stat(trace, &trace_stat) == 0 && stat(db_path, &db_stat) == 0 &&
	       !is_older(&db_stat, &trace_stat);
}

/* Whether the database beside a trace can serve for it, as the options want it. */
static bool is_usable(const char *trace, const char *db_path, const struct import_options *options)
{
	auto_db struct db *db = NULL;

	if (!is_fresh(trace, db_path))
		return false;
	int r = db_open(db_path, &db);
	if (r == 0 &&
	    !import_is_as_wanted(db, db_integer(db, "SELECT max(id) FROM run", 0), options))
		return false;
	if (r == 0 && !options->is_for_answer)
		return compact_is_database(db_handle(db)) == options->compact;
	return r != -EBADMSG && r != -ESTALE;
}

static void keep_told(void *context, const struct batch_told *told)
{
	*(struct batch_told *)context = *told;
}

/* A database of its own for one trace. */
static int import_one(const char *trace, const char *db_path, const struct import_options *options,
		      struct import_result *ret_result, size_t *ret_failed)
{
	auto_results struct results results = { 0 };
	struct batch_told told = { 0 };
	struct batch_request request = {
		.db_path = db_path,
		.mode = DB_REPLACE,
		.results = &results,
		.options = *options,
		.end = keep_told,
		.context = &told,
	};
	size_t n_failed = 0;

	request.options.compact |= options->is_for_answer;
	*ret_failed = 0;
	int r = options->growing ? results_add_file(&results, trace) : results_add(&results, trace);
	if (r == 0) {
		r = batch_import(&request, &n_failed);
		*ret_failed = r < 0;
	}
	*ret_result = told.result;
	return r < 0 ? r : told.error;
}

int analyze_beside(const char *trace, const struct import_options *options,
		   struct import_result *ret_result, size_t *ret_failed)
{
	auto_free char *db_path = analyze_default_path(trace);
	if (!db_path)
		return -ENOMEM;
	if (!options->force && !options->growing && is_usable(trace, db_path, options)) {
		*ret_result = (struct import_result){ .is_skipped = true };
		return 0;
	}
	return import_one(trace, db_path, options, ret_result, ret_failed);
}

int db_open_any(const char *path, const struct import_options *options, struct db **ret_db)
{
	struct import_result result;
	size_t failed;

	if (!analyze_is_trace(path))
		return db_open(path, ret_db);

	int r = analyze_beside(path, options, &result, &failed);
	if (r < 0)
		return r;
	auto_free char *db_path = analyze_default_path(path);
	return db_path ? db_open(db_path, ret_db) : -ENOMEM;
}
