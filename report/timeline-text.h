#pragma once
#include <sqlite3.h>
#include <stdio.h>

#include "report/report.h"

/*
 * Live bytes, resident memory and rates over time, drawn with blocks of Unicode. Result as
 * report_write().
 */
int report_curves_draw(FILE *out, sqlite3 *db, const struct report_request *request);

/*
 * The axis of time under a drawing, with its ticks and their texts: two lines. The drawing begins
 * at column `indent` and has n_columns.
 */
struct report_time_axis {
	int64_t from_ns;
	int64_t to_ns;
	unsigned indent;
	unsigned n_columns;
};
void report_time_axis_draw(FILE *out, const struct report_time_axis *axis);
