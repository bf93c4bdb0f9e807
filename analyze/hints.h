#pragma once
#include <stdint.h>

struct db;

/*
 * Look at the programs of an imported run for what makes a first session go wrong, and store what
 * reports will say about it as facts named hint.*: an executable that brings its own malloc, modules
 * whose allocations have no line numbers (with the package that has them). To be called in the
 * import's transaction, on the machine where the files are; missing files give no hint. Returns 0 or
 * a negative errno.
 */
int hints_write(struct db *db, int64_t run_id);
