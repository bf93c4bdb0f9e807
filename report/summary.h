#pragma once
#include <sqlite3.h>
#include <stdio.h>

#include "report/report.h"

/*
 * The first screen: what ran, what it allocated, what was sampled and lost, who owns the touched
 * memory, and the hottest objects. Result as report_write().
 */
int report_summary_write(FILE *out, sqlite3 *db, const struct report_request *request);

/* A line that tells which one of several runs of the database this is; of the only one nothing. */
void report_summary_run(FILE *out, sqlite3 *db, int64_t run);
