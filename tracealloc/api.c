/*
 * What include/memsight.h calls: the program tells of regions, marks and names, and withholds
 * recording. Each call is one NOTE (or PAUSE, RESUME) record; a name is told once in a chain, as a
 * TEXT record with the id that the notes use.
 */
#include "include/memsight.h"
#include "tracealloc/collect.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/own-time.h"
#include "tracealloc/plugin/note.h"
#include "tracealloc/plugin/plugin.h"

/* A note that has a name. */
static void note(const uintptr_t *frame, enum trace_call call, const char *bytes, uintptr_t address,
		 size_t size)
{
	struct ta_name name = ta_name_of(bytes);
	struct ta_hook hook;

	uint64_t ticks = 0;

	if (ta_unlikely(call == TRACE_CALL_REGION_PUSH && !ta_image.is_measured))
		ta_own_begin();
	if (!ta_hook_enter_kept(&hook, frame, RING_EVENTS_REGIONS))
		return;
	if (ta_note_name(&hook, &name))
		ticks = ta_note_write(&hook, TRACE_OP_NOTE, call, name.id, address, size);
	if (ticks && (call == TRACE_CALL_MARK || call == TRACE_CALL_REGION_PUSH))
		ta_pause_passed(name.id, ticks);
	ta_hook_leave(&hook);
}

/* A note without a name. */
static void note_plain(const uintptr_t *frame, enum trace_call call, uintptr_t address)
{
	struct ta_hook hook;

	if (!ta_hook_enter_kept(&hook, frame, RING_EVENTS_REGIONS))
		return;
	ta_note_write(&hook, TRACE_OP_NOTE, call, 0, address, 0);
	ta_hook_leave(&hook);
}

TA_OFFERED void memsight_1_region_push(const char *name)
{
	note(TA_FRAME(), TRACE_CALL_REGION_PUSH, name, 0, 0);
	ta_plugins_ask(TRACE_ASKED_REGION_BEGIN);
}

TA_OFFERED void memsight_1_region_pop(const char *name)
{
	ta_plugins_ask(TRACE_ASKED_REGION_END);
	if (name)
		note(TA_FRAME(), TRACE_CALL_REGION_POP, name, 0, 0);
	else
		note_plain(TA_FRAME(), TRACE_CALL_REGION_POP, 0);
}

TA_OFFERED void memsight_1_mark(const char *name)
{
	note(TA_FRAME(), TRACE_CALL_MARK, name, 0, 0);
}

TA_OFFERED void memsight_1_name(const void *object, size_t size, const char *name)
{
	if (name)
		note(TA_FRAME(), TRACE_CALL_NAME_OBJECT, name, (uintptr_t)object, size);
	else
		note_plain(TA_FRAME(), TRACE_CALL_NAME_OBJECT, (uintptr_t)object);
}

/* ---- Blocks of allocators of the program's own ---- */

TA_OFFERED void memsight_1_block(const void *pointer, size_t size, const void *pool)
{
	struct ta_hook hook;

	if (!pointer || !size || !ta_hook_enter(&hook, TA_FRAME(), RING_EVENTS_HEAP))
		return;
	ta_hook_stack(&hook, TA_FRAME());
	ta_note_block(&hook, &(struct ta_note_block){
				     .address = (uintptr_t)pointer,
				     .size = size,
				     .pool = (uintptr_t)pool,
			     });
	ta_hook_leave(&hook);
}

static ta_always_inline void note_end(const uintptr_t *frame, enum trace_call call,
				      const void *pointer)
{
	struct ring_record *record;
	struct ta_hook hook;

	if (!ta_hook_enter_end(&hook, frame, RING_EVENTS_HEAP))
		return;
	record = ta_record_reserve(hook.thread, hook.bits, sizeof(*record));
	if (ta_likely(record))
		ta_record_fill(record, ta_hook_head(&hook, TRACE_OP_NOTE, call, 1),
			       ta_ticks_begin(), (uintptr_t)pointer, 0);
	ta_hook_leave(&hook);
}

TA_OFFERED void memsight_1_block_end(const void *pointer)
{
	if (pointer)
		note_end(TA_FRAME(), TRACE_CALL_BLOCK_END, pointer);
}

TA_OFFERED void memsight_1_pool_reset(const void *pool)
{
	note_end(TA_FRAME(), TRACE_CALL_POOL_RESET, pool);
}

/*
 * Begin a call that withholds recording. False: it is not obeyed (--api marks), or nobody records.
 */
static bool enter_control(struct ta_hook *hook, const uintptr_t *frame)
{
	if (!ta_hook_enter_kept(hook, frame, TA_EVENTS_ALWAYS))
		return false;
	if (!(ta_image.flags & RING_FLAG_API_MARKS))
		return true;
	ta_hook_leave(hook);
	return false;
}

/*
 * The records lie inside the pause: so of each thread at most one allocation, which was under way,
 * is stamped between them. analyze relies on it when the record of the end was lost.
 */
TA_OFFERED void memsight_1_pause(void)
{
	struct ta_hook hook;

	if (!enter_control(&hook, TA_FRAME()))
		return;
	ta_pause_begin();
	ta_note_write(&hook, TRACE_OP_PAUSE, 0, 0, 0, 0);
	ta_hook_leave(&hook);
}

TA_OFFERED void memsight_1_resume(void)
{
	struct ta_hook hook;

	if (!enter_control(&hook, TA_FRAME()))
		return;
	if (ta_pause_is_begun()) {
		ta_note_write(&hook, TRACE_OP_RESUME, 0, 0, 0, 0);
		ta_pause_end();
	}
	ta_hook_leave(&hook);
}

TA_OFFERED void memsight_1_pause_thread(void)
{
	struct ta_hook hook;

	if (!enter_control(&hook, TA_FRAME()))
		return;
	if (ta_tls.pause_depth < UINT16_MAX) {
		ta_tls.pause_depth++;
		ta_tls.seen = (uint32_t)TA_SEEN_PAUSED;
		ta_note_write(&hook, TRACE_OP_PAUSE, 0, 1, 0, 0);
	}
	ta_hook_leave(&hook);
}

TA_OFFERED void memsight_1_resume_thread(void)
{
	struct ta_hook hook;

	if (!enter_control(&hook, TA_FRAME()))
		return;
	if (ta_tls.pause_depth > 0) {
		ta_note_write(&hook, TRACE_OP_RESUME, 0, 1, 0, 0);
		if (--ta_tls.pause_depth == 0)
			ta_tls.seen = ta_tls.known;
	}
	ta_hook_leave(&hook);
}

TA_OFFERED void memsight_1_collect_push(const char *classes)
{
	struct ta_name name = ta_name_of(classes);
	struct ta_hook hook;

	if (!enter_control(&hook, TA_FRAME()))
		return;
	if (ta_note_name(&hook, &name))
		ta_note_write(&hook, TRACE_OP_NOTE, TRACE_CALL_COLLECT_PUSH, name.id, 0, 0);
	ta_collect_push(ta_collect_parse(name.bytes, name.n_bytes));
	ta_hook_leave(&hook);
}

TA_OFFERED void memsight_1_collect_pop(void)
{
	struct ta_hook hook;

	if (!enter_control(&hook, TA_FRAME()))
		return;
	if (ta_collect_pop())
		ta_note_write(&hook, TRACE_OP_NOTE, TRACE_CALL_COLLECT_POP, 0, 0, 0);
	ta_hook_leave(&hook);
}
