#pragma once
/*
 * Recording that is withheld: paused as a whole (a bit of the state word), paused
 * in one thread (ta_tls.pause_depth), by order of the collector (a bit of the state word as well),
 * or a class that is not collected (ta_image.events). What is
 * born then is not recorded; what ends still is, or every block freed meanwhile would read as a
 * leak.
 *
 * Most blocks that are freed during a pause were born in it. Each thread keeps the last ones that
 * it got while the whole image was paused in a small table, so that their free needs no record:
 * during such a pause no allocation is recorded, so an address in the table cannot belong to a
 * recorded block.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tracealloc/state.h"
#include "tracealloc/thread.h"

/* Is recording of one of these classes (RING_EVENTS_*) withheld now, that --events asks for? */
static inline bool ta_pause_is_on(uint32_t events)
{
	return (atomic_load_explicit(&ta_state.word, memory_order_relaxed) & TA_PAUSED) ||
	       ta_tls.pause_depth || (ta_image.wanted & ~ta_image.events & events);
}

/* Is the image paused by an order that holds no more? */
static inline bool ta_pause_is_lifted(uint32_t state)
{
	return (state & TA_ORDERED) &&
	       !(atomic_load_explicit(&ta_image.control->order, memory_order_relaxed) & 1);
}

/* Follow the collector's order, as it is now. Signal safe. */
void ta_pause_obey(void);

/*
 * Who wants to know when the collector begins a window from now on, and ends it; NULL: nobody.
 * Called once in a process, by the first thread that follows, where no record is pending; the guard
 * is not set then. False: it cannot be there, and another one may follow.
 */
void ta_pause_listen(bool (*listener)(bool begins));
extern bool (*ta_pause_listener)(bool begins) __attribute__((visibility("hidden")));
void ta_pause_tell_listener(void);
static inline void ta_pause_tell(void)
{
	if (ta_unlikely(ta_pause_listener != NULL))
		ta_pause_tell_listener();
}

/* The program was at the mark or region of this id at some time: recording may wait for it. */
void ta_pause_passed(uint64_t id, uint64_t ticks);

/* Empty the thread's table for the pause that is now. */
void ta_pause_renew(struct ta_thread *thread, uint32_t number);

/*
 * The entry of a block in the calling thread's table; NULL: the image is not paused. What an entry
 * holds is the part of the address that its place does not tell: together they are all 47 bits of
 * it.
 */
static inline uint32_t *ta_pause_entry(const void *block)
{
	/*
	 * Acquire: a pause's number is written before its bit. An old one would keep the old table.
	 */
	uint32_t state = atomic_load_explicit(&ta_state.word, memory_order_acquire);
	struct ta_thread *thread = ta_tls.thread;
	uint32_t number;

	if (ta_unlikely(!(state & TA_PAUSED) || !thread))
		return NULL;
	number = atomic_load_explicit(&ta_image.pause_number, memory_order_relaxed);
	if (ta_unlikely(thread->pause_number != number))
		ta_pause_renew(thread, number);
	return &thread->unrecorded[(uintptr_t)block >> TA_BLOCK_LOG2 & (TA_UNRECORDED - 1)];
}

static inline uint32_t ta_pause_value(const void *block)
{
	return (uint32_t)((uintptr_t)block / TA_UNRECORDED >> TA_BLOCK_LOG2);
}

/* Has it the alignment that the table takes for granted? */
static inline bool ta_pause_is_aligned(const void *block)
{
	return (uintptr_t)block % (1u << TA_BLOCK_LOG2) == 0;
}

/* A block was born and not recorded. Returns it. Signal safe. */
static inline void *ta_pause_note(void *block)
{
	uint32_t *entry = ta_pause_entry(block);

	if (ta_likely(entry && ta_pause_is_aligned(block)))
		*entry = ta_pause_value(block);
	return block;
}

/* Was the block surely not recorded? Signal safe. */
static inline bool ta_pause_has(const void *block)
{
	const uint32_t *entry = ta_pause_entry(block);

	return entry && *entry == ta_pause_value(block) && ta_pause_is_aligned(block);
}

/* The same of one that is about to be freed. Forgets it. Signal safe. */
static inline bool ta_pause_forget(const void *block)
{
	uint32_t *entry = ta_pause_entry(block);

	if (!entry || *entry != ta_pause_value(block) || !ta_pause_is_aligned(block))
		return false;
	*entry = 0;
	return true;
}

/* Pause the whole image; pauses nest. Signal safe. */
void ta_pause_begin(void);

/* Is there one of the whole image? Signal safe. */
static inline bool ta_pause_is_begun(void)
{
	return atomic_load_explicit(&ta_image.pause_depth, memory_order_relaxed) > 0;
}

/* Take one pause back. False: there is none. Signal safe. */
bool ta_pause_end(void);

/* Let the state word agree with the pauses there are. */
void ta_pause_settle(void);
