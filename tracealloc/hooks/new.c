/*
 * The hooks of C++'s operators new and delete: one event each, which keeps the kind of the call.
 * The runtime's operators only call malloc and free; so do we then, and their frames are not in the
 * call stacks. See new.h for the other cases.
 */
#include <stdbool.h>

#include "tracealloc/hooks/hook-release.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

/* As libstdc++ does: a block of no bytes is one of 1, aligned ones have whole multiples. */
static ta_always_inline void *take(size_t alignment, size_t size)
{
	if (alignment == 0)
		return ta_real.malloc(size ? size : 1);
	if (alignment < sizeof(void *))
		alignment = sizeof(void *);
	if (ta_unlikely((alignment & (alignment - 1)) || size > SIZE_MAX - alignment))
		return NULL; /* the real operator's matter */
	return ta_real.aligned_alloc(alignment, ((size ? size : 1) + alignment - 1) & -alignment);
}

static __attribute__((noinline)) void *
allocate_recorded(const uintptr_t *frame, enum trace_call call, size_t alignment, size_t size)
{
	struct ta_hook hook;
	void *block;

	if (!ta_hook_enter(&hook, frame, RING_EVENTS_HEAP))
		return ta_pause_note(take(alignment, size));
	if (ta_hook_is_rare(size)) {
		hook = ta_hook_pick(hook, frame, size);
		block = take(alignment, size);
		ta_hook_end_rare(hook, call, block, size);
		return block;
	}
	ta_hook_stack(&hook, frame);
	block = take(alignment, size);
	if (ta_likely(block))
		ta_hook_alloc(&hook, call, block, size);
	ta_hook_leave(&hook);
	return block;
}

static ta_always_inline void *allocate(const uintptr_t *frame, enum trace_call call,
				       size_t alignment, size_t size)
{
	return ta_pick_passes(size) ? take(alignment, size)
				    : allocate_recorded(frame, call, alignment, size);
}

/*
 * Around an allocator's operator, which may come back to our malloc or free. Its record is reserved
 * before: until it is committed the collector reads nothing behind it, so that what a hook inside
 * has recorded of the same block can be taken back. One block is one event, of the kind that the
 * program asked for.
 */
struct wrap {
	struct ta_hook hook;
	struct ring_record *record; /* NULL: nothing is recorded */
	uint64_t pending; /* the last record of a hook inside of others, before the call */
};

static void reserve_wrap(struct wrap *wrap)
{
	wrap->record = ta_record_reserve(wrap->hook.thread, wrap->hook.bits, sizeof(*wrap->record));
	if (wrap->record)
		wrap->record->ticks = ta_ticks_begin();
	wrap->pending = wrap->hook.thread->pending_nested;
}

/* What a hook inside has recorded of this block. */
static struct ring_record *find_nested(const struct wrap *wrap, enum trace_op op, const void *block)
{
	const struct ta_thread *thread = wrap->hook.thread;
	struct ring_record *record =
		(struct ring_record *)((uint8_t *)thread->chunk + (uint32_t)thread->pending_nested);
	bool is_it = thread->pending_nested != wrap->pending && RING_HEAD_OP(record->head) == op &&
		     record->address == (uintptr_t)block;

	return is_it ? record : NULL;
}

static void commit_wrap(const struct wrap *wrap, uint64_t head, const void *block, size_t size)
{
	struct ring_record *nested;

	if (wrap->record && block) {
		nested = find_nested(wrap, RING_HEAD_OP(head), block);
		if (nested)
			ta_record_cancel(nested, sizeof(*nested));
		ta_record_fill(wrap->record, head, wrap->record->ticks, (uintptr_t)block, size);
	} else if (wrap->record) {
		ta_record_cancel(wrap->record, sizeof(*wrap->record));
	}
	ta_hook_leave(&wrap->hook);
}

static bool begin_new(struct wrap *wrap, const uintptr_t *frame, size_t size)
{
	if (ta_new_mode != TA_NEW_WRAP || ta_image.picked ||
	    !ta_hook_enter(&wrap->hook, frame, RING_EVENTS_HEAP))
		return false;
	wrap->record = NULL;
	if (ta_hook_is_rare(size))
		return true;
	ta_hook_stack(&wrap->hook, frame);
	reserve_wrap(wrap);
	return true;
}

static void end_new(struct wrap *wrap, enum trace_call call, const void *block, size_t size)
{
	if (ta_hook_is_rare(size)) {
		ta_hook_end_rare(wrap->hook, call, block, size);
		return;
	}
	if (wrap->record)
		wrap->record->ticks = ta_ticks_end();
	commit_wrap(wrap, ta_hook_head(&wrap->hook, TRACE_OP_ALLOC, call, 1), block, size);
}

