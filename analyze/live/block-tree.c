#include "analyze/live/block-tree.h"

#include <errno.h>
#include <string.h>

#include "analyze/live/block-tree-pool.h"

#define MERGE_BELOW    (HEAP_NODE_ITEMS / 4)
#define MERGED_MAX     (HEAP_NODE_ITEMS * 3 / 4)
#define ASCENDING_LEFT (HEAP_NODE_ITEMS - 8) /* of a node split by a key behind its last */

void heap_init(struct heap *heap, struct heap_pool *pool)
{
	*heap = (struct heap){ .pool = pool, .serial = heap_pool_serial(pool) };
}

void heap_finish(struct heap *heap)
{
	heap_pool_unref(heap->pool, heap->root);
	heap->root = NULL;
	heap->n_blocks = 0;
}

void heap_fork(struct heap *child, struct heap *parent)
{
	if (parent->root)
		parent->root->n_refs++;
	heap_pool_end_serial(parent->pool, parent->serial, parent->last_id);
	heap_pool_end_serial(child->pool, child->serial, child->last_id);
	*child = *parent;
	/* No leaf belongs to one of the two alone. */
	parent->serial = heap_pool_serial(parent->pool);
	child->serial = heap_pool_serial(child->pool);
}

/* How many keys of the node are <= key. */
static unsigned rank_of(const struct heap_node *node, uint64_t key)
{
	const uint64_t *base = node->keys;
	unsigned n = node->n;

	if (n == 0)
		return 0;
	while (n > 1) { /* branch-free: the compiler makes it a conditional move */
		unsigned half = n / 2;
		base += base[half] <= key ? half : 0;
		n -= half;
	}
	return (unsigned)(base - node->keys) + (*base <= key);
}

/* The child that holds key: the first one also holds what is below its lowest key. */
static unsigned child_of(const struct heap_node *node, uint64_t key)
{
	unsigned rank = rank_of(node, key);

	return rank > 0 ? rank - 1 : 0;
}

/*
 * Make *slot a node that nobody else refers to. Returns NULL without memory (*slot is as before).
 */
static struct heap_node *own(struct heap_pool *pool, struct heap_node **slot)
{
	if ((*slot)->n_refs == 1)
		return *slot;

	struct heap_node *copy = heap_pool_copy_node(pool, *slot);
	if (!copy)
		return NULL;
	(*slot)->n_refs--; /* others still refer to it */
	*slot = copy;
	return copy;
}

/* Move items from `from` on to the end of another node of the same level, which has room. */
static void move_items(struct heap_node *to, struct heap_node *source, unsigned from)
{
	unsigned n = source->n - from;

	memcpy(to->keys + to->n, source->keys + from, n * sizeof(to->keys[0]));
	if (to->level == 0) {
		struct heap_leaf *a = heap_as_leaf(to), *b = heap_as_leaf(source);
		memcpy(a->sizes + to->n, b->sizes + from, n * sizeof(a->sizes[0]));
		memcpy(a->blocks + to->n, b->blocks + from, n * sizeof(a->blocks[0]));
	} else {
		struct heap_inner *a = heap_as_inner(to), *b = heap_as_inner(source);
		memcpy(a->children + to->n, b->children + from, n * sizeof(a->children[0]));
	}
	to->n += n;
	source->n = from;
}

/* Open a gap in an array of n items. */
#define OPEN_GAP(array, n, at)                                                                     \
	memmove((array) + (at) + 1, (array) + (at), ((n) - (at)) * sizeof((array)[0]))
#define CLOSE_GAP(array, n, at)                                                                    \
	memmove((array) + (at), (array) + (at) + 1, ((n) - (at)-1) * sizeof((array)[0]))

static void insert_child(struct heap_node *node, unsigned at, struct heap_node *child)
{
	struct heap_inner *inner = heap_as_inner(node);

	OPEN_GAP(node->keys, node->n, at);
	OPEN_GAP(inner->children, node->n, at);
	node->keys[at] = child->keys[0];
	inner->children[at] = child;
	node->n++;
}

static void raise_max_id(struct heap_node *node, uint64_t id)
{
	node->max_id = node->max_id > id ? node->max_id : id;
}

/* Somebody adds below a node that is owned, and may go on without coming by. */
static void take_over(const struct heap *heap, struct heap_node *node, uint64_t id)
{
	raise_max_id(node, id);
	if (node->owner == heap->serial)
		return;
	raise_max_id(node, heap_pool_max_id(heap->pool, node));
	node->owner = heap->serial;
}

