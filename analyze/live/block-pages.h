#pragma once
/*
 * The small blocks of one process image, found by the 2 KiB that they start in: most blocks live
 * and end here, and never reach the tree.
 *
 * Such a page has a bit for each 16 bytes that are taken, and one for each where a block starts.
 * That tells exactly what lies in the way of a block, what is around an address, and the order of
 * all, for blocks that start at a multiple of 16 and are not larger than a region of 128 pages. The
 * numbers of their records stand in the same order. All others are the tree's, and a page knows
 * whether one of those may share a byte with it.
 *
 * Not safe to use from two threads.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/live/block-tree.h"

#define BLOCK_PAGE_BYTES   UINT64_C(2048)
#define BLOCK_PAGE_WORDS   2u /* of 64 grains of 16 bytes */
#define BLOCK_PAGE_FEW	   5u
#define BLOCK_SUM_BYTES	   UINT64_C(4096)
#define BLOCK_REGION_LOG2  18
#define BLOCK_REGION_BYTES (UINT64_C(1) << BLOCK_REGION_LOG2)
#define BLOCK_REGION_PAGES (BLOCK_REGION_BYTES / BLOCK_PAGE_BYTES)

/* A line of the cache. */
struct block_page {
	uint64_t taken[BLOCK_PAGE_WORDS]; /* also by a block of a page before */
	uint64_t starts[BLOCK_PAGE_WORDS];
	uint32_t *many; /* numbers of the records of its blocks; NULL: they are in `few` */
	uint32_t few[BLOCK_PAGE_FEW];
	uint16_t n_bytes; /* of blocks */
	uint8_t level; /* of `many` in heap_pool.lists */
	bool is_met; /* a block of the tree may lie there */
};

struct block_region {
	struct block_page pages[BLOCK_REGION_PAGES];
};

/* By hash of its number. */
struct block_region_slot {
	uint64_t number; /* address / 256 KiB */
	struct block_region *region; /* NULL: the slot is free */
};

/* All zero but for the pool: there are none. */
struct block_pages {
	struct heap_pool *pool;
	struct block_region_slot *slots;
	size_t n_slots; /* a power of two, at least twice n_regions; or 0 */
	size_t n_regions; /* some of them without a block */
	size_t n_blocks;
};

/* Whether a block may be kept here. */
bool block_pages_fits(const struct heap_block *block);

/*
 * heap_insert() for such a block, which must not meet one of the tree either. Returns 0, -EEXIST,
 * -ENOMEM, or -E2BIG: blocks lie so far apart that a tree would take less memory, and nothing was
 * done.
 */
int block_pages_insert(struct block_pages *pages, const struct heap *tree,
		       const struct heap_block *block);

/* Of addresses in blocks: where these start, in their place. All misses of the cache overlap. */
void block_pages_starts(const struct block_pages *pages, uint64_t *addresses, size_t n);

/* Blocks at these addresses are asked for soon: what that reads is fetched into the cache. */
void block_pages_fetch(const struct block_pages *pages, const uint64_t *addresses, size_t n);

/* As the functions of block-tree.h. */
bool block_pages_remove(struct block_pages *pages, uint64_t address, struct heap_block *ret_block);
bool block_pages_find(const struct block_pages *pages, uint64_t address,
		      struct heap_block *ret_block);
bool block_pages_overlap(const struct block_pages *pages, uint64_t address, uint64_t size,
			 struct heap_block *ret_block);

/* How many regions block_pages_overlap() and block_pages_meet() look at for that many bytes. */
size_t block_pages_cost(const struct block_pages *pages, uint64_t size);

/* The tree gets a block here: pages take note of it. */
void block_pages_meet(struct block_pages *pages, uint64_t address, uint64_t size);

/* Bytes of the list of regions; all else is the pool's. */
size_t block_pages_bytes(const struct block_pages *pages);

/* The blocks in order of address, while none is added or removed. */
struct block_page_cursor {
	const struct block_pages *of;
	struct block_region_slot *regions; /* sorted; the cursor's */
	size_t n;
	size_t at; /* the region */
	unsigned grain; /* of the region, the first that was not looked at */
};

/* Returns 0 or -ENOMEM. */
int block_pages_begin(const struct block_pages *pages, struct block_page_cursor *ret_cursor);

/*
 * Go on to the first block at or above an address, and visit those with ids above `above_id` on the
 * way. Stops at a negative result, and returns it; else 0.
 */
int block_pages_walk(struct block_page_cursor *cursor, uint64_t until, uint64_t above_id,
		     heap_visit visit, void *context);

/*
 * The next 4 KiB that begin below an address and have bytes of blocks: their number (address /
 * BLOCK_SUM_BYTES) and how many. False: there is none. For a new cursor.
 */
bool block_pages_next(struct block_page_cursor *cursor, uint64_t until, uint64_t *ret_number,
		      unsigned *ret_n_bytes);

void block_pages_end(struct block_page_cursor *cursor);

/* Forget all blocks. */
void block_pages_finish(struct block_pages *pages);
