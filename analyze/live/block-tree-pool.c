#include "analyze/live/block-tree-pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/large.h"

#define CHUNK_ITEMS	(1u << HEAP_CHUNK_LOG2)
#define SLAB_BYTES	(64u << 10) /* or somewhat less; a huge page where a store has much */
#define RECORDS		(1u << HEAP_RECORDS_LOG2)
#define NO_ITEM		UINT32_MAX
#define HINTS_LOG2	17 /* 1 MiB, of which small runs touch a few pages */
#define HINT_BYTES_LOG2 11 /* about what a full leaf of small blocks spans */
#define MAX_SERIAL	((1u << 24) - 1)
#define MAX_ID		((UINT64_C(1) << 40) - 1)

_Static_assert(sizeof(struct heap_item) == 40, "the bound of 64 bytes a live block counts on it");

union free_node {
	struct heap_leaf leaf;
	struct heap_inner inner;
	union free_node *next;
};

int heap_pool_open(struct heap_pool **ret_pool)
{
	struct heap_pool *pool = calloc(1, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	pool->free_item = NO_ITEM;
	pool->leaves.item_bytes = sizeof(struct heap_leaf);
	pool->inners.item_bytes = sizeof(struct heap_inner);
	pool->regions.item_bytes = HEAP_REGION_BYTES;
	for (size_t i = 0; i < HEAP_LIST_LEVELS; i++)
		pool->lists[i].item_bytes = (HEAP_LIST_LEAST << i) * sizeof(uint32_t);
	pool->records.free = UINT32_MAX;
	pool->hints = calloc((size_t)1 << HINTS_LOG2, sizeof(struct heap_node *));
	if (!pool->hints || heap_pool_serial(pool) != 0 || pool->n_serials != 1) {
		heap_pool_close(pool); /* number 0 is nobody's */
		return -ENOMEM;
	}
	*ret_pool = pool;
	return 0;
}

static void free_store(struct heap_store *store)
{
	array_free(store->slabs, store->n_slabs, it, free(*it));
}

struct heap_pool *heap_pool_close(struct heap_pool *pool)
{
	if (!pool)
		return NULL;
	array_free(pool->chunks, pool->n_chunks, it, free(*it));
	free_store(&pool->leaves);
	free_store(&pool->inners);
	free_store(&pool->regions);
	for (size_t i = 0; i < HEAP_LIST_LEVELS; i++)
		free_store(&pool->lists[i]);
	array_free(pool->records.chunks, pool->records.n_chunks, it, free(*it));
	free_all(pool->hints, pool->last_ids, pool);
	return NULL;
}

size_t heap_pool_bytes(const struct heap_pool *pool)
{
	size_t n_bytes = pool->leaves.bytes + pool->inners.bytes + pool->regions.bytes;

	for (size_t i = 0; i < HEAP_LIST_LEVELS; i++)
		n_bytes += pool->lists[i].bytes;
	return n_bytes + pool->n_chunks * CHUNK_ITEMS * sizeof(struct heap_item) +
	       pool->records.n_used * sizeof(struct block_record);
}

struct heap_node **heap_pool_hint(const struct heap_pool *pool, uint64_t address, uint32_t serial)
{
	uint64_t key = address >> HINT_BYTES_LOG2 ^ (uint64_t)serial << 40;

	return &pool->hints[key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - HINTS_LOG2)];
}

uint32_t heap_pool_serial(struct heap_pool *pool)
{
	if (grow_array_of(&pool->last_ids, pool->n_serials, 1, sizeof(*pool->last_ids)) < 0 ||
	    pool->n_serials > MAX_SERIAL)
		return 0;
	pool->last_ids[pool->n_serials] = UINT64_MAX;
	return pool->n_serials++;
}

void heap_pool_end_serial(struct heap_pool *pool, uint32_t serial, uint64_t last_id)
{
	if (serial > 0)
		pool->last_ids[serial] = last_id;
}

uint64_t heap_pool_max_id(const struct heap_pool *pool, const struct heap_node *node)
{
	uint64_t last_id = node->owner ? pool->last_ids[node->owner] : 0;

	return last_id > node->max_id ? last_id : node->max_id;
}

static int add_slab(struct heap_store *store)
{
	size_t n_bytes = store->bytes < LARGE_PAGE_BYTES ? SLAB_BYTES : LARGE_PAGE_BYTES;
	char *slab;

	if (grow_array_of(&store->slabs, store->n_slabs, 1, sizeof(*store->slabs)) < 0 ||
	    !(slab = large_room(n_bytes)))
		return -ENOMEM;
	store->slabs[store->n_slabs++] = slab;
	store->next = slab;
	store->end = slab + n_bytes;
	return 0;
}

void *heap_store_take(struct heap_store *store)
{
	void *item = store->free;

	if (item) {
		store->free = *(void **)item;
		return item;
	}
	if ((size_t)(store->end - store->next) < store->item_bytes && add_slab(store) < 0)
		return NULL;
	item = store->next;
	store->next += store->item_bytes;
	store->bytes += store->item_bytes;
	return item;
}

void heap_store_put(struct heap_store *store, void *item)
{
	*(void **)item = store->free;
	store->free = item;
}