/* Split the full child number i, which is owned, in two. `key` is what comes next. */
static int split_child(struct heap_pool *pool, struct heap_node *node, unsigned i, uint64_t key)
{
	struct heap_node *left = heap_as_inner(node)->children[i];
	struct heap_node *right = heap_pool_node(pool, left->level);
	if (!right)
		return -ENOMEM;

	/* Fresh heaps grow upwards: leave nearly full nodes behind. */
	right->max_id = left->max_id;
	right->owner = left->owner;
	bool is_ascending = key > left->keys[left->n - 1];
	move_items(right, left, is_ascending ? ASCENDING_LEFT : HEAP_NODE_ITEMS / 2);
	insert_child(node, i + 1, right);
	return 0;
}

/* The own leaf between whose lowest and highest key an address lies, if it is remembered. */
static struct heap_node *remembered_leaf(const struct heap *heap, uint64_t address)
{
	struct heap_node *leaf = *heap_pool_hint(heap->pool, address, heap->serial);

	if (!leaf || leaf->owner != heap->serial || heap->serial == 0 || leaf->n == 0)
		return NULL;
	return leaf->keys[0] <= address && address <= leaf->keys[leaf->n - 1] ? leaf : NULL;
}

static void remember_leaf(const struct heap *heap, uint64_t address, struct heap_node *leaf)
{
	if (leaf->owner == heap->serial)
		*heap_pool_hint(heap->pool, address, heap->serial) = leaf;
}

/* Put a new root above a full one. */
static int raise_root(struct heap *heap)
{
	struct heap_node *root = heap_pool_node(heap->pool, heap->root->level + 1);
	if (!root)
		return -ENOMEM;
	root->max_id = heap->root->max_id;
	root->owner = heap->root->owner;
	insert_child(root, 0, heap->root);
	heap->root = root;
	return 0;
}

/* Make the root an owned node with room for one more. */
static int prepare_root(struct heap *heap)
{
	if (!heap->root)
		heap->root = heap_pool_node(heap->pool, 0);
	if (!heap->root || !own(heap->pool, &heap->root))
		return -ENOMEM;
	return heap->root->n == HEAP_NODE_ITEMS ? raise_root(heap) : 0;
}

/*
 * The owned leaf where a block goes, with room for it; the path to it is owned too. No key of the
 * leaves behind it is less than *ret_bound, which matters for a key behind its last.
 */
static struct heap_node *leaf_with_room(struct heap *heap, const struct heap_block *block,
					uint64_t *ret_bound)
{
	uint64_t key = block->address;
	struct heap_node *node = remembered_leaf(heap, key);

	*ret_bound = 0;
	if (node && node->n < HEAP_NODE_ITEMS)
		return node;
	if (prepare_root(heap) < 0)
		return NULL;

	node = heap->root;
	take_over(heap, node, block->id);
	*ret_bound = UINT64_MAX;
	while (node->level > 0) {
		unsigned i = child_of(node, key);
		struct heap_node *child = own(heap->pool, &heap_as_inner(node)->children[i]);
		if (!child)
			return NULL;
		if (child->n == HEAP_NODE_ITEMS) {
			if (split_child(heap->pool, node, i, key) < 0)
				return NULL;
			i = child_of(node, key);
		}
		if (i + 1 < node->n)
			*ret_bound = node->keys[i + 1];
		node = heap_as_inner(node)->children[i];
		take_over(heap, node, block->id);
	}
	remember_leaf(heap, key, node);
	return node;
}

static uint64_t size_of(const struct heap_pool *pool, const struct heap_leaf *leaf, unsigned i)
{
	if (leaf->sizes[i] != UINT32_MAX)
		return leaf->sizes[i];
	return heap_pool_at(pool, leaf->blocks[i])->size;
}

/* Whether item i of a leaf is hit by [address, address + size). */
static bool is_hit(const struct heap_pool *pool, const struct heap_leaf *leaf, unsigned i,
		   uint64_t address, uint64_t size)
{
	uint64_t start = leaf->head.keys[i];

	if (start <= address)
		return start == address || address - start < size_of(pool, leaf, i);
	return start - address < size;
}

/* Where a block goes. */
struct gap {
	struct heap_node *node; /* a leaf */
	unsigned at;
	uint64_t bound; /* nothing behind the leaf begins before it */
};

/* Whether the neighbours of the gap in the leaf, or of its neighbour leaves, are in the way. */
static bool is_taken(const struct heap *heap, const struct gap *gap, const struct heap_block *block)
{
	struct heap_node *node = gap->node;
	const struct heap_leaf *leaf = heap_as_leaf(node);
	unsigned at = gap->at;

	if (at == node->n && at > 0 && gap->bound > block->address &&
	    gap->bound - block->address >= block->size)
		return is_hit(heap->pool, leaf, at - 1, block->address, block->size);
	if (at == 0 || at == node->n)
		return heap_overlap(heap, block->address, block->size, &(struct heap_block){ 0 });
	return is_hit(heap->pool, leaf, at - 1, block->address, block->size) ||
	       is_hit(heap->pool, leaf, at, block->address, block->size);
}

