#include "analyze/memory.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/memory-internal.h"

enum column {
	ID,
	RUN,
	PROCESS,
	THREAD,
	ADDRESS,
	SIZE,
	BIRTH_NS,
	DEATH_NS,
	STACK,
	CALL,
	PROT,
	FLAGS,
	PATH,
	IS_NESTED,
	PREVIOUS,
};

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
	bool is_initial = mapping->call == TRACE_CALL_UNKNOWN;

	if (mapping->is_inherited)
		return 0;
	union rows_cell *row = rows_add(memory->mappings);
	if (!row)
		return rows_error(memory->mappings);
	row[ID].integer = memory->first_mapping + (int64_t)mapping->id;
	row[RUN].integer = memory->run_id;
	row[PROCESS].integer = ending->image->row;
	row[THREAD].integer = mapping->thread ? memory->threads[mapping->thread]->row : ROWS_NULL;
	row[ADDRESS].integer = (int64_t)mapping->address;
	row[SIZE].integer = (int64_t)mapping->size;
	row[BIRTH_NS].integer = mapping->birth_ns;
	row[DEATH_NS].integer = ending->time_ns;
	row[STACK].integer = mapping->stack_id ? mapping->stack_id : ROWS_NULL;
	row[CALL].integer = is_initial ? ROWS_NULL : mapping->call;
	row[PROT].integer = (int64_t)(uint32_t)mapping->detail;
	row[FLAGS].integer = (int64_t)(mapping->detail >> 32);
	row[PATH].text = mapping->path;
	row[IS_NESTED].integer = mapping->is_nested;
	row[PREVIOUS].integer = mapping->previous_id
					? memory->first_mapping + (int64_t)mapping->previous_id
					: ROWS_NULL;
	return 0;
}

static int insert(struct memory *memory, struct memory_image *image, const struct mapping *mapping)
{
	struct ending ending = { memory, image, mapping->birth_ns };
	struct mappings_change change = {
		.now_ns = mapping->birth_ns,
		.next_id = &memory->next_mapping,
		.end = end_mapping,
		.context = &ending,
	};

	return mappings_insert(&image->mappings, mapping, &change);
}

int memory_map(struct memory *memory, const struct memory_birth *birth)
{
	struct memory_thread *thread = memory_thread(memory, birth->thread);
	if (!thread)
		return -ENOMEM;

	struct memory_move *move = memory_find_move(thread, birth->link);
	struct mapping mapping = {
		.address = birth->address,
		.size = birth->size,
		.birth_ns = birth->time_ns,
		.id = memory->next_mapping++,
		.previous_id = move ? move->previous_id : 0,
		.detail = move ? move->mapping.detail : birth->detail,
		.path = move ? move->mapping.path : NULL,
		.thread = birth->thread,
		.stack_id = birth->stack_id,
		.call = birth->call ? birth->call : TRACE_CALL_MMAP,
		.is_nested = birth->flags & TRACE_EVENT_NESTED,
	};
	if (move)
		move->link = 0;
	if (!mapping.is_nested) { /* the allocator's own mmap is no event of the program */
		memory_other(memory, birth->thread);
		memory->tally->total.mappings++;
		memory->tally->total.mapped_bytes += birth->size;
	}
	return insert(memory, thread->image, &mapping);
}

int memory_unmap(struct memory *memory, const struct memory_end_of *end)
{
	struct memory_thread *thread = memory_thread(memory, end->thread);
	if (!thread)
		return -ENOMEM;

	struct memory_image *image = thread->image;
	const struct mapping *old = mappings_find(&image->mappings, end->address);
	if (end->link) {
		struct memory_move *move = memory_keep_move(thread, end->link);
		if (old)
			move->mapping = *old;
		move->previous_id = old ? old->id : 0;
	}
	if (!end->is_nested)
		memory_other(memory, end->thread);
	struct ending ending = { memory, image, end->time_ns };
	struct mappings_change change = {
		.now_ns = end->time_ns,
		.next_id = &memory->next_mapping,
		.end = end_mapping,
		.context = &ending,
	};
	int r = memory_end_names(memory, image, end->address, end->size, end->time_ns);
	return r < 0 ? r : mappings_remove(&image->mappings, end->address, end->size, &change);
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* One copy of a text, that lives as long as the memory. NULL without memory. */
static const char *intern(struct memory *memory, const char *text)
{
	char **found = tfind(text, &memory->paths, compare);
	if (found)
		return *found;

	char *copy = strdup(text);
	if (copy && !tsearch(copy, &memory->paths, compare)) {
		free(copy);
		return NULL;
	}
	return copy;
}

int memory_map_before(struct memory *memory, uint32_t process, const struct mapping *mapping)
{
	struct memory_image *image = memory_image(memory, process);
	struct mapping copy = *mapping;

	if (!image)
		return 0;
	copy.id = memory->next_mapping++;
	copy.thread = 0;
	copy.call = TRACE_CALL_UNKNOWN;
	copy.path = intern(memory, mapping->path);
	if (!copy.path)
		return -ENOMEM;
	return insert(memory, image, &copy);
}

int memory_end_mappings(struct memory *memory, struct memory_image *image)
{
	struct ending ending = { memory, image, ROWS_NULL };
	int r = 0;

	for (size_t i = 0; i < image->mappings.n && r == 0; i++)
		r = end_mapping(&ending, &image->mappings.items[i]);
	mappings_finish(&image->mappings);
	return r;
}
