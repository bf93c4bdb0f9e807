#pragma once
/*
 * Reports: answers from a database to the questions that people ask, on a stream that the caller
 * owns. Each is a line in a table; the database is only read. Its handle needs
 * report_functions_register() first.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "report/callgraph/needs.h"
#include "report/callgraph/profile.h"
#include "report/text/site-name.h"
#include "report/text/table.h"
#include "store/selection/selection.h"

struct suppressions;

/* How and of what. */
struct report_request {
	int64_t run_id;
	/* rows; 0: what the report shows by itself, of CSV and JSON all; negative: all */
	int64_t limit;
	enum table_format format;
	unsigned width; /* columns that lines of text have at most; 0: as many as they need */
	const char *name; /* what the user called the trace or database, for "next:" lines */
	bool is_coloured; /* a terminal that shows colours */
	enum profile_metric by; /* of profiles */
	struct paths_options paths; /* of profiles: which functions they have */
	const struct suppressions *suppressions; /* of leaks; may be NULL */
	bool is_full; /* leaks: also what libraries keep (texts are cut by width alone) */
	const struct selection *selection; /* of pictures and spans; NULL: all of the run */
	const char *source; /* of pictures: the only one whose touches are shown; NULL: all */
	int64_t cold_ns; /* of report_cold_for: how long nobody touched it */
	unsigned cells[2]; /* of pictures: columns and rows; 0: as many as there is room for */
};

/* Which selections (selection.h) a report follows. */
enum report_scope {
	REPORT_OF_RUN, /* none: it is about a whole run */
	REPORT_OF_PART, /* parts of one run */
	REPORT_OF_SUM, /* parts, and sums of several runs */
	/* a span of time, a process and addresses, which it narrows down to by itself */
	REPORT_OF_PICTURE,
	REPORT_OF_SPAN, /* a span of time and a process, by its prepare() */
};

struct report {
	/* This one instead where blocks were picked (--sample-bytes); NULL: none. */
	const struct report *picked;
	bool needs_all_blocks; /* and the order of all events: picked ones cannot answer */
	/* This one where it is known what memsight took of the time in regions; NULL: as picked. */
	const struct report *own_time;
	const char *name; /* as in --NAME */
	const char *title; /* over the rows */
	const char *nothing; /* said instead of an empty list */
	enum report_needs needs;
	const char *note; /* under the rows: what the numbers are; may be NULL */
	/* A list is this query, with :run and :limit, ... */
	const char *sql;
	const char *text_sql; /* another one for text; NULL: the same */
	/* gives the text of more columns, as REPORT_MORE_COLUMNS (queries.h) in sql; may be NULL */
	const char *columns_sql;
	const enum table_kind *kinds;
	size_t n_kinds;
	enum table_kind rest; /* numbers in columns beyond those */
	enum report_scope scope;
	/* each row is a line under the rows, or under what is said instead; may be NULL */
	const char *foot_sql;
	const char *hints_sql; /* each row is a hint under the note; may be NULL */
	bool counts_blocks; /* ... or bytes in them: that they are estimates is told, if they are */
	bool is_sampled; /* shows shares of samples: what of them was lost is told */
	bool has_lines; /* functions and lines: what debug information would add is told */
	unsigned wants; /* as selection.wants */
	bool needs_rows; /* a run of which the totals only are there does not do */
	/*
	 * How many rows text has without :limit, where counting those of the query takes long;
	 * NULL: those are counted.
	 */
	const char *n_sql;
	int n_rows; /* that text shows by itself, if not 20 */
	/* Text: a drawing between title and rows; may be NULL. */
	int (*draw)(FILE *out, sqlite3 *db, const struct report_request *request);
	/* Makes temporary tables that the query reads; may be NULL. */
	int (*prepare)(sqlite3 *db, const struct report_request *request);
	/* ... or text is written by this; then sql serves CSV and JSON. */
	int (*write)(FILE *out, sqlite3 *db, const struct report_request *request);
};

