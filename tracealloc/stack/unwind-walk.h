#pragma once
/* One walk out of the frames of a thread. */
#include <stdbool.h>
#include <stdint.h>

#include "tracealloc/stack/stack-hash.h"
#include "tracealloc/stack/unwind-rule.h"

struct ta_thread;

/*
 * Frames are "odd" when going out from them has asked more than rules and the words that the rules
 * name, or when they do not lie on the thread's own stack: the next walk finds them afresh.
 */

/* What is known in a frame, at the moment when the call that it has made returns. */
struct ta_registers {
	uintptr_t slot; /* where pc was read */
	uintptr_t pc;
	uintptr_t rsp;
	uintptr_t rbp;
};

struct ta_walk {
	const struct ta_thread *thread;
	uintptr_t limit; /* the stack can be read from the hook's frame up to here */
	bool is_own; /* on the thread's own stack */
	bool has_rbp; /* rbp is known */
	bool is_quick; /* nothing may be worked out: what is not known yet makes it fail */
	bool has_failed;
	bool is_exact; /* the frame was interrupted: pc - 1 is its next instruction */
	const long long *saved; /* registers of that frame, as in gregset_t; only while is_exact */
	uint32_t n_fresh;
	uint32_t n_odd; /* innermost ones of these that are are odd */
	uint32_t n_known; /* frames of the last walk that go on from there */
	uintptr_t known_slot; /* the slot of the innermost of them; UINTPTR_MAX: of none */
	uint32_t n_dropped; /* known ones that the walk has not come to */
	ta_hash_sum hash_sum; /* of the fresh frames */
	uint32_t stop; /* enum trace_stop, when n_known is 0 */
	uint32_t n_switches; /* of stacks */
};

/* Begin at an address of the stack that is in use. */
void ta_walk_enter(struct ta_walk *walk, uintptr_t address);

/* Can the stack be read up to end? Never beyond the thread's stack, or a hole. */
bool ta_walk_reach_slow(struct ta_walk *walk, uintptr_t end);

static inline bool ta_walk_reach(struct ta_walk *walk, uintptr_t end)
{
	return ta_likely(end <= walk->limit) || ta_walk_reach_slow(walk, end);
}

/* Can the 8 bytes at an address be read? */
bool ta_walk_is_readable(uintptr_t address);

/* Does a call instruction end at pc, in a module or in code that was generated? */
bool ta_walk_is_return(uintptr_t pc);

/*
 * Go one frame out where the rule is not one of the two usual ones. False: this was the last frame;
 * walk->stop says why.
 */
bool ta_walk_step_rare(struct ta_walk *walk, uint64_t rule, struct ta_registers *registers);
