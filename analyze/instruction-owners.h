#pragma once
/*
 * Whose memory each instruction was seen to access, for the samples in which its operand cannot be
 * resolved: the table `instruction_owner`, from which tally-imputed.c gives such shares to their likely owners. One
 * thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/key-map.h"
#include "analyze/owners.h"

struct db;

#define INSTRUCTION_OWNERS 6u /* owners kept for each instruction; those of the rest only count */

/* Below this many accesses that were resolved nothing is concluded. */
#define INSTRUCTION_MIN_SEEN 4u

struct instruction_seen {
	int64_t frame;
	double n; /* accesses that were resolved */
	uint8_t is_needed; /* some were not */
	uint8_t n_owners;
	struct {
		struct owner owner;
		double n;
	} owners[INSTRUCTION_OWNERS];
};

/* All zero is empty. */
struct instruction_owners {
	struct key_map numbers; /* of frames: index + 1 */
	struct instruction_seen *items;
	size_t n;
	size_t n_allocated;
};

void instruction_owners_finish(struct instruction_owners *owners);

/* The instruction of a frame accessed the owner's memory. 0 or -ENOMEM. */
int instruction_owners_add(struct instruction_owners *owners, int64_t frame,
			   const struct owner *owner);

/* An operand of it was not resolved. 0 or -ENOMEM. */
int instruction_owners_need(struct instruction_owners *owners, int64_t frame);

/* The stack of a site (struct owner), for blocks of the heap. */
typedef int64_t (*instruction_stack_of)(void *user, uint32_t site);

/* Write the rows of instructions that are needed. 0 or a negative errno. */
int instruction_owners_write(const struct instruction_owners *owners, struct db *db, int64_t run_id,
			     instruction_stack_of stack_of, void *user);
