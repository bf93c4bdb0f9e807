#pragma once
/*
 * Touches beside the heap, summed up by owner: the table `object_total`. All zero is empty. Touches
 * of one sample must follow each other. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/imputed.h"
#include "analyze/key-map.h"
#include "analyze/share-total.h"

struct db;
struct sample_touch;

struct object_total {
	int64_t owner_kind;
	int64_t owner_id;
	double n_samples;
	double n_samples_sq;
	double time_ns;
	uint64_t n_faults;
	int64_t first_touch_ns;
	int64_t last_touch_ns;
	int64_t sample; /* the last one that touched it, ... */
	double sample_share; /* ... and the sum of its shares, not squared yet */
	struct share_total stalls;
	struct imputed imputed;
};

struct object_totals {
	struct key_map numbers; /* of (kind, id): index + 1 */
	struct object_total *items;
	size_t n;
	size_t n_allocated;
};

void object_totals_finish(struct object_totals *totals);

/* Add a touch. Returns 0 or -ENOMEM. */
int object_totals_add(struct object_totals *totals, const struct sample_touch *touch);

/* The sums of an owner, made when it is new; valid until the next call. Returns 0 or -ENOMEM. */
int object_totals_at(struct object_totals *totals, int64_t kind, int64_t id,
		     struct object_total **ret_item);

/* Write the rows of a run. Returns 0 or a negative errno. */
int object_totals_write(struct object_totals *totals, struct db *db, int64_t run_id);
