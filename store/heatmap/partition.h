#pragma once
/*
 * Touches and blocks of a run on their way into parts (parts.h). They come in order of time, and
 * wait in slabs: one for each process, blocks apart by size and life, so that large ones can be
 * found without the small ones. A full slab is a stretch of time; it is cut by address into parts.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/heatmap/parts.h"

struct db;
struct picture_slabs;

/* Parts go to the tables of db. Returns 0 or a negative errno. */
int picture_slabs_open(struct db *db, int64_t run_id, struct picture_slabs **ret_slabs);
struct picture_slabs *picture_slabs_close(struct picture_slabs *slabs); /* accepts NULL */

/*
 * Add a touch, or a block. life_ns: of a block, until end_ns of its process where it was not freed.
 * Returns 0 or a negative errno.
 */
int picture_slabs_touch(struct picture_slabs *slabs, int64_t process_id,
			const struct picture_item *item);
int picture_slabs_block(struct picture_slabs *slabs, int64_t process_id,
			const struct picture_item *item, int64_t life_ns);

/* Write all that waits. Returns 0 or a negative errno. */
int picture_slabs_flush(struct picture_slabs *slabs);
