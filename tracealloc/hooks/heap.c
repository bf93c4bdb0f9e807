/* The hooks of the heap. A free is recorded before the real call: afterwards the address may
 * already be another thread's. An allocation is recorded after it. */
#include <errno.h>
#include <string.h>

#include "tracealloc/hooks/hook-release.h"
#include "tracealloc/rebind.h"
#include "tracealloc/ring/chunk.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

/*
 * What a function does that gives out blocks. A block below --min-size costs no look at its stack.
 */
#define ALLOCATE(real, call, args, size)                                                           \
	struct ta_hook hook;                                                                       \
	void *block;                                                                               \
                                                                                                   \
	if (!ta_hook_enter(&hook, frame, RING_EVENTS_HEAP))                                        \
		return ta_pause_note((real)args);                                                  \
	if (ta_hook_is_rare(size)) {                                                               \
		hook = ta_hook_pick(hook, frame, size);                                            \
		block = (real)args;                                                                \
		ta_hook_end_rare(hook, call, block, size);                                         \
		return block;                                                                      \
	}                                                                                          \
	ta_hook_stack(&hook, frame);                                                               \
	block = (real)args;                                                                        \
	if (ta_likely(block))                                                                      \
		ta_hook_alloc(&hook, call, block, size);                                           \
	ta_hook_leave(&hook);                                                                      \
	return block;

/*
 * Libc's own names of these are the same functions, but where another allocator stands between us
 * and libc. What that takes from libc is no block; what the program takes there is.
 */
static bool is_taken_by_allocator(const uintptr_t *frame, bool is_plain)
{
	return ta_tls.guard || (!is_plain && ta_rebind_is_allocator(frame[1]));
}

#define LIST(...) __VA_ARGS__

/*
 * malloc, calloc, memalign, aligned_alloc, valloc, pvalloc. What records is a function of its own,
 * so that a block that is not picked passes without any register being saved.
 */
#define TA_HEAP(name, call, type, params, args, size)                                              \
	static __attribute__((noinline))                                                           \
	type name##_recorded(const uintptr_t *frame, LIST params){ ALLOCATE(                       \
		ta_real.name, call, args, size) } TA_EXPORT type name params                       \
	{                                                                                          \
		void *block;                                                                       \
                                                                                                   \
		if (ta_pick_passes_by(size))                                                       \
			return ta_real.name args;                                                  \
		block = name##_recorded(TA_FRAME(), LIST args);                                    \
		ta_compiler_barrier(); /* no jump: the frame must last */                          \
		return block;                                                                      \
	}
#define TA_LIBC(name, plain, call, type, params, args, size)                                       \
	TA_EXPORT type name params                                                                 \
	{                                                                                          \
		type(*real) params;                                                                \
                                                                                                   \
		if (!ta_real.name)                                                                 \
			ta_real_resolve();                                                         \
		real = ta_real.name ? ta_real.name : ta_real.plain;                                \
		const uintptr_t *frame = TA_FRAME();                                               \
                                                                                                   \
		if (is_taken_by_allocator(frame, real == ta_real.plain) ||                         \
		    ta_pick_passes_by(size))                                                       \
			return real args;                                                          \
		ALLOCATE(real, call, args, size)                                                   \
	}
#define TA_REAL(name, type, params)
#include "tracealloc/hooks/hooks.def"

TA_EXPORT int posix_memalign(void **ret_block, size_t alignment, size_t size)
{
	const uintptr_t *frame = TA_FRAME();
	struct ta_hook hook;
	int r;

	if (ta_pick_passes_by(size))
		return ta_real.posix_memalign(ret_block, alignment, size);
	if (!ta_hook_enter(&hook, frame, RING_EVENTS_HEAP)) {
		r = ta_real.posix_memalign(ret_block, alignment, size);
		if (r == 0)
			ta_pause_note(*ret_block);
		return r;
	}
	if (ta_hook_is_rare(size)) {
		hook = ta_hook_pick(hook, frame, size);
		r = ta_real.posix_memalign(ret_block, alignment, size);
		ta_hook_end_rare(hook, TRACE_CALL_POSIX_MEMALIGN, r == 0 ? *ret_block : NULL, size);
		return r;
	}
	ta_hook_stack(&hook, frame);
	r = ta_real.posix_memalign(ret_block, alignment, size);
	if (r == 0)
		ta_hook_alloc(&hook, TRACE_CALL_POSIX_MEMALIGN, *ret_block, size);
	ta_hook_leave(&hook);
	return r;
}

