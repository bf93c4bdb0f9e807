#pragma once
/*
 * The programs' side of a pool, for tests: takes chunks and writes records as schemas/ring.h says.
 */
#include <stdint.h>
#include <string.h>

#include "runner/ring/pool.h"
#include "schemas/trace-format.h"

struct ring_writer {
	struct pool *pool;
	uint32_t slot;
	uint32_t generation;
	uint32_t serial;
	uint32_t sequence; /* of the next chunk */
	uint32_t chunk;
};

/* Take chunk i of the pool (free) as the next of the thread's chain. */
static inline void ring_writer_take(struct ring_writer *writer, uint32_t i)
{
	struct ring_chunk *chunk = &writer->pool->chunks[i];

	atomic_store(&writer->pool->chunk_states[i], RING_CHUNK_OWNED);
	chunk->process_slot = writer->slot;
	chunk->process_generation = writer->generation;
	chunk->thread_serial = writer->serial;
	chunk->sequence = writer->sequence++;
	atomic_store(&chunk->reserved, offsetof(struct ring_chunk, records));
	writer->chunk = i;
}

static inline void ring_writer_hand_over(struct ring_writer *writer)
{
	atomic_store(&writer->pool->chunk_states[writer->chunk], RING_CHUNK_FULL);
}

static inline void *ring_writer_reserve(struct ring_writer *writer, uint32_t n_slots)
{
	struct ring_chunk *chunk = &writer->pool->chunks[writer->chunk];
	uint64_t at = atomic_fetch_add(&chunk->reserved, n_slots * RING_RECORD_BYTES);

	return (uint8_t *)chunk + at;
}

static inline void ring_writer_commit(void *record, uint64_t head)
{
	atomic_store((_Atomic uint64_t *)record, head);
}

/* One whole event of one slot. */
static inline void ring_writer_event(struct ring_writer *writer, enum trace_op op, uint64_t ticks,
				     uint64_t address, uint64_t size)
{
	struct ring_record *record = ring_writer_reserve(writer, 1);

	record->ticks = ticks;
	record->address = address;
	record->size = size;
	ring_writer_commit(record, RING_HEAD(op, TRACE_CALL_MALLOC, 1, 0));
}

static inline void ring_writer_start(struct ring_writer *writer, uint64_t ticks, uint32_t tid)
{
	struct ring_thread_start *record = ring_writer_reserve(writer, 3);

	record->ticks = ticks;
	record->tid = tid;
	memcpy(record->name, "thread", 7);
	ring_writer_commit(record, RING_HEAD(TRACE_OP_THREAD_START, 0, 3, 0));
}
