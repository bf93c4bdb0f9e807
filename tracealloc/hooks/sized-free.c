/*
 * The frees of C23 that are told the size. Where the libraries of a program have none (glibc before
 * 2.43) a program can find ours: they are free, which is what C23 asks for.
 */
#include "tracealloc/hooks/hook-release.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

TA_EXPORT void free_sized(void *block, size_t size)
{
	struct ta_hook hook;

	if (!ta_real.free_sized) {
		ta_release(TA_FRAME(), TRACE_CALL_FREE_SIZED, block);
		return;
	}
	if (ta_is_ours(block))
		return;
	if (!ta_hook_ends(block) || !ta_hook_enter_end(&hook, TA_FRAME(), RING_EVENTS_HEAP)) {
		ta_real.free_sized(block, size);
		return;
	}
	ta_hook_free(&hook, TRACE_CALL_FREE_SIZED, block);
	ta_real.free_sized(block, size);
	ta_hook_leave(&hook);
}

TA_EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
	struct ta_hook hook;

	if (!ta_real.free_aligned_sized) {
		ta_release(TA_FRAME(), TRACE_CALL_FREE_ALIGNED_SIZED, block);
		return;
	}
	if (ta_is_ours(block))
		return;
	if (!ta_hook_ends(block) || !ta_hook_enter_end(&hook, TA_FRAME(), RING_EVENTS_HEAP)) {
		ta_real.free_aligned_sized(block, alignment, size);
		return;
	}
	ta_hook_free(&hook, TRACE_CALL_FREE_ALIGNED_SIZED, block);
	ta_real.free_aligned_sized(block, alignment, size);
	ta_hook_leave(&hook);
}
