#pragma once
/*
 * What every hook does around the real call: enter, capture the stack, record, leave.
 *
 * The recursion guard is the frame address of the outermost hook that runs in this thread. A hook
 * that starts while it is set is nested: an allocator that maps memory, or a signal handler. It
 * records with TRACE_EVENT_NESTED, never takes a chunk and never touches the table of stacks, so
 * nothing that it interrupts is torn. When a handler jumped out of a hook, a later hook sees that
 * the stack has been unwound past the guard (it is itself further out, or the guarded frame has
 * been overwritten), repairs the chain and goes on.
 */
#include <stdbool.h>
#include <stdint.h>

#include "schemas/trace-format.h"
#include "tracealloc/pause.h"
#include "tracealloc/pick/pick.h"
#include "tracealloc/ring/clock.h"
#include "tracealloc/ring/record.h"
#include "tracealloc/stack/stack.h"
#include "tracealloc/state.h"
#include "tracealloc/thread.h"

/* The agent is found by what it patches: its hooks have no names. */
#if defined(TA_AGENT)
#define TA_EXPORT
#else
#define TA_EXPORT __attribute__((visibility("default")))
#endif

/* What programs call by include/memsight.h; the agent's recorder looks for it by its name. */
#define TA_OFFERED __attribute__((visibility("default")))

/* A running hook. */
struct ta_hook {
	struct ta_thread *thread; /* NULL: nothing is recorded */
	uint32_t bits; /* 0, or TA_NESTED_BITS */
	uint32_t stack_id;
	uint64_t every; /* the interval that the block was picked with; 0: all are recorded */
};

/*
 * The rare ways into a hook: no thread state yet, nested, off. The result's thread is NULL when
 * nothing is to be recorded; so is that of a paused one unless it is_kept. Keeps errno. (By value:
 * a hook whose address is never taken stays in registers.)
 */
struct ta_hook ta_hook_enter_slow(const uintptr_t *frame, bool is_kept);

/*
 * Begin a hook that records also while recording is paused or its class is not collected: what ends
 * (a free of what is not recorded any more would read as a leak), and what the program says of
 * itself. events as for ta_hook_enter(); only what --events leaves out stays out.
 */
bool ta_hook_enter_kept(struct ta_hook *hook, const uintptr_t *frame, uint32_t events);

/* Set the guard; a signal handler sees it whole or not at all. */
static ta_always_inline void ta_hook_guard(const uintptr_t *frame)
{
	ta_tls.guard_pc = *ta_frame_word(frame);
	if (!TA_PLACE_IS_WORD)
		ta_tls.guard_word = ta_frame_word(frame);
	ta_compiler_barrier();
	ta_tls.guard = ta_frame_place(frame);
	ta_compiler_barrier();
}

/* Begin a hook; frame is its TA_FRAME(). False: call through, record nothing. */
static ta_always_inline bool ta_hook_enter(struct ta_hook *hook, const uintptr_t *frame,
					   uint32_t events)
{
	uint32_t state = atomic_load_explicit(&ta_state.word, memory_order_relaxed);

	if (ta_likely(state == ta_tls.seen && !ta_tls.guard && ta_seat_is_own())) {
		ta_hook_guard(frame);
		*hook = (struct ta_hook){ .thread = ta_tls.thread };
	} else if ((state & (TA_OFF | TA_PAUSED)) && ta_likely(!ta_pause_is_lifted(state))) {
		return false;
	} else {
		*hook = ta_hook_enter_slow(frame, false);
	}
	if (ta_likely(hook->thread && (ta_image.events & events)))
		return true;
	if (hook->thread && !hook->bits)
		ta_tls.guard = 0;
	return false;
}

/* The same for a hook of something that ends: see ta_hook_enter_kept(). */
static ta_always_inline bool ta_hook_enter_end(struct ta_hook *hook, const uintptr_t *frame,
					       uint32_t events)
{
	return ta_hook_enter(hook, frame, events) ||
	       (ta_unlikely(ta_pause_is_on(events)) && ta_hook_enter_kept(hook, frame, events));
}

