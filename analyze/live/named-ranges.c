/*
 * Names that the program gives to memory. The named ranges of an image are a heap of their own: a
 * block's previous_id is the allocation it lies in, its site the number of the name.
 */
#include "analyze/live/live-memory.h"

#include <errno.h>

#include "analyze/live/live-memory-internal.h"

static const struct rows_table name_table = {
	.name = "object_name",
	.columns = "id, run_id, process_id, address, size, name, time_ns, end_ns, allocation_id",
	.types = "nnnnntnii",
};

int memory_open_names(struct memory *memory, struct db *db)
{
	return rows_open(db, &name_table, &memory->names);
}

/* end_ns ROWS_NULL: it held until the end. */
static int write_row(struct memory *memory, const struct memory_image *image,
		     const struct heap_block *name, int64_t end_ns)
{
	if (name->id <= image->first_name) /* its row is the parent's */
		return 0;
	return rows_put(
		memory->names, CELL(memory->first_name + (int64_t)name->id), CELL(memory->run_id),
		CELL(image->row), CELL(name->address), CELL(name->size),
		CELL(texts_get(memory->texts, name->site)), CELL(name->allocated_ns), CELL(end_ns),
		CELL(name->previous_id ? memory->first_allocation + (int64_t)name->previous_id
				       : ROWS_NULL));
}

int memory_end_names(struct memory *memory, struct memory_image *image, uint64_t address,
		     uint64_t size, int64_t time_ns)
{
	struct heap_block name;
	int r = 0;

	while (r >= 0 && size > 0 && image->names.n_blocks > 0 &&
	       heap_overlap(&image->names, address, size, &name)) {
		r = heap_remove(&image->names, name.address, &name);
		if (r >= 0)
			r = write_row(memory, image, &name, time_ns);
	}
	return r < 0 ? r : 0;
}

struct leftover {
	struct memory *memory;
	struct memory_image *image;
};

static int end_leftover(void *context, const struct heap_block *name)
{
	const struct leftover *left = context;

	return write_row(left->memory, left->image, name, ROWS_NULL);
}

int memory_end_all_names(struct memory *memory, struct memory_image *image)
{
	struct leftover left = { memory, image };
	int r = heap_walk(&image->names, image->first_name, end_leftover, &left);

	heap_finish(&image->names);
	return r;
}

/* Without a size: the block or mapping that it lies in. */
static void find_extent(const struct memory_image *image, struct memory_name *name,
			const struct heap_block *block)
{
	if (name->size > 0)
		return;
	if (block) {
		name->address = block->address;
		name->size = block->size;
		return;
	}
	const struct mapping *mapping = mappings_find(&image->mappings, name->address);
	if (mapping && mapping->call != TRACE_CALL_UNKNOWN) {
		name->address = mapping->address;
		name->size = mapping->size;
	}
}

/* Of malloc, or in one of these. */
static bool find_block(const struct memory_image *image, uint64_t address, struct heap_block *block)
{
	return memory_find_inner(image, address, block) ||
	       live_blocks_find(&image->blocks, address, block);
}

bool memory_knows_block(struct memory *memory, uint32_t number, uint64_t address)
{
	const struct memory_thread *thread = memory_thread(memory, number);
	struct heap_block block;

	return thread && find_block(thread->image, address, &block);
}

int memory_name(struct memory *memory, const struct memory_name *wanted)
{
	struct memory_thread *thread = memory_thread(memory, wanted->thread);
	struct memory_name name = *wanted;
	struct heap_block block;

	if (!thread)
		return -ENOMEM;
	bool is_block = find_block(thread->image, name.address, &block);
	find_extent(thread->image, &name, is_block ? &block : NULL);
	if (name.address + name.size < name.address)
		name.size = 0;
	int r = memory_end_names(memory, thread->image, name.address, name.size ? name.size : 1,
				 name.time_ns);
	if (r < 0 || !name.text)
		return r;
	struct heap_block item = {
		.address = name.address,
		.size = name.size,
		.allocated_ns = name.time_ns,
		.id = ++memory->n_names,
		.previous_id = is_block && block.id > thread->image->first_id ? block.id : 0,
		.thread = name.thread,
		.site = name.text,
	};
	if (name.size > 0) {
		r = heap_insert(&thread->image->names, &item);
		return r == -EEXIST ? 0 : r; /* nothing is in its way: absurd sizes aside */
	}
	memory->tally->total.sizeless_names++;
	return write_row(memory, thread->image, &item, name.time_ns);
}
