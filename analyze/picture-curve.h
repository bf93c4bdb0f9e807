#pragma once
/*
 * What the blocks of each call site held over time (table site_curve): births come in the order of
 * time, and deaths wait in a heap for theirs, so its memory grows with the blocks that are live.
 */
#include <stdint.h>

#include "analyze/picture-scan.h"

struct db;
struct picture_curves;

/* duration_ns: of the run. NULL without memory. */
struct picture_curves *picture_curves_open(int64_t duration_ns);
struct picture_curves *picture_curves_close(struct picture_curves *curves); /* accepts NULL */

/* A block was born, not before those that were told before it. Returns 0 or -ENOMEM. */
int picture_curves_add(struct picture_curves *curves, const struct picture_row_block *block);

/* After the last block. Returns 0 or a negative errno. */
int picture_curves_write(struct picture_curves *curves, struct db *db, int64_t run_id);
