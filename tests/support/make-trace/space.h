#pragma once
/*
 * An address space that hands out blocks as an allocator does: rounded to classes, the block of the
 * class that was freed last is handed out first, else fresh addresses from the top. Blocks of
 * different classes never overlap. Used for the heap (granule 16) and for mappings (granule 4096).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct space_block {
	uint64_t address;
	uint64_t size; /* as asked for */
	uint32_t stack; /* which call path it was born on */
	uint32_t thread; /* which thread bore it */
};

struct space_list {
	uint64_t *addresses;
	size_t n;
	size_t capacity;
};

#define SPACE_LINEAR_CLASSES 64u
#define SPACE_CLASSES	     (SPACE_LINEAR_CLASSES + 32u)

struct space {
	uint64_t top; /* where fresh addresses come from */
	uint32_t granule;
	uint32_t overhead; /* bytes that a block takes besides its size */
	struct space_block *blocks; /* live, in no order */
	size_t n_blocks;
	size_t capacity;
	struct space_list freed[SPACE_CLASSES];
};

/* Free the memory. */
void space_finish(struct space *space);

/* Bear a block: stack, thread and size are given. Sets block->address. Returns 0 or -ENOMEM. */
int space_bear(struct space *space, struct space_block *block, bool *ret_reused);

/* End the block with that index; another one takes the index. Returns the block, or -ENOMEM. */
int space_end(struct space *space, size_t index, struct space_block *ret_block);

/* Bytes that a block can grow to without moving. */
uint64_t space_room(const struct space *space, uint64_t size);

/*
 * An address that belonged to a block and now to none, and that the next birth will not take
 * either. Returns 0 if there is none. `random` picks the class.
 */
uint64_t space_freed_address(const struct space *space, uint64_t random);
