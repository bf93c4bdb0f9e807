#pragma once
/*
 * Memory kinds: which blocks of a run lay in the heap of which kind. A process tells its ranges
 * (TRACE_RECORD_HEAP_RANGE); a block's kind follows from its address. Makes the rows of heap_kind,
 * heap_range and kind_total. One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "analyze/live/block-tree.h"

struct db;

#define KINDS_MAX	 16 /* of a run; a further one counts as the last */
#define KINDS_MAX_RANGES 4 /* of an image; a further one replaces the last */

/* Kinds that every run has: numbers are indexes of kinds.items. */
enum kinds_number {
	KINDS_LIBC,
	KINDS_SPILLED,
};

/* The ranges of one process image. All zero is none; a forked image has a copy. */
struct kinds_ranges {
	unsigned n;
	struct kinds_range {
		uint64_t start;
		uint64_t size;
		int64_t since_ns;
		unsigned kind;
	} items[KINDS_MAX_RANGES];
};

struct kinds {
	struct db *db;
	int64_t run_id;
	uint64_t min_bytes; /* --heap-min */
	bool spills; /* --spill */
	bool is_used; /* a range was told */
	unsigned n;
	struct kinds_item {
		char name[32];
		int64_t row; /* heap_kind.id; 0: not made yet */
		double n_blocks; /* not whole where blocks were picked */
		uint64_t bytes;
		double live_blocks;
		uint64_t live_bytes;
		uint64_t now_bytes; /* in processes that live */
		uint64_t peak_bytes;
	} items[KINDS_MAX];
};

void kinds_init(struct kinds *kinds, struct db *db, int64_t run_id);

/* What a process told. */
struct kinds_told {
	const char *kind;
	const char *place;
	uint64_t start;
	uint64_t size;
	int64_t time_ns;
	int64_t process_row;
};

/* Returns 0 or a negative errno of the database. */
int kinds_add_range(struct kinds *kinds, struct kinds_ranges *ranges,
		    const struct kinds_told *told);

/* As kinds_of(), where there are ranges. */
unsigned kinds_in_ranges(const struct kinds *kinds, const struct kinds_ranges *ranges,
			 const struct heap_block *block);

/* The number of the kind that a block of an image lies in. */
static inline unsigned kinds_of(const struct kinds *kinds, const struct kinds_ranges *ranges,
				const struct heap_block *block)
{
	return ranges->n > 0 ? kinds_in_ranges(kinds, ranges, block) : KINDS_LIBC;
}

/* A block was allocated, or ended; is_freed: somebody gave it back. */
struct block_weight;
void kinds_allocated(struct kinds *kinds, unsigned kind, const struct block_weight *weight);
void kinds_freed(struct kinds *kinds, unsigned kind, const struct block_weight *weight,
		 bool is_freed);

/* allocation.kind; INT64_MIN (ROWS_NULL): libc's heap. */
int64_t kinds_row(const struct kinds *kinds, unsigned kind);

/* Write kind_total when there were heaps; touches and blocks are in the database. 0 or an errno. */
int kinds_write(struct kinds *kinds);