TA_EXPORT void free(void *block)
{
	ta_release(TA_FRAME(), TRACE_CALL_FREE, block);
}

/*
 * Of a realloc that only ends its old block: a free at the time before the call, and an empty slot.
 */
static void commit_end(const struct ta_hook *hook, struct ring_record2 *record,
		       enum trace_call call)
{
	struct ring_record *second = (struct ring_record *)record + 1;
	uintptr_t old_address = record->old_address;
	uint64_t begin = record->begin_ticks;
	struct ta_hook plain = { .bits = hook->bits };

	memset(second, 0, sizeof(*second));
	ta_record_cancel(second, sizeof(*second));
	ta_record_fill(&record->base, ta_hook_head(&plain, TRACE_OP_FREE, call, 1), begin,
		       old_address, 0);
}

/*
 * Write what realloc has done into its two reserved slots. The new block may be below --min-size:
 * then the old one ends, and was perhaps never recorded. glibc's realloc(p, 0) gives the block
 * back.
 */
static void commit_realloc(const struct ta_hook *hook, struct ring_record2 *record, void *block,
			   size_t size)
{
	enum trace_call call = RING_HEAD_CALL(record->detail);

	bool is_small = ta_hook_is_rare(size);

	record->detail = 0;
	if (block && is_small)
		atomic_fetch_add_explicit(&ta_image.process->n_below_min, 1, memory_order_relaxed);
	if (block && !is_small) {
		record->base.address = (uintptr_t)block;
		record->base.size = size;
		record->base.ticks = ta_ticks_end();
		ta_record_commit(&record->base.head, ta_hook_head(hook, TRACE_OP_REALLOC, call, 2));
	} else if ((block || size == 0) && record->old_address) {
		commit_end(hook, record, call);
	} else {
		ta_record_cancel(record, sizeof(*record));
	}
}

typedef void *(*realloc_fn)(void *block, size_t size);

/* What a realloc of picked blocks has done, into its two reserved slots. */
static void commit_picked(const struct ta_hook *hook, struct ring_record2 *record,
			  enum trace_call call, void *block, size_t size)
{
	if (hook->every && !ta_pick_insert(block)) {
		ta_chunk_count_dropped();
	} else if (hook->every) {
		record->old_size = 0;
		record->detail = ta_pick_is_all() ? 0 : hook->every;
		ta_record_fill(&record->base, ta_hook_head(hook, TRACE_OP_REALLOC, call, 2),
			       ta_ticks_end(), (uintptr_t)block, size);
		ta_hook_fire(hook, block, size);
		return;
	}
	if (record->old_address)
		commit_end(hook, record, call);
	else
		ta_record_cancel(record, sizeof(*record));
}

/* The new block is not recorded now; the end of the old one is, unless it was not either. */
static __attribute__((noinline)) void *reallocate_unseen(const uintptr_t *frame,
							 enum trace_call call, void *block,
							 size_t size, const realloc_fn *real)
{
	struct ring_record2 *record = NULL;
	struct ta_hook hook;
	void *result;

	if (block && ta_pause_is_on(RING_EVENTS_HEAP) && ta_pause_forget(block)) {
		result = (*real)(block, size);
		/* Where it failed the block is there as before. */
		return result || size == 0 ? ta_pause_note(result) : (ta_pause_note(block), NULL);
	}
	if (!block || !ta_pause_is_on(RING_EVENTS_HEAP) ||
	    !ta_hook_enter_kept(&hook, frame, RING_EVENTS_HEAP))
		return ta_pause_note((*real)(block, size));
	ta_hook_ends(block);
	record = ta_record_reserve(hook.thread, hook.bits, sizeof(*record));
	if (record) {
		record->old_address = (uintptr_t)block;
		record->begin_ticks = ta_ticks_begin();
	}
	result = (*real)(block, size);
	if (record && (result || size == 0))
		commit_end(&hook, record, call);
	else if (record)
		ta_record_cancel(record, sizeof(*record));
	ta_hook_leave(&hook);
	return result ? ta_pause_note(result) : NULL;
}

