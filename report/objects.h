#pragma once
#include <sqlite3.h>
#include <stdio.h>

#include "report/report.h"

/*
 * The hottest objects of a run, or the biggest where nothing was sampled: heap blocks by the call
 * stack that allocated them, mappings, global variables, stacks. request->limit of them, one line
 * each under a head line, and how many follow. Result as report_write().
 */
int report_objects_write(FILE *out, sqlite3 *db, const struct report_request *request);
