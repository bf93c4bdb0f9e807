#include "tracealloc/collect.h"

#include <stdatomic.h>

#include "tracealloc/state.h"

_Static_assert(COLLECT_HEAP == RING_EVENTS_HEAP && COLLECT_MMAP == RING_EVENTS_MMAP &&
		       COLLECT_BRK == RING_EVENTS_BRK && COLLECT_SHM == RING_EVENTS_SHM &&
		       COLLECT_THREADS == RING_EVENTS_THREADS &&
		       COLLECT_REGIONS == RING_EVENTS_REGIONS,
	       "the bits of events.def are those of the ring");

/*
 * The whole stack in one word, so that threads need no lock: the lowest byte is its depth (pushes
 * beyond COLLECT_MAX_DEPTH are only counted), the others are the classes of each, the last one next
 * to it.
 */
static _Atomic uint64_t stack;

static uint64_t pushed(uint64_t old, uint32_t bits)
{
	uint64_t depth = old & 0xff;

	if (depth == 0xff)
		return old;
	if (depth >= COLLECT_MAX_DEPTH)
		return old + 1;
	return (old & ~UINT64_C(0xff)) << 8 | (uint64_t)(bits & 0xff) << 8 | (depth + 1);
}

static uint64_t popped(uint64_t old)
{
	uint64_t depth = old & 0xff;

	if (depth > COLLECT_MAX_DEPTH)
		return old - 1;
	return (old >> 8 & ~UINT64_C(0xff)) | (depth - 1);
}

/* Whoever comes last lets the hooks see what the stack says. */
static void settle(void)
{
	uint64_t now;

	do {
		now = atomic_load(&stack);
		ta_image.events =
			now & 0xff
				? ta_image.wanted & ((uint32_t)(now >> 8 & 0xff) | TA_EVENTS_ALWAYS)
				: ta_image.wanted;
		atomic_thread_fence(memory_order_seq_cst);
	} while (now != atomic_load(&stack));
}

void ta_collect_push(uint32_t bits)
{
	uint64_t old = atomic_load(&stack);

	while (!atomic_compare_exchange_weak(&stack, &old, pushed(old, bits)))
		;
	settle();
}

bool ta_collect_pop(void)
{
	uint64_t old = atomic_load(&stack);

	do {
		if ((old & 0xff) == 0)
			return false;
	} while (!atomic_compare_exchange_weak(&stack, &old, popped(old)));
	settle();
	return true;
}
