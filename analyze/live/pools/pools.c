#include "analyze/live/pools/pools.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyze/live/live-memory-internal.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "store/database.h"

#define MOST_POOLS 65536u

static const struct rows_table table = {
	.name = "pool",
	.columns = "id, run_id, process_id, address, allocator, first_ns, last_ns, n_blocks, bytes,"
		   " live_blocks, live_bytes, peak_bytes, n_resets, n_cut",
	.types = "nnnntnnnnnnnnn",
};

/* A pool of one image: its blocks are of one allocator, and have one handle. */
struct pool {
	uint64_t address;
	int64_t process_row;
	int64_t first_ns;
	int64_t last_ns;
	uint64_t n_blocks;
	uint64_t bytes;
	uint64_t live_blocks;
	uint64_t live_bytes;
	uint64_t peak_bytes;
	uint64_t n_resets;
	uint64_t n_cut; /* blocks that ended with what they lie in */
	uint32_t text;
	uint32_t first; /* slot of the live block that came last; 0: none */
};

/* What a live block's heap_block has no place for; its previous_id is the slot's number. */
struct slot {
	uint64_t address;
	uint64_t within_id;
	uint32_t within_site;
	uint32_t pool; /* number, from 1 */
	uint32_t next; /* of its pool, or of the free ones; 0: none */
	uint32_t before;
	uint32_t level;
	uint32_t more; /* references than the one that it began with */
};

/* How the block that was there last has ended. What frees it within that says nothing new. */
enum unreferenced {
	UNREFERENCED_NOT, /* by another call */
	UNREFERENCED_NOW, /* with its last reference */
	UNREFERENCED_BEFORE, /* and that was freed, or another one has ended otherwise since */
};

struct pools {
	int64_t run_id;
	int64_t first_row;
	struct pool *pools; /* number n at n - 1 */
	size_t n;
	size_t n_allocated;
	struct slot *slots; /* 0 is none */
	size_t n_slots;
	size_t n_slots_allocated;
	uint32_t free;
	struct key_map numbers; /* (process, address, or the text of pool 0) -> number */
	struct key_map unreferenced; /* (process, address) -> enum unreferenced */
	struct pools_losses losses;
	struct rows *rows;
};

int pools_open(struct db *db, int64_t run_id, struct pools **ret_pools)
{
	struct pools *pools = calloc(1, sizeof(*pools));

	if (!pools)
		return -ENOMEM;
	pools->run_id = run_id;
	pools->first_row = db_integer(db, "SELECT max(id) FROM pool", 0);
	pools->n_slots = 1;
	int r = rows_open(db, &table, &pools->rows);
	if (r < 0)
		return pools_close(pools), r;
	*ret_pools = pools;
	return 0;
}

struct pools *pools_close(struct pools *pools)
{
	if (!pools)
		return NULL;
	rows_close(pools->rows);
	key_map_finish(&pools->numbers);
	key_map_finish(&pools->unreferenced);
	free_all(pools->pools, pools->slots, pools);
	return NULL;
}

const struct pools_losses *pools_losses(const struct pools *pools)
{
	return &pools->losses;
}

int64_t pools_first_row(const struct pools *pools)
{
	return pools->first_row;
}

/* ---- Pools ---- */

/* Handles are addresses: a text's number, that stands for none, is below all of them. */
static uint64_t key_of(const struct pool_block *block)
{
	return block->pool ? block->pool : block->text;
}

static uint32_t find_pool(const struct pools *pools, const struct memory_image *image,
			  uint64_t handle)
{
	return (uint32_t)key_map_get(&pools->numbers, image->number, handle);
}

static int make_pool(struct pools *pools, const struct memory_image *image,
		     const struct pool_block *block, uint64_t handle, uint32_t *ret_number)
{
	int r = grow_one(&pools->pools, pools->n, &pools->n_allocated);

	r = r ?: key_map_put(&pools->numbers, image->number, handle, pools->n + 1);
	if (r < 0)
		return r;
	pools->pools[pools->n++] = (struct pool){
		.address = handle == block->text ? 0 : handle,
		.process_row = image->row,
		.first_ns = block->time_ns,
		.text = block->text,
	};
	*ret_number = (uint32_t)pools->n;
	return 0;
}