/* Some blocks are picked: the old one may be, and the new one is drawn for like any other. */
static __attribute__((noinline)) void *reallocate_picked(const uintptr_t *frame,
							 enum trace_call call, void *block,
							 size_t size, const realloc_fn *real)
{
	struct ring_record2 *record = NULL;
	struct ta_hook hook = { .thread = NULL };

	if (ta_pick_is_all() && ta_pause_is_on(RING_EVENTS_HEAP))
		return reallocate_unseen(frame, call, block, size, real);
	bool is_picked = !ta_pick_passes_by(size);
	bool was_picked = block && ta_hook_ends(block);
	if (!is_picked && !was_picked)
		return (*real)(block, size);
	if (!ta_hook_enter_end(&hook, frame, RING_EVENTS_HEAP))
		return (*real)(block, size);
	if (is_picked && !ta_pause_is_on(RING_EVENTS_HEAP))
		hook = ta_hook_pick(hook, frame, size);
	if (hook.every || was_picked)
		record = ta_record_reserve(hook.thread, hook.bits, sizeof(*record));
	if (record) {
		record->old_address = was_picked ? (uintptr_t)block : 0;
		record->begin_ticks = ta_ticks_begin();
	}
	void *result = (*real)(block, size);
	if (!result && size != 0 && was_picked) /* it is there as before */
		ta_pick_insert(block);
	if (record && !result && size != 0)
		ta_record_cancel(record, sizeof(*record));
	if (record && (result || size == 0)) {
		hook.every = result ? hook.every : 0;
		commit_picked(&hook, record, call, result, size);
	}
	ta_hook_leave(&hook);
	return result;
}

/*
 * realloc and reallocarray. A block of the arena moves to the real heap. real: where the function
 * is; read when it is called.
 */
static ta_always_inline void *reallocate(const uintptr_t *frame, enum trace_call call, void *block,
					 size_t size, const realloc_fn *real)
{
	struct ring_record2 *record;
	struct ta_hook hook;
	void *result;

	if (ta_unlikely(ta_arena_has(block))) {
		result = (*real)(NULL, size);
		if (result)
			memcpy(result, block,
			       size < ta_arena_size(block) ? size : ta_arena_size(block));
		return result;
	}
	if (ta_unlikely(ta_image.picked))
		return reallocate_picked(frame, call, block, size, real);
	if (!ta_hook_enter(&hook, frame, RING_EVENTS_HEAP))
		return reallocate_unseen(frame, call, block, size, real);
	ta_hook_stack(&hook, frame);
	record = ta_record_reserve(hook.thread, hook.bits, sizeof(*record));
	if (ta_likely(record)) {
		record->old_address = (uintptr_t)block;
		record->detail = RING_HEAD(0, call, 0, 0);
		record->begin_ticks = ta_ticks_begin();
	}
	result = (*real)(block, size);
	if (ta_likely(record))
		commit_realloc(&hook, record, result, size);
	ta_hook_leave(&hook);
	return result;
}

TA_EXPORT void *realloc(void *block, size_t size)
{
	return reallocate(TA_FRAME(), TRACE_CALL_REALLOC, block, size, &ta_real.realloc);
}

/* Not the next library's reallocarray: it would come back to our realloc, as a second event. */
TA_EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return reallocate(TA_FRAME(), TRACE_CALL_REALLOCARRAY, block, bytes, &ta_real.realloc);
}

TA_EXPORT void *__libc_realloc(void *block, size_t size)
{
	const realloc_fn *real = &ta_real.__libc_realloc;

	if (!*real)
		ta_real_resolve();
	if (!*real)
		real = &ta_real.realloc;
	if (is_taken_by_allocator(TA_FRAME(), *real == ta_real.realloc))
		return (*real)(block, size);
	return reallocate(TA_FRAME(), TRACE_CALL_REALLOC, block, size, real);
}

TA_EXPORT void __libc_free(void *block)
{
	const ta_free_fn *real = &ta_real.__libc_free;

	if (!*real)
		ta_real_resolve();
	if (!*real)
		real = &ta_real.free;
	if (is_taken_by_allocator(TA_FRAME(), *real == ta_real.free))
		(*real)(block);
	else
		ta_release_by(TA_FRAME(), TRACE_CALL_FREE, block, real);
}
