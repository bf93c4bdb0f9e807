#include "analyze/live/live-memory.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/live-memory-internal.h"
#include "analyze/live/pages/resident.h"
#include "analyze/live/pages/touches.h"
#include "common/cleanup.h"
#include "store/database.h"

static const struct rows_table mapping_table = {
	.name = "mapping",
	.columns = "id, run_id, process_id, thread_id, address, size, allocated_ns, freed_ns,"
		   " stack_id, call, prot, flags, path, is_nested, previous_mapping_id, seen",
	.types = "nnninnniiinntnin",
};

static const struct rows_table change_table = {
	.name = "mapping_event",
	.columns = "id, run_id, process_id, thread_id, time_ns, call, address, size, detail,"
		   " mapping_id, stack_id, is_nested",
	.types = "nnnnnnnnniin",
};

static void cleanup_memory(struct memory **memory)
{
	*memory = memory_close(*memory);
}
#define auto_memory __attribute__((cleanup(cleanup_memory)))

int memory_open(struct db *db, int64_t run_id, const struct tasks *tasks, struct tally *tally,
		struct memory **ret_memory)
{
	auto_memory struct memory *memory = calloc(1, sizeof(*memory));
	if (!memory)
		return -ENOMEM;
	memory->run_id = run_id;
	memory->tasks = tasks;
	memory->tally = tally;
	memory->next_mapping = 1;
	kinds_init(&memory->kinds, db, run_id);
	memory->first_allocation = db_integer(db, "SELECT max(id) FROM allocation", 0);
	memory->first_name = db_integer(db, "SELECT max(id) FROM object_name", 0);
	memory->first_mapping = db_integer(db, "SELECT max(id) FROM mapping", 0);
	memory->next_change = db_integer(db, "SELECT max(id) FROM mapping_event", 0) + 1;

	int r = heap_pool_open(&memory->pool) ?: pools_open(db, run_id, &memory->pools);
	if (r == 0)
		r = block_rows_open(db,
				    &(struct block_rows_of){ run_id, memory->first_allocation,
							     pools_first_row(memory->pools), tally,
							     &memory->intervals },
				    &memory->allocations);
	r = r ?: rows_open(db, &mapping_table, &memory->mappings);
	r = r ?: memory_open_names(memory, db);
	r = r ?: rows_open(db, &change_table, &memory->changes);
	r = r ?: residents_open(db, run_id, &memory->residents);
	r = r ?: touches_open(db, run_id, &memory->touches);
	if (r < 0)
		return r;
	*ret_memory = steal_ptr(&memory);
	return 0;
}

static void free_image(struct memory_image *image)
{
	if (!image)
		return;
	live_blocks_finish(&image->blocks);
	heap_finish(&image->names);
	for (unsigned i = 0; i < POOLS_LEVELS; i++)
		heap_finish(&image->inner[i]);
	mappings_finish(&image->mappings);
	freed_pages_finish(&image->freed);
	touch_ends_finish(&image->ends);
	free_all(image->early, image);
}

static void free_thread(struct memory_thread *thread)
{
	for (size_t i = 0; thread && i < MEMORY_MOVES; i++)
		mappings_finish(&thread->moves[i].pieces);
	free(thread);
}

struct memory *memory_close(struct memory *memory)
{
	if (!memory)
		return NULL;
	for (size_t i = 0; i < memory->n_images; i++)
		free_image(memory->images[i]);
	for (size_t i = 0; i < memory->n_threads; i++)
		free_thread(memory->threads[i]);
	free_all(memory->images, memory->threads);
	block_rows_close(memory->allocations);
	rows_close(memory->mappings);
	rows_close(memory->names);
	rows_close(memory->changes);
	pools_close(memory->pools);
	residents_close(memory->residents);
	touches_close(memory->touches);
	heap_pool_close(memory->pool);
	tdestroy(memory->paths, free);
	free(memory);
	return NULL;
}

void memory_keep_freed(struct memory *memory)
{
	memory->keeps_freed = true;
}

void memory_note_ends(struct memory *memory)
{
	memory->notes_ends = true;
}

int memory_fork(struct memory *memory, uint32_t process, uint32_t parent)
{
	struct memory_image *child = memory_image(memory, process);
	struct memory_image *source = memory_image(memory, parent);

	/* A child that has memory already: its definition came too late. */
	if (!child || !source || child == source || live_blocks_count(&child->blocks) > 0 ||
	    child->mappings.n > 0)
		return 0;
	child->first_id = memory->n_allocations;
	int r = live_blocks_fork(&child->blocks, &source->blocks);
	if (r < 0)
		return r;
	heap_fork(&child->names, &source->names);
	for (unsigned i = 0; i < POOLS_LEVELS; i++)
		heap_fork(&child->inner[i], &source->inner[i]);
	child->kinds = source->kinds;
	child->first_name = memory->n_names;
	child->was_withheld = source->was_withheld;
	return mappings_fork(&child->mappings, &source->mappings);
}

