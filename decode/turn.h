#pragma once
/*
 * Turns of loops whose last branch is not known. The window ends at a branch that leads back to
 * what surely ran before ip: from there through ip to the branch the code is one turn, whether
 * another one follows or not. So it is with loops whose counter no sample has, as in code without
 * optimisation: variables of a function that calls none lie below the stack pointer.
 */
#include <stdbool.h>
#include <stdint.h>

#include "decode/block.h"

/* What was found before, by (process, ip, branch); direct-mapped. All zero is empty. */
#define TURN_SETS 2048u

#define TURN_CALLERS 2u

#define TURN_WAY   UINT64_C(0)
#define TURN_ROUND UINT64_C(1)

struct turn_entry {
	uint64_t address; /* of ip; 0: free */
	uint64_t branch; /* TURN_WAY: the way as far as it is sure; TURN_ROUND: back to ip */
	uint64_t version; /* decode_code_version() of all that is looked at around ip */
	uint32_t process;
	uint8_t n; /* instructions between the branch's target and ip */
	bool is_turn;
	bool has_calls; /* it goes through other functions, ... */
	uint8_t n_callers; /* ... and from some to where they were called: */
	struct {
		uint32_t offset; /* of the word above the stack pointer ... */
		uint64_t back; /* ... that is this address */
	} callers[TURN_CALLERS];
	int64_t level; /* of the stack pointer at the branch, as seen from ip's */
	/* those that ran for sure; the others if ip was not come to from elsewhere: ... */
	uint8_t n_sure;
	/* ... from the instruction at `taken`, and not from that at `other` */
	uint64_t taken;
	uint64_t other;
	int32_t offsets[DECODE_MAX_TURN]; /* of each from ip, nearest first */
};

struct turn_cache {
	struct turn_entry entries[TURN_SETS];
};

/*
 * The turn before ip, where the window ended at a branch that is not known and from which it is one
 * turn of a loop; else NULL. The machine is as it is at the branch. Valid until the next call, as
 * the other's.
 */
const struct turn_entry *decode_turn_find(const struct block_code *code, struct turn_cache *cache,
					  const struct machine *machine,
					  const struct decode_window *window);

/* What surely ran right before ip, as far as nothing else leads in between. */
const struct turn_entry *decode_turn_way(const struct block_code *code, struct turn_cache *cache,
					 const struct decode_sample *sample);

/*
 * All that ran since the last time at ip, if the turn came back to it: what surely ran, and before
 * that the turn, where it could have been the loop's entry. NULL: no turn is found.
 */
const struct turn_entry *decode_turn_round(const struct block_code *code, struct turn_cache *cache,
					   const struct decode_sample *sample);

/* Whether an access is known to be of the thread's stack. */
bool decode_turn_is_stack(const struct decode_sample *sample, const struct decode_access *access);

/* Whether any of the accesses reads variables of the stack that no sample has. */
bool decode_turn_reads_hidden(const struct decode_sample *sample,
			      const struct decode_access *accesses, uint32_t n);

/* Whether any reads below the stack pointer. */
bool decode_turn_reads_below(const struct decode_sample *sample,
			     const struct decode_access *accesses, uint32_t n);

/* Whether any reads variables of a function that addresses them by its frame pointer. */
bool decode_turn_uses_frame(const struct decode_sample *sample,
			    const struct decode_access *accesses, uint32_t n);

/* Forget what may have been found from code of process in [start, end). */
void decode_turn_drop(struct turn_cache *cache, uint32_t process, uint64_t start, uint64_t end);
