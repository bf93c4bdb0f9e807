#include "analyze/live/live-memory.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/live-memory-internal.h"

/* Whose mappings end, and when; ROWS_NULL: never. */
struct ending {
	struct memory *memory;
	struct memory_image *image;
	int64_t time_ns;
};

static int end_mapping(void *context, const struct mapping *mapping)
{
	const struct ending *ending = context;
	struct memory *memory = ending->memory;
	if (memory->notes_ends && mapping->call && ending->time_ns != ROWS_NULL &&
	    touch_ends_mapping(&ending->image->ends, mapping->stack_id) < 0)
		return -ENOMEM;
	if (mapping->is_inherited)
		return 0;
	return rows_put(
		memory->mappings, CELL(memory->first_mapping + (int64_t)mapping->id),
		CELL(memory->run_id), CELL(ending->image->row),
		CELL(mapping->thread ? memory->threads[mapping->thread]->row : ROWS_NULL),
		CELL(mapping->address), CELL(mapping->size), CELL(mapping->allocated_ns),
		CELL(ending->time_ns), CELL(mapping->stack_id ? mapping->stack_id : ROWS_NULL),
		CELL(mapping->call ? mapping->call : ROWS_NULL),
		CELL((int64_t)(uint32_t)mapping->detail), CELL((int64_t)(mapping->detail >> 32)),
		CELL(mapping->path), CELL(mapping->is_nested),
		CELL(mapping->previous_id ? memory->first_mapping + (int64_t)mapping->previous_id
					  : ROWS_NULL),
		CELL(mapping->seen));
}

static struct mappings_change change_of(struct memory *memory, struct ending *ending)
{
	return (struct mappings_change){
		.now_ns = ending->time_ns,
		.next_id = &memory->next_mapping,
		.end = end_mapping,
		.context = ending,
	};
}

int memory_insert_mapping(struct memory *memory, struct memory_image *image,
			  const struct mapping *mapping)
{
	struct ending ending = { memory, image, mapping->allocated_ns };
	struct mappings_change change = change_of(memory, &ending);

	return mappings_insert(&image->mappings, mapping, &change);
}

int memory_remove_mappings(struct memory *memory, struct memory_image *image, uint64_t address,
			   uint64_t size, int64_t time_ns)
{
	struct ending ending = { memory, image, time_ns };
	struct mappings_change change = change_of(memory, &ending);
	int r = memory_end_inner(memory, image, address, size, time_ns);

	return r < 0 ? r : mappings_remove(&image->mappings, address, size, &change);
}

/*
 * How much of a piece there is at the new place: a move may cut the end, or let the last one grow.
 */
static uint64_t moved_bytes(const struct memory_allocation *allocation,
			    const struct memory_move *move, const struct mapping *piece)
{
	uint64_t offset = piece->address - move->address;
	bool is_last = offset + piece->size == move->size;

	if (offset >= allocation->size)
		return 0;
	return is_last || offset + piece->size > allocation->size ? allocation->size - offset
								  : piece->size;
}

/* mremap: one piece of what was there, at its new place. */
static int insert_piece(struct memory *memory, const struct memory_allocation *allocation,
			const struct memory_move *move, const struct mapping *piece)
{
	struct memory_thread *thread = memory->threads[allocation->thread];
	uint64_t shift = allocation->address - move->address;
	struct mapping moved = *piece;

	moved.address += shift;
	moved.segment += piece->segment ? shift : 0;
	moved.size = moved_bytes(allocation, move, piece);
	moved.allocated_ns = allocation->time_ns;
	moved.previous_id = piece->id;
	moved.id = memory->next_mapping++;
	moved.thread = allocation->thread;
	moved.stack_id = allocation->stack_id;
	moved.call = allocation->call;
	moved.seen = MAPPING_CALL;
	moved.is_nested = allocation->flags & TRACE_EVENT_NESTED;
	moved.is_inherited = false;
	if (moved.size == 0)
		return 0;
	if (memory->notes_ends &&
	    freed_pages_add(&thread->image->ends.pages, moved.address, moved.size) < 0)
		return -ENOMEM;
	memory_recognise(thread, &moved);
	return memory_insert_mapping(memory, thread->image, &moved);
}

static int insert_made(struct memory *memory, const struct memory_allocation *allocation)
{
	struct memory_thread *thread = memory->threads[allocation->thread];
	struct mapping mapping = {
		.address = allocation->address,
		.size = allocation->size,
		.allocated_ns = allocation->time_ns,
		.id = memory->next_mapping++,
		.detail = allocation->detail,
		.thread = allocation->thread,
		.stack_id = allocation->stack_id,
		.call = allocation->call ? allocation->call : TRACE_CALL_MMAP,
		.segment = allocation->call == TRACE_CALL_SHMAT ? allocation->address : 0,
		.is_nested = allocation->flags & TRACE_EVENT_NESTED,
	};

	memory_recognise(thread, &mapping);
	return memory_insert_mapping(memory, thread->image, &mapping);
}

int memory_map(struct memory *memory, const struct memory_allocation *allocation)
{
	struct memory_thread *thread = memory_thread(memory, allocation->thread);
	if (!thread)
		return -ENOMEM;

	struct memory_move *move = memory_find_move(thread, allocation->link);
	/* An allocator's is no event of the program. */
	if (!(allocation->flags & TRACE_EVENT_NESTED)) {
		memory_other(memory, allocation->thread);
		memory->tally->total.mappings++;
		memory->tally->total.mapped_bytes += allocation->size;
	}
	if (!move || move->pieces.n == 0)
		return insert_made(memory, allocation);
	move->link = 0;
	int r = memory_remove_mappings(memory, thread->image, allocation->address, allocation->size,
				       allocation->time_ns);
	for (size_t i = 0; r >= 0 && i < move->pieces.n; i++)
		r = insert_piece(memory, allocation, move, move->pieces.items[i]);
	mappings_finish(&move->pieces);
	return r;
}