static int end_image(struct memory *memory, struct memory_image *image, int64_t time_ns,
		     bool by_exec)
{
	int r = memory_end_all_names(memory, image);

	if (r >= 0)
		r = memory_end_pools(memory, image, time_ns, by_exec);
	if (r >= 0)
		r = memory_end_blocks(memory, image, time_ns, by_exec);
	if (r >= 0)
		r = residents_end(memory, image->number);
	if (r >= 0)
		r = touches_end(memory->touches, image->number);
	return r < 0 ? r : memory_end_mappings(memory, image);
}

int memory_end(struct memory *memory, uint32_t process, int64_t time_ns, bool by_exec)
{
	struct memory_image *image = memory_image(memory, process);

	return image ? end_image(memory, image, time_ns, by_exec) : 0;
}

void memory_fetch(struct memory *memory, uint32_t number, const uint64_t *addresses, size_t n)
{
	const struct memory_thread *thread = memory_thread(memory, number);

	if (thread)
		block_pages_fetch(&thread->image->blocks.pages, addresses, n);
}

void memory_passed(struct memory *memory, uint32_t number, int64_t time_ns)
{
	if (number < memory->n_threads && memory->threads[number])
		memory->threads[number]->last_ns = time_ns;
}

uint32_t memory_process_of(const struct memory *memory, uint32_t thread)
{
	const struct task_thread *task = tasks_thread(memory->tasks, thread);

	return task ? task->process : 0;
}

int memory_finish(struct memory *memory, int64_t end_ns)
{
	int r = 0;

	if (memory->has_failed)
		return -ENOMEM;
	memory->is_over = true;
	for (size_t i = 0; i < memory->n_images && r >= 0; i++) {
		if (memory->images[i])
			r = end_image(memory, memory->images[i], end_ns, false);
	}
	if (r >= 0)
		r = block_rows_count(memory->allocations);
	if (r >= 0)
		r = memory_write_pools(memory);
	if (r >= 0)
		r = rows_flush(memory->names);
	if (r >= 0)
		r = rows_flush(memory->mappings);
	if (r >= 0)
		r = residents_flush(memory->residents);
	if (r >= 0)
		r = touches_flush(memory->touches);
	return r < 0 ? r : rows_flush(memory->changes);
}

int memory_write_blocks(struct memory *memory)
{
	return block_rows_finish(memory->allocations);
}

int memory_sampled(struct memory *memory, int64_t time_ns, const struct sample_event *taken)
{
	return block_rows_sampled(memory->allocations, time_ns, taken);
}

int memory_touched(struct memory *memory, const struct touch *touch)
{
	return block_rows_touched(memory->allocations, touch);
}

void memory_listen(struct memory *memory, const struct block_listener *listener)
{
	block_rows_listen(memory->allocations, listener);
}

bool memory_has_told(const struct memory *memory)
{
	return block_rows_have_told(memory->allocations);
}

int memory_write_sums(struct memory *memory, struct db *db)
{
	return block_rows_write_sums(memory->allocations, db);
}

int memory_wait(struct memory *memory)
{
	return block_rows_wait(memory->allocations);
}

int memory_withhold(struct memory *memory, uint32_t process)
{
	struct memory_image *image = memory_image(memory, process);

	if (image)
		image->was_withheld = true;
	return image ? 0 : -ENOMEM;
}

const struct pools_losses *memory_pool_losses(const struct memory *memory)
{
	return pools_losses(memory->pools);
}

void memory_set_withheld(struct memory *memory)
{
	memory->was_withheld = true;
}

void memory_set_unseen(struct memory *memory)
{
	memory->has_unseen = true;
}

void memory_set_texts(struct memory *memory, const struct texts *texts)
{
	memory->texts = texts;
}

void memory_set_guesses(struct memory *memory, struct guesses *guesses)
{
	memory->guesses = guesses;
}

void memory_set_picked(struct memory *memory)
{
	memory->is_picked = true;
}

uint64_t memory_interval(const struct memory *memory, uint64_t detail)
{
	return memory->is_picked ? detail : 0;
}

void memory_set_minimum(struct memory *memory, uint64_t bytes)
{
	memory->min_bytes = bytes;
}

void memory_set_heap_minimum(struct memory *memory, uint64_t bytes)
{
	memory->kinds.min_bytes = bytes;
}

void memory_set_spill(struct memory *memory)
{
	memory->kinds.spills = true;
}

int memory_heap_range(struct memory *memory, uint32_t process, const struct kinds_told *told)
{
	struct memory_image *image = memory_image(memory, process);
	struct kinds_told copy = *told;

	if (!image)
		return 0;
	copy.process_row = image->row;
	return kinds_add_range(&memory->kinds, &image->kinds, &copy);
}

int memory_write_kinds(struct memory *memory)
{
	/* They count touches by the kinds of their blocks. */
	int r = memory->kinds.is_used ? memory_wait(memory) : 0;

	return r < 0 ? r : kinds_write(&memory->kinds);
}

/* ---- Answers ---- */

