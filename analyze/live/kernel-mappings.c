/*
 * Mappings that no hooked call made, as the kernel's records tell of them: libc's heap, its maps
 * for large blocks and for threads, the loader's files. A record tells of the whole area that is
 * there now (neighbours are joined), so what is new of it is what nothing covers yet. It tells
 * nothing of ends: of those, what can be concluded is.
 */
#include "analyze/live/live-memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "analyze/live/live-memory-internal.h"
#include "schemas/trace-format.h"

#define PAGE_BYTES	  UINT64_C(4096)
#define LARGE_BLOCK_START UINT64_C(16) /* glibc: of a block in its own map, malloc.c */
#define ARENA_BYTES	  (UINT64_C(64) << 20) /* glibc, arena.c: HEAP_MAX_SIZE of a thread */
#define BREAK_BYTES	  (UINT64_C(1) << 30) /* Linux: from a program's end to its heap, at most */

static bool is_near(int64_t a, int64_t b)
{
	return a - b < MEMORY_SEEN_NS && b - a < MEMORY_SEEN_NS;
}

/* The call was told before the record: the clocks are not the same to the last ns. */
static bool is_made(const struct memory_thread *thread, const struct mapping *gap)
{
	for (size_t i = 0; i < MEMORY_SEEN; i++) {
		const struct mapping *made = &thread->made[i];

		if (made->size && is_near(made->allocated_ns, gap->allocated_ns) &&
		    made->address <= gap->address && mapping_end(made) >= mapping_end(gap))
			return true;
	}
	return false;
}

/* ---- What is new ---- */

/* Who maps, and where. */
struct mapper {
	struct memory *memory;
	struct memory_image *image;
	struct memory_thread *thread; /* NULL: not known */
};

/* libc's heaps grow in small steps: each is one mapping, not thousands. */
static bool extend(const struct mapper *mapper, const struct mapping *gap,
		   const struct mapping *seen)
{
	struct mapping *before =
		gap->address > 0 ? mapping_at(mapper->image, gap->address - 1) : NULL;
	bool is_break = strcmp(seen->path, "[heap]") == 0;
	bool is_heap = is_break || seen->address % ARENA_BYTES == 0;

	/* Linux moves the break behind the record of its first pages: they have no name yet. */
	if (is_break && before && before->seen == MAPPING_KERNEL && !before->path &&
	    before->address >= seen->address)
		before->path = gap->path;
	if (!is_heap || !before || before->seen == MAPPING_CALL || before->is_inherited ||
	    before->path != gap->path || before->detail != gap->detail)
		return false;
	before->size += gap->size;
	if (mapper->thread)
		mapper->thread->grown = *gap;
	return true;
}

static int add_gap(const struct mapper *mapper, const struct mapping *seen, uint64_t start,
		   uint64_t end)
{
	struct memory_thread *thread = mapper->thread;
	struct mapping gap = *seen;

	gap.address = start;
	gap.size = end - start;
	if ((thread && is_made(thread, &gap)) || extend(mapper, &gap, seen))
		return 0;
	gap.id = mapper->memory->next_mapping++;
	if (thread)
		thread->seen[thread->next_seen++ % MEMORY_SEEN] = start;
	return memory_insert_mapping(mapper->memory, mapper->image, &gap);
}

static int add_gaps(const struct mapper *mapper, const struct mapping *seen)
{
	uint64_t at = seen->address;
	int r = 0;

	while (r >= 0 && at < mapping_end(seen)) {
		const struct mapping *next = mappings_next(&mapper->image->mappings, at);
		uint64_t start = next ? next->address : mapping_end(seen);
		uint64_t behind = next ? mapping_end(next) : mapping_end(seen);

		if (start > mapping_end(seen))
			start = mapping_end(seen);
		if (start > at)
			r = add_gap(mapper, seen, at, start);
		at = behind;
	}
	return r;
}

/*
 * The kernel calls [heap] what has grown at least once. The first piece lies a random way behind
 * the program's own maps, where nothing else does.
 */