static int pool_of(struct pools *pools, const struct memory_image *image,
		   const struct pool_block *block, uint32_t *ret_number)
{
	uint64_t handle = key_of(block);

	*ret_number = find_pool(pools, image, handle);
	if (*ret_number)
		return 0;
	if (pools->n >= MOST_POOLS && handle != block->text) {
		pools->losses.n_pools++;
		handle = block->text;
		*ret_number = find_pool(pools, image, handle);
		if (*ret_number)
			return 0;
	}
	return make_pool(pools, image, block, handle, ret_number);
}

/* ---- Live blocks ---- */

static int take_slot(struct pools *pools, const struct slot *slot, uint32_t *ret_slot)
{
	struct pool *pool = &pools->pools[slot->pool - 1];
	uint32_t at = pools->free;
	int r = at ? 0
		   : grow_array_to(&pools->slots, pools->n_slots, &pools->n_slots_allocated,
				   sizeof(*pools->slots));

	if (r < 0)
		return r;
	if (at)
		pools->free = pools->slots[at].next;
	else
		at = (uint32_t)pools->n_slots++;
	pools->slots[at] = *slot;
	pools->slots[at].next = pool->first;
	pools->slots[at].before = 0;
	if (pool->first)
		pools->slots[pool->first].before = at;
	pool->first = at;
	*ret_slot = at;
	return 0;
}

static void give_slot(struct pools *pools, uint32_t at)
{
	struct slot *slot = &pools->slots[at];

	if (slot->before)
		pools->slots[slot->before].next = slot->next;
	else
		pools->pools[slot->pool - 1].first = slot->next;
	if (slot->next)
		pools->slots[slot->next].before = slot->before;
	slot->next = pools->free;
	pools->free = at;
}

/* How a block ended. */
struct ending {
	enum memory_end_kind kind;
	int64_t time_ns;
	int64_t thread_row; /* ROWS_NULL: nobody's doing */
	uint8_t call; /* enum trace_call; 0: none */
};

/* In whole blocks. */
static uint64_t n_of(const struct block_weight *weight)
{
	return (uint64_t)llround(weight->n);
}

static void count_end(struct memory *memory, const struct heap_block *block,
		      const struct slot *slot, const struct ending *ending)
{
	struct pool *pool = &memory->pools->pools[slot->pool - 1];
	struct block_weight weight = memory_weight(memory, block);

	if (memory->is_over) /* it stays live */
		return;
	pool->last_ns = ending->time_ns;
	pool->n_cut += ending->kind == MEMORY_CUT;
	if (memory_is_freed(ending->kind)) {
		pool->live_blocks -= n_of(&weight);
		pool->live_bytes -= weight.bytes;
	}
	if (slot->within_site)
		tally_free_within(memory->tally, block->site, slot->within_site, &weight,
				  ending->time_ns);
	else
		tally_free(memory->tally, block->site, &weight, ending->time_ns,
			   memory_is_freed(ending->kind));
}

static struct block_birth birth_of(const struct memory *memory, const struct memory_image *image,
				   const struct heap_block *block, const struct slot *slot)
{
	struct block_birth birth = memory_birth(memory, image, block);

	birth.within_id = slot->within_id;
	birth.within_site = slot->within_site;
	birth.pool = slot->pool;
	return birth;
}

/* A block is no longer in the set, or nobody asks for it any more. */
static int leave(struct memory *memory, struct memory_image *image, const struct heap_block *block,
		 const struct ending *ending)
{
	struct block_birth *birth;
	int r = 0;

	if (image->names.n_blocks > 0)
		r = memory_end_names(memory, image, block->address, block->size, ending->time_ns);
	if (r < 0 || block->id <= image->first_id) /* its row is the parent's */
		return r;
	const struct slot slot = memory->pools->slots[block->previous_id];
	if (ending->kind == MEMORY_CUT) {
		image->cut_address = block->address;
		image->cut_pool = slot.pool;
	}
	count_end(memory, block, &slot, ending);
	give_slot(memory->pools, (uint32_t)block->previous_id);
	const struct block_end end = {
		.id = block->id,
		.call = block->call,
		.free_call = ending->call,
		.end_kind = (uint8_t)ending->kind & 63,
		.is_left = memory->is_over,
		.time_ns = ending->time_ns,
		.freed_thread = ending->thread_row == ROWS_NULL ? 0 : (uint32_t)ending->thread_row,
	};
	r = block_rows_end(memory->allocations, memory->is_over ? INT64_MAX : ending->time_ns, &end,
			   &birth);
	if (r == 0 && birth)
		*birth = birth_of(memory, image, block, &slot);
	return r;
}

