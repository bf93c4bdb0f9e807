#include "tracealloc/pause.h"

#include <string.h>

bool (*ta_pause_listener)(bool begins);
static _Atomic uint32_t told_order; /* to the listener */

void ta_pause_listen(bool (*listener)(bool begins))
{
	atomic_store(&told_order, atomic_load(&ta_image.order));
	ta_pause_listener = listener;
}

/* A hook that is at work goes on behind it. */
void ta_pause_tell_listener(void)
{
	struct ta_own own = ta_tls;
	uint32_t order = atomic_load(&ta_image.order), told = atomic_load(&told_order);

	if (((order ^ told) & 1) == 0 || !atomic_compare_exchange_strong(&told_order, &told, order))
		return;
	ta_tls.guard = 0;
	ta_compiler_barrier();
	if (!ta_pause_listener(!(order & 1)))
		atomic_store(&told_order, told);
	ta_tls.guard_pc = own.guard_pc;
	ta_tls.guard_word = own.guard_word;
	ta_compiler_barrier();
	ta_tls.guard = own.guard;
}

void ta_pause_renew(struct ta_thread *thread, uint32_t number)
{
	memset(thread->unrecorded, 0, sizeof(thread->unrecorded));
	thread->pause_number = number;
}

/* The bits that the state word should have. */
static uint32_t wanted_bits(void)
{
	if (atomic_load(&ta_image.order) & 1)
		return TA_PAUSES;
	return atomic_load(&ta_image.pause_depth) > 0 ? TA_PAUSED : 0;
}

/* Whoever comes last sees what is wanted: two threads may pause and resume at once. */
void ta_pause_settle(void)
{
	uint32_t state = atomic_load(&ta_state.word);
	uint32_t bits;

	do {
		bits = wanted_bits();
		while ((state & TA_ON) &&
		       !atomic_compare_exchange_weak(&ta_state.word, &state,
						     (state & ~TA_PAUSES) | bits))
			;
	} while (bits != wanted_bits());
}

/* What threads that come late write is put right by whoever finds that the order is another one. */
void ta_pause_obey(void)
{
	struct ring_control *control = ta_image.control;
	uint32_t order;

	do {
		order = atomic_load(&control->order);
		/* Before anybody can see it: within a pause the tables stay. */
		if (order & 1)
			atomic_fetch_add(&ta_image.pause_number, 1);
		atomic_store(&ta_image.order, order);
		ta_pause_settle();
	} while (order != atomic_load(&control->order));
	if (ta_image.process)
		atomic_store(&ta_image.process->order, order);
}

void ta_pause_passed(uint64_t id, uint64_t ticks)
{
	struct ring_control *control = ta_image.control;
	uint64_t awaited = id;

	if (ta_likely(atomic_load(&control->start_after) != id) ||
	    !atomic_compare_exchange_strong(&control->start_after, &awaited, 0))
		return;
	uint32_t paused = atomic_load(&control->start_order) - 1;
	if (paused & 1)
		atomic_compare_exchange_strong(&control->order, &paused, paused + 1);
	atomic_store(&control->start_ticks, ticks);
	ta_pause_obey();
}

void ta_pause_begin(void)
{
	uint32_t depth = atomic_load(&ta_image.pause_depth);

	/*
	 * One more for the outermost alone, before anybody can see it: within it the tables stay.
	 */
	do {
		if (depth == 0)
			atomic_fetch_add(&ta_image.pause_number, 1);
	} while (!atomic_compare_exchange_weak(&ta_image.pause_depth, &depth, depth + 1));
	ta_pause_settle();
}

bool ta_pause_end(void)
{
	uint32_t depth = atomic_load(&ta_image.pause_depth);

	do {
		if (depth == 0)
			return false;
	} while (!atomic_compare_exchange_weak(&ta_image.pause_depth, &depth, depth - 1));
	ta_pause_settle();
	return true;
}
