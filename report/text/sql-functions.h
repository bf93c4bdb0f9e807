#pragma once
#include <sqlite3.h>

/*
 * Add the SQL functions half_width(sum, sum_of_squares, n), bytes_text(n), duration_text(ns),
 * data_source_text(perf word). Returns an SQLite code.
 */
int report_functions_add(sqlite3 *db);
