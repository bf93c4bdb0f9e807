#pragma once
/*
 * The agent's stand-in for TLS: what a thread has of its own lies in a table, by its thread
 * pointer. A seat whose thread has ended stays; the next thread with the same pointer is told from
 * it by its number, which C libraries keep behind the thread pointer.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tracealloc/state.h"

#define TA_SEAT_GLIBC  0x2d0u /* where the number lies in struct pthread of glibc */
#define TA_SEATS_LOG2  13u
#define TA_SEAT_WINDOW 64u /* seats, from its hash on, among which a thread's lies */

struct ta_seat {
	_Atomic uintptr_t key; /* thread pointer; 0: free */
	uint32_t tid;
	struct ta_own own;
};

extern struct ta_seat ta_seats[] __attribute__((visibility("hidden")));
extern struct ta_seat ta_seat_none __attribute__((visibility("hidden"))); /* nobody's */
extern bool ta_seat_has_pointer __attribute__((visibility("hidden")));
/* Where the number lies; 0: nowhere that is known. */
extern _Atomic uint32_t ta_seat_tid_at __attribute__((visibility("hidden")));

/* The thread pointer before it is known to be there; 0: it is not. */
uintptr_t ta_seat_key_slow(void) __attribute__((visibility("hidden")));

/* The seat with this key, or ta_seat_none. */
struct ta_seat *ta_seat_search(uintptr_t key) __attribute__((visibility("hidden")));

/*
 * Give the calling thread a seat, if it has none. False: it can have none now. Outermost hooks
 * and nested ones, as everything that may be slow; signal safe, errno is kept.
 */
bool ta_seat_take(void) __attribute__((visibility("hidden")));

static ta_always_inline uintptr_t ta_seat_key(void)
{
	uintptr_t pointer;

	if (ta_unlikely(!ta_seat_has_pointer))
		return ta_seat_key_slow();
	__asm__("movq %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

static ta_always_inline uint32_t ta_seat_hash(uintptr_t key)
{
	return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - TA_SEATS_LOG2));
}

static ta_always_inline struct ta_seat *ta_seat_find(void)
{
	uintptr_t key = ta_seat_key();
	struct ta_seat *seat = &ta_seats[ta_seat_hash(key)];

	if (ta_likely(atomic_load_explicit(&seat->key, memory_order_relaxed) == key))
		return seat;
	return ta_seat_search(key);
}

static ta_always_inline struct ta_own *ta_seat_here(void)
{
	return &ta_seat_find()->own;
}

/* Is the C library glibc, as far as its threads tell? */
static inline bool ta_seat_is_glibc(void)
{
	return atomic_load_explicit(&ta_seat_tid_at, memory_order_relaxed) == TA_SEAT_GLIBC;
}

/* Is it the calling thread's, and not one's that has ended? */
static ta_always_inline bool ta_seat_is_own(void)
{
	const struct ta_seat *seat = ta_seat_find();
	uint32_t at = atomic_load_explicit(&ta_seat_tid_at, memory_order_relaxed);

	return !at || *(const volatile uint32_t *)(seat->key + at) == seat->tid;
}