/* All, in the order of --list; NULL ends them. */
extern const struct report *const reports[];

/* Not in the table: bytes that nobody touched for request->cold_ns (--cold=60s). */
extern const struct report report_cold_for;

/* The report of a name, or NULL. "own_time" is that of --overhead in a run with regions. */
const struct report *report_find(const char *name);

/* The report that answers for a run: another one where its blocks were picked, or by --overhead. */
const struct report *report_resolve(sqlite3 *db, const struct report *report, int64_t run_id);

/*
 * Write one report; text says how many rows are left out. Returns 0, -EIO when the stream failed,
 * -EPROTO when SQLite failed (statement_message(db) says how), -ENOMEM; of pictures also what
 * heat_make() returns.
 */
int report_write(FILE *out, sqlite3 *db, const struct report *report,
		 const struct report_request *request);

/*
 * Write what stands under the rows of a list, or instead of them where there are none: notes,
 * intervals, losses and hints. Result as report_write().
 */
int report_foot_write(FILE *out, sqlite3 *db, const struct report *report,
		      const struct report_request *request, size_t n_rows);

/*
 * Prepare the query of a list, of text or for programs, with all its columns. Limit: as :limit.
 * NULL on error (sqlite3_errcode(db)); the caller finalizes.
 */
sqlite3_stmt *report_rows_prepare(sqlite3 *db, const struct report *report, bool is_text,
				  int64_t run_id, int64_t limit);

/* How many rows of text a list has without a limit. Returns 0 or -ENOMEM. */
int report_rows_count(sqlite3 *db, const struct report *report, int64_t run_id, int64_t *ret_n);

/* Say under a table of text that rows follow; n_rest 0 or less: none do. */
void report_rest_write(FILE *out, int64_t n_rest);

/*
 * How many call stacks have blocks that were not freed, no suppression names and no library keeps;
 * after --leaks.
 */
int64_t report_count_leaks(sqlite3 *db, int64_t run_id);

/*
 * Add the SQL functions that reports (and `memsight query`) use: stack_text(), site_name(), and
 * those of report/text/sql-functions.h and repetitions.h. Returns an SQLite code.
 */
int report_functions_register(sqlite3 *db);

/*
 * Look for what stands out in a run that was just imported, and write the table finding. Called
 * once a run, while the database is written; db has the functions of reports. Returns 0 or a
 * negative errno.
 */
struct db;
int report_findings_store(struct db *db, int64_t run_id);

/*
 * Have reports name sites as *names says (enum report_names), which stays the caller's and may
 * change between statements; NULL: 0, as at first. Returns an SQLite code.
 */
int report_names_set(sqlite3 *db, const unsigned *names);

/*
 * The run that a person names: an id, PROGRAM.MODE.N, PROGRAM.MODE or PROGRAM (the lowest
 * repetition); NULL: the only run, or the last one imported. Returns 0, -ENOENT when nothing is
 * called so, -ENODATA when the database holds no run, -EPROTO for an SQL error.
 */
int report_run_find(sqlite3 *db, const char *selector, int64_t *ret_run_id);

/*
 * Why a report has nothing to show: the sentence `nothing' (NULL: "Nothing to show."), and where
 * the recording holds nothing of what it needs, the reason that the database knows. Returns 0, -EIO
 * or -EPROTO.
 */
int report_why_write(FILE *out, sqlite3 *db, const struct report_request *request,
		     enum report_needs needs, const char *nothing);

/*
 * Run SQL of a user and write the rows of each statement that has columns. The functions of
 * report_functions_register() can be used. db should be opened read-only: nothing here prevents
 * statements that write. Returns 0, -EPROTO for an SQL error (sqlite3_errmsg(db)), -EIO when the
 * stream failed, -EINVAL when there is no statement in the text.
 */
int query_write(FILE *out, sqlite3 *db, const char *sql, const struct table_style *style);
