#pragma once
/* Which narrowing makes a column smallest, found by trying all of them on some of its rows. */
#include "store/columns/column.h"

/* Rows that are written as one piece of each column. */
struct chunk_piece {
	uint32_t first;
	uint32_t n;
};

#define CHUNK_TRIAL_PIECES 4u /* from here and there: places may be special */

struct chunk_trial {
	struct chunk_encoder *encoder;
	struct chunk_piece pieces[CHUNK_TRIAL_PIECES];
	unsigned n_pieces;
	unsigned column; /* which one */
	/* All rows of it and those before it: */
	struct chunk_values values[CHUNK_COLUMNS];
	struct chunk_plan plans[CHUNK_COLUMNS];
	bool is_real[CHUNK_COLUMNS]; /* has nothing to be relative to */
};

/* Returns 0 or -ENOMEM. */
int chunk_trial_choose(const struct chunk_trial *trial, struct chunk_plan *ret_plan);
