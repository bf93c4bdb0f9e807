#pragma once
/* Which blocks, or touches, of a chunk make its frames (chunk-store.h). */
#include <stdint.h>

#include "store/compact/chunk-store.h"

/* Columns of n rows, in the order of their ids. */
struct frame_columns {
	const int64_t *ids;
	const int64_t *processes;
	const int64_t *addresses;
	const int64_t *times; /* of allocations, or touches */
	const int64_t *sizes; /* of blocks */
	const int64_t *freed; /* likewise; CHUNK_NULL: not */
	const int64_t *pictures; /* of touches: enum picture_direction; NULL: they are blocks */
};

struct chunk_frames {
	struct chunk_frame items[CHUNK_FRAMES];
	uint32_t n;
	uint32_t rows[CHUNK_ROWS]; /* which row each place has: ascending within a frame */
	uint8_t frame_of[CHUNK_ROWS]; /* by row */
};

/* Returns 0 or -ENOMEM. n: from 1 to CHUNK_ROWS. */
int chunk_frames_make(struct chunk_frames *frames, const struct frame_columns *columns, uint32_t n);
