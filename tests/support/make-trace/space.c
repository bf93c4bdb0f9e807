#include "tests/support/make-trace/space.h"

#include <errno.h>
#include <stdlib.h>

/* So many freed blocks of a class must wait before the oldest of them counts as at rest. */
#define RESTING_MIN 16u

static unsigned class_of(const struct space *space, uint64_t size)
{
	uint64_t n = (size + space->overhead + space->granule - 1) / space->granule;

	if (n <= SPACE_LINEAR_CLASSES)
		return n > 0 ? (unsigned)n - 1 : 0;
	/* 65..128 granules are the first class of powers of two. */
	return SPACE_LINEAR_CLASSES + 57 - (unsigned)__builtin_clzll(n - 1);
}

static uint64_t class_bytes(const struct space *space, unsigned class)
{
	if (class < SPACE_LINEAR_CLASSES)
		return (uint64_t)(class + 1) * space->granule;
	return ((uint64_t)128 << (class - SPACE_LINEAR_CLASSES)) * space->granule;
}

void space_finish(struct space *space)
{
	for (unsigned i = 0; i < SPACE_CLASSES; i++)
		free(space->freed[i].addresses);
	free(space->blocks);
	*space = (struct space){ 0 };
}

static int push(struct space_list *list, uint64_t address)
{
	if (list->n == list->capacity) {
		size_t capacity = list->capacity ? list->capacity * 2 : 16;
		uint64_t *addresses =
			reallocarray(list->addresses, capacity, sizeof(list->addresses[0]));
		if (!addresses)
			return -ENOMEM;
		list->addresses = addresses;
		list->capacity = capacity;
	}
	list->addresses[list->n++] = address;
	return 0;
}

int space_bear(struct space *space, struct space_block *block, bool *ret_reused)
{
	unsigned class = class_of(space, block->size);
	struct space_list *freed = &space->freed[class];

	if (space->n_blocks == space->capacity) {
		size_t capacity = space->capacity ? space->capacity * 2 : 64;
		struct space_block *blocks =
			reallocarray(space->blocks, capacity, sizeof(space->blocks[0]));
		if (!blocks)
			return -ENOMEM;
		space->blocks = blocks;
		space->capacity = capacity;
	}
	*ret_reused = freed->n > 0;
	if (freed->n > 0) {
		block->address = freed->addresses[--freed->n];
	} else {
		block->address = space->top;
		space->top += class_bytes(space, class);
	}
	space->blocks[space->n_blocks++] = *block;
	return 0;
}

int space_end(struct space *space, size_t index, struct space_block *ret_block)
{
	struct space_block block = space->blocks[index];
	int r = push(&space->freed[class_of(space, block.size)], block.address);

	if (r < 0)
		return r;
	space->blocks[index] = space->blocks[--space->n_blocks];
	*ret_block = block;
	return 0;
}

uint64_t space_room(const struct space *space, uint64_t size)
{
	return class_bytes(space, class_of(space, size)) - space->overhead;
}

uint64_t space_freed_address(const struct space *space, uint64_t random)
{
	for (unsigned i = 0; i < SPACE_CLASSES; i++) {
		unsigned class = (unsigned)((random + i) % SPACE_CLASSES);
		if (space->freed[class].n >= RESTING_MIN)
			return space->freed[class].addresses[random / SPACE_CLASSES % 4];
	}
	return 0;
}
