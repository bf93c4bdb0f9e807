#pragma once
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "report/chart/heatmap-request.h"
#include "report/report.h"

/*
 * Time x address: text draws the cells (report_heatmap_write), csv and json list those that are not
 * empty, which report_heatmap_prepare() puts into temp.heatmap. Results as report_write(), and
 * those of heat_make().
 */
extern const char report_heatmap_sql[];
int report_heatmap_prepare(sqlite3 *db, const struct report_request *request);
int report_heatmap_write(FILE *out, sqlite3 *db, const struct report_request *request);

/*
 * Which of n levels a number from 1 to `most` has: from 0, in equal steps of its logarithm. Each
 * level has at least one number, as far as there are that many.
 */
unsigned report_heatmap_level(uint32_t number, uint32_t most, unsigned n);
