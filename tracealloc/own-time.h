#pragma once
/*
 * What memsight takes of a thread's time, where regions or functions are recorded: analyze takes it
 * off their times. What each hook takes alike is known from empty ones that run when this begins.
 * What differs is measured: walks of call stacks add to a word of the thread, which the next record
 * of a region or function brings along; what is rare has records of its own
 * (schemas/trace-control.h). Nobody else pays for it.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "schemas/ring.h"
#include "schemas/trace-control.h"
#include "tracealloc/ring/clock.h"
#include "tracealloc/ring/record.h"
#include "tracealloc/state.h"
#include "tracealloc/thread.h"

/* In ta_image.stacks: as RING_STACKS_DWARF, and measured. So its fast way need not ask. */
#define TA_STACKS_MEASURED 255u

static inline uint32_t ta_own_stacks(uint32_t stacks)
{
	return ta_image.is_measured && stacks == RING_STACKS_DWARF ? TA_STACKS_MEASURED : stacks;
}

/* Run empty hooks, and measure from now on. Once in an image; outside of hooks. Keeps errno. */
void ta_own_begin(void);

/* Runs empty hooks of other kinds, too; NULL: there are none. */
extern void (*ta_own_more)(void) __attribute__((visibility("hidden")));

/* A clock of the thread, which stands while what is told by a record of its own is done. */
static inline uint64_t ta_own_now(const struct ta_thread *thread)
{
	return ta_ticks_begin() - thread->told_ticks;
}

/*
 * What the thread has done since then, by that clock, was ours. A part of the two readings lies
 * outside of what they measure. Signal safe.
 */
static inline void ta_own_add(struct ta_thread *thread, uint64_t since)
{
	ta_local_fetch_add(&thread->own_ticks, ta_own_now(thread) - since + ta_image.reading_ticks);
}

/*
 * Behind the nth empty hook: hooks in a row run into each other, and take less than amid other
 * work. So every second time it works for 100 ns, which is told as time of ours.
 */
void ta_own_work(uint64_t n) __attribute__((visibility("hidden")));

/* All that was added and not told, at most `most`: it is told now. Signal safe. */
static ta_always_inline uint64_t ta_own_take(struct ta_thread *thread, uint64_t most)
{
	uint64_t ticks = atomic_load_explicit(&thread->own_ticks, memory_order_relaxed);

	if (ta_likely(ticks == 0))
		return 0;
	ticks = ticks < most ? ticks : most;
	ta_local_fetch_add(&thread->own_ticks, -ticks);
	return ticks;
}

/*
 * Record that these ticks up to now were ours, in a hook where nothing is pending. What there is no
 * room for is counted as lost.
 */
static inline void ta_own_tell(struct ta_thread *thread, uint32_t bits, enum trace_own what,
			       uint64_t ticks)
{
	struct ring_record *record = ta_record_reserve(thread, bits, sizeof(*record));

	if (!record)
		return;
	record->ticks = ta_ticks_begin();
	record->address = what;
	record->size = ticks;
	ta_record_commit(&record->head, RING_HEAD(TRACE_OP_NOTE, TRACE_CALL_OWN_TIME | bits, 1, 0));
	thread->told_ticks += ticks;
}
