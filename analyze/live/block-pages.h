#pragma once
/*
 * The small blocks of one process image, found by the page that they start in: most blocks live and
 * end here, and never reach the tree.
 *
 * A page of 4 KiB has a bit for each 16 bytes that are taken, and one for each where a block
 * starts; an array says which blocks these are. That answers everything exactly for blocks that
 * start at a multiple of 16 and are not larger than a page. All others are the tree's, and a page
 * knows whether one of those may share a byte with it.
 *
 * Not safe to use from two threads.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/live/block-tree.h"

#define BLOCK_PAGE_LOG2	  12
#define BLOCK_PAGE_BYTES  (UINT64_C(1) << BLOCK_PAGE_LOG2)
#define BLOCK_GRAIN_LOG2  4
#define BLOCK_PAGE_GRAINS (1u << (BLOCK_PAGE_LOG2 - BLOCK_GRAIN_LOG2))
#define BLOCK_PAGE_WORDS  (BLOCK_PAGE_GRAINS / 64)
#define BLOCK_PAGE_FEW	  32

/* What is kept of a block beside its place; no bit fields: it is written at once. */
struct block_record {
	int64_t allocated_ns;
	uint64_t id_thread; /* id | thread << 40 */
	uint64_t previous_call_size; /* previous_id | call << 40 | size << 48 */
	uint64_t site_interval; /* site | interval << 32 */
};

/*
 * Two lines of the cache. Its blocks' records have places, 0 .. n_room - 1, which they keep; their
 * numbers are listed in the order of addresses, behind them the free ones.
 */
struct block_page {
	uint64_t taken[BLOCK_PAGE_WORDS]; /* also by a block of the page before */
	uint64_t starts[BLOCK_PAGE_WORDS];
	uint64_t number; /* address / 4096 */
	struct block_record *records; /* behind them the list, if it has more than a few numbers */
	uint16_t n;
	uint16_t n_room;
	uint16_t bytes; /* of blocks in the page, also of one that starts in the page before */
	uint8_t before[BLOCK_PAGE_WORDS]; /* how many start in the words before */
	bool meets_tree; /* a block of the tree may lie here */
	uint8_t few[BLOCK_PAGE_FEW];
};

/* All zero but for the pool: there are none. */
struct block_pages {
	struct heap_pool *pool;
	struct block_page **slots; /* by hash of the number; NULL: free */
	size_t n_slots; /* a power of two, at least twice n_pages; or 0 */
	size_t n_pages; /* some of them without a block */
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

/* Blocks at these addresses are asked for soon: what that reads is fetched into the cache. */
void block_pages_fetch(const struct block_pages *pages, const uint64_t *addresses, size_t n);

/* As the functions of block-tree.h. */
bool block_pages_remove(struct block_pages *pages, uint64_t address, struct heap_block *ret_block);
bool block_pages_find(const struct block_pages *pages, uint64_t address,
		      struct heap_block *ret_block);
bool block_pages_overlap(const struct block_pages *pages, uint64_t address, uint64_t size,
			 struct heap_block *ret_block);

/* How many pages block_pages_overlap() and block_pages_meet() look at for that many bytes. */
size_t block_pages_cost(const struct block_pages *pages, uint64_t size);

/* The tree gets a block here: pages take note of it. */
void block_pages_meet(struct block_pages *pages, uint64_t address, uint64_t size);

/* The blocks in order of address, while none is added or removed. */
struct block_page_cursor {
	struct block_page **pages; /* sorted; the cursor's */
	size_t n;
	size_t at;
	unsigned word; /* of pages[at], the first that was not looked at */
	unsigned rank; /* how many blocks of pages[at] were visited */
	uint64_t starts; /* that are left of the word before */
};

/* Returns 0 or -ENOMEM. */
int block_pages_begin(const struct block_pages *pages, struct block_page_cursor *ret_cursor);

/*
 * Go on to the first block at or above an address, and visit those with ids above `above_id` on the
 * way. Stops at a negative result, and returns it; else 0.
 */
int block_pages_walk(struct block_page_cursor *cursor, uint64_t until, uint64_t above_id,
		     heap_visit visit, void *context);

/* The next page below an address that has bytes of blocks; NULL: it is not. For a new cursor. */
const struct block_page *block_pages_next(struct block_page_cursor *cursor, uint64_t until);

void block_pages_end(struct block_page_cursor *cursor);

/* Forget all blocks. */
void block_pages_finish(struct block_pages *pages);
