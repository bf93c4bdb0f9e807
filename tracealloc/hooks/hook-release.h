#pragma once
/* What free does, under whatever name it is called. */
#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"

/* Blocks of the arena are nobody's to give back. */
static ta_always_inline bool ta_is_ours(const void *block)
{
	return ta_unlikely(!block || ta_arena_has(block));
}

typedef void (*ta_free_fn)(void *block);

/* Nothing is recorded now, but the end of a block that was is, even while recording is paused. */
void ta_release_unseen(const uintptr_t *frame, enum trace_call call, void *block,
		       const ta_free_fn *real);

/*
 * What ta_release_by() does, but for a block that has passed unpicked: a function of its own, so
 * that those pass without any register being saved.
 */
void ta_release_recorded(const uintptr_t *frame, enum trace_call call, void *block,
			 const ta_free_fn *real);

/* real: where the function is that gives it back; read when it is called. */
static ta_always_inline void ta_release_by(const uintptr_t *frame, enum trace_call call,
					   void *block, const ta_free_fn *real)
{
	if (ta_is_ours(block))
		return;
	if (ta_pick_has_passed(block)) {
		(*real)(block);
		return;
	}
	ta_release_recorded(frame, call, block, real);
	ta_compiler_barrier(); /* no jump: the frame must last */
}

static ta_always_inline void ta_release(const uintptr_t *frame, enum trace_call call, void *block)
{
	ta_release_by(frame, call, block, &ta_real.free);
}
