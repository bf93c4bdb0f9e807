#pragma once
/*
 * What the entries of an allocator's functions jump to: slots of code, which lead to a hook or, if
 * the allocator itself calls, to the function's moved instructions.
 */
#include <stddef.h>
#include <stdint.h>

#include "schemas/allocator-entries.h"

#define SLOT_BYTES 192u

struct slots {
	uint8_t *bytes; /* room for n of SLOT_BYTES each; the caller's */
	size_t n;
	size_t n_used;
	uint64_t address; /* where they will lie */
	uint64_t bias; /* of the file that the entries are of */
	uint64_t own_start; /* the allocator's own code, whose calls are none of the program's */
	uint64_t own_end;
};

/* What is to stand at an entry. */
struct slot_jump {
	uint64_t address;
	uint8_t before[PLAN_JUMP_BYTES];
	uint8_t after[PLAN_JUMP_BYTES];
};

struct slot {
	uint64_t moved; /* where the function begins now */
	struct slot_jump jumps[2];
	size_t n_jumps;
};

/*
 * Fill the next slot for an entry that leads to a hook. 0, -EINVAL: what it needs is not there,
 * -ERANGE: it is out of reach.
 */
int slots_add(struct slots *slots, const struct allocator_entry *entry, uint64_t hook,
	      struct slot *ret_slot);
