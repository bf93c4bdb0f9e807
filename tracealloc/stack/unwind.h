#pragma once
/*
 * Call stacks by unwind tables (unwind-rule.h), without walking again what has not changed.
 *
 * What led from one frame to the next is a function of the return address and, where a CFA hangs on
 * it, of rbp. So when the words that the last walk has read (the checks: return addresses, and
 * saved rbp where it mattered) still have their values, the frames outside of the first equal one
 * are what a new walk would find.
 *
 * The thread has the frames that its last walk has found, innermost first (fresh), and outside of
 * them those that were found earlier and have been met again since, outermost first (kept), with
 * their checks. Fresh ones become kept when the next walk finds them unchanged: of stacks that are
 * never met again nothing is kept.
 */
#include <stdbool.h>
#include <stdint.h>

#include "schemas/ring.h"

struct ta_thread;

#define TA_UNWIND_FRAMES RING_MAX_FRAMES

/* A word of the stack that was read, and its value. */
struct ta_unwind_check {
	const uintptr_t *word;
	uintptr_t value;
};

/* A kept frame. */
struct ta_unwind_frame {
	uintptr_t slot; /* address of its return address */
	uintptr_t rbp; /* as it is when the call returns */
	uint64_t hash; /* of this frame with all outside it */
	uint16_t end_check; /* checks of this frame and of all outside it end here */
	bool needs_rbp; /* a CFA of this frame or further out hangs on rbp */
};

/* A frame of the last walk. */
struct ta_unwind_fresh {
	uintptr_t slot;
	uintptr_t rbp;
	uintptr_t pc;
	uint64_t rule;
};

struct ta_unwind {
	/* Of the hook's caller, when the whole last stack can be taken again; slot 0: it cannot. */
	uintptr_t top_slot;
	uintptr_t top_rbp;
	uintptr_t top_rbp_mask; /* 0: rbp does not matter */
	uint32_t top_id;
	uint32_t n_top_checks;
	uint32_t n; /* of frames: kept */
	uint32_t first_fresh; /* of fresh: they may be kept */
	uint32_t n_fresh;
	/* so many more may be kept: few where kept ones turned out not to be met */
	uint32_t n_ahead;
	uint32_t stop; /* enum trace_stop, why the outermost is the outermost */
	struct ta_unwind_fresh fresh[TA_UNWIND_FRAMES]; /* innermost first; the page of the head */
	struct ta_unwind_check checks[3 * TA_UNWIND_FRAMES];
	struct ta_unwind_frame frames[TA_UNWIND_FRAMES];
};

/*
 * The id of the call stack of the hook whose frame this is, as ta_stack_capture(). Signal safe in
 * the sense that a handler may jump out at any place.
 */
uint32_t ta_unwind_capture(struct ta_thread *thread, const uintptr_t *frame);

/* The same as ta_stack_recall(). */
uint32_t ta_unwind_recall(struct ta_thread *thread, const uintptr_t *frame);

/* One of the two; what it takes where the stack is not the last one is ours (own-time.h). */
uint32_t ta_unwind_measured(struct ta_thread *thread, const uintptr_t *frame,
			    uint32_t (*find)(struct ta_thread *thread, const uintptr_t *frame));

/*
 * How many frames, from the outermost in, have no word changed since the last walk; all of them are
 * kept then. Those further in than slot are gone; what lies outside of it is in use and can be
 * read.
 */
uint32_t ta_unwind_keep(struct ta_unwind *unwind, uintptr_t slot);

/* The thread's node ids are void. */
static inline void ta_unwind_forget(struct ta_unwind *unwind)
{
	unwind->top_slot = 0;
	unwind->n = 0;
	unwind->n_fresh = 0;
	unwind->first_fresh = 0;
	unwind->n_ahead = TA_UNWIND_FRAMES;
}
