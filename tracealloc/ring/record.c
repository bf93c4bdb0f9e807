#include "tracealloc/ring/record.h"

bool ta_record_make_room(struct ta_thread *thread, uint32_t bits)
{
	if (bits) {
		ta_chunk_count_nested();
		return false;
	}
	if (ta_chunk_next(thread))
		return true;
	ta_chunk_count_dropped();
	return false;
}

void *ta_record_reserve_big(struct ta_thread *thread, uint32_t n_bytes)
{
	if (!ta_chunk_room(thread, n_bytes))
		return NULL;
	return ta_record_take(thread, &thread->pending, n_bytes);
}

static void repair_one(struct ta_thread *thread, uint64_t *pending)
{
	uint32_t offset = (uint32_t)*pending;
	uint32_t n_bytes = (uint32_t)(*pending >> 32);
	_Atomic uint64_t *head = (_Atomic uint64_t *)((uint8_t *)thread->chunk + offset);

	*pending = 0;
	if (offset < offsetof(struct ring_chunk, records) ||
	    offset + n_bytes >
		    atomic_load_explicit(&thread->chunk->reserved, memory_order_relaxed) ||
	    offset + n_bytes > RING_CHUNK_BYTES)
		return;
	if (atomic_load_explicit(head, memory_order_relaxed) == 0)
		ta_record_cancel(head, n_bytes);
}

void ta_record_repair(struct ta_thread *thread)
{
	repair_one(thread, &thread->pending);
	repair_one(thread, &thread->pending_nested);
}
