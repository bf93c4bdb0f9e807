#pragma once
#include <sqlite3.h>
#include <stdio.h>

#include "report/report.h"

/*
 * What goes wrong in a first session and what to do about it: an allocator that could not be seen,
 * missing debug information, programs that were not traced, refused sources. One line each, none
 * when all is well. Result as report_write().
 */
int report_hints_write(FILE *out, sqlite3 *db, const struct report_request *request);

/* The same behind "hint: ". */
int report_hint_write(FILE *out, sqlite3 *db, const char *sql, int64_t run_id);

/*
 * Of these, what debug information would add, and what a counted page fault stands for: for reports
 * of functions, lines and objects. 0 or -EPROTO.
 */
int report_line_hints_write(FILE *out, sqlite3 *db, int64_t run_id);
