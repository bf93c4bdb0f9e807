#pragma once
/* Which blocks of a chunk make its frames (chunk-store.h). */
#include <stdint.h>

#include "store/compact/chunk-store.h"

/* Columns of n rows, in the order of their ids. */
struct frame_columns {
	const int64_t *ids;
	const int64_t *processes;
	const int64_t *addresses;
	const int64_t *sizes;
	const int64_t *allocated;
	const int64_t *freed; /* CHUNK_NULL: not */
};

struct chunk_frames {
	struct chunk_frame items[CHUNK_FRAMES];
	uint32_t n;
	uint32_t rows[CHUNK_ROWS]; /* which row each place has: ascending within a frame */
};

/* Returns 0 or -ENOMEM. n: from 1 to CHUNK_ROWS. */
int chunk_frames_make(struct chunk_frames *frames, const struct frame_columns *columns, uint32_t n);
