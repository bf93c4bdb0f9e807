#pragma once
/*
 * A run in the formats of other programs, on a stream that the caller owns. Each format is a line
 * in a table; the database is only read. Its handle needs report_functions_register() first.
 */
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>

#include "common/progress.h"
#include "report/callgraph/profile.h"

/* Somebody looks on. What is behind `context` is private, and zero at first. */
struct export_progress {
	progress_show show;
	void *context;
	struct progress_step step;
};

struct export_request {
	int64_t run_id;
	enum profile_metric metric;
	struct paths_options paths; /* of call stacks */
	const char *view; /* csv, json: the table or view */
	struct export_progress *progress; /* NULL: nobody looks on */
};

struct export_format {
	const char *name; /* as in --format NAME */
	int is_binary; /* not for a terminal */
	int is_whole; /* of a whole run only: it reads rows, which no selection hides */
	/* As export_write(), which is to be called. */
	int (*write)(FILE *out, sqlite3 *db, const struct export_request *request);
};

/* The table of formats; ends with a name of NULL. */
extern const struct export_format export_formats[];

/* The format of a name, or NULL. */
const struct export_format *export_find(const char *name);

/* Write a run. 0, -EIO, -ENOMEM, -EPROTO (statement_message() tells), -ESRCH (no such view). */
int export_write(FILE *out, sqlite3 *db, const struct export_format *format,
		 const struct export_request *request);

/*
 * For those who write: a phase begins, whose rows the query counts for :run (NULL: no measure); a
 * row was written. The size of what is made is found where `out` is a file; it may be NULL.
 */
#define EXPORT_N_SITES "SELECT count(*) FROM site WHERE run_id = :run"
void export_begin(sqlite3 *db, const struct export_request *request, const char *phase,
		  const char *n_sql);
void export_row(FILE *out, const struct export_request *request);

/*
 * What the formats are written by; each in its file. Folded stacks for flamegraph.pl, the input of
 * callgrind_annotate and KCachegrind, pprof's gzipped protocol buffer, speedscope's JSON, and the
 * trace event format of Chrome and Perfetto.
 */
int export_folded_write(FILE *out, sqlite3 *db, const struct export_request *request);
int export_callgrind_write(FILE *out, sqlite3 *db, const struct export_request *request);
int export_pprof_write(FILE *out, sqlite3 *db, const struct export_request *request);
int export_speedscope_write(FILE *out, sqlite3 *db, const struct export_request *request);
int export_chrome_write(FILE *out, sqlite3 *db, const struct export_request *request);
