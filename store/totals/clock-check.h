#pragma once
/*
 * How well the times of samples and of events fit: an access to memory that a block of another
 * moment holds, one that is born or ended within ALIGNMENT_NS, most likely belongs to that block.
 * Allocation events and samples have clocks of their own, and pairs of both join them; where they
 * do not fit, these become many. Bounded memory; one thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/touch.h"

#define ALIGNMENT_NS   INT64_C(10000)
#define ALIGNMENT_RING 64u

/* A block at its allocation or free, or an access (size 0), of a process's row. */
struct alignment_moment {
	int64_t process_row;
	int64_t time_ns;
	uint64_t address;
	uint64_t size;
};

struct alignment_ring {
	struct alignment_moment items[ALIGNMENT_RING];
	size_t n; /* so far; the last ones are kept, by time */
};

/* All zero is one that has seen nothing. */
struct alignment {
	struct alignment_ring allocations;
	struct alignment_ring frees;
	struct alignment_ring strays; /* accesses to no block */
	uint64_t n_heap; /* exact accesses and faults that found their block */
	uint64_t n_before; /* up to ALIGNMENT_NS before the allocation of a block there ... */
	uint64_t n_after; /* ... or after its free */
};

/* A block is born, or ends. */
void alignment_allocation(struct alignment *alignment, const struct alignment_moment *block);
void alignment_free(struct alignment *alignment, const struct alignment_moment *block);

/* A touch was given to its owner, at the time of the sample or somewhat later. */
void alignment_touch(struct alignment *alignment, const struct touch *touch);