/* End what lies in a range, from a level on. */
static int end_range(struct memory *memory, struct memory_image *image, unsigned level,
		     const struct heap_block *range, const struct ending *ending)
{
	struct heap_block block;
	int r = 0;

	/* The innermost first. */
	for (unsigned i = POOLS_LEVELS; r >= 0 && i-- > level;) {
		struct heap *heap = &image->inner[i];
		while (r >= 0 && heap->n_blocks > 0 &&
		       heap_overlap(heap, range->address, range->size, &block)) {
			r = heap_remove(heap, block.address, &block);
			if (r >= 0)
				r = leave(memory, image, &block, ending);
		}
	}
	return r < 0 ? r : 0;
}

/* What lies within a block of a level ends with it. */
static int end_block(struct memory *memory, struct memory_image *image, unsigned level,
		     const struct heap_block *block, const struct ending *ending)
{
	const struct ending cut = { MEMORY_CUT, ending->time_ns, ending->thread_row, 0 };
	struct heap_block removed;
	int r = end_range(memory, image, level + 1, block, &cut);

	r = r ?: heap_remove(&image->inner[level], block->address, &removed);
	return r < 0 ? r : leave(memory, image, &removed, ending);
}

static bool holds(const struct heap_block *outer, uint64_t address, uint64_t size)
{
	return address >= outer->address && address - outer->address < outer->size &&
	       size <= outer->size - (address - outer->address);
}

static bool is_of_pool(const struct memory *memory, const struct memory_image *image,
		       const struct heap_block *block, uint32_t pool)
{
	return block->id > image->first_id && memory->pools->slots[block->previous_id].pool == pool;
}

/*
 * Where the block has its place: in the block of malloc around it, or in those of pools. What is in
 * the way was given back without a word. Returns the level (POOLS_LEVELS: too deep) or an errno.
 */
static int find_level(struct memory *memory, struct memory_image *image,
		      const struct pool_block *born, struct slot *slot)
{
	const struct ending unseen = { MEMORY_MISSED, born->time_ns, ROWS_NULL, 0 };
	struct heap_block other;

	if (live_blocks_find(&image->blocks, born->address, &other) && other.id > image->first_id &&
	    holds(&other, born->address, born->size)) {
		slot->within_id = other.id;
		slot->within_site = other.site;
	}
	for (unsigned level = 0; level < POOLS_LEVELS;) {
		struct heap *heap = &image->inner[level];
		if (heap->n_blocks == 0 || !heap_overlap(heap, born->address, born->size, &other))
			return (int)level;
		bool is_same =
			other.address == born->address &&
			(other.size == born->size || is_of_pool(memory, image, &other, slot->pool));
		if (!is_same && holds(&other, born->address, born->size)) {
			bool is_own = other.id > image->first_id;
			slot->within_id = is_own ? other.id : 0;
			slot->within_site = is_own ? other.site : 0;
			level++;
			continue;
		}
		if (other.id > image->first_id)
			memory->tally->total.missed_frees++;
		int r = end_block(memory, image, level, &other, &unseen);
		if (r < 0)
			return r;
	}
	return POOLS_LEVELS;
}

static void count_birth(struct memory *memory, const struct heap_block *block,
			const struct slot *slot)
{
	struct pool *pool = &memory->pools->pools[slot->pool - 1];
	struct block_weight weight = memory_weight(memory, block);

	pool->n_blocks += n_of(&weight);
	pool->bytes += weight.bytes;
	pool->live_blocks += n_of(&weight);
	pool->live_bytes += weight.bytes;
	pool->last_ns = block->allocated_ns;
	if (pool->live_bytes > pool->peak_bytes)
		pool->peak_bytes = pool->live_bytes;
	if (slot->within_site)
		tally_allocation_within(memory->tally, block->site, slot->within_site, &weight,
					block->allocated_ns);
	else
		tally_allocation(memory->tally, block->site, &weight, block->allocated_ns);
}

