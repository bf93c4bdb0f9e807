#pragma once
/*
 * Traces into databases: what `memsight analyze` does, and what every reader does that is given a
 * trace.
 */
#include "analyze/import.h"
#include "store/database.h"

/* Whether a file begins as a trace or a perf.data does. False also when it cannot be read. */
bool analyze_is_trace(const char *path);

/* Where the database of a trace lies by default: "PATH.db", allocated; NULL without memory. */
char *analyze_default_path(const char *trace);

/*
 * Analyse one trace into the database beside it, which is made anew, unless it is there and not
 * older than the trace: then ret_result->is_skipped (options->force: made anew in any case, as that
 * of one that grows). Returns 0 or a negative errno; then *ret_failed is 0 when the trace cannot be
 * read, and 1 when it was the database.
 */
int analyze_beside(const char *trace, const struct import_options *options,
		   struct import_result *ret_result, size_t *ret_failed);

/*
 * Open what a person names for reading. A database is opened. For a trace its database beside it
 * is opened; it is made first when it is missing, older than the trace, or cannot be used.
 * options->force makes it anew in any case. Returns 0 or as db_open() and analyze_beside().
 */
int db_open_any(const char *path, const struct import_options *options, struct db **ret_db);
