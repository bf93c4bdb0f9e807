#pragma once
/*
 * Whose memory each instruction was seen to access, for the samples in which its operand cannot be
 * resolved: the table `instruction_owner`, from which store/totals/imputation.c concludes whose
 * such shares are. What else the samples accessed tells uses of one instruction apart (a function
 * that is called for several arrays). One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/live/owners.h"
#include "common/hash-map.h"
#include "schemas/trace-format.h"

struct db;

#define INSTRUCTION_OWNERS 6u /* owners kept for each instruction; those of the rest only count */

/* Accesses of one sample that are looked at; in loops of more the first ones tell enough. */
#define INSTRUCTION_ACCESSES 48u

struct instruction_access {
	int64_t frame;
	struct owner owner;
	double share;
	enum trace_role role;
	uint8_t is_resolved;
};

/* An instruction in samples that also accessed the memory of `beside` (kind 0: in all). */
struct instruction_seen {
	uint64_t keys[INSTRUCTION_OWNERS]; /* of the owners: what a fault looks at lies together */
	uint64_t n_others; /* with owners beyond those kept */
	unsigned n_owners;
	bool is_next_mixed; /* below */
	int64_t frame;
	struct owner beside;
	uint64_t n_unresolved; /* samples */
	double others_time;
	struct owner next; /* of the memory of other turns, in n_next samples; or that of several */
	uint64_t n_next;
	struct {
		struct owner owner;
		uint64_t n;
		double time;
	} owners[INSTRUCTION_OWNERS];
};

/* All zero is empty. */
struct instruction_owners {
	struct key_map numbers; /* of frames and what is beside: index + 1 */
	struct instruction_seen *items;
	size_t n;
	size_t n_allocated;
	struct instruction_access pending[INSTRUCTION_ACCESSES]; /* of the sample at hand */
	unsigned n_pending;
};

void instruction_owners_finish(struct instruction_owners *owners);

/* An access of the sample at hand, resolved or not. */
void instruction_owners_take(struct instruction_owners *owners,
			     const struct instruction_access *access);

/* The sample at hand, which stands for weight, has been told. 0 or -ENOMEM. */
int instruction_owners_end(struct instruction_owners *owners, double weight);

/* Blocks of one site are one owner here: which of them it was can no longer be told. */
bool instruction_owners_is_same(const struct owner *a, const struct owner *b);

/*
 * Whether the owner is the only one whose memory the instruction of a frame was seen to access in
 * samples so far; where there are none, what it accesses in other turns counts from the eighth on.
 */
bool instruction_owners_is_only(const struct instruction_owners *owners, int64_t frame,
				const struct owner *owner);

/* The instruction will access the owner's memory in another turn of its loop. 0 or -ENOMEM. */
int instruction_owners_next(struct instruction_owners *owners, int64_t frame,
			    const struct owner *owner);

/*
 * A page fault of an instruction tells who is accessed, and not how often. *seen: the instruction's
 * number, or 0: it is found. instruction_owners_fetch() has it in the cache by then. 0 or -ENOMEM.
 */
int instruction_owners_fault(struct instruction_owners *owners, int64_t frame,
			     const struct owner *owner, uint32_t *seen);
static inline void instruction_owners_fetch(const struct instruction_owners *owners, uint32_t seen)
{
	if (!seen)
		return;
	__builtin_prefetch(&owners->items[seen - 1].keys, 1);
	__builtin_prefetch(&owners->items[seen - 1].n_owners, 1);
}

/* The stack of a site (struct owner), for blocks of the heap. */
typedef int64_t (*instruction_stack_of)(void *user, uint32_t site);

/* Write the rows of instructions that some samples left unresolved. 0 or a negative errno. */
int instruction_owners_write(const struct instruction_owners *owners, struct db *db, int64_t run_id,
			     instruction_stack_of stack_of, void *user);