int heap_insert(struct heap *heap, const struct heap_block *block)
{
	uint64_t bound;
	struct heap_node *node = leaf_with_room(heap, block, &bound);
	if (!node)
		return -ENOMEM;

	unsigned at = rank_of(node, block->address);
	if (is_taken(heap, &(struct gap){ node, at, bound }, block))
		return -EEXIST;

	uint32_t index;
	int r = heap_pool_item(heap->pool, block, &index);
	if (r < 0)
		return r;

	struct heap_leaf *leaf = heap_as_leaf(node);
	OPEN_GAP(node->keys, node->n, at);
	OPEN_GAP(leaf->sizes, node->n, at);
	OPEN_GAP(leaf->blocks, node->n, at);
	node->keys[at] = block->address;
	leaf->sizes[at] = block->size < UINT32_MAX ? (uint32_t)block->size : UINT32_MAX;
	leaf->blocks[at] = index;
	node->n++;
	heap->n_blocks++;
	if (block->id > heap->last_id)
		heap->last_id = block->id;
	return 0;
}

/* What is below one node goes below its neighbour. */
static void adopt(const struct heap *heap, struct heap_node *node, const struct heap_node *other)
{
	if (other->owner == heap->serial)
		take_over(heap, node, other->max_id);
	else
		raise_max_id(node, heap_pool_max_id(heap->pool, other));
}

/* Move what the right of two neighbours holds into the left one, if that leaves it airy enough. */
static int merge_children(const struct heap *heap, struct heap_node *node, unsigned left_index)
{
	struct heap_pool *pool = heap->pool;
	struct heap_inner *inner = heap_as_inner(node);
	struct heap_node **left = &inner->children[left_index];
	struct heap_node **right = &inner->children[left_index + 1];

	if ((*left)->n + (*right)->n > MERGED_MAX)
		return 0;
	if (!own(pool, left) || !own(pool, right))
		return -ENOMEM;

	/* Keys smaller than the right one's first may have gone into its first child since. */
	if ((*right)->level > 0)
		(*right)->keys[0] = node->keys[left_index + 1];
	adopt(heap, *left, *right);
	move_items(*left, *right, 0);
	heap_pool_put_node(pool, *right);
	CLOSE_GAP(node->keys, node->n, left_index + 1);
	CLOSE_GAP(inner->children, node->n, left_index + 1);
	node->n--;
	return 0;
}

/* Whether child i should get a neighbour's items. */
static bool is_meagre(const struct heap_node *node, unsigned i)
{
	return node->n > 1 && ((const struct heap_inner *)node)->children[i]->n <= MERGE_BELOW;
}

/* The owned leaf that may hold key, on an owned path; NULL without memory. */
static struct heap_node *leaf_to_change(struct heap *heap, uint64_t key)
{
	struct heap_node *node = remembered_leaf(heap, key);

	if (node && node->n > MERGE_BELOW)
		return node;
	node = own(heap->pool, &heap->root);
	while (node && node->level > 0) {
		unsigned i = child_of(node, key);
		if (is_meagre(node, i)) {
			if (merge_children(heap, node, i > 0 ? i - 1 : 0) < 0)
				return NULL;
			i = child_of(node, key); /* it may have moved */
		}
		node = own(heap->pool, &heap_as_inner(node)->children[i]);
	}
	if (node)
		remember_leaf(heap, key, node);
	return node;
}

/* Lower the tree while its root has a single child. */
static void lower_root(struct heap *heap)
{
	while (heap->root->level > 0 && heap->root->n == 1 && heap->root->n_refs == 1) {
		struct heap_node *root = heap->root;
		heap->root = heap_as_inner(root)->children[0];
		heap_pool_put_node(heap->pool, root);
	}
}

static void block_of(const struct heap_item *item, uint64_t address, struct heap_block *ret_block)
{
	*ret_block = (struct heap_block){
		.address = address,
		.size = item->size,
		.allocated_ns = item->allocated_ns,
		.id = item->id,
		.previous_id = item->previous_id,
		.thread = item->thread,
		.site = item->site,
		.call = item->call,
		.interval = item->interval,
	};
}

static void block_at(const struct heap_pool *pool, const struct heap_leaf *leaf, unsigned i,
		     struct heap_block *ret_block)
{
	block_of(heap_pool_at(pool, leaf->blocks[i]), leaf->head.keys[i], ret_block);
}