/* shmdt: all that is left of the segment, whose size the call does not say. */
static int remove_segment(struct memory *memory, struct memory_image *image,
			  const struct memory_end_of *end)
{
	const struct mapping *next = mappings_next(&image->mappings, end->address);
	int r = 0;

	while (r >= 0 && next) {
		uint64_t behind = mappings_end_of(next->address, next->size);

		if (next->segment == end->address)
			r = memory_remove_mappings(memory, image, next->address, next->size,
						   end->time_ns);
		else if (next->segment == 0 && next->address > end->address)
			break;
		next = mappings_next(&image->mappings, behind);
	}
	return r;
}

/* What lies in the range of a move, as it is there. 0 or -ENOMEM. */
static int take_pieces(const struct mappings *mappings, struct memory_move *move)
{
	uint64_t end = mappings_end_of(move->address, move->size);
	const struct mapping *next = mappings_next(mappings, move->address);
	int r = 0;

	while (r >= 0 && next && next->address < end) {
		uint64_t behind = mappings_end_of(next->address, next->size);
		struct mapping piece = *next;

		if (piece.address < move->address)
			piece.address = move->address;
		piece.size = (behind < end ? behind : end) - piece.address;
		r = mappings_append(&move->pieces, &piece);
		next = mappings_next(mappings, behind);
	}
	return r;
}

int memory_unmap(struct memory *memory, const struct memory_end_of *end)
{
	struct memory_thread *thread = memory_thread(memory, end->thread);
	if (!thread)
		return -ENOMEM;

	struct memory_image *image = thread->image;
	if (end->link) {
		struct memory_move *move = memory_keep_move(thread, end->link);

		move->address = end->address;
		move->size = end->size;
		if (take_pieces(&image->mappings, move) < 0)
			return -ENOMEM;
	}
	if (!end->is_nested)
		memory_other(memory, end->thread);
	int r = memory_end_names(memory, image, end->address, end->size, end->time_ns);
	if (r < 0)
		return r;
	if (end->call == TRACE_CALL_SHMDT)
		return remove_segment(memory, image, end);
	return memory_remove_mappings(memory, image, end->address, end->size, end->time_ns);
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

const char *memory_intern(struct memory *memory, const char *text)
{
	char **found = tfind(text, &memory->paths, compare);
	if (found)
		return *found;

	char *copy = strdup(text);
	return copy && !tsearch(copy, &memory->paths, compare) ? free(copy), NULL : copy;
}

int memory_map_before(struct memory *memory, uint32_t process, const struct mapping *mapping)
{
	struct memory_image *image = memory_image(memory, process);
	struct mapping copy = *mapping;

	if (!image)
		return 0;
	if (!image->is_told) /* what the kernel told of its start is all in here */
		mappings_finish(&image->mappings);
	image->is_told = true;
	copy.id = memory->next_mapping++;
	copy.thread = 0;
	copy.call = TRACE_CALL_UNKNOWN;
	copy.seen = MAPPING_BEFORE;
	copy.path = memory_intern(memory, mapping->path);
	if (!copy.path)
		return -ENOMEM;
	return memory_insert_mapping(memory, image, &copy);
}

int memory_end_mappings(struct memory *memory, struct memory_image *image)
{
	struct ending ending = { memory, image, ROWS_NULL };
	int r = 0;

	for (size_t i = 0; i < image->mappings.n && r == 0; i++)
		r = end_mapping(&ending, image->mappings.items[i]);
	mappings_finish(&image->mappings);
	return r;
}

/* ---- A call and a record of the same ---- */

/* The kernel told of it while the thread made the call whose end is now. */
static bool is_since(const struct memory_thread *thread, const struct mapping *seen)
{
	return seen->allocated_ns >= thread->last_ns - MEMORY_SEEN_NS;
}

struct making {
	const struct memory_thread *thread;
	const struct mapping *made;
};

static bool is_the_same(const void *context, const struct mapping *seen)
{
	const struct making *making = context;

	return seen->seen == MAPPING_KERNEL && is_since(making->thread, seen) &&
	       (!seen->thread || seen->thread == making->made->thread);
}

/* What libc's heap was said to have grown by is what the program itself has moved the break by. */
static void undo_growth(struct memory_thread *thread, const struct mapping *made)
{
	const struct mapping *grown = &thread->grown;
	struct mapping *heap = grown->size ? mapping_at(thread->image, grown->address) : NULL;

	if (heap && heap->address < grown->address && mapping_end(heap) == mapping_end(grown) &&
	    made->address <= grown->address && mapping_end(grown) <= mapping_end(made) &&
	    is_since(thread, grown))
		heap->size -= grown->size;
	thread->grown.size = 0;
}

void memory_recognise(struct memory_thread *thread, struct mapping *mapping)
{
	const struct mapping *named = &thread->named;
	const struct making making = { thread, mapping };

	undo_growth(thread, mapping);
	thread->made[thread->next_made++ % MEMORY_SEEN] = *mapping;
	mappings_forget(&thread->image->mappings, mapping->address, mapping->size, is_the_same,
			&making);
	if (!mapping->path && named->path && is_since(thread, named) &&
	    named->address <= mapping->address && mapping_end(named) >= mapping_end(mapping))
		mapping->path = named->path;
}