static ta_always_inline void ta_hook_leave(const struct ta_hook *hook)
{
	ta_compiler_barrier();
	if (ta_likely(!hook->bits))
		ta_tls.guard = 0;
}

/* Capture the stack. A nested hook has that of the outermost one: its own outer part, at least. */
static ta_always_inline void ta_hook_stack(struct ta_hook *hook, const uintptr_t *frame)
{
	if (ta_likely(!hook->bits)) {
		hook->stack_id = ta_stack_capture(hook->thread, frame);
		ta_compiler_barrier();
		ta_tls.guard = ta_frame_place(frame) | TA_GUARD_STACK;
	} else if (ta_tls.guard & TA_GUARD_STACK) {
		hook->stack_id = hook->thread->stack_id;
	}
}

/* The same of an outermost hook, where the stack was met before; else nothing is done: false. */
static ta_always_inline bool ta_hook_recall(struct ta_hook *hook, const uintptr_t *frame)
{
	if (ta_unlikely(!ta_stack_recall(hook->thread, frame, &hook->stack_id)))
		return false;
	ta_compiler_barrier();
	ta_tls.guard = ta_frame_place(frame) | TA_GUARD_STACK;
	return true;
}

/* The head of a record of this hook. */
static ta_always_inline uint64_t ta_hook_head(const struct ta_hook *hook, enum trace_op op,
					      enum trace_call call, uint32_t n_slots)
{
	return RING_HEAD(op, (uint32_t)call | hook->bits, n_slots, hook->stack_id);
}

/* Fill and commit a record of one slot. */
static ta_always_inline void ta_record_fill(struct ring_record *record, uint64_t head,
					    uint64_t ticks, uintptr_t address, uint64_t size)
{
	record->ticks = ticks;
	record->address = address;
	record->size = size;
	ta_record_commit(&record->head, head);
}

/*
 * Is a block of this size perhaps not recorded, being below --min-size or not picked? Asked before
 * its stack is captured. If so ta_hook_pick() comes before the call, which captures it for a block
 * that is picked, and ta_hook_end_rare() behind it, which also leaves. NULL: the call failed. The
 * hook is a copy: see ta_hook_enter_slow().
 */
static ta_always_inline bool ta_hook_is_rare(size_t size)
{
	return ta_unlikely(size < ta_image.min_bytes);
}
struct ta_hook ta_hook_pick(struct ta_hook hook, const uintptr_t *frame, size_t size);
void ta_hook_end_rare(struct ta_hook hook, enum trace_call call, const void *block, size_t size);

/* A picked block has its record: its probe fires, where --usdt asks for it. */
void ta_hook_fire(const struct ta_hook *hook, const void *block, size_t size);

/*
 * The end of a block, before the call: is it to be recorded? Then it is not in the set of picked
 * blocks any more, and its probe has fired.
 */
bool ta_hook_end_picked(const void *block);
static ta_always_inline bool ta_hook_ends(const void *block)
{
	return !ta_image.picked || (!ta_pick_has_passed(block) && ta_hook_end_picked(block));
}

/* Record a block that was just born. */
static ta_always_inline void ta_hook_alloc(const struct ta_hook *hook, enum trace_call call,
					   const void *block, size_t size)
{
	struct ring_record *record;

	record = ta_record_reserve(hook->thread, hook->bits, sizeof(*record));
	if (ta_unlikely(!record))
		return;
	ta_record_fill(record, ta_hook_head(hook, TRACE_OP_ALLOC, call, 1), ta_ticks_end(),
		       (uintptr_t)block, size);
}

/* Record a block that is about to be given back. */
static ta_always_inline void ta_hook_free(const struct ta_hook *hook, enum trace_call call,
					  const void *block)
{
	struct ring_record *record;

	record = ta_record_reserve(hook->thread, hook->bits, sizeof(*record));
	if (ta_unlikely(!record))
		return;
	ta_record_fill(record, ta_hook_head(hook, TRACE_OP_FREE, call, 1), ta_ticks_begin(),
		       (uintptr_t)block, 0);
}

/* Record that a heap was asked for, and that this program could not be given its library. */
void ta_heap_range_start(void);
