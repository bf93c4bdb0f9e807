#pragma once
/* NOTE records: what the program and its plug-ins say. Their texts are written once in a chain. */
#include <stdbool.h>
#include <stdint.h>

#include "schemas/trace-format.h"
#include "tracealloc/hooks/hook.h"

/* A text of the trace: name of a region, or of a component. */
struct ta_name {
	const char *bytes;
	uint32_t n_bytes;
	uint64_t id; /* as trace_text.id */
};

/* The text of a name (NULL: ""), cut at 255 bytes, which must outlive it. Signal safe. */
struct ta_name ta_name_of(const char *bytes);

/* Let the chain have the name's text. False: it cannot, and the note is counted as lost. */
bool ta_note_name(const struct ta_hook *hook, const struct ta_name *name);

/*
 * A record of two slots with all fields set: the ring of --sink null is not zero. Returns its time;
 * 0: it is lost. Signal safe.
 */
uint64_t ta_note_write(const struct ta_hook *hook, enum trace_op op, enum trace_call call,
		       uint64_t detail, uintptr_t address, size_t size);

/* A block that an allocator of the program's own has handed out. */
struct ta_note_block {
	uint64_t address;
	uint64_t size;
	uint64_t pool; /* its handle; 0: none */
	uint64_t name; /* of the allocator: 0, or as trace_text.id */
	uint64_t old; /* the block that ended for it ... */
	uint64_t begin_ticks; /* ... then; 0: none did */
};

/* Record it, with the hook's stack. What there is no room for is counted. Signal safe. */
static ta_always_inline void ta_note_block(const struct ta_hook *hook,
					   const struct ta_note_block *block)
{
	struct ring_record2 *record = ta_record_reserve(hook->thread, hook->bits, sizeof(*record));
	uint64_t ticks;

	if (ta_unlikely(!record))
		return;
	ticks = ta_ticks_begin();
	record->old_address = block->pool;
	record->begin_ticks = block->begin_ticks ? block->begin_ticks : ticks;
	record->old_size = block->old;
	record->detail = block->name;
	ta_record_fill(&record->base, ta_hook_head(hook, TRACE_OP_NOTE, TRACE_CALL_BLOCK, 2), ticks,
		       block->address, block->size);
}

/* Record a NOTE of a component or plug-in; what there is no room for is counted. No hook runs. */
void ta_note_plugin(enum trace_call call, const struct ta_name *name, uint64_t address,
		    int64_t value);
