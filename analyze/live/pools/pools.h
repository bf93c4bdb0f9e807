#pragma once
/*
 * Blocks that allocators of the program's own hand out (memsight_block() of memsight.h and its
 * like), and the pools that they are of. Such a block is a row of `allocation`, too. What it lies
 * in, be that a block of malloc or one of another pool, keeps what is left of it: see
 * tally_allocation_within(). It ends by a call of its own, with its pool, or with what it lies in.
 *
 * A forked child has copies of its parent's: they are found by address, and have no row of their
 * own; a reset of their pool leaves them where they are until a block takes their place. Times are
 * ns since the run's start. One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "analyze/live/block-tree.h"

struct db;
struct memory;
struct memory_image;
struct pools;

#define POOLS_LEVELS 4u /* a block in a block of a pool in ... */

/* What could not be kept. */
struct pools_losses {
	uint64_t n_ends; /* of blocks that are not known, though all are recorded */
	uint64_t n_references; /* taken or given back, to such blocks */
	uint64_t n_too_deep;
	uint64_t n_picked; /* blocks, while malloc's are picked (--sample-bytes) */
	uint64_t n_pools; /* blocks of pools beyond the first 65,536: counted as of none */
	uint64_t n_known; /* estimates for what lies in blocks that are recorded */
};

/* Returns 0 or a negative errno. */
int pools_open(struct db *db, int64_t run_id, struct pools **ret_pools);
struct pools *pools_close(struct pools *pools); /* accepts NULL, returns NULL */
const struct pools_losses *pools_losses(const struct pools *pools);

/* Added to the number of a pool it is its row's id. */
int64_t pools_first_row(const struct pools *pools);

/* A block, or the end of one (only thread, time_ns, address), or of a pool's (and pool). */
struct pool_block {
	uint32_t thread;
	uint32_t text; /* the allocator's name, as texts.h numbers it; 0: memsight.h */
	int64_t time_ns;
	int64_t stack_id;
	uint64_t address;
	uint64_t size;
	uint64_t pool;
	uint64_t weighted; /* bytes that it stands for; up to size: itself */
	uint8_t call; /* enum trace_call: what says so */
	bool is_moved; /* one takes the place of the other, and is of the same pool */
};

/* 0 or a negative errno. What does not fit is counted. */
int memory_pool_block(struct memory *memory, const struct pool_block *block);
int memory_pool_block_end(struct memory *memory, const struct pool_block *end);

/* One reference more (call is TRACE_CALL_REF), or less: a block begins with one, and ends at 0. */
int memory_pool_block_count(struct memory *memory, const struct pool_block *note);
int memory_pool_reset(struct memory *memory, const struct pool_block *reset);

/* Memory is given back: all blocks in it end. 0 or a negative errno. */
int memory_end_inner(struct memory *memory, struct memory_image *image, uint64_t address,
		     uint64_t size, int64_t time_ns);

/* An image ends. 0 or a negative errno. */
int memory_end_pools(struct memory *memory, struct memory_image *image, int64_t time_ns,
		     bool by_exec);

/* When all images have ended: write the rows of pools. 0 or a negative errno. */
int memory_write_pools(struct memory *memory);
