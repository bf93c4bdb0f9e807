#pragma once
#include <stdbool.h>

#include "analyze/db.h"
#include "cli/option.h"

/*
 * Open what a user names for reading: a database, or a trace, which is analysed first when its
 * database beside it is missing or older (progress on a terminal's standard error). The functions
 * of reports are registered. Says what is wrong in one line and returns an exit status (CMD_DONE
 * with *ret_db). Close with db_close(). Options that say where symbols come from (symbol-options.h) have
 * a trace analysed anew.
 */
int database_open(const char *path, const struct option_set *options, struct db **ret_db);

/*
 * The run that --run names (report_run_find()); path is what the user called the database. Says what is
 * wrong in one line and returns an exit status (CMD_DONE with *ret_run_id).
 */
int database_find_run(sqlite3 *db, const char *path, const char *selector, int64_t *ret_run_id);

/* Columns of the terminal on standard output; 0 when it is none: lines are not cut then. */
unsigned database_terminal_width(void);

/* Whether standard output is a terminal that shows colours, and NO_COLOR does not forbid them. */
bool database_has_colours(void);