static struct memory_image *known_image(const struct memory *memory, uint32_t number)
{
	return number < memory->n_images ? memory->images[number] : NULL;
}

static bool answer_block(void *user, uint32_t process, uint64_t address,
			 struct owner_block *ret_block)
{
	const struct memory *memory = user;
	const struct memory_image *image = known_image(memory, process);
	struct heap_block block;

	if (!image || (!memory_find_inner(image, address, &block) &&
		       !live_blocks_find(&image->blocks, address, &block)))
		return false;
	*ret_block = (struct owner_block){
		.id = memory->first_allocation + (int64_t)block.id,
		.start = block.address,
		.size = block.size,
		.site = block.site,
	};
	return true;
}

static void answer_fetch(void *user, uint32_t process, uint64_t *addresses, size_t n)
{
	const struct memory_image *image = known_image(user, process);

	if (!image)
		return;
	block_pages_starts(&image->blocks.pages, addresses, n);
	block_pages_fetch(&image->blocks.pages, addresses, n);
}

static bool answer_named(void *user, uint32_t process, uint64_t address, int64_t *ret_id)
{
	const struct memory *memory = user;
	const struct memory_image *image = known_image(memory, process);
	struct heap_block name;

	if (!image || image->names.n_blocks == 0 || !heap_find(&image->names, address, &name))
		return false;
	*ret_id = memory->first_name + (int64_t)name.id;
	return true;
}

/* Why a block may be there of which no event tells. */
static bool answer_unrecorded(void *user, uint32_t process, enum owner_kind *ret_kind)
{
	const struct memory *memory = user;
	const struct memory_image *image = known_image(memory, process);

	if (memory->was_withheld || (image && image->was_withheld))
		*ret_kind = OWNER_paused;
	else if (memory->is_picked)
		*ret_kind = OWNER_unpicked;
	else if (memory->min_bytes > 0)
		*ret_kind = OWNER_below_threshold;
	else
		return false;
	return true;
}

/* By page: in an image or one that it was forked from. */
static bool answer_was_block(void *user, uint32_t process, uint64_t address)
{
	const struct memory *memory = user;
	const struct memory_image *image = known_image(memory, process);

	for (unsigned depth = 0; image && depth < 64; depth++) {
		if (freed_pages_has(&image->freed, address))
			return true;
		image = known_image(memory, image->parent);
	}
	return false;
}

static bool answer_last_freed(void *user, uint32_t number, struct owner_block *ret_block)
{
	const struct memory *memory = user;

	if (number >= memory->n_threads || !memory->threads[number] ||
	    memory->threads[number]->freed.id == 0)
		return false;
	*ret_block = memory->threads[number]->freed;
	return true;
}

/*
 * Nothing but the kernel's records tells of such an image: of a perf.data, or without our library.
 */
static bool is_of_kernel(const struct memory *memory, uint32_t process)
{
	const struct task_process *task = tasks_process(memory->tasks, process);

	return task &&
	       (task->why_not == TRACE_NOT_PERF_DATA || task->why_not == TRACE_NOT_FOLLOWED);
}

static bool answer_mapping(void *user, uint32_t process, uint64_t address,
			   struct owner_mapping *ret_mapping)
{
	const struct memory *memory = user;
	const struct memory_image *image = known_image(memory, process);
	const struct mapping *mapping = image ? mappings_find(&image->mappings, address) : NULL;

	/* What libc maps for itself is asked for in owners.c, by other means. */
	bool is_seen = mapping && mapping->seen == MAPPING_KERNEL;
	if (!mapping || (is_seen && !is_of_kernel(memory, process)))
		return false;
	*ret_mapping = (struct owner_mapping){
		.id = memory->first_mapping + (int64_t)mapping->id,
		.is_initial = mapping->seen == MAPPING_BEFORE ||
			      (is_seen && strncmp(mapping->path, "[vvar", 5) == 0),
		.is_nested = mapping->is_nested || is_seen, /* modules and stacks come first */
		.path = mapping->path,
	};
	return true;
}

static bool answer_mapped(void *user, uint32_t process, uint64_t address,
			  struct owner_range *ret_range)
{
	const struct memory *memory = user;
	const struct memory_image *image = known_image(memory, process);
	const struct mapping *mapping = image ? mappings_find(&image->mappings, address) : NULL;

	if (!mapping)
		return false;
	*ret_range = (struct owner_range){
		.start = mapping->address,
		.end = mapping_end(mapping),
		.id = memory->first_mapping + (int64_t)mapping->id,
		.is_unclaimed = mapping_is_unclaimed(mapping),
	};
	return true;
}

struct owner_memory memory_answers(struct memory *memory)
{
	return (struct owner_memory){
		.user = memory,
		.block = answer_block,
		.was_block = answer_was_block,
		.last_freed = answer_last_freed,
		.mapping = answer_mapping,
		.mapped = answer_mapped,
		.named = answer_named,
		.unrecorded = answer_unrecorded,
		.fetch = answer_fetch,
	};
}