int memory_pool_block(struct memory *memory, const struct pool_block *born)
{
	struct memory_thread *thread = memory_thread(memory, born->thread);
	struct pools *pools = memory->pools;
	struct slot slot = { .address = born->address };
	struct heap_block block = {
		.address = born->address,
		.size = born->size,
		.allocated_ns = born->time_ns,
		.id = memory->n_allocations + 1,
		.thread = born->thread,
		.call = born->call,
		.interval =
			block_interval_of_weight(&memory->intervals, born->size, born->weighted),
	};
	uint32_t at = 0;

	if (!thread)
		return -ENOMEM;
	if (born->size == 0 || born->address + born->size < born->address)
		return 0;
	if (memory->is_picked) {
		pools->losses.n_picked++;
		return 0;
	}
	int r = 0;

	if (born->is_moved && !born->pool)
		slot.pool = thread->moved_pool;
	if (!slot.pool)
		r = pool_of(pools, thread->image, born, &slot.pool);
	r = r ?: tally_site(memory->tally, born->stack_id, &block.site);
	int level = r < 0 ? r : find_level(memory, thread->image, born, &slot);
	if (level == (int)POOLS_LEVELS)
		pools->losses.n_too_deep++;
	if (level < 0 || level == (int)POOLS_LEVELS)
		return level < 0 ? level : 0;
	/* What an estimate stands for is there exactly, in what it lies in. */
	if (block.interval && slot.within_site) {
		pools->losses.n_known++;
		return 0;
	}
	slot.level = (uint32_t)level;
	r = take_slot(pools, &slot, &at);
	block.previous_id = at;
	r = r ?: heap_insert(&thread->image->inner[level], &block);
	if (r < 0)
		return r;
	memory->n_allocations++;
	count_birth(memory, &block, &slot);
	const struct block_birth birth = birth_of(memory, thread->image, &block, &slot);
	return block_rows_born(memory->allocations, &birth);
}

/* The innermost block that begins there; its level, or POOLS_LEVELS: there is none. */
static unsigned find_block(const struct memory_image *image, uint64_t address,
			   struct heap_block *ret_block)
{
	for (unsigned i = POOLS_LEVELS; i-- > 0;) {
		const struct heap *heap = &image->inner[i];
		if (heap->n_blocks > 0 && heap_find(heap, address, ret_block) &&
		    ret_block->address == address)
			return i;
	}
	return POOLS_LEVELS;
}

/* Are all blocks recorded, so that one that is not known is a loss? */
static bool is_whole(const struct memory *memory, const struct memory_image *image)
{
	return !memory->is_picked && !memory->was_withheld && !image->was_withheld &&
	       !memory->pools->losses.n_known;
}

int memory_pool_block_end(struct memory *memory, const struct pool_block *end)
{
	struct memory_thread *thread = memory_thread(memory, end->thread);
	struct heap_block block;

	if (!thread)
		return -ENOMEM;
	const struct ending ending = { end->is_moved ? MEMORY_REALLOCATED : MEMORY_FREED,
				       end->time_ns, thread->row, end->call };
	struct pools *pools = memory->pools;
	uint64_t number = thread->image->number;
	unsigned level = find_block(thread->image, end->address, &block);
	bool is_now = end->call == TRACE_CALL_UNREF;
	bool was_now = key_map_get(&pools->unreferenced, number, end->address) == UNREFERENCED_NOW;
	int r = 0;

	thread->moved_pool = 0;
	if (is_now != was_now)
		r = key_map_put(&pools->unreferenced, number, end->address,
				is_now ? UNREFERENCED_NOW : UNREFERENCED_BEFORE);
	/* Written at the end of a call, it may come behind what was given back within that. */
	if (r == 0 && level == POOLS_LEVELS && end->is_moved &&
	    end->address == thread->image->cut_address) {
		thread->moved_pool = thread->image->cut_pool;
		return 0;
	}
	if (r < 0 || level == POOLS_LEVELS) {
		pools->losses.n_ends += !was_now && is_whole(memory, thread->image);
		return r;
	}
	if (end->is_moved && block.id > thread->image->first_id)
		thread->moved_pool = pools->slots[block.previous_id].pool;
	return end_block(memory, thread->image, level, &block, &ending);
}