int heap_pool_take_record(struct heap_pool *pool, uint32_t *ret_number)
{
	struct heap_records *records = &pool->records;

	if (records->free != UINT32_MAX) {
		*ret_number = records->free;
		records->free = (uint32_t)heap_pool_record(pool, records->free)->size;
		if (records->free != UINT32_MAX)
			__builtin_prefetch(heap_pool_record(pool, records->free), 1);
		return 0;
	}
	if (records->n_used == records->n_chunks << HEAP_RECORDS_LOG2) {
		struct block_record *chunk;
		if (records->n_used > UINT32_MAX - 2 * RECORDS ||
		    grow_array_of(&records->chunks, records->n_chunks, 1,
				  sizeof(*records->chunks)) < 0 ||
		    !(chunk = large_room(RECORDS * sizeof(*chunk))))
			return -ENOMEM;
		records->chunks[records->n_chunks++] = chunk;
	}
	*ret_number = records->n_used++;
	return 0;
}

void heap_pool_put_record(struct heap_pool *pool, uint32_t number)
{
	heap_pool_record(pool, number)->size = pool->records.free;
	pool->records.free = number;
}

static struct heap_store *store_of(struct heap_pool *pool, uint16_t level)
{
	return level == 0 ? &pool->leaves : &pool->inners;
}

struct heap_node *heap_pool_node(struct heap_pool *pool, uint16_t level)
{
	struct heap_node *node = heap_store_take(store_of(pool, level));

	if (!node)
		return NULL;
	node->n_refs = 1;
	node->n = 0;
	node->level = level;
	node->max_id = 0;
	node->owner = 0;
	return node;
}

void heap_pool_put_node(struct heap_pool *pool, struct heap_node *node)
{
	node->owner = 0;
	heap_store_put(store_of(pool, node->level), node);
}

/* Blocks of a copied leaf. Returns false when a counter is full: memory for 2^24 leaves is gone. */
static bool ref_items(struct heap_pool *pool, const struct heap_leaf *leaf)
{
	for (unsigned i = 0; i < leaf->head.n; i++) {
		if (heap_pool_at(pool, leaf->blocks[i])->n_refs == HEAP_ITEM_MAX_REFS)
			return false;
	}
	for (unsigned i = 0; i < leaf->head.n; i++)
		heap_pool_at(pool, leaf->blocks[i])->n_refs++;
	return true;
}

struct heap_node *heap_pool_copy_node(struct heap_pool *pool, const struct heap_node *node)
{
	if (node->level == 0 && !ref_items(pool, (const struct heap_leaf *)node))
		return NULL;

	struct heap_node *copy = heap_pool_node(pool, node->level);
	if (!copy && node->level == 0) {
		const struct heap_leaf *leaf = (const struct heap_leaf *)node;
		for (unsigned i = 0; i < node->n; i++)
			heap_pool_put_item(pool, leaf->blocks[i]);
	}
	if (!copy)
		return NULL;

	memcpy(copy, node, store_of(pool, node->level)->item_bytes);
	copy->n_refs = 1;
	copy->max_id = heap_pool_max_id(pool, node) & MAX_ID;
	copy->owner = 0;
	for (unsigned i = 0; node->level > 0 && i < node->n; i++)
		heap_as_inner(copy)->children[i]->n_refs++;
	return copy;
}

void heap_pool_unref(struct heap_pool *pool, struct heap_node *node)
{
	if (!node || --node->n_refs > 0)
		return;
	for (unsigned i = 0; i < node->n; i++) {
		if (node->level > 0)
			heap_pool_unref(pool, heap_as_inner(node)->children[i]);
		else
			heap_pool_put_item(pool, heap_as_leaf(node)->blocks[i]);
	}
	heap_pool_put_node(pool, node);
}

static int add_chunk(struct heap_pool *pool)
{
	if (pool->n_chunks >= (NO_ITEM >> HEAP_CHUNK_LOG2))
		return -ENOMEM;
	if (grow_array_of(&pool->chunks, pool->n_chunks, 1, sizeof(*pool->chunks)) < 0)
		return -ENOMEM;

	struct heap_item *chunk = malloc(CHUNK_ITEMS * sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	uint32_t first = (uint32_t)pool->n_chunks << HEAP_CHUNK_LOG2;
	pool->chunks[pool->n_chunks++] = chunk;
	for (uint32_t i = CHUNK_ITEMS; i-- > 0;) {
		chunk[i].allocated_ns = pool->free_item;
		pool->free_item = first + i;
	}
	return 0;
}

int heap_pool_item(struct heap_pool *pool, const struct heap_block *block, uint32_t *ret_index)
{
	if (pool->free_item == NO_ITEM && add_chunk(pool) < 0)
		return -ENOMEM;

	uint32_t index = pool->free_item;
	struct heap_item *item = heap_pool_at(pool, index);
	pool->free_item = (uint32_t)item->allocated_ns;
	if (pool->free_item != NO_ITEM) /* what is freed last is not what was used last */
		__builtin_prefetch(heap_pool_at(pool, pool->free_item), 1);
	*item = (struct heap_item){
		.size = block->size,
		.allocated_ns = block->allocated_ns,
		.id = block->id,
		.n_refs = 1,
		.previous_id = block->previous_id,
		.call = block->call,
		.interval = block->interval,
		.thread = block->thread,
		.site = block->site,
	};
	*ret_index = index;
	return 0;
}

void heap_pool_put_item(struct heap_pool *pool, uint32_t index)
{
	struct heap_item *item = heap_pool_at(pool, index);

	if (--item->n_refs > 0)
		return;
	item->allocated_ns = pool->free_item;
	pool->free_item = index;
}
