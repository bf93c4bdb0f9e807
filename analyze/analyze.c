#include "analyze/analyze.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "analyze/feed.h"
#include "schemas/trace-format.h"

bool analyze_is_trace(const char *path)
{
	char magic[sizeof(TRACE_FILE_MAGIC) - 1];
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && io_read_full(fd, magic, sizeof(magic)) == sizeof(magic) &&
	       memcmp(magic, TRACE_FILE_MAGIC, sizeof(magic)) == 0;
}

char *analyze_default_path(const char *trace)
{
	char *path = NULL;

	return asprintf(&path, "%s.db", trace) < 0 ? NULL : path;
}

/* Whether all of them can be read at all: before anything is written. */
static int check_traces(const struct analyze_request *request, size_t *ret_failed)
{
	for (size_t i = 0; i < request->n; i++) {
		auto_feed struct feed feed = { 0 };
		int r = feed_open(request->traces[i], &feed);
		if (r < 0) {
			*ret_failed = i;
			return r;
		}
	}
	return 0;
}

/* Traces hold what the program held: their database is not more open than they are. */
static int protect(struct db *db, const char *trace)
{
	struct stat st;

	return stat(trace, &st) < 0 ? -errno : db_protect(db, &st);
}

/* As analyze_traces(), in either mode. */
static int analyze(const struct analyze_request *request, enum db_begin_mode mode,
		   struct import_result *ret_results, size_t *ret_failed)
{
	auto_db struct db *db = NULL;

	int r = check_traces(request, ret_failed);
	if (r < 0)
		return r;
	*ret_failed = request->n;
	r = db_begin(request->db_path, mode, &db);
	for (size_t i = 0; i < request->n && r == 0; i++)
		r = protect(db, request->traces[i]);
	for (size_t i = 0; i < request->n && r == 0; i++)
		r = import_trace(db, request->traces[i], request->options, &ret_results[i]);
	return r < 0 ? r : db_commit(db);
}

int analyze_traces(const struct analyze_request *request, struct import_result *ret_results,
		   size_t *ret_failed)
{
	return analyze(request, DB_ADD, ret_results, ret_failed);
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

/* Whether the database beside a trace can serve for it. */
static bool is_usable(const char *trace, const char *db_path)
{
	auto_db struct db *db = NULL;

	if (!is_fresh(trace, db_path))
		return false;
	int r = db_open(db_path, &db);
	return r != -EBADMSG && r != -ESTALE;
}

int analyze_beside(const char *trace, const struct import_options *options,
		   struct import_result *ret_result, size_t *ret_failed)
{
	auto_free char *db_path = analyze_default_path(trace);
	if (!db_path)
		return -ENOMEM;
	if (!options->force && is_usable(trace, db_path)) {
		*ret_result = (struct import_result){ .is_skipped = true };
		return 0;
	}
	struct analyze_request request = { db_path, &trace, 1, options };
	return analyze(&request, DB_REPLACE, ret_result, ret_failed);
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
