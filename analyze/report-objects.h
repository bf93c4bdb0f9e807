#pragma once
#include <sqlite3.h>
#include <stdio.h>

#include "analyze/report.h"

/*
 * The hottest objects of a run, or the biggest where nothing was sampled: heap blocks by the call
 * stack that allocated them, mappings, global variables, stacks. n_rows of them (negative: all), one line each under
 * a head line. Result as report_write().
 */
int report_objects_write(FILE *out, sqlite3 *db, const struct report_request *request,
			 int64_t n_rows);
