#pragma once
/*
 * Production mode (--sample-bytes): only picked blocks are recorded. Along the bytes that a thread
 * allocates picks are a Poisson process: the distance to the next one is drawn from the exponential
 * distribution whose mean is the interval in force. A block is picked if one falls into it, so with
 * probability 1 - exp(-(size + 1) / interval), whatever was picked before; the 1 gives blocks of no
 * bytes a chance. The interval of that draw is recorded with the block. (tcmalloc: sampler.h;
 * jemalloc: prof_sample_new_event_wait(); ddprof: allocation_tracker.cc.)
 *
 * The end of each picked block is recorded: the image keeps a set of their addresses. Before it
 * stands a filter of a byte for each of 64 Ki hashes, how many picked blocks have it: most ends of
 * others read no more than that. 8 places of the set are a bucket. The set has three levels, each
 * larger than the one before, and a block may stand in two buckets of each. The emptier one of the
 * first level that has room takes it: no place ever moves, and one compare-and-swap is all that a
 * change takes. So the picks of most programs lie in one page, and a pick meets no page that has
 * yet to be touched. When the set is half full the interval doubles, and again for each 32nd of it.
 *
 * Where probes are to fire (--usdt) for all blocks, each is taken as a picked one (TA_PICK_ALL): so
 * what has to be asked is asked on the ways of picks, and others stay as short as they are. Nothing
 * is drawn then, and nothing kept in the set.
 *
 * All of it is 4.2 MiB of the image's memory; a forked child has a copy. Any thread, signal safe,
 * errno is kept.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracealloc/state.h"
#include "tracealloc/thread.h"

#define TA_PICK_ALL	 UINT64_MAX /* in place of an interval */
#define TA_PICK_FILTER	 (1u << 16) /* bytes of the filter */
#define TA_PICK_BUCKETS	 ((1u << 6) + (1u << 11) + (1u << 16)) /* of all levels */
#define TA_PICK_BUCKET	 8u /* places */
#define TA_PICK_CAPACITY (TA_PICK_BUCKETS * TA_PICK_BUCKET)

/* Spreads addresses, of which the lowest 4 bits say nothing: Knuth's multiplicative hashing. */
static inline uint64_t ta_pick_hash(const void *block)
{
	return ((uintptr_t)block >> 4) * UINT64_C(0x9e3779b97f4a7c15);
}

/*
 * Is a block of this size to be left out, since the next pick lies behind it? False also where all
 * blocks are recorded; then ta_pick_take() decides.
 */
static ta_always_inline bool ta_pick_passes(size_t size)
{
	uint64_t left = ta_tls.left;

	if (size >= left)
		return false;
	ta_tls.left = left - size - 1;
	return true;
}

/* Was a block surely not picked, so that its end is no event? */
static ta_always_inline bool ta_pick_has_passed(const void *block)
{
	const uint8_t *filter = ta_image.picked;

	return filter && !__atomic_load_n(&filter[ta_pick_hash(block) >> 48], __ATOMIC_RELAXED);
}

/*
 * The same before a hook has begun. Not in the agent: there what a call does for itself comes to
 * hooks, too, and must find one around it; ta_pick_take() asks in its place.
 */
static ta_always_inline bool ta_pick_passes_by(size_t size)
{
	return !TA_IS_AGENT && ta_pick_passes(size);
}

/*
 * ta_pick_passes_by() has said no: the interval that the block is picked with, and the next pick is
 * drawn; 0: it is not picked after all. Only in a hook.
 */
uint64_t ta_pick_take(size_t size);

/* Is each block taken, so that what was picked is no estimate? Asked where picks are. */
static inline bool ta_pick_is_all(void)
{
	return ta_image.sample_bytes == 0;
}

/* Changes whenever a block of the calling thread has passed or was taken. */
static inline uint64_t ta_pick_progress(void)
{
	return ta_tls.left + (ta_tls.thread ? ta_tls.thread->pick_random : 0);
}

/* Take a block into the set, if it is not there; and out of it. False: it is full; it was not. */
bool ta_pick_insert(const void *block);
bool ta_pick_remove(const void *block);

/*
 * The image begins, with the settings of its recording: memory for picks if they are wanted. False:
 * there is none.
 */
bool ta_pick_begin(void);

/* The calling thread's next pick is drawn anew: it is another one's copy. */
static inline void ta_pick_forked(void)
{
	ta_tls.left = 0;
	ta_tls.pick_shift = 0;
	if (ta_tls.thread)
		ta_tls.thread->pick_random = 0;
}
