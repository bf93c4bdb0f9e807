#pragma once
/*
 * Traces into databases: what `memsight analyze` does, and what every reader does that is given a
 * trace.
 */
#include "analyze/db.h"
#include "analyze/import.h"

/* Whether a file begins as a trace does. False also when it cannot be read. */
bool analyze_is_trace(const char *path);

/* Where the database of a trace lies by default: "PATH.db", allocated; NULL without memory. */
char *analyze_default_path(const char *trace);

/* Which traces into which database. */
struct analyze_request {
	const char *db_path;
	const char *const *traces;
	size_t n;
	const struct import_options *options;
};

/*
 * Add the traces to the database, all of them or none. ret_results has room for n. Returns 0 or
 * what db_begin(), import_trace() or db_commit() returned; then *ret_failed is the index of the
 * trace that cannot be read, or n when it was the database.
 */
int analyze_traces(const struct analyze_request *request, struct import_result *ret_results,
		   size_t *ret_failed);

/*
 * Analyse one trace into the database beside it, which is made anew, unless it is there and not
 * older than the trace: then ret_result->is_skipped (options->force: made anew in any case).
 * Returns 0 or as analyze_traces().
 */
int analyze_beside(const char *trace, const struct import_options *options,
		   struct import_result *ret_result, size_t *ret_failed);

/*
 * Open what a person names for reading. A database is opened. For a trace its database beside it
 * is opened; it is made first when it is missing, older than the trace, or cannot be used.
 * options->force makes it anew in any case. Returns 0 or as db_open() and analyze_traces().
 */
int db_open_any(const char *path, const struct import_options *options, struct db **ret_db);
