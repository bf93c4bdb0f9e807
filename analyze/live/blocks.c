#include "analyze/live/live-memory.h"

#include <errno.h>
#include <math.h>

#include "analyze/live/guesses/guesses.h"
#include "analyze/live/live-memory-internal.h"

/* How a block ended. */
struct ending {
	enum memory_end_kind end_kind;
	int64_t time_ns;
	int64_t thread_row; /* ROWS_NULL: nobody's doing */
	bool is_temporary;
	uint8_t call; /* enum trace_call that ended it; 0: none */
};

/* The same in whole blocks, for what is only counted. */
static uint64_t n_of(const struct block_weight *weight)
{
	return (uint64_t)llround(weight->n);
}

static bool is_inherited(const struct memory_image *image, const struct heap_block *block)
{
	return block->id <= image->first_id;
}

static int write_row(struct memory *memory, const struct memory_image *image,
		     const struct heap_block *block, const struct ending *ending)
{
	int64_t kind = kinds_row(&memory->kinds, kinds_of(&memory->kinds, &image->kinds, block));
	const struct block_end end = {
		.id = block->id,
		.call = block->call,
		.free_call = ending->call,
		.end_kind = (uint8_t)ending->end_kind & 63,
		.is_temporary = ending->is_temporary,
		.is_left = memory->is_over,
		.time_ns = ending->time_ns,
		.previous_id = block->previous_id,
		.kind = kind == ROWS_NULL ? 0 : (uint64_t)kind,
		.freed_thread = ending->thread_row == ROWS_NULL ? 0 : (uint32_t)ending->thread_row,
	};
	struct block_birth *birth;
	int r = block_rows_end(memory->allocations, memory->is_over ? INT64_MAX : ending->time_ns,
			       &end, &birth);

	if (r == 0 && birth)
		*birth = memory_birth(memory, image, block);
	return r;
}

/*
 * C++ asks that what one of these made is given back by its counterpart. 0: malloc and its family.
 */
static unsigned family_of(uint8_t call)
{
	static const uint8_t families[TRACE_CALL_COUNT] = {
		[TRACE_CALL_NEW] = 1,	       [TRACE_CALL_NEW_ALIGNED] = 1,
		[TRACE_CALL_DELETE] = 1,       [TRACE_CALL_NEW_ARRAY] = 2,
		[TRACE_CALL_DELETE_ARRAY] = 2, [TRACE_CALL_NEW_ARRAY_ALIGNED] = 2,
	};

	return call < TRACE_CALL_COUNT ? families[call] : 0;
}

/* A block left the live set of an image. */
static int end_block(struct memory *memory, struct memory_image *image,
		     const struct heap_block *block, const struct ending *ending)
{
	bool is_freed = memory_is_freed(ending->end_kind);
	const struct block_weight weight = memory_weight(memory, block);
	int r = memory_end_inner(memory, image, block->address, block->size, ending->time_ns);

	if (r < 0)
		return r;
	if (memory->keeps_freed && is_freed &&
	    freed_pages_add(&image->freed, block->address, block->size) < 0)
		return -ENOMEM;
	if (memory->notes_ends && is_freed &&
	    touch_ends_block(&image->ends, block->site, block->address, block->size) < 0)
		return -ENOMEM;
	if (image->names.n_blocks > 0 &&
	    memory_end_names(memory, image, block->address, block->size, ending->time_ns) < 0)
		return -ENOMEM;
	if (memory->guesses && ending->end_kind == MEMORY_ALIVE)
		guesses_note(memory->guesses, image->number, block,
			     memory->tally->sites[block->site].stack_id);
	if (is_inherited(image, block)) { /* its row is the parent's */
		memory->tally->total.inherited_frees += is_freed ? n_of(&weight) : 0;
		return 0;
	}
	if (ending->end_kind == MEMORY_FREED && block->call != TRACE_CALL_BEFORE &&
	    family_of(block->call) != family_of(ending->call))
		memory->tally->total.mismatched_frees += n_of(&weight);
	if (block->interval && ending->end_kind == MEMORY_REALLOCATED)
		memory->tally->total.reallocations += n_of(&weight);
	kinds_freed(&memory->kinds, kinds_of(&memory->kinds, &image->kinds, block), &weight,
		    is_freed);
	if (!memory->is_over) /* else it stays live */
		tally_free(memory->tally, block->site, &weight, ending->time_ns, is_freed);
	return write_row(memory, image, block, ending);
}

/*
 * A C library may make a block through another of our hooks (musl: calloc calls malloc). The nested
 * allocation came first, and this one by the same thread at the same address, still live, is the
 * same.
 */
static bool is_made_within(const struct memory_thread *thread,
			   const struct memory_allocation *allocation, struct heap_block *ret_block)
{
	return thread->nested_id && !(allocation->flags & TRACE_EVENT_NESTED) &&
	       live_blocks_find(&thread->image->blocks, allocation->address, ret_block) &&
	       ret_block->id == thread->nested_id && ret_block->address == allocation->address;
}

