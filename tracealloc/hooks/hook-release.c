#include "tracealloc/hooks/hook-release.h"

void ta_release_unseen(const uintptr_t *frame, enum trace_call call, void *block,
		       const ta_free_fn *real)
{
	struct ta_hook hook;

	if (ta_pause_is_on(RING_EVENTS_HEAP) &&
	    ta_hook_enter_kept(&hook, frame, RING_EVENTS_HEAP)) {
		ta_hook_free(&hook, call, block);
		(*real)(block);
		ta_hook_leave(&hook);
	} else {
		(*real)(block);
	}
}

void ta_release_recorded(const uintptr_t *frame, enum trace_call call, void *block,
			 const ta_free_fn *real)
{
	struct ta_hook hook;

	if (!ta_hook_ends(block)) {
		(*real)(block);
		return;
	}
	if (!ta_hook_enter(&hook, frame, RING_EVENTS_HEAP)) {
		if (ta_pause_forget(block))
			(*real)(block);
		else
			ta_release_unseen(frame, call, block, real);
		return;
	}
	ta_hook_free(&hook, call, block);
	(*real)(block);
	ta_hook_leave(&hook);
}
