#pragma once
/* Taking chunks of the pool, and giving up on them: waits, drops and their counters. */
#include <stdbool.h>
#include <stdint.h>

#include "tracealloc/thread.h"

/*
 * Room is kept at the end of a chunk. An outermost hook takes the next chunk while
 * TA_CHUNK_OUTER_LIMIT is passed, so that hooks nested in it find room; a nested one writes up to
 * TA_CHUNK_NESTED_LIMIT, so that records which signal handlers push between a check and a reserve,
 * and the THREAD_END, always fit.
 */
#define TA_CHUNK_OUTER_LIMIT  (RING_CHUNK_BYTES - 32 * RING_RECORD_BYTES)
#define TA_CHUNK_NESTED_LIMIT (RING_CHUNK_BYTES - 16 * RING_RECORD_BYTES)
#define TA_CHUNK_END_LIMIT    (RING_CHUNK_BYTES - 1 * RING_RECORD_BYTES)

/*
 * How long is waited in all: without a sign of life of the collector, until it has moved again; and
 * while it lives, but does not get at what waits for it (more work than CPUs).
 */
#define TA_WAIT_MAX_MS	    10u
#define TA_WAIT_LIVE_MAX_MS 1000u
#define TA_WAIT_SLICE_MS    2u /* between looks for signs of life */

/* Stands for "no chunk": always full, never written. */
extern struct ring_chunk ta_chunk_none __attribute__((visibility("hidden")));

/*
 * Take the next chunk of the thread's chain and hand the old one over. False when there is none:
 * the thread keeps its chunk, and the caller counts a drop. Outermost hooks only, nothing pending.
 */
bool ta_chunk_next(struct ta_thread *thread);

/* Make sure that the chunk has room for a record of n_bytes; as ta_chunk_next(). */
bool ta_chunk_room(struct ta_thread *thread, uint32_t n_bytes);

/* Tell the collector of modules that it does not know. Outermost hooks only, nothing pending. */
void ta_chunk_announce(struct ta_thread *thread);

/* Hand the thread's chunk over for good: its last record is written. */
void ta_chunk_finish(struct ta_thread *thread);

/* Count an event that found no room. Signal safe. */
void ta_chunk_count_dropped(void);

/* Count an event nested in a hook whose chunk is full. Signal safe. */
void ta_chunk_count_nested(void);

/* Take the pool out of the process. Nothing of us runs or will run, and no chain has a chunk. */
void ta_chunk_unmap(void);
