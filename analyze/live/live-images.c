/* The images and threads of a memory, and the moves that are under way in a thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/live-memory-internal.h"
#include "common/array.h"

#define MAX_NUMBER (1u << 24) /* of images and threads: more is damage */

/* Make room for a pointer number `number` in an array of pointers. */
static int reserve(void *array, size_t *n, uint32_t number)
{
	return number < MAX_NUMBER ? grow_array_to(array, number, n, sizeof(void *)) : -EBADMSG;
}

struct memory_image *memory_image(struct memory *memory, uint32_t number)
{
	if (number < memory->n_images && memory->images[number])
		return memory->images[number];

	const struct task_process *process = tasks_process(memory->tasks, number);
	if (!process)
		return NULL;
	bool has_room = reserve(&memory->images, &memory->n_images, number) == 0;
	struct memory_image *image = has_room ? calloc(1, sizeof(*image)) : NULL;
	if (!image) {
		memory->has_failed = true;
		return NULL;
	}
	image->number = number;
	image->parent = process->parent;
	image->row = process->row;
	live_blocks_init(&image->blocks, memory->pool);
	heap_init(&image->names, memory->pool);
	for (unsigned i = 0; i < POOLS_LEVELS; i++)
		heap_init(&image->inner[i], memory->pool);
	memory->images[number] = image;
	return image;
}

struct memory_thread *memory_make_thread(struct memory *memory, uint32_t number)
{
	const struct task_thread *task = tasks_thread(memory->tasks, number);
	struct memory_image *image = task ? memory_image(memory, task->process) : NULL;
	if (!image)
		return NULL;
	bool has_room = reserve(&memory->threads, &memory->n_threads, number) == 0;
	struct memory_thread *thread = has_room ? calloc(1, sizeof(*thread)) : NULL;
	if (!thread) {
		memory->has_failed = true;
		return NULL;
	}
	thread->row = task->row;
	thread->image = image;
	memory->threads[number] = thread;
	return thread;
}

struct memory_move *memory_keep_move(struct memory_thread *thread, uint64_t link)
{
	struct memory_move *move = &thread->moves[thread->next_move++ % MEMORY_MOVES];

	mappings_finish(&move->pieces);
	*move = (struct memory_move){ .link = link };
	return move;
}

struct memory_move *memory_find_move(struct memory_thread *thread, uint64_t link)
{
	return link != 0 ? array_find(thread->moves, MEMORY_MOVES, it, it->link == link) : NULL;
}

void memory_other(struct memory *memory, uint32_t number)
{
	struct memory_thread *thread = memory_thread(memory, number);

	if (thread) {
		thread->allocated_id = 0;
		thread->freed.id = 0;
	}
}