bool memory_is_taken(struct memory *memory, const struct memory_allocation *allocation,
		     uint64_t *from, uint64_t *ret_address)
{
	const struct memory_thread *thread = memory_thread(memory, allocation->thread);
	struct heap_block block;

	if (!thread || is_made_within(thread, allocation, &block))
		return false;
	while (*from == allocation->address || *from - allocation->address < allocation->size) {
		if (!live_blocks_overlap(&thread->image->blocks, *from,
					 allocation->size - (*from - allocation->address), &block))
			return false;
		uint64_t at = *from;
		*from = block.address + (block.size ? block.size : 1);
		/* A block up to the end of the address space: nothing is behind it. */
		if (*from <= at)
			*from = allocation->address - 1;
		if (memory_early_end(thread->image, block.id))
			continue;
		*ret_address = block.address;
		return true;
	}
	return false;
}

/*
 * A block is in the way of a new one: it ended unseen, or by an end that came before its
 * allocation.
 */
static int end_unseen(struct memory *memory, struct memory_image *image,
		      const struct heap_block *block, int64_t time_ns)
{
	const struct memory_end_of *end = memory_early_end(image, block->id);
	struct memory_thread *thread = end ? memory_thread(memory, end->thread) : NULL;
	struct ending ending = { MEMORY_MISSED, time_ns, ROWS_NULL, false, 0 };

	if (thread) {
		ending = (struct ending){ end->link ? MEMORY_REALLOCATED : MEMORY_FREED,
					  block->allocated_ns, thread->row, false, end->call };
		memory_early_count(memory, image);
	} else {
		memory->tally->total.missed_frees++;
	}
	return end_block(memory, image, block, &ending);
}

static int end_overlapped(struct memory *memory, struct memory_image *image,
			  const struct heap_block *born)
{
	struct heap_block block;

	while (live_blocks_overlap(&image->blocks, born->address, born->size, &block)) {
		int r = live_blocks_remove(&image->blocks, block.address, &block);
		if (r < 0)
			return r;
		r = end_unseen(memory, image, &block, born->allocated_ns);
		if (r < 0)
			return r;
	}
	return 0;
}

static int insert(struct memory *memory, struct memory_image *image, const struct heap_block *block,
		  bool ends_others)
{
	int r = live_blocks_insert(&image->blocks, block);

	if (r != -EEXIST || !ends_others)
		return r;
	r = end_overlapped(memory, image, block);
	return r < 0 ? r : live_blocks_insert(&image->blocks, block);
}

/* What the old half of a realloc left; 0: nothing, or the block was not known. */
static uint64_t previous_of(struct memory_move *move)
{
	return move ? move->previous_id : 0;
}

static struct owner_block owner_of(const struct memory *memory, const struct heap_block *block)
{
	return (struct owner_block){
		.id = memory->first_allocation + (int64_t)block->id,
		.start = block->address,
		.size = block->size,
		.site = block->site,
	};
}

/* The call that the program made is the one to be named. */
static int rename_block(struct memory *memory, const struct memory_allocation *allocation,
			struct heap_block *block)
{
	struct memory_thread *thread = memory_thread(memory, allocation->thread);
	int r = live_blocks_remove(&thread->image->blocks, block->address, block);

	block->call = allocation->call;
	struct memory_move *move = memory_find_move(thread, allocation->link);
	block->previous_id = previous_of(move);
	if (move)
		move->link = 0;
	memory->tally->total.reallocations += allocation->link != 0 && !allocation->detail;
	thread->allocated_id = block->id;
	thread->nested_id = 0;
	return r < 0 ? r : live_blocks_insert(&thread->image->blocks, block);
}

/* A block that lives now is a row, and counted. Returns 0 or -ENOMEM. */
static int add_birth(struct memory *memory, struct memory_thread *thread,
		     const struct memory_allocation *allocation, const struct heap_block *block)
{
	struct memory_image *image = thread->image;
	const struct block_weight weight = memory_weight(memory, block);
	const struct block_birth birth = memory_birth(memory, image, block);

	/* Pages that realloc has moved have the marks of the old block. */
	if (memory->notes_ends && block->previous_id &&
	    freed_pages_add(&image->ends.pages, block->address, block->size) < 0)
		return -ENOMEM;
	memory->n_allocations++;
	int r = block_rows_born(memory->allocations, &birth);
	if (r < 0)
		return r;
	if (memory->keeps_freed)
		alignment_allocation(&memory->tally->alignment,
				     &(struct alignment_moment){ image->row, block->allocated_ns,
								 block->address, block->size });
	memory->tally->total.reallocations += allocation->link != 0 && !allocation->detail;
	tally_allocation(memory->tally, block->site, &weight, block->allocated_ns);
	kinds_allocated(&memory->kinds, kinds_of(&memory->kinds, &image->kinds, block), &weight);
	return 0;
}

