#pragma once
/*
 * The live blocks of one process image: most are found by a hash, all others in a tree.
 * What is asked for of both answers as one tree of all would (block-tree.h).
 *
 * A fork moves the pages' blocks into the tree, which parent and child share until they change.
 * So does a storm of large blocks, for each of which many regions would have to be looked at, and
 * blocks that lie far apart. Not safe to use from two threads.
 */
#include "analyze/live/block-pages.h"
#include "analyze/live/block-tree.h"

struct live_blocks {
	struct heap tree;
	struct block_pages pages;
	uint64_t patience; /* regions that may still be looked at for large blocks */
};

/* No blocks. Cannot fail. */
void live_blocks_init(struct live_blocks *live, struct heap_pool *pool);

/* Forget all blocks. It is empty and usable afterwards. */
void live_blocks_finish(struct live_blocks *live);

/* Make child, which must be empty, a copy of parent. 0 or -ENOMEM. */
int live_blocks_fork(struct live_blocks *child, struct live_blocks *parent);

uint64_t live_blocks_count(const struct live_blocks *live);

/* As heap_insert(), heap_remove(), heap_find(), heap_overlap() and heap_walk(). */
int live_blocks_insert(struct live_blocks *live, const struct heap_block *block);
int live_blocks_remove(struct live_blocks *live, uint64_t address, struct heap_block *ret_block);
bool live_blocks_find(const struct live_blocks *live, uint64_t address,
		      struct heap_block *ret_block);
bool live_blocks_overlap(const struct live_blocks *live, uint64_t address, uint64_t size,
			 struct heap_block *ret_block);
int live_blocks_walk(const struct live_blocks *live, uint64_t above_id, heap_visit visit,
		     void *context);

/*
 * As live_blocks_walk(), but of small blocks visit only the bytes in each page of BLOCK_SUM_BYTES
 * that has any, before the first larger block that starts behind the page's begin.
 */
typedef int (*live_page_visit)(void *context, uint64_t number, unsigned n_bytes);
int live_blocks_walk_pages(const struct live_blocks *live, live_page_visit page, heap_visit large,
			   void *context);
