#pragma once
/*
 * What is counted of the blocks of a span of time, from slices that lie in it and the rows of those
 * at its ends.
 */
#include "store/slices/blocks.h"
#include "store/slices/lookup.h"

struct slice_cut {
	int64_t from_ns;
	int64_t to_ns; /* not included */
	int64_t last_id; /* nothing behind the birth of this block; 0: up to to_ns */
};

/* Add a span to what is there: it must come behind that. Returns 0 or a negative errno. */
int slice_edge_count(struct slice_store *store, const struct slice_cut *cut,
		     struct slice_blocks *blocks);

/* sweep_end.id of blocks that nobody freed, and whose process ended. */
#define SLICE_EXIT (-1)

/* Each returns 0 or a negative errno. */
struct slice_events {
	int (*birth)(void *context, const struct slice_birth *birth);
	int (*end)(void *context, const struct sweep_end *end);
	void *context;
};

/*
 * Show all births and ends of a span, in the order of time, what ends at a moment before what is
 * born; cut->last_id is 0. Reads the rows of the slices that the span meets, and of older blocks
 * those that end in it. Returns 0 or a negative errno.
 */
int slice_edge_visit(struct slice_store *store, const struct slice_cut *cut,
		     const struct slice_events *events);
