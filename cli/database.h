#pragma once
#include <stdbool.h>

#include "cli/cmd-analyze.h"
#include "cli/options/option.h"
#include "report/diff/diff.h"
#include "report/known-leaks.h"
#include "store/database.h"

/*
 * Open what a user names for reading: a database, or a trace, which is analysed first when its
 * database beside it is missing or older (progress on a terminal's standard error). The functions
 * of reports are registered. Says what is wrong in one line and returns an exit status (CMD_DONE
 * with *ret_db). Close with db_close(). Options that say where symbols come from (symbol-options.h)
 * have a trace analysed anew.
 */
int database_open(const char *path, const struct option_set *options, struct db **ret_db);

/*
 * An answer that needs the totals of a trace only: given while the trace is analysed, when they are
 * there and rows still follow.
 */
struct database_early {
	void (*answer)(void *context, struct db *db); /* with the functions of reports */
	void *context;
	struct cmd_progress progress; /* private */
};

/*
 * As database_open(), with early answered on the way if the trace had to be analysed. The database
 * is whole then as well, when this returns CMD_DONE.
 */
int database_open_early(const char *path, const struct option_set *options,
			struct database_early *early, struct db **ret_db);

/* The names of tables and views, and those that a run may be called by. */
#define DATABASE_TABLES "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
#define DATABASE_RUNS                                                                              \
	"SELECT DISTINCT program FROM run UNION SELECT DISTINCT program || '.' || mode FROM run"

/*
 * The name of a query's first column that is nearest to a mistyped word, allocated; NULL: none is.
 */
char *database_nearest(sqlite3 *db, const char *names_sql, const char *word);

/*
 * The run that --run names (report_run_find()); path is what the user called the database. Says
 * what is wrong in one line and returns an exit status (CMD_DONE with *ret_run_id).
 */
int database_find_run(sqlite3 *db, const char *path, const char *selector, int64_t *ret_run_id);

/*
 * What --suppressions names; NULL without. Says what is wrong in one line and returns an exit
 * status. Free with suppressions_free().
 */
int database_suppressions(const struct option_set *options, struct suppressions **ret_suppressions);

/* One operand: DATABASE, or DATABASE:RUN; a colon may also be part of a file's name. */
struct database_side {
	char *path; /* owned */
	const char *run; /* NULL: none was named */
	struct db *db;
	struct diff_side runs; /* runs.runs is owned */
};

/*
 * Open an operand and find the runs that it names (diff_runs()). Says what is wrong in one line and
 * returns an exit status. Close in each case; a zeroed side may be closed, too.
 */
int database_open_side(const char *operand, const struct option_set *options,
		       struct database_side *side);
void database_close_side(struct database_side *side);
#define auto_side __attribute__((cleanup(database_close_side)))

/* --limit as report_request.limit: 0: not given, negative: all. */
int64_t database_limit(const struct option_set *options);

/* Columns of the terminal that a descriptor leads to; 0 when it is none: lines are not cut then. */
unsigned database_terminal_width(int fd);

/*
 * Columns for what only people read: those of $COLUMNS, of the terminal at fd, or 100 where there
 * is none; 40 at least.
 */
unsigned database_text_width(int fd);

/* Those of lines on stdout; 0, as many as they need, where the options say so. */
unsigned database_line_width(const struct option_set *options);

/* Whether standard output is a terminal that shows colours, and NO_COLOR does not forbid them. */
bool database_has_colours(void);
