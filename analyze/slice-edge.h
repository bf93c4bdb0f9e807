#pragma once
/* What is counted of the blocks of a span of time, from slices that lie in it and the rows of those at its ends. */
#include "analyze/slice-blocks.h"
#include "analyze/slice-store.h"

struct slice_cut {
	int64_t from_ns;
	int64_t to_ns; /* not included */
	int64_t last_id; /* nothing behind the birth of this block; 0: up to to_ns */
};

/* Add a span to what is there: it must come behind that. Returns 0 or a negative errno. */
int slice_edge_count(struct slice_store *store, const struct slice_cut *cut,
		     struct slice_blocks *blocks);
