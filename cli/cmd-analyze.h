#pragma once
/* What all commands share that read traces and databases. */
#include <stddef.h>
#include <stdint.h>

struct db;

/* Say in one line what is wrong with a trace, or a database. error is a negative errno. Returns
 * CMD_FAILED. */
int cmd_fail_trace(const char *path, int error);
int cmd_fail_db(const char *path, int error);

/* One line on a terminal's standard error; zeroed at first. */
struct cmd_progress {
	const char *work; /* NULL: "analysing" */
	size_t i, n; /* the i-th of n recordings, from 0; n 0: there is one */
	const char *phase; /* that was shown; NULL: nothing was */
	uint64_t begin_ns; /* of the phase */
	uint64_t shown_ns;
};

/* A progress_show, whose context is a struct cmd_progress; and: take the line away. */
struct progress_step;
void cmd_show_progress(void *context, const struct progress_step *step);
void cmd_end_progress(struct cmd_progress *progress);

/* For struct import_options: adds the findings, and the functions of reports to the handle. */
int cmd_conclude_import(struct db *db, int64_t run_id);

/* A file size limit (ulimit -f) is an error to report, no signal to die of with half a database. */
void cmd_survive_size_limit(void);
