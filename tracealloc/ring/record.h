#pragma once
/*
 * Writing records: reserve, fill, commit. `bits` is 0 in an outermost hook, and in a hook that
 * runs inside another one the nested flag as it stands in the call byte.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/trace-format.h"
#include "tracealloc/arch/arch.h"
#include "tracealloc/ring/chunk.h"
#include "tracealloc/state.h"
#include "tracealloc/thread.h"

#define TA_NESTED_BITS ((uint32_t)TRACE_EVENT_NESTED << 6)

/*
 * Move `reserved` and say what is being written, so that ta_record_repair() finds the record if a
 * signal handler jumps out. Returns NULL when the chunk has no room.
 */
static inline void *ta_record_take(struct ta_thread *thread, uint64_t *pending, uint32_t n_bytes)
{
	struct ring_chunk *chunk = thread->chunk;
	uint64_t expected = (uint32_t)atomic_load_explicit(&chunk->reserved, memory_order_relaxed);
	uint64_t offset;

	*pending = expected | (uint64_t)n_bytes << 32;
	offset = ta_local_fetch_add(&chunk->reserved, n_bytes);
	if (ta_unlikely(offset != expected)) {
		offset = (uint32_t)offset; /* RING_CHUNK_CALL */
		*pending = offset | (uint64_t)n_bytes << 32;
	}
	if (ta_unlikely(offset > RING_CHUNK_BYTES - n_bytes))
		return NULL;
	return (uint8_t *)chunk + offset;
}

/*
 * The slow part of ta_record_reserve(): the chunk is full, or the collector calls. False: the event
 * is counted as lost.
 */
bool ta_record_make_room(struct ta_thread *thread, uint32_t bits);

/* Reserve a record of one or two slots for an event. NULL: it is lost, and counted. */
static inline void *ta_record_reserve(struct ta_thread *thread, uint32_t bits, uint32_t n_bytes)
{
	uint64_t limit = bits ? TA_CHUNK_NESTED_LIMIT : TA_CHUNK_OUTER_LIMIT;
	uint64_t reserved = atomic_load_explicit(&thread->chunk->reserved, memory_order_relaxed);

	if (ta_unlikely(reserved > limit) && !ta_record_make_room(thread, bits))
		return NULL;
	return ta_record_take(thread, bits ? &thread->pending_nested : &thread->pending, n_bytes);
}

/* Make a filled record visible. Pairs with the collector's acquire load of the head. */
static inline void ta_record_commit(_Atomic uint64_t *head, uint64_t value)
{
	atomic_store_explicit(head, value, memory_order_release);
}

/* Commit a reserved record as one to be stepped over. */
static inline void ta_record_cancel(void *record, uint32_t n_bytes)
{
	ta_record_commit(record, RING_HEAD(TRACE_OP_PAD, 0, n_bytes / RING_RECORD_BYTES, 0));
}

/*
 * Reserve a record of any size in an outermost hook; the bytes are zero. NULL: no room, nothing is
 * counted.
 */
void *ta_record_reserve_big(struct ta_thread *thread, uint32_t n_bytes);

/*
 * Commit what a signal handler left half written when it jumped out of a hook. For the next
 * outermost hook of the thread.
 */
void ta_record_repair(struct ta_thread *thread);
