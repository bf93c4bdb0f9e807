#pragma once
/* The table source_ledger: what each source gave, what it lost, and what cannot be used of it. */

struct samples;

/*
 * Write a row for each source that ran, from what the recorder counted and what the import did. After
 * the last sample, before the database is ended. 0 or a negative errno.
 */
int sample_ledger_write(struct samples *samples);
