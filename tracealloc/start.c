/* Begins the image before main, and what watches it from then on. */
#include "tracealloc/fork.h"
#include "tracealloc/functions/functions.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/plugin/plugin.h"

/*
 * Of a page that is read before it is written the kernel shows the zeros first, in a fault of its
 * own.
 */
static void touch(_Atomic uint32_t *word)
{
	uint32_t value = 0;

	atomic_compare_exchange_strong(word, &value, value);
}

/* Attach before main even when nothing allocates; the first hook may have done it already. */
__attribute__((constructor)) static void start(void)
{
	const uintptr_t *frame = TA_FRAME();
	struct ta_hook hook;

	bool is_recorded;

	touch(&ta_image.pause_depth);
	touch(&ta_state.word);
	/* Also while recording is paused: what comes later needs what is told here. */
	is_recorded = ta_hook_enter_kept(&hook, frame, TA_EVENTS_ALWAYS);
	ta_real_resolve(); /* unless it was done while we attached */
	if (!is_recorded)
		return;
	ta_chunk_room(hook.thread, RING_RECORD_BYTES);
	ta_hook_leave(&hook);
	ta_functions_begin(true);
	ta_fork_watch();
	ta_heap_range_start();
	ta_plugins_start();
}