int heap_remove(struct heap *heap, uint64_t address, struct heap_block *ret_block)
{
	if (!heap->root)
		return 0;
	struct heap_node *node = leaf_to_change(heap, address);
	if (!node)
		return -ENOMEM;

	unsigned rank = rank_of(node, address);
	if (rank == 0 || node->keys[rank - 1] != address)
		return 0;

	struct heap_leaf *leaf = heap_as_leaf(node);
	unsigned at = rank - 1;
	uint32_t index = leaf->blocks[at];
	/* Mostly not in the cache: let it come while the leaf is changed. */
	__builtin_prefetch(heap_pool_at(heap->pool, index), 1);
	CLOSE_GAP(node->keys, node->n, at);
	CLOSE_GAP(leaf->sizes, node->n, at);
	CLOSE_GAP(leaf->blocks, node->n, at);
	node->n--;
	heap->n_blocks--;
	lower_root(heap);
	block_of(heap_pool_at(heap->pool, index), address, ret_block);
	heap_pool_put_item(heap->pool, index);
	return 1;
}

/* The last item at or below key in the tree. Leaves may be empty: then the one before is asked. */
static const struct heap_leaf *last_below(const struct heap_node *node, uint64_t key,
					  unsigned *ret_at)
{
	unsigned rank = rank_of(node, key);

	if (node->level == 0) {
		*ret_at = rank - 1;
		return rank > 0 ? (const struct heap_leaf *)node : NULL;
	}
	const struct heap_inner *inner = (const struct heap_inner *)node;
	for (unsigned i = rank > 0 ? rank : 1; i-- > 0;) {
		const struct heap_leaf *found = last_below(inner->children[i], key, ret_at);
		if (found)
			return found;
	}
	return NULL;
}

/* The first item above key in the tree. */
static const struct heap_leaf *first_above(const struct heap_node *node, uint64_t key,
					   unsigned *ret_at)
{
	if (node->level == 0) {
		*ret_at = rank_of(node, key);
		return *ret_at < node->n ? (const struct heap_leaf *)node : NULL;
	}
	const struct heap_inner *inner = (const struct heap_inner *)node;
	for (unsigned i = child_of(node, key); i < node->n; i++) {
		const struct heap_leaf *found = first_above(inner->children[i], key, ret_at);
		if (found)
			return found;
	}
	return NULL;
}

bool heap_find(const struct heap *heap, uint64_t address, struct heap_block *ret_block)
{
	unsigned at;
	const struct heap_leaf *leaf = heap->root ? last_below(heap->root, address, &at) : NULL;

	if (!leaf || address - leaf->head.keys[at] >= size_of(heap->pool, leaf, at))
		return false;
	block_at(heap->pool, leaf, at, ret_block);
	return true;
}

bool heap_overlap(const struct heap *heap, uint64_t address, uint64_t size,
		  struct heap_block *ret_block)
{
	unsigned at;
	const struct heap_leaf *leaf = heap->root ? last_below(heap->root, address, &at) : NULL;

	if (!leaf || !is_hit(heap->pool, leaf, at, address, size))
		leaf = heap->root ? first_above(heap->root, address, &at) : NULL;
	if (!leaf || !is_hit(heap->pool, leaf, at, address, size))
		return false;
	block_at(heap->pool, leaf, at, ret_block);
	return true;
}

/* Who is called for which blocks. */
struct walk {
	const struct heap_pool *pool;
	uint64_t above_id;
	heap_visit visit;
	void *context;
};

static int walk_leaf(const struct walk *walk, const struct heap_leaf *leaf)
{
	int r = 0;

	for (unsigned i = 0; r >= 0 && i < leaf->head.n; i++) {
		struct heap_block block;

		block_at(walk->pool, leaf, i, &block);
		if (block.id > walk->above_id)
			r = walk->visit(walk->context, &block);
	}
	return r < 0 ? r : 0;
}

static int walk_node(const struct walk *walk, const struct heap_node *node)
{
	const struct heap_inner *inner = (const struct heap_inner *)node;
	int r = 0;

	if (heap_pool_max_id(walk->pool, node) <= walk->above_id)
		return 0;
	if (node->level == 0)
		return walk_leaf(walk, (const struct heap_leaf *)node);
	for (unsigned i = 0; r >= 0 && i < node->n; i++)
		r = walk_node(walk, inner->children[i]);
	return r < 0 ? r : 0;
}

int heap_walk(const struct heap *heap, uint64_t above_id, heap_visit visit, void *context)
{
	const struct walk walk = { heap->pool, above_id, visit, context };

	return heap->root ? walk_node(&walk, heap->root) : 0;
}
