#pragma once
/* Shared by live-memory.c, live-images.c and what is in them: blocks, mappings, names. */
#include "analyze/live/allocation-writer.h"
#include "analyze/live/freed-pages.h"
#include "analyze/live/live-blocks.h"
#include "analyze/live/live-memory.h"
#include "analyze/live/memory-kinds.h"
#include "analyze/live/name-table.h"
#include "analyze/live/pages/ends.h"
#include "analyze/live/pools/pools.h"
#include "store/row-writer.h"

#define MEMORY_RECENT 64 /* ends of blocks of an image that are remembered */

/* A block that ended not long ago. */
struct memory_recent {
	uint64_t address;
	int64_t time_ns;
	uint32_t thread;
};

/* Ends that may come before their allocation: early-frees.c. */
struct memory_early;

/* One process image. */
struct memory_image {
	uint32_t number;
	uint32_t parent;
	int64_t row; /* process.id */
	struct live_blocks blocks;
	struct mappings mappings;
	struct freed_pages freed;
	struct touch_ends ends; /* since its last interval of --source pages */
	struct kinds_ranges kinds; /* of the heap of a memory kind */
	struct heap names; /* see named-ranges.c */
	struct heap inner[POOLS_LEVELS]; /* blocks of pools; those of a level in the one before */
	uint64_t cut_address; /* of the one that ended last with what it lay in ... */
	uint32_t cut_pool; /* ... and its pool */
	uint64_t first_name; /* names up to this id were inherited over fork */
	bool was_withheld; /* blocks may have been allocated without an event */
	uint64_t first_id; /* blocks up to this id were inherited over fork */
	bool is_told; /* its maps at the start of the trace are known */
	uint64_t heap_start; /* of [heap], as the kernel told it; 0: it did not */
	uint64_t heap_end; /* as it told it last */
	struct memory_recent recent[MEMORY_RECENT]; /* round */
	unsigned n_recent; /* ever */
	struct memory_early *early; /* NULL: there were none */
};

#define MEMORY_SEEN    4 /* of a thread: what the kernel told since its last block */
#define MEMORY_SEEN_NS INT64_C(100000) /* perf's clock and ours differ by less */

/* The old half of a realloc or mremap, until the new half comes. */
struct memory_move {
	uint64_t link;
	uint64_t previous_id;
	struct mapping mapping; /* realloc of a block in a map of its own: what that was */
	uint64_t address; /* mremap: from where, and how much ... */
	uint64_t size;
	struct mappings pieces; /* ... and what was there */
};

#define MEMORY_MOVES 4 /* under way at once in a thread: a signal handler may nest */

struct memory_thread {
	int64_t row; /* thread.id */
	struct memory_image *image;
	uint64_t allocated_id; /* of the block that its last event made; 0: it made none */
	uint64_t
		/* of the block that its last allocation made inside another call; 0: none */
		nested_id;
	struct owner_block freed; /* by its last event; id 0: it freed none */
	struct memory_move moves[MEMORY_MOVES];
	unsigned next_move;
	uint32_t moved_pool; /* of the block whose place the next one of a pool takes; 0: none */
	int64_t last_ns; /* of its last event */
	uint64_t seen[MEMORY_SEEN]; /* where maps begin that its next block may lie in; 0: none */
	unsigned next_seen;
	struct mapping made[MEMORY_SEEN]; /* by its last calls */
	unsigned next_made;
	struct mapping named; /* the last map with a path that the kernel told of */
	struct mapping grown; /* what it told last of that another mapping was extended by */
};

struct memory {
	int64_t run_id;
	const struct tasks *tasks;
	struct tally *tally;
	struct heap_pool *pool;
	struct memory_image **images; /* by number */
	size_t n_images;
	struct memory_thread **threads; /* by number */
	size_t n_threads;
	uint64_t n_allocations; /* ids given to blocks */
	uint64_t next_mapping; /* id of the next mapping */
	int64_t first_allocation; /* allocation.id = this + block id */
	int64_t first_mapping;
	bool keeps_freed;
	bool notes_ends; /* in the images, for --source pages */
	bool was_withheld; /* as memory_image.was_withheld, of all images */
	bool has_unseen; /* blocks may have been allocated without an event, in any image */
	bool is_over; /* the trace has ended: what is left stays live */
	bool has_failed; /* an image or thread found no memory: memory_finish() tells */
	void *paths; /* tsearch() tree of the texts in mappings */
	struct block_rows *allocations;
	struct rows *mappings;
	struct rows *names;
	const struct texts *texts;
	uint64_t n_names; /* ids given to names */
	int64_t first_name; /* object_name.id = this + the name's id */
	struct kinds kinds;
	uint64_t min_bytes; /* smaller blocks have no events */
	bool is_picked; /* those that were not picked have none */
	struct block_intervals intervals;
	struct rows *changes; /* mapping_event */
	struct pools *pools;
	struct residents *residents;
	struct touches *touches;
	struct guesses *guesses; /* who is told of blocks that are left; NULL: nobody */
	int64_t next_change;
};

