#pragma once
/*
 * Many runs into one database, by one transaction. One that cannot be read does not stop the
 * others.
 *
 * Of the repetitions of a PROGRAM.MODE found in a folder of results, the lowest that succeeded gets
 * all its rows, the others their totals only (run.detail); where none succeeded, the lowest gets
 * them.
 */
#include "analyze/import.h"
#include "analyze/input/run-discovery.h"
#include "store/database.h"

/* What became of one. */
struct batch_told {
	const struct result *what;
	int error; /* 0, or why it could not be read, as a negative errno */
	bool has_rows; /* all of it is in the database, not the totals only */
	char *same_as; /* another file of the same recording that the database has; or NULL */
	struct import_result result;
};

struct batch_request {
	const char *db_path;
	enum db_begin_mode mode;
	struct results *results; /* put in order */
	bool all; /* every repetition gets its rows */
	struct import_options options; /* force and progress */
	/*
	 * Told before each (may be NULL); and of each when the database is written, or none could
	 * be read.
	 */
	void (*begin)(void *context, size_t i, const struct result *what);
	void (*end)(void *context, const struct batch_told *told);
	void *context;
};

/*
 * Returns 0 with the number of those that could not be read in *ret_n_failed (the others are in the
 * database), or a negative errno of the database, which is as it was.
 */
int batch_import(const struct batch_request *request, size_t *ret_n_failed);
