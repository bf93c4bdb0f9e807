#pragma once
/*
 * A run's sums in slices of time (table slice), made while its rows are read in order: blocks
 * first, then samples and touches. A slice of blocks ends where time goes on; one of touches is a
 * stretch of rows, which lie in the order of time but for some, and knows the first and last time
 * in it.
 */
#include "store/row-scan.h"
#include "store/slices/blocks.h"

struct db;
struct slices;

#define SLICE_EVENTS 65536u

/*
 * A slice has n_events at least, but for the last one. Returns 0 with NULL where the database has
 * no such table, or a negative errno.
 */
int slices_open(struct db *db, int64_t run_id, size_t n_events, struct slices **ret_slices);
struct slices *slices_close(struct slices *slices); /* accepts NULL */

/*
 * The part of what follows that needs a sweep of the blocks: it is slices_end() that has to be told
 * of ends.
 */
int slices_birth(struct slices *slices, struct sweep *sweep, const struct picture_row_block *block);
int slices_end(struct slices *slices, const struct sweep_end *end);

/* Behind the last end, before the first sample. Each returns 0 or a negative errno. */
int slices_end_blocks(struct slices *slices);

/* site: stack.id of the heap block that is touched; 0: it has none, -1: there is no block. */
int slices_sample(struct slices *slices, const struct picture_row_sample *sample);
int slices_touch(struct slices *slices, const struct picture_row_touch *touch, int64_t site);
int slices_end_touches(struct slices *slices);