/* The image or thread of a number, made at its first use; NULL: not defined, or no memory. */
struct memory_image *memory_image(struct memory *memory, uint32_t number);
struct memory_thread *memory_make_thread(struct memory *memory, uint32_t number);

static inline struct memory_thread *memory_thread(struct memory *memory, uint32_t number)
{
	return number < memory->n_threads && memory->threads[number]
		       ? memory->threads[number]
		       : memory_make_thread(memory, number);
}

/* What is known of a block of an image when it is born, unless it lies in another one. */
static inline struct block_birth memory_birth(const struct memory *memory,
					      const struct memory_image *image,
					      const struct heap_block *block)
{
	return (struct block_birth){
		.time_ns = block->allocated_ns,
		.address = block->address,
		.size = block->size,
		.site = block->site,
		.process = (uint32_t)image->row,
		.thread = (uint32_t)memory->threads[block->thread]->row,
		.stack = (uint32_t)memory->tally->sites[block->site].stack_id,
		.interval = block->interval,
	};
}

/* The innermost block of a pool around an address. */
static inline bool memory_find_inner(const struct memory_image *image, uint64_t address,
				     struct heap_block *ret_block)
{
	if (image->inner[0].n_blocks == 0)
		return false;
	for (unsigned i = POOLS_LEVELS; i-- > 0;)
		if (image->inner[i].n_blocks > 0 && heap_find(&image->inner[i], address, ret_block))
			return true;
	return false;
}

/* Keep the old half under its link, and find it again; NULL: there was none. */
struct memory_move *memory_keep_move(struct memory_thread *thread, uint64_t link);
struct memory_move *memory_find_move(struct memory_thread *thread, uint64_t link);

static inline uint64_t mapping_end(const struct mapping *mapping)
{
	return mappings_end_of(mapping->address, mapping->size);
}

/* The mapping around an address as one that may be changed; NULL: none. */
static inline struct mapping *mapping_at(struct memory_image *image, uint64_t address)
{
	return (struct mapping *)mappings_find(&image->mappings, address);
}

/* Let a mapping begin, and what it covers end. 0 or a negative errno. */
int memory_insert_mapping(struct memory *memory, struct memory_image *image,
			  const struct mapping *mapping);

/* End what is mapped in a range. 0 or a negative errno. */
int memory_remove_mappings(struct memory *memory, struct memory_image *image, uint64_t address,
			   uint64_t size, int64_t time_ns);

/* One copy of a text, that lives as long as the memory. NULL without memory. */
const char *memory_intern(struct memory *memory, const char *text);

/* A call is making this mapping: what the kernel told of it is the same, and gives it its path. */
void memory_recognise(struct memory_thread *thread, struct mapping *mapping);

/*
 * A block was allocated: maps that the kernel told of since the thread's last one were made for it.
 */
void memory_seen_allocation(struct memory_thread *thread, const struct heap_block *block);

/*
 * A block ends: if it had a map to itself (glibc's large blocks) that ends too; with ret_move not
 * NULL it moves with the block that realloc makes of it. 0 or a negative errno.
 */
int memory_seen_free(struct memory *memory, struct memory_image *image,
		     const struct heap_block *block, int64_t time_ns, struct memory_move *move);

/* The new place of such a map. 0 or a negative errno. */
int memory_seen_move(struct memory *memory, struct memory_image *image,
		     const struct heap_block *block, const struct mapping *old);

/* What a block stands for. */
static inline struct block_weight memory_weight(const struct memory *memory,
						const struct heap_block *block)
{
	uint64_t interval = memory->intervals.bytes[block->interval];

	return block_weigh(block_weight_of(interval, block->size), block->size);
}

/* A block was ended, as its thread says. */
void memory_early_note(struct memory_image *image, const struct memory_end_of *end);

/* An end found no block: keep it for an allocation that was stamped later. 0 or -ENOMEM. */
int memory_early_keep(struct memory *memory, struct memory_image *image,
		      const struct memory_end_of *end);

/* A block was allocated: whether its end came before, to be told now. */
bool memory_early_allocation(struct memory *memory, struct memory_image *image,
			     const struct memory_allocation *allocation, uint64_t block_id,
			     struct memory_end_of *ret_end);

/*
 * What may have been the end of a live block, before its allocation; NULL: nothing. Where its
 * address is taken by another block it was, and is to be counted as that.
 */
const struct memory_end_of *memory_early_end(const struct memory_image *image, uint64_t block_id);
void memory_early_count(struct memory *memory, const struct memory_image *image);

/* No allocation comes any more. */
void memory_early_finish(struct memory *memory, struct memory_image *image);

/* What is left in an image was not freed. 0 or a negative errno. */
int memory_end_blocks(struct memory *memory, struct memory_image *image, int64_t time_ns,
		      bool by_exec);
/* Names of memory in a range, or all that are left, do not hold any more. 0 or a negative errno. */
int memory_end_names(struct memory *memory, struct memory_image *image, uint64_t address,
		     uint64_t size, int64_t time_ns);
int memory_end_all_names(struct memory *memory, struct memory_image *image);
int memory_open_names(struct memory *memory, struct db *db);
int memory_end_mappings(struct memory *memory, struct memory_image *image);
