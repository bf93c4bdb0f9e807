#pragma once
/*
 * The live blocks of one process image, found by any address inside them.
 *
 * A B+-tree over addresses whose nodes are reference counted: heap_fork() shares the whole tree and
 * a later write copies only the path to its leaf, so that a fork costs nothing and a storm of forks
 * stays cheap. The leaf that held an address last is mostly found without the way from the root.
 * Blocks of a size below 2^32 are found without a look outside the tree. About 63
 * bytes per live block with leaves filled to 70 %. All times are ns since the run's start.
 *
 * Not safe to use from two threads.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One live block; what its row needs, except the end. */
struct heap_block {
	uint64_t address;
	uint64_t size;
	int64_t allocated_ns;
	uint64_t id; /* number of its allocation in the run, from 1; < 2^40 */
	uint64_t previous_id; /* of the block that realloc turned into this one; 0: none */
	uint32_t thread; /* number of the thread that allocated */
	uint32_t site; /* number of its call site (tally.h) */
	uint8_t call; /* enum trace_call */
	uint8_t interval; /* number of that with which it was picked (block-weight.h); 0: none */
};

struct heap_pool;
struct heap_node;

/* Live blocks of one process image. All zero is not valid: heap_init(). */
struct heap {
	struct heap_pool *pool;
	struct heap_node *root; /* NULL: empty */
	uint64_t n_blocks;
	uint64_t last_id; /* the highest that was added */
	uint32_t serial; /* of the nodes that it added to since its last fork; 0: none */
};

/* Memory shared by the heaps of a run. Returns 0 or -ENOMEM. */
int heap_pool_open(struct heap_pool **ret_pool);

/* All heaps must be finished before. Accepts NULL, returns NULL. */
struct heap_pool *heap_pool_close(struct heap_pool *pool);

/* Bytes that the live set of all heaps occupies at this moment. */
size_t heap_pool_bytes(const struct heap_pool *pool);

/* An empty live set. Cannot fail. */
void heap_init(struct heap *heap, struct heap_pool *pool);

/* Forget all blocks. The heap is empty and usable afterwards. */
void heap_finish(struct heap *heap);

/* Make child, which must be empty, a copy of parent; O(1). Cannot fail. */
void heap_fork(struct heap *child, struct heap *parent);

/*
 * Add a block. Returns 0, -EEXIST: a live block starts there or shares a byte with it (see
 * heap_overlap()), or -ENOMEM. The blocks are as before when it fails.
 */
int heap_insert(struct heap *heap, const struct heap_block *block);

/* Remove the block that starts at address. Returns 1 with the block, 0: none, or -ENOMEM. */
int heap_remove(struct heap *heap, uint64_t address, struct heap_block *ret_block);

/* The block that starts at address or has it inside. A block of size 0 contains nothing. */
bool heap_find(const struct heap *heap, uint64_t address, struct heap_block *ret_block);

/* The lowest block that starts at address, or shares a byte with address .. address + size - 1. */
bool heap_overlap(const struct heap *heap, uint64_t address, uint64_t size,
		  struct heap_block *ret_block);

/*
 * Call visit for every block whose id is above above_id, in order of address. What a child has of
 * its parent costs nothing: whole parts of the tree without newer blocks are left out. visit must
 * not change the heap. Stops and returns at the first negative result.
 */
typedef int (*heap_visit)(void *context, const struct heap_block *block);
int heap_walk(const struct heap *heap, uint64_t above_id, heap_visit visit, void *context);