static bool is_first_heap(const struct memory_image *image, const char *exe,
			  const struct mapping *seen)
{
	const struct mappings *all = &image->mappings;
	const struct mapping *last = NULL;

	if (image->heap_start || seen->path[0] || !exe)
		return false;
	for (size_t i = 0; i < all->n && all->items[i]->address < seen->address; i++) {
		const struct mapping *item = all->items[i];
		bool is_bss = last && item->seen == MAPPING_BEFORE && item->path &&
			      !item->path[0] && item->address == mapping_end(last);

		last = is_bss || (item->path && strcmp(item->path, exe) == 0) ? item : NULL;
	}
	return last && seen->address - mapping_end(last) < BREAK_BYTES;
}

/*
 * libc gives back the end of its heap without a word: the next record is of a shorter one. A record
 * of a piece whose protection has changed is none of the whole heap.
 */
static int trim_heap(struct memory *memory, struct memory_image *image, const struct mapping *seen)
{
	uint64_t old_end = image->heap_end;

	if (image->heap_start == 0)
		image->heap_start = seen->address;
	if (seen->address != image->heap_start ||
	    (uint32_t)seen->detail != (PROT_READ | PROT_WRITE))
		return 0;
	image->heap_end = mapping_end(seen);
	if (old_end <= mapping_end(seen))
		return 0;
	return memory_remove_mappings(memory, image, mapping_end(seen), old_end - mapping_end(seen),
				      seen->allocated_ns);
}

/*
 * An image that does not tell of its unmappings: what the kernel tells of an area now ends all that
 * it told of it before under another name.
 */
static int end_others(const struct mapper *mapper, const struct mapping *seen)
{
	struct memory_image *image = mapper->image;
	uint64_t at = seen->address;
	int r = 0;

	while (r >= 0 && at < mapping_end(seen)) {
		const struct mapping *next = mappings_next(&image->mappings, at);
		if (!next || next->address >= mapping_end(seen))
			break;
		uint64_t start = next->address > at ? next->address : at;
		uint64_t end = mapping_end(next) < mapping_end(seen) ? mapping_end(next)
								     : mapping_end(seen);
		bool is_other = next->path != seen->path &&
				!(strcmp(seen->path, "[heap]") == 0 && !next->path[0]);
		if (is_other)
			r = memory_remove_mappings(mapper->memory, image, start, end - start,
						   seen->allocated_ns);
		at = end;
	}
	return r;
}

/* Not ours: the pool. And what cannot be accessed is a place reserved, not memory. */
static bool is_of_interest(const struct mapping *mapping)
{
	return mapping->size > 0 && (uint32_t)mapping->detail != PROT_NONE &&
	       mapping->address + mapping->size > mapping->address &&
	       strncmp(mapping->path, "/memfd:memsight-pool", 20) != 0;
}

/*
 * Of an image that tells nothing of its unmappings the mappings would pile up. But where nobody was
 * to tell of any (--no-alloc, a perf.data) these are all that are known.
 */
static bool is_told(const struct task_process *process)
{
	return process && process->is_defined && process->number < TASKS_UNSEEN &&
	       (process->why_not == TRACE_TRACED || process->why_not == TRACE_NOT_FOLLOWED ||
		process->why_not == TRACE_NOT_PERF_DATA);
}

/* The thread of that number, if it is one of the image. */
static struct memory_thread *thread_of(struct memory *memory, const struct memory_image *image,
				       uint32_t number)
{
	struct memory_thread *thread = NULL;

	if (number && number < TASKS_UNSEEN)
		thread = memory_thread(memory, number);
	return thread && thread->image == image ? thread : NULL;
}