int memory_pool_block_count(struct memory *memory, const struct pool_block *note)
{
	struct memory_thread *thread = memory_thread(memory, note->thread);
	struct heap_block block;

	if (!thread)
		return -ENOMEM;
	if (find_block(thread->image, note->address, &block) == POOLS_LEVELS) {
		memory->pools->losses.n_references += is_whole(memory, thread->image);
		return 0;
	}
	if (block.id <= thread->image->first_id) /* what it had is its parent's */
		return 0;
	uint32_t *more = &memory->pools->slots[block.previous_id].more;
	if (note->call == TRACE_CALL_UNREF && *more == 0)
		return memory_pool_block_end(memory, note);
	*more += note->call == TRACE_CALL_REF ? 1 : -1u;
	return 0;
}

int memory_pool_reset(struct memory *memory, const struct pool_block *reset)
{
	struct memory_thread *thread = memory_thread(memory, reset->thread);
	struct pools *pools = memory->pools;

	if (!thread)
		return -ENOMEM;
	const struct ending ending = { MEMORY_RESET, reset->time_ns, thread->row,
				       TRACE_CALL_POOL_RESET };
	uint32_t number = find_pool(pools, thread->image, key_of(reset));
	int r = 0;

	if (!number)
		return 0; /* it had no block yet */
	pools->pools[number - 1].n_resets += pools->pools[number - 1].first != 0;
	while (r == 0 && pools->pools[number - 1].first) {
		const struct slot slot = pools->slots[pools->pools[number - 1].first];
		struct heap_block block;
		if (!heap_find(&thread->image->inner[slot.level], slot.address, &block))
			return -EBADMSG;
		r = end_block(memory, thread->image, slot.level, &block, &ending);
	}
	return r;
}

int memory_end_inner(struct memory *memory, struct memory_image *image, uint64_t address,
		     uint64_t size, int64_t time_ns)
{
	const struct ending ending = { MEMORY_CUT, time_ns, ROWS_NULL, 0 };
	const struct heap_block range = { .address = address, .size = size };

	return size > 0 && image->inner[0].n_blocks > 0
		       ? end_range(memory, image, 0, &range, &ending)
		       : 0;
}

struct leftover {
	struct memory *memory;
	struct memory_image *image;
	struct ending ending;
};

static int end_leftover(void *context, const struct heap_block *block)
{
	struct leftover *left = context;

	return leave(left->memory, left->image, block, &left->ending);
}

int memory_end_pools(struct memory *memory, struct memory_image *image, int64_t time_ns,
		     bool by_exec)
{
	struct leftover left = {
		.memory = memory,
		.image = image,
		.ending = { by_exec ? MEMORY_EXEC : MEMORY_ALIVE, time_ns, ROWS_NULL, 0 },
	};
	int r = 0;

	for (unsigned i = POOLS_LEVELS; r == 0 && i-- > 0;) {
		r = heap_walk(&image->inner[i], image->first_id, end_leftover, &left);
		heap_finish(&image->inner[i]);
	}
	return r;
}

int memory_write_pools(struct memory *memory)
{
	struct pools *pools = memory->pools;

	for (size_t i = 0; i < pools->n; i++) {
		const struct pool *pool = &pools->pools[i];
		int r = rows_put(
			pools->rows, CELL(pools->first_row + (int64_t)i + 1), CELL(pools->run_id),
			CELL(pool->process_row), CELL(pool->address),
			CELL(pool->text ? texts_get(memory->texts, pool->text) : "memsight.h"),
			CELL(pool->first_ns), CELL(pool->last_ns), CELL(pool->n_blocks),
			CELL(pool->bytes), CELL(pool->live_blocks), CELL(pool->live_bytes),
			CELL(pool->peak_bytes), CELL(pool->n_resets), CELL(pool->n_cut));

		if (r < 0)
			return r;
	}
	return rows_flush(pools->rows);
}
