#pragma once
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>

/*
 * What a reader must know of the samples behind a number: how often was sampled and why, what is
 * missing, and whose time it is. Text only.
 */

/* Lines of the summary: budget and rate, limits of the kernel, samples lost. 0 or -EPROTO. */
int report_sampling_write(FILE *out, sqlite3 *db, int64_t run_id);

/* A line for each source: what it gave, lost and could not use. 0 or -EPROTO. */
int report_ledger_write(FILE *out, sqlite3 *db, int64_t run_id);

/*
 * Under a report that shows samples: a line for each source that lost some, and which source knows
 * more of code without optimisation. Nothing is written when there is neither. 0 or -EPROTO.
 */
int report_sampling_foot(FILE *out, sqlite3 *db, int64_t run_id);

/* Where blocks were picked (--sample-bytes): that numbers are estimates, of how many. Likewise. */
int report_picked_foot(FILE *out, sqlite3 *db, int64_t run_id);

/* Write the rows of a query, each a line behind begin. 0 or -EPROTO. */
int report_lines_write(FILE *out, sqlite3 *db, const char *sql, int64_t run_id, const char *begin);

/*
 * Write a note; what it calls "samples of user CPU time" gets their number, source, and what was
 * sampled (record --count).
 */
void report_sampling_note(FILE *out, sqlite3 *db, int64_t run_id, const char *note);

/* SQL behind SELECT: the one loss of the recorder itself that has a beginning. */
#define REPORT_OF_STOP                                                                             \
	" FROM loss WHERE run_id = :run AND source = 'collector' AND process_id IS NULL"           \
	" AND from_ns IS NOT NULL"

/*
 * Where the recording of a run ended before its program did: "recording stopped at 31.2 ms:
 * --max-size is reached", or that the trace was cut off; allocated. NULL: it did not, or there is
 * no memory.
 */
char *report_stop_text(sqlite3 *db, int64_t run_id);