int memory_allocated(struct memory *memory, const struct memory_allocation *allocation,
		     struct owner_block *ret_block)
{
	struct memory_thread *thread = memory_thread(memory, allocation->thread);
	struct heap_block block = {
		.address = allocation->address,
		.size = allocation->size,
		.allocated_ns = allocation->time_ns,
		.id = memory->n_allocations + 1,
		.thread = allocation->thread,
		.call = allocation->call,
		.interval = block_interval_number(&memory->intervals, allocation->detail),
	};

	if (!thread)
		return -ENOMEM;
	struct memory_end_of end;
	struct heap_block inner;
	if (is_made_within(thread, allocation, &inner)) {
		*ret_block = owner_of(memory, &inner);
		return rename_block(memory, allocation, &inner);
	}
	struct memory_move *move = memory_find_move(thread, allocation->link);
	block.previous_id = previous_of(move);
	int r = tally_site(memory->tally, allocation->stack_id, &block.site);
	r = r ?: insert(memory, thread->image, &block, allocation->ends_others);
	if (r < 0)
		return r;

	if (move)
		move->link = 0;
	r = add_birth(memory, thread, allocation, &block);
	if (r < 0)
		return r;
	thread->allocated_id = block.id;
	thread->nested_id = allocation->flags & TRACE_EVENT_NESTED ? block.id : 0;
	thread->freed.id = 0;
	memory_seen_allocation(thread, &block);
	if (move && move->mapping.size > 0)
		r = memory_seen_move(memory, thread->image, &block, &move->mapping);
	*ret_block = owner_of(memory, &block);
	if (r == 0 && memory_early_allocation(memory, thread->image, allocation, block.id, &end))
		r = memory_freed(memory, &end);
	return r;
}

/* The thread has given this block back, and remembers it until its next event. */
static void remember(struct memory *memory, struct memory_thread *thread,
		     const struct memory_end_of *end, const struct heap_block *block)
{
	if (end->link)
		memory_keep_move(thread, end->link)->previous_id = block->id;
	if (end->is_early)
		return;
	thread->allocated_id = 0;
	thread->freed = (struct owner_block){
		.id = memory->first_allocation + (int64_t)block->id,
		.start = block->address,
		.size = block->size,
		.site = block->site,
	};
}

/* The new block of a realloc may not have been picked. */
static bool is_realloc(uint8_t call)
{
	return call == TRACE_CALL_REALLOC || call == TRACE_CALL_REALLOCARRAY;
}

int memory_freed(struct memory *memory, const struct memory_end_of *end)
{
	struct memory_thread *thread = memory_thread(memory, end->thread);
	struct heap_block block;

	if (!thread)
		return -ENOMEM;
	int r = live_blocks_remove(&thread->image->blocks, end->address, &block);
	if (r < 0)
		return r;
	if (r == 0) {
		/* realloc has given it back already, and now by the free that it calls. */
		if (!end->is_nested || thread->freed.start != end->address)
			r = memory_early_keep(memory, thread->image, end);
		memory_other(memory, end->thread);
		return r;
	}
	struct ending ending = {
		.end_kind = end->link || (block.interval && is_realloc(end->call))
				    ? MEMORY_REALLOCATED
				    : MEMORY_FREED,
		.time_ns = end->time_ns > block.allocated_ns ? end->time_ns : block.allocated_ns,
		.thread_row = thread->row,
		/* Between picked blocks there may be others. */
		.is_temporary = !end->link && !end->is_early && !block.interval &&
				thread->allocated_id == block.id,
		.call = end->call,
	};
	remember(memory, thread, end, &block);
	if (memory->keeps_freed)
		alignment_free(&memory->tally->alignment,
			       &(struct alignment_moment){ thread->image->row, ending.time_ns,
							   block.address, block.size });
	memory_early_note(thread->image, end);
	r = memory_seen_free(memory, thread->image, &block, ending.time_ns,
			     memory_find_move(thread, end->link));
	return r < 0 ? r : end_block(memory, thread->image, &block, &ending);
}

struct leftover {
	struct memory *memory;
	struct memory_image *image;
	struct ending ending;
};

static int end_leftover(void *context, const struct heap_block *block)
{
	struct leftover *left = context;

	return end_block(left->memory, left->image, block, &left->ending);
}

int memory_end_blocks(struct memory *memory, struct memory_image *image, int64_t time_ns,
		      bool by_exec)
{
	struct leftover left = {
		.memory = memory,
		.image = image,
		.ending = { by_exec ? MEMORY_EXEC : MEMORY_ALIVE, time_ns, ROWS_NULL, false, 0 },
	};
	int r = live_blocks_walk(&image->blocks, image->first_id, end_leftover, &left);

	memory_early_finish(memory, image);
	live_blocks_finish(&image->blocks);
	return r;
}
