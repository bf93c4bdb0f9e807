#include "analyze/live/live-blocks.h"

#include <errno.h>

#define MOST_PATIENCE 65536
#define EARNED	      8 /* by a small block: what large ones cost is little beside it */

void live_blocks_init(struct live_blocks *live, struct heap_pool *pool)
{
	*live = (struct live_blocks){ .pages = { .pool = pool }, .patience = MOST_PATIENCE };
	heap_init(&live->tree, pool);
}

void live_blocks_finish(struct live_blocks *live)
{
	block_pages_finish(&live->pages);
	heap_finish(&live->tree);
}

uint64_t live_blocks_count(const struct live_blocks *live)
{
	return live->tree.n_blocks + live->pages.n_blocks;
}

static int insert_into(void *tree, const struct heap_block *block)
{
	return heap_insert(tree, block);
}

/* All blocks of pages become the tree's. Without memory for that some are lost. */
static int move_to_tree(struct live_blocks *live)
{
	struct block_page_cursor cursor = { 0 };
	int r = block_pages_begin(&live->pages, &cursor);

	r = r ?: block_pages_walk(&cursor, UINT64_MAX, 0, insert_into, &live->tree);
	block_pages_end(&cursor);
	block_pages_finish(&live->pages);
	live->patience = MOST_PATIENCE;
	return r;
}

int live_blocks_fork(struct live_blocks *child, struct live_blocks *parent)
{
	int r = move_to_tree(parent);

	if (r == 0)
		heap_fork(&child->tree, &parent->tree);
	return r;
}

/* A block for the tree: pages must know of it, and have none in its way. */
static int insert_large(struct live_blocks *live, const struct heap_block *block)
{
	size_t cost = block_pages_cost(&live->pages, block->size);
	struct heap_block other;

	if (cost > live->patience) {
		int r = move_to_tree(live);
		if (r < 0)
			return r;
		cost = 0;
	}
	live->patience -= cost;
	if (live->pages.n_regions > 0) {
		if (block_pages_overlap(&live->pages, block->address, block->size, &other))
			return -EEXIST;
		block_pages_meet(&live->pages, block->address, block->size);
	}
	return heap_insert(&live->tree, block);
}

static int insert_small(struct live_blocks *live, const struct heap_block *block)
{
	int r = block_pages_insert(&live->pages, &live->tree, block);

	if (r == -E2BIG) {
		r = move_to_tree(live) ?: block_pages_insert(&live->pages, &live->tree, block);
	}
	if (live->patience < MOST_PATIENCE)
		live->patience += EARNED;
	return r;
}

int live_blocks_insert(struct live_blocks *live, const struct heap_block *block)
{
	return block_pages_fits(block) ? insert_small(live, block) : insert_large(live, block);
}

int live_blocks_remove(struct live_blocks *live, uint64_t address, struct heap_block *ret_block)
{
	if (block_pages_remove(&live->pages, address, ret_block))
		return 1;
	return heap_remove(&live->tree, address, ret_block);
}

bool live_blocks_find(const struct live_blocks *live, uint64_t address,
		      struct heap_block *ret_block)
{
	return block_pages_find(&live->pages, address, ret_block) ||
	       heap_find(&live->tree, address, ret_block);
}

bool live_blocks_overlap(const struct live_blocks *live, uint64_t address, uint64_t size,
			 struct heap_block *ret_block)
{
	struct heap_block small;
	bool is_small = block_pages_overlap(&live->pages, address, size, &small);

	if (heap_overlap(&live->tree, address, size, ret_block) &&
	    (!is_small || ret_block->address < small.address))
		return true;
	if (is_small)
		*ret_block = small;
	return is_small;
}

/* The blocks of the tree are visited between those of the pages. */
struct walk {
	struct block_page_cursor cursor;
	uint64_t above_id;
	heap_visit visit;
	void *context;
};

static int visit_large(void *context, const struct heap_block *block)
{
	struct walk *walk = context;
	int r = block_pages_walk(&walk->cursor, block->address, walk->above_id, walk->visit,
				 walk->context);

	return r < 0 ? r : walk->visit(walk->context, block);
}

int live_blocks_walk(const struct live_blocks *live, uint64_t above_id, heap_visit visit,
		     void *context)
{
	struct walk walk = { .above_id = above_id, .visit = visit, .context = context };
	int r = block_pages_begin(&live->pages, &walk.cursor);

	if (r < 0)
		return r;
	r = heap_walk(&live->tree, above_id, visit_large, &walk);
	if (r >= 0)
		r = block_pages_walk(&walk.cursor, UINT64_MAX, above_id, visit, context);
	block_pages_end(&walk.cursor);
	return r;
}

struct page_walk {
	struct block_page_cursor cursor;
	live_page_visit page;
	heap_visit large;
	void *context;
};

static int visit_pages(struct page_walk *walk, uint64_t until)
{
	uint64_t number;
	unsigned n_bytes;
	int r = 0;

	while (r >= 0 && block_pages_next(&walk->cursor, until, &number, &n_bytes))
		r = walk->page(walk->context, number, n_bytes);
	return r;
}

static int visit_behind_pages(void *context, const struct heap_block *block)
{
	struct page_walk *walk = context;
	int r = visit_pages(walk, block->address + 1);

	return r < 0 ? r : walk->large(walk->context, block);
}

int live_blocks_walk_pages(const struct live_blocks *live, live_page_visit page, heap_visit large,
			   void *context)
{
	struct page_walk walk = { .page = page, .large = large, .context = context };
	int r = block_pages_begin(&live->pages, &walk.cursor);

	if (r < 0)
		return r;
	r = heap_walk(&live->tree, 0, visit_behind_pages, &walk);
	if (r >= 0)
		r = visit_pages(&walk, UINT64_MAX);
	block_pages_end(&walk.cursor);
	return r;
}