/*
 * A block that was born in a pause has no event, and needs none for its end. It stays noted: the
 * operator may come back to our free, which then asks the same.
 */
static bool was_unrecorded(void *block)
{
	if (!ta_pause_forget(block))
		return false;
	ta_pause_note(block);
	return true;
}

static bool begin_delete(struct wrap *wrap, const uintptr_t *frame, void *block)
{
	if (ta_new_mode != TA_NEW_WRAP || was_unrecorded(block) || !ta_hook_ends(block) ||
	    !ta_hook_enter_end(&wrap->hook, frame, RING_EVENTS_HEAP))
		return false;
	reserve_wrap(wrap);
	return true;
}

static void end_delete(const struct wrap *wrap, enum trace_call call, const void *block)
{
	commit_wrap(wrap, ta_hook_head(&wrap->hook, TRACE_OP_FREE, call, 1), block, 0);
}

/*
 * Some blocks are picked, or recording is paused. progress: ta_pick_progress() before the call;
 * where a hook inside has counted the block there is nothing to do.
 */
static void *end_new_picked(const uintptr_t *frame, enum trace_call call, void *block, size_t size,
			    uint64_t progress)
{
	struct ta_hook hook;

	if (ta_new_mode != TA_NEW_WRAP)
		return block;
	if (!ta_image.picked)
		return ta_pause_note(block);
	if (!block || ta_pick_progress() != progress || ta_pick_passes(size) ||
	    !ta_hook_enter(&hook, frame, RING_EVENTS_HEAP))
		return block;
	ta_hook_end_rare(ta_hook_pick(hook, frame, size), call, block, size);
	return block;
}

#define LIST(...) __VA_ARGS__

/*
 * NAME_real: what follows when it is not as simple as malloc. Where nobody has such an operator
 * (then nobody can have been linked with it) there is nothing to throw either.
 */
#define TA_NEW(name, call, params, args, alignment)                                                \
	static __attribute__((noinline)) void *name##_real(const uintptr_t *frame, LIST params)    \
	{                                                                                          \
		struct wrap wrap;                                                                  \
		void *block;                                                                       \
                                                                                                   \
		if (!ta_real.name)                                                                 \
			ta_new_find(frame[1]);                                                     \
		if (!ta_real.name)                                                                 \
			return allocate(frame, call, alignment, size);                             \
		if (!begin_new(&wrap, frame, size)) {                                              \
			uint64_t progress = ta_pick_progress();                                    \
                                                                                                   \
			block = ta_real.name args;                                                 \
			return end_new_picked(frame, call, block, size, progress);                 \
		}                                                                                  \
		block = ta_real.name args;                                                         \
		end_new(&wrap, call, block, size);                                                 \
		return block;                                                                      \
	}                                                                                          \
	TA_EXPORT void *name params                                                                \
	{                                                                                          \
		const uintptr_t *frame = TA_FRAME();                                               \
		void *block;                                                                       \
                                                                                                   \
		if (ta_likely(ta_new_mode == TA_NEW_DIRECT)) {                                     \
			block = allocate(frame, call, alignment, size);                            \
			if (ta_likely(block))                                                      \
				return block;                                                      \
		} else if (ta_new_mode == TA_NEW_PASS && ta_real.name) {                           \
			return ta_real.name args; /* a jump: our frame is in no call stack */      \
		}                                                                                  \
		return name##_real(frame, LIST args);                                              \
	}
#define TA_DELETE(name, call, params, args)                                                        \
	static __attribute__((noinline)) void name##_real(const uintptr_t *frame, LIST params)     \
	{                                                                                          \
		struct wrap wrap;                                                                  \
		bool is_wrapped;                                                                   \
                                                                                                   \
		if (!ta_real.name)                                                                 \
			ta_new_find(frame[1]);                                                     \
		if (!ta_real.name) {                                                               \
			ta_release(frame, call, block);                                            \
			return;                                                                    \
		}                                                                                  \
		is_wrapped = begin_delete(&wrap, frame, block);                                    \
		ta_real.name args;                                                                 \
		if (is_wrapped)                                                                    \
			end_delete(&wrap, call, block);                                            \
	}                                                                                          \
	TA_EXPORT void name params                                                                 \
	{                                                                                          \
		const uintptr_t *frame = TA_FRAME();                                               \
                                                                                                   \
		if (ta_likely(ta_new_mode == TA_NEW_DIRECT))                                       \
			ta_release(frame, call, block);                                            \
		else                                                                               \
			name##_real(frame, LIST args);                                             \
	}
#define TA_REAL(name, type, params)
#include "tracealloc/hooks/hooks.def"
