#include "tracealloc/plugin/note.h"

#include <string.h>

#include "tracealloc/own-time.h"

#define MAX_NAME_BYTES 255u
#define FNV_START      UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME      UINT64_C(0x100000001b3)

/* 64-bit FNV-1a; draft-eastlake-fnv. */
struct ta_name ta_name_of(const char *bytes)
{
	struct ta_name name = { .bytes = bytes ? bytes : "", .id = FNV_START };

	while (name.n_bytes < MAX_NAME_BYTES && name.bytes[name.n_bytes])
		name.id = (name.id ^ (uint8_t)name.bytes[name.n_bytes++]) * FNV_PRIME;
	if (name.id == 0)
		name.id = 1;
	return name;
}

static bool write_text(const struct ta_hook *hook, const struct ta_name *name)
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

bool ta_note_name(const struct ta_hook *hook, const struct ta_name *name)
{
	uint64_t *known = &hook->thread->texts[name->id & (TA_TEXTS - 1)];

	if (ta_likely(*known == name->id))
		return true;
	if (!write_text(hook, name))
		return false;
	*known = name->id;
	return true;
}

uint64_t ta_note_write(const struct ta_hook *hook, enum trace_op op, enum trace_call call,
		       uint64_t detail, uintptr_t address, size_t size)
{
	struct ring_record2 *record = ta_record_reserve(hook->thread, hook->bits, sizeof(*record));

	if (!record)
		return 0;
	uint64_t ticks = ta_ticks_begin();
	record->old_address = 0;
	record->begin_ticks = ticks;
	if (call == TRACE_CALL_REGION_PUSH || call == TRACE_CALL_REGION_POP)
		record->begin_ticks -= ta_own_take(hook->thread, ticks);
	record->old_size = 0;
	record->detail = detail;
	ta_record_fill(&record->base, ta_hook_head(hook, op, call, 2), ticks, address, size);
	return ticks;
}

void ta_note_plugin(enum trace_call call, const struct ta_name *name, uint64_t address,
		    int64_t value)
{
	struct ta_hook hook;

	if (!ta_hook_enter_kept(&hook, TA_FRAME(), RING_EVENTS_REGIONS))
		return;
	if (ta_note_name(&hook, name))
		ta_note_write(&hook, TRACE_OP_NOTE, call, name->id, address, (size_t)value);
	ta_hook_leave(&hook);
}