int memory_seen(struct memory *memory, uint32_t process, const struct mapping *mapping)
{
	struct mapping seen = *mapping;

	const struct task_process *task = tasks_process(memory->tasks, process);
	if (!is_told(task) || !is_of_interest(mapping))
		return 0;
	struct memory_image *image = memory_image(memory, process);
	if (!image)
		return -ENOMEM;
	struct memory_thread *thread = thread_of(memory, image, mapping->thread);
	seen.thread = thread ? mapping->thread : 0;
	seen.seen = MAPPING_KERNEL;
	seen.path = memory_intern(memory, strcmp(mapping->path, "//anon") ? mapping->path : "");
	if (seen.path && is_first_heap(image, task->exe, &seen))
		seen.path = memory_intern(memory, "[heap]");
	if (!seen.path)
		return -ENOMEM;
	if (thread && seen.path[0])
		thread->named = seen;
	int r = strcmp(seen.path, "[heap]") == 0 ? trim_heap(memory, image, &seen) : 0;
	const struct mapper mapper = { memory, image, thread };
	if (r == 0 && task->why_not == TRACE_NOT_FOLLOWED)
		r = end_others(&mapper, &seen);
	return r < 0 ? r : add_gaps(&mapper, &seen);
}

/* ---- Blocks in them ---- */

void memory_seen_allocation(struct memory_thread *thread, const struct heap_block *block)
{
	if (thread->next_seen == 0)
		return;
	for (size_t i = 0; i < MEMORY_SEEN; i++) {
		struct mapping *mapping = mapping_at(thread->image, thread->seen[i]);

		if (thread->seen[i] && mapping && mapping->seen == MAPPING_KERNEL &&
		    block->address < mapping_end(mapping) &&
		    mapping->address < block->address + block->size)
			mapping->is_nested = true;
		thread->seen[i] = 0;
	}
	thread->next_seen = 0;
}

/* A block that is all there is in its map. */
static bool has_map(const struct mapping *mapping, const struct heap_block *block)
{
	return mapping->seen == MAPPING_KERNEL && mapping->is_nested &&
	       mapping->address + LARGE_BLOCK_START == block->address &&
	       block->size + LARGE_BLOCK_START <= mapping->size &&
	       block->size + LARGE_BLOCK_START + PAGE_BYTES > mapping->size;
}

int memory_seen_free(struct memory *memory, struct memory_image *image,
		     const struct heap_block *block, int64_t time_ns, struct memory_move *move)
{
	if ((block->address & (PAGE_BYTES - 1)) != LARGE_BLOCK_START)
		return 0;
	const struct mapping *mapping = mapping_at(image, block->address);
	if (!mapping || !has_map(mapping, block))
		return 0;
	if (move)
		move->mapping = *mapping;
	return memory_remove_mappings(memory, image, mapping->address, mapping->size, time_ns);
}

int memory_seen_move(struct memory *memory, struct memory_image *image,
		     const struct heap_block *block, const struct mapping *old)
{
	struct mapping mapping = *old;

	if ((block->address & (PAGE_BYTES - 1)) != LARGE_BLOCK_START ||
	    mappings_find(&image->mappings, block->address))
		return 0;
	mapping.address = block->address - LARGE_BLOCK_START;
	mapping.size = (block->size + LARGE_BLOCK_START + PAGE_BYTES - 1) & -PAGE_BYTES;
	mapping.allocated_ns = block->allocated_ns;
	mapping.previous_id = old->id;
	mapping.id = memory->next_mapping++;
	mapping.thread = block->thread;
	mapping.is_inherited = false;
	return memory_insert_mapping(memory, image, &mapping);
}

/* ---- Modules ---- */

int memory_unloaded(struct memory *memory, uint32_t process, uint64_t start, uint64_t size,
		    int64_t time_ns)
{
	struct memory_image *image =
		tasks_process(memory->tasks, process) ? memory_image(memory, process) : NULL;
	const struct mapping *next = image ? mappings_next(&image->mappings, start) : NULL;
	int r = 0;

	while (r >= 0 && next && next->address < mappings_end_of(start, size)) {
		struct mapping mapping = *next;

		if (mapping.seen != MAPPING_CALL)
			r = memory_remove_mappings(memory, image, mapping.address, mapping.size,
						   time_ns);
		next = mappings_next(&image->mappings, mapping_end(&mapping));
	}
	return r;
}
