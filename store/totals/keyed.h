#pragma once
/*
 * Sums by what they are of, a row of a table for each: what threads did (thread_total), blocks by
 * size and lifetime (histogram), touches beside the heap by owner (object_total), sampled accesses
 * by source, owner and data source (access_total), page faults likewise by node (fault_node), and
 * samples by call stack (sample_stack). All zero is empty. One thread. totals.c writes them.
 */
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"
#include "store/block-weight.h"
#include "store/source-measures.h"
#include "store/totals/unresolved.h"

struct touch;

/* ---- Threads, by their rows in the database, which count up from first_row ---- */

/* Numbers of blocks are estimates where blocks were picked, and then not whole. */
struct thread_total {
	double n_blocks;
	uint64_t bytes;
	double n_frees;
	double n_foreign;
	double live_blocks;
	uint64_t live_bytes;
	double n_temporary;
	uint64_t n_samples;
	int64_t time_ns;
	uint64_t n_faults;
};

struct thread_totals {
	int64_t first_row; /* set by the owner before the first use */
	struct thread_total *items;
	size_t n;
	size_t n_allocated;
};

void thread_totals_finish(struct thread_totals *totals);

/* As thread_totals_at(), for a thread that may have none yet. */
struct thread_total *thread_totals_make(struct thread_totals *totals, int64_t row);

/* The sums of a thread; valid until the next call. A row below first_row, or no memory: NULL. */
static inline struct thread_total *thread_totals_at(struct thread_totals *totals, int64_t row)
{
	int64_t at = row - totals->first_row;

	return at >= 0 && (size_t)at < totals->n ? &totals->items[at]
						 : thread_totals_make(totals, row);
}

/* ---- Blocks by size and lifetime, in powers of two ---- */

#define HISTOGRAM_ZERO	  (-1) /* a size or a life of 0 */
#define HISTOGRAM_UNFREED (-2) /* a block that was not freed has no lifetime */
#define HISTOGRAM_BUCKETS 66 /* -2 .. 63 */

struct histogram_cell {
	double n_blocks; /* estimates where blocks were picked: not whole */
	uint64_t bytes;
};

struct histogram {
	struct histogram_cell cells[HISTOGRAM_BUCKETS][HISTOGRAM_BUCKETS]; /* by size, life; + 2 */
};

/* The bucket of a number: 2^bucket <= number < 2^(bucket + 1); HISTOGRAM_ZERO. */
int histogram_bucket(uint64_t number);

/* A block of this size ended after life_ns; < 0: it was not freed. */
void histogram_add(struct histogram *histogram, uint64_t size, int64_t life_ns,
		   const struct block_weight *weight);

/* Add what another one has. */
void histogram_join(struct histogram *to, const struct histogram *from);

/* ---- Touches beside the heap, by owner ---- */

struct object_total {
	int64_t owner_kind;
	int64_t owner_id;
	uint64_t n_faults;
	int64_t first_touch_ns; /* INT64_MAX: none */
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

/* The sums of an owner, made when it is new; valid until the next call. NULL: no memory. */
struct object_total *object_totals_at(struct object_totals *totals, int64_t kind, int64_t id);

/* ---- Samples of accesses (PEBS, IBS, SPE and their like), and page faults with a node ---- */

struct access_total {
	int64_t source_row;
	int64_t owner_kind;
	int64_t owner_id; /* as the table has it */
	int64_t data_src; /* of page faults the node */
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
 * The sums of the source, owner and data source of another; valid until the next call. NULL: no
 * memory.
 */
struct access_total *access_totals_at(struct access_totals *totals,
				      const struct access_total *like);

/* ---- Samples that have call stacks of their own ---- */

struct stack_total {
	enum source_measures measures;
	int64_t stack_id;
	uint64_t n;
	int64_t weight;
};

struct stack_totals {
	struct key_map numbers; /* of stack, measures: index + 1 */
	struct stack_total *items;
	size_t n;
	size_t n_allocated;
};

void stack_totals_finish(struct stack_totals *totals);

/* A sample was taken in a call stack; stack_id 0: it has none. Returns 0 or -ENOMEM. */
int stack_totals_add(struct stack_totals *totals, enum source_measures measures, int64_t stack_id,
		     int64_t weight);

/* The sums of a stack; valid until the next call. NULL: no memory. */
struct stack_total *stack_totals_at(struct stack_totals *totals, enum source_measures measures,
				    int64_t stack_id);
