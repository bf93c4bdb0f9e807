#pragma once
/*
 * Touches beside the heap, summed up by owner: the table `object_total`. All zero is empty. One
 * thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"
#include "store/totals/unresolved.h"

struct db;
struct touch;

struct object_total {
	int64_t owner_kind;
	int64_t owner_id;
	uint64_t n_faults;
	int64_t first_touch_ns;
	int64_t last_touch_ns;
	struct owner_shares shares; /* added by tally_settle() */
};

struct object_totals {
	struct key_map numbers; /* of (kind, id): index + 1 */
	struct object_total *items;
	size_t n;
	size_t n_allocated;
};

void object_totals_finish(struct object_totals *totals);

/* Count a touch, but for its shares; its owner's index. Returns 0 or -ENOMEM. */
int object_totals_add(struct object_totals *totals, const struct touch *touch, uint32_t *ret_index);

/* The sums of an owner, made when it is new; valid until the next call. Returns 0 or -ENOMEM. */
int object_totals_at(struct object_totals *totals, int64_t kind, int64_t id,
		     struct object_total **ret_item);

/* Write the rows of a run, of a tally's objects. Returns 0 or a negative errno. */
struct tally;
int object_totals_write(const struct tally *tally, struct db *db, int64_t run_id);
