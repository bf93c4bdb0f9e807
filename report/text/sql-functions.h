#pragma once
#include <sqlite3.h>
#include <stdint.h>

/*
 * Add the SQL functions half_width(sum, sum_of_squares, n), bytes_text(n), duration_text(ns),
 * data_source_text(perf word), estimate_low(x, variance, least) and estimate_high(the same),
 * the ends of block_weight_interval(), and estimate_least(variance, n_variance, n) for both.
 * Returns an SQLite code.
 */
int report_functions_add(sqlite3 *db);

/*
 * Add the SQL function stack_text(stack_id [, n_frames]) to a database handle: a call stack on one
 * line, innermost first, "build_table table.c:88 < main app.c:21". Frames inside the C++ runtime's
 * operator new are left out at the inner end, where they say nothing about the program. n_frames
 * (default 3) bounds the frames shown; a longer stack ends in "< …", one that could not be
 * followed in its reason, "(no frame pointer)". Inlined functions count as frames.
 * Returns an SQLite code.
 */
int stack_text_register(sqlite3 *db);

/* That text, allocated; NULL with an SQLite code where it cannot be made. */
char *stack_text_make(sqlite3 *db, int64_t stack_id, int n_frames, int *ret_code);
