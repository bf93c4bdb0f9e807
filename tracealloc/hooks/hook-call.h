#pragma once
/*
 * A hook around a call whose record has two slots: the record is reserved before the call, so that
 * it holds its place in the thread's order, and committed after it, or cancelled.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracealloc/hooks/hook.h"

static inline size_t ta_round_to_pages(size_t size)
{
	return (size + ta_image.page_bytes - 1) & -(size_t)ta_image.page_bytes;
}

struct ta_call {
	struct ta_hook hook;
	struct ring_record2 *record; /* NULL: nothing is recorded */
	bool is_entered;
};

/* What the record says, beside its times. */
struct ta_call_fields {
	enum trace_op op;
	enum trace_call call;
	uintptr_t address;
	uint64_t size;
	uintptr_t old_address;
	uint64_t old_size;
	uint64_t detail;
};

/* Begin; frame is that of the exported function. */
static ta_always_inline void ta_call_begin(struct ta_call *call, const uintptr_t *frame,
					   uint32_t events)
{
	call->record = NULL;
	call->is_entered = ta_hook_enter(&call->hook, frame, events);
	if (!call->is_entered)
		return;
	ta_hook_stack(&call->hook, frame);
	call->record = ta_record_reserve(call->hook.thread, call->hook.bits, sizeof(*call->record));
	if (call->record)
		call->record->begin_ticks = ta_ticks_begin();
}

/* End; fields NULL: the call failed, or did nothing. Keeps errno. */
static ta_always_inline void ta_call_end(struct ta_call *call, const struct ta_call_fields *fields)
{
	struct ring_record2 *record = call->record;

	if (!call->is_entered)
		return;
	if (record && fields) {
		record->old_address = fields->old_address;
		record->old_size = fields->old_size;
		record->detail = fields->detail;
		ta_record_fill(&record->base,
			       ta_hook_head(&call->hook, fields->op, fields->call, 2),
			       ta_ticks_end(), fields->address, fields->size);
	} else if (record) {
		ta_record_cancel(record, sizeof(*record));
	}
	ta_hook_leave(&call->hook);
}
