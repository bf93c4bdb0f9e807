#include "tracealloc/pause.h"

#include <string.h>

void ta_pause_renew(struct ta_thread *thread, uint32_t number)
{
	memset(thread->unrecorded, 0, sizeof(thread->unrecorded));
	thread->pause_number = number;
}

/* Whoever comes last sees the depth that is: two threads may pause and resume at once. */
void ta_pause_settle(void)
{
	uint32_t state = atomic_load(&ta_state.word);
	bool is_paused;

	do {
		is_paused = atomic_load(&ta_image.pause_depth) > 0;
		while ((state & TA_ON) &&
		       !atomic_compare_exchange_weak(&ta_state.word, &state,
						     is_paused ? state | TA_PAUSED
							       : state & ~TA_PAUSED))
			;
	} while (is_paused != (atomic_load(&ta_image.pause_depth) > 0));
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
