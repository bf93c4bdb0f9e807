#pragma once
/* Which narrowing makes a column smallest, found by trying all of them on some of its rows. */
#include "store/columns/column.h"

struct chunk_trial {
	struct chunk_encoder *encoder;
	unsigned column; /* which one */
	/* Of it and those before it: */
	struct chunk_values values[CHUNK_COLUMNS];
	struct chunk_plan plans[CHUNK_COLUMNS];
	bool is_real[CHUNK_COLUMNS]; /* has nothing to be relative to */
};

/* Returns 0 or -ENOMEM. */
int chunk_trial_choose(const struct chunk_trial *trial, struct chunk_plan *ret_plan);
