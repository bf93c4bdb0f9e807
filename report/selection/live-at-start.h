#pragma once
/*
 * For recount-blocks.c: where the blocks of a part of time lie, so that not all rows of the run are
 * read.
 */
#include "report/selection/recount.h"

struct replay_carried {
	int64_t first_id; /* of the blocks born in slices that the time meets, ... */
	/* ... all lie from here to there, but may be born before the time; none: before first_id */
	int64_t last_id;
	int64_t *ids; /* of older ones that live when it begins, ascending; the caller's to free */
	size_t n;
	size_t n_allocated;
};

/*
 * From slices and pictures. Returns 0; -ENODATA: the run has none, its time is all of it, or so
 * many blocks are carried that reading all rows is faster; or another negative errno.
 */
int replay_carried_find(const struct replay *replay, struct replay_carried *ret_carried);
