#pragma once
/*
 * Samples of accesses (PEBS, IBS, SPE and their like), summed up by source, owner and data source:
 * the table access_total. All zero is empty. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"

struct db;
struct touch;

struct access_total {
	int64_t source_row;
	int64_t owner_kind;
	int64_t owner_id;
	int64_t data_src;
	uint64_t n;
	uint64_t n_writes;
	uint64_t n_latencies;
	uint64_t latency;
	double latency_sq;
};

struct access_totals {
	struct key_map numbers; /* of (source, kind, id), data_src: index + 1 */
	struct access_total *items;
	size_t n;
	size_t n_allocated;
};

void access_totals_finish(struct access_totals *totals);

/* Add a touch of an owner; owner_id as the table has it. Returns 0 or -ENOMEM. */
int access_totals_add(struct access_totals *totals, const struct touch *touch, int64_t owner_id);

/*
 * The sums of the source, owner and data source of another; valid until the next call. 0 or
 * -ENOMEM.
 */
int access_totals_at(struct access_totals *totals, const struct access_total *like,
		     struct access_total **ret_item);

/* Write the rows of a run. Returns 0 or a negative errno. */
int access_totals_write(const struct access_totals *totals, struct db *db, int64_t run_id);

/* The same of page faults, whose data_src is a node: the table fault_node. */
int access_totals_write_nodes(const struct access_totals *totals, struct db *db, int64_t run_id);
