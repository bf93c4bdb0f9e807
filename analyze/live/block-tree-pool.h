#pragma once
/*
 * Memory of live blocks: nodes of trees, blocks, and pages, all reused. A block is referred to by
 * every leaf that holds it (copies of a leaf after a fork share their blocks).
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/live/block-tree.h"

#define HEAP_NODE_ITEMS	  63
#define HEAP_CHUNK_LOG2	  15 /* items */
#define HEAP_RECORDS_LOG2 16 /* of a chunk */
#define HEAP_REGION_BYTES 8192 /* of a struct block_region */
#define HEAP_LIST_LEAST	  16u /* numbers of records in a list of level 0 */
#define HEAP_LIST_LEVELS  4

struct heap_node {
	uint32_t n_refs;
	uint16_t n; /* items */
	uint16_t level; /* 0: a leaf */
	uint64_t max_id : 40; /* no block below it has a higher id, but for what `owner` added */
	/*
	 * heap.serial of the heap that has added below it on the way from the root, and so had that
	 * way for itself; 0: none. It may have added more since, without that way.
	 */
	uint64_t owner : 24;
	uint64_t keys[HEAP_NODE_ITEMS]; /* leaf: addresses; inner: the lowest key below a child */
};

struct heap_leaf {
	struct heap_node head;
	uint32_t sizes[HEAP_NODE_ITEMS]; /* UINT32_MAX: that or more, see the block */
	uint32_t blocks[HEAP_NODE_ITEMS];
};

struct heap_inner {
	struct heap_node head;
	struct heap_node *children[HEAP_NODE_ITEMS];
};

/* The part of a block that is not in the leaf; 40 bytes. */
struct heap_item {
	uint64_t size;
	int64_t allocated_ns;
	uint64_t id : 40;
	uint64_t n_refs : 24;
	uint64_t previous_id : 40;
	uint64_t call : 8;
	uint64_t interval : 8;
	uint32_t thread;
	uint32_t site;
};

#define HEAP_ITEM_MAX_REFS ((1u << 24) - 1)

/* A block of block-pages.h: half a line of the cache. No bit fields: it is written at once. */
struct block_record {
	uint64_t size;
	uint64_t time_call; /* allocated_ns | call << 48 | interval << 56 */
	uint64_t id_thread; /* id | thread << 40 */
	uint64_t site_previous; /* site | (id - previous_id) << 32, of that 0: none */
};

/* They go by numbers. */
struct heap_records {
	struct block_record **chunks;
	size_t n_chunks;
	uint32_t n_used; /* of the chunks, from the first on: what is behind was never taken */
	uint32_t free; /* a free one's size is the next; UINT32_MAX: none */
};

/* Things of one size: their memory comes in slabs, and what is given back is used again. */
struct heap_store {
	size_t item_bytes;
	void *free;
	char *next; /* of the last slab, and its end: what lies there was never taken */
	char *end;
	void **slabs;
	size_t n_slabs;
	size_t bytes; /* that were ever taken */
};

struct heap_pool {
	struct heap_item **chunks;
	size_t n_chunks;
	uint32_t free_item; /* a free item's allocated_ns holds the next one */
	struct heap_store leaves;
	struct heap_store inners;
	struct heap_store regions; /* block-pages.h */
	struct heap_store lists[HEAP_LIST_LEVELS]; /* of HEAP_LIST_LEAST << level numbers */
	struct heap_records records;
	struct heap_node **hints;
	uint64_t *last_ids; /* by serial: the highest id, UINT64_MAX while there may be more */
	uint32_t n_serials; /* with 0 */
};

static inline struct heap_leaf *heap_as_leaf(struct heap_node *node)
{
	return (struct heap_leaf *)node;
}

static inline struct heap_inner *heap_as_inner(struct heap_node *node)
{
	return (struct heap_inner *)node;
}

/* A number that no heap has; 0 when there are no more, or no memory. */
uint32_t heap_pool_serial(struct heap_pool *pool);

/* Nobody adds as this number any more; the highest id that was added so. */
void heap_pool_end_serial(struct heap_pool *pool, uint32_t serial, uint64_t last_id);

/* No block below the node has a higher id; one to which somebody may still add has no bound. */
uint64_t heap_pool_max_id(const struct heap_pool *pool, const struct heap_node *node);

/*
 * Where the leaf that held an address last is remembered. What is found there may be any leaf, also
 * one that is free; only its owner and its keys say whose it is.
 */
struct heap_node **heap_pool_hint(const struct heap_pool *pool, uint64_t address, uint32_t serial);

/* An empty node with one reference, or NULL without memory. */
struct heap_node *heap_pool_node(struct heap_pool *pool, uint16_t level);

/* Free the node alone: what it refers to is moved elsewhere. */
void heap_pool_put_node(struct heap_pool *pool, struct heap_node *node);

/* A copy with one reference, whose children or blocks have one more; NULL without memory. */
struct heap_node *heap_pool_copy_node(struct heap_pool *pool, const struct heap_node *node);

/* Give up a reference of a node, and with the last one all that it refers to. NULL is fine. */
void heap_pool_unref(struct heap_pool *pool, struct heap_node *node);

/* A new item with one reference. Returns 0 or -ENOMEM. */
int heap_pool_item(struct heap_pool *pool, const struct heap_block *block, uint32_t *ret_index);

/* Give up a reference. */
void heap_pool_put_item(struct heap_pool *pool, uint32_t index);

static inline struct heap_item *heap_pool_at(const struct heap_pool *pool, uint32_t index)
{
	return &pool->chunks[index >> HEAP_CHUNK_LOG2][index & ((1u << HEAP_CHUNK_LOG2) - 1)];
}

static inline struct block_record *heap_pool_record(const struct heap_pool *pool, uint32_t number)
{
	return &pool->records.chunks[number >> HEAP_RECORDS_LOG2]
				    [number & ((1u << HEAP_RECORDS_LOG2) - 1)];
}

/* A record of nobody. Returns 0 or -ENOMEM. */
int heap_pool_take_record(struct heap_pool *pool, uint32_t *ret_number);
void heap_pool_put_record(struct heap_pool *pool, uint32_t number);

/* Memory from a store, aligned for the cache; NULL: there is none. */
void *heap_store_take(struct heap_store *store);
void heap_store_put(struct heap_store *store, void *item);
