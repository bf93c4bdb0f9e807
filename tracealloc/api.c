/*
 * What include/memsight.h calls: the program tells of regions, marks and names, and withholds
 * recording. Each call is one NOTE (or PAUSE, RESUME) record; a name is told once in a chain, as a
 * TEXT record with the id that the notes use.
 */
#include <string.h>

#include "include/memsight.h"
#include "tracealloc/collect.h"
#include "tracealloc/hooks/hook.h"

#define MAX_NAME_BYTES 255u
#define FNV_START      UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME      UINT64_C(0x100000001b3)

struct name {
	const char *bytes;
	uint32_t n_bytes;
	uint64_t id; /* as trace_text.id */
};

/* 64-bit FNV-1a; draft-eastlake-fnv. */
static struct name name_of(const char *bytes)
{
	struct name name = { .bytes = bytes ? bytes : "", .id = FNV_START };

	while (name.n_bytes < MAX_NAME_BYTES && name.bytes[name.n_bytes])
		name.id = (name.id ^ (uint8_t)name.bytes[name.n_bytes++]) * FNV_PRIME;
	if (name.id == 0)
		name.id = 1;
	return name;
}

static bool write_text(const struct ta_hook *hook, const struct name *name)
{
	struct ring_text *text;
	uint32_t n_bytes = (sizeof(*text) + name->n_bytes + RING_RECORD_BYTES - 1) &
			   -(uint32_t)RING_RECORD_BYTES;

	if (hook->bits) {
		ta_chunk_count_nested();
		return false;
	}
	text = ta_record_reserve_big(hook->thread, n_bytes);
	if (!text) {
		ta_chunk_count_dropped();
		return false;
	}
	text->id = name->id;
	text->text_bytes = (uint16_t)name->n_bytes;
	memcpy(text->bytes, name->bytes, name->n_bytes);
	ta_record_commit(&text->head, RING_HEAD(TRACE_OP_TEXT, 0, n_bytes / RING_RECORD_BYTES, 0));
	return true;
}

/* Let the chain have the name's text. False: it cannot, and the note is counted as lost. */
static bool tell_name(const struct ta_hook *hook, const struct name *name)
{
	uint64_t *known = &hook->thread->texts[name->id & (TA_TEXTS - 1)];

	if (ta_likely(*known == name->id))
		return true;
	if (!write_text(hook, name))
		return false;
	*known = name->id;
	return true;
}

/*
 * A record of two slots with all fields set: the ring of --sink null is not zero. Returns its time;
 * 0: it is lost.
 */
static uint64_t write_note(const struct ta_hook *hook, enum trace_op op, enum trace_call call,
			   uint64_t detail, uintptr_t address, size_t size)
{
	struct ring_record2 *record = ta_record_reserve(hook->thread, hook->bits, sizeof(*record));
	uint64_t ticks;

	if (!record)
		return 0;
	ticks = ta_ticks_begin();
	record->old_address = 0;
	record->begin_ticks = ticks;
	record->old_size = 0;
	record->detail = detail;
	ta_record_fill(&record->base, ta_hook_head(hook, op, call, 2), ticks, address, size);
	return ticks;
}

/* A note that has a name. */
static void note(const uintptr_t *frame, enum trace_call call, const char *bytes, uintptr_t address,
		 size_t size)
{
	struct name name = name_of(bytes);
	struct ta_hook hook;

	uint64_t ticks = 0;

	if (!ta_hook_enter_kept(&hook, frame, RING_EVENTS_REGIONS))
		return;
	if (tell_name(&hook, &name))
		ticks = write_note(&hook, TRACE_OP_NOTE, call, name.id, address, size);
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
	write_note(&hook, TRACE_OP_NOTE, call, 0, address, 0);
	ta_hook_leave(&hook);
}

TA_EXPORT void memsight_1_region_push(const char *name)
{
	note(TA_FRAME(), TRACE_CALL_REGION_PUSH, name, 0, 0);
}

TA_EXPORT void memsight_1_region_pop(const char *name)
{
	if (name)
		note(TA_FRAME(), TRACE_CALL_REGION_POP, name, 0, 0);
	else
		note_plain(TA_FRAME(), TRACE_CALL_REGION_POP, 0);
}

TA_EXPORT void memsight_1_mark(const char *name)
{
	note(TA_FRAME(), TRACE_CALL_MARK, name, 0, 0);
}

TA_EXPORT void memsight_1_name(const void *object, size_t size, const char *name)
{
	if (name)
		note(TA_FRAME(), TRACE_CALL_NAME_OBJECT, name, (uintptr_t)object, size);
	else
		note_plain(TA_FRAME(), TRACE_CALL_NAME_OBJECT, (uintptr_t)object);
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
TA_EXPORT void memsight_1_pause(void)
{
	struct ta_hook hook;

	if (!enter_control(&hook, TA_FRAME()))
		return;
	ta_pause_begin();
	write_note(&hook, TRACE_OP_PAUSE, 0, 0, 0, 0);
	ta_hook_leave(&hook);
}

TA_EXPORT void memsight_1_resume(void)
{
	struct ta_hook hook;

	if (!enter_control(&hook, TA_FRAME()))
		return;
	if (ta_pause_is_begun()) {
		write_note(&hook, TRACE_OP_RESUME, 0, 0, 0, 0);
		ta_pause_end();
	}
	ta_hook_leave(&hook);
}

TA_EXPORT void memsight_1_pause_thread(void)
{
	struct ta_hook hook;

	if (!enter_control(&hook, TA_FRAME()))
		return;
	if (ta_tls.pause_depth < UINT16_MAX) {
		ta_tls.pause_depth++;
		ta_tls.seen = (uint32_t)TA_SEEN_PAUSED;
		write_note(&hook, TRACE_OP_PAUSE, 0, 1, 0, 0);
	}
	ta_hook_leave(&hook);
}

TA_EXPORT void memsight_1_resume_thread(void)
{
	struct ta_hook hook;

	if (!enter_control(&hook, TA_FRAME()))
		return;
	if (ta_tls.pause_depth > 0) {
		write_note(&hook, TRACE_OP_RESUME, 0, 1, 0, 0);
		if (--ta_tls.pause_depth == 0)
			ta_tls.seen = ta_tls.known;
	}
	ta_hook_leave(&hook);
}

TA_EXPORT void memsight_1_collect_push(const char *classes)
{
	struct name name = name_of(classes);
	struct ta_hook hook;

	if (!enter_control(&hook, TA_FRAME()))
		return;
	if (tell_name(&hook, &name))
		write_note(&hook, TRACE_OP_NOTE, TRACE_CALL_COLLECT_PUSH, name.id, 0, 0);
	ta_collect_push(ta_collect_parse(name.bytes, name.n_bytes));
	ta_hook_leave(&hook);
}

TA_EXPORT void memsight_1_collect_pop(void)
{
	struct ta_hook hook;

	if (!enter_control(&hook, TA_FRAME()))
		return;
	if (ta_collect_pop())
		write_note(&hook, TRACE_OP_NOTE, TRACE_CALL_COLLECT_POP, 0, 0, 0);
	ta_hook_leave(&hook);
}
