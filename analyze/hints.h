#pragma once
#include <stddef.h>
#include <stdint.h>

struct db;
struct objects;

/*
 * Look at the programs of an imported run for what makes a first session go wrong, and store what
 * reports will say about it as facts named hint.*: an executable that brings its own malloc,
 * modules whose allocations have no line numbers (with the package that has them). To be called in
 * the import's transaction, on the machine where the files are; missing files give no hint. Returns
 * 0 or a negative errno.
 *
 * Also files that were rebuilt or are gone, so that places in them have no names; the first of them
 * is written into ret_problem, one line ("": none).
 */
int hints_write(struct db *db, int64_t run_id, const struct objects *objects, char *ret_problem,
		size_t n_bytes);
