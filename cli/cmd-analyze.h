#pragma once
/* What all commands share that read traces and databases. */
#include <stdint.h>

struct db;

/* Say in one line what is wrong with a trace, or a database. error is a negative errno. Returns
 * CMD_FAILED. */
int cmd_fail_trace(const char *path, int error);
int cmd_fail_db(const char *path, int error);

/* For struct import_options: percent on a terminal. context is an int, -1 at first. */
void cmd_show_progress(void *context, uint64_t n_bytes, uint64_t n_all_bytes);
void cmd_end_progress(const int *last_percent);

/* For struct import_options: adds the findings, and the functions of reports to the handle. */
int cmd_conclude_import(struct db *db, int64_t run_id);

/* A file size limit (ulimit -f) is an error to report, no signal to die of with half a database. */
void cmd_survive_size_limit(void);
