#pragma once
#include <sqlite3.h>

/*
 * Add the SQL functions half_width(sum, sum_of_squares, n), bytes_text(n), duration_text(ns),
 * data_source_text(perf word), estimate_low(x, variance, least) and estimate_high(the same),
 * the ends of block_weight_interval(), and estimate_least(variance, n_variance, n) for both.
 * Returns an SQLite code.
 */
int report_functions_add(sqlite3 *db);
