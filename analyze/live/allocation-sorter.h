#pragma once
/*
 * Sorts rows of blocks by their ids, whatever their number: sorted runs go to a temporary file
 * without a name beside the database, and are merged when they are read. Memory is bounded. One
 * thread.
 */
#include "analyze/live/allocation-writer.h"

struct block_spill;

/* path: the database; the file lies in its folder. Made at the first need. NULL without memory. */
struct block_spill *block_spill_open(const char *path);
struct block_spill *block_spill_close(struct block_spill *spill); /* accepts NULL */

/* Add a row. Returns 0, -ENOSPC, or another negative errno. */
int block_spill_add(struct block_spill *spill, const struct block_row *row);

/* Visit all rows, the lowest id first; afterwards there are none. Stops at a negative result. */
typedef int (*block_spill_visit)(void *context, const struct block_row *row);
int block_spill_drain(struct block_spill *spill, block_spill_visit visit, void *context);
