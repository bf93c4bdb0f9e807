#include "tracealloc/chunk.h"

#include <linux/futex.h>
#include <time.h>

#include "tracealloc/clock.h"
#include "tracealloc/module.h"
#include "tracealloc/state.h"

#define SPIN_MAX_US 20u

struct ring_chunk ta_chunk_none = { .reserved = RING_CHUNK_BYTES };

/* Waiting, over the whole image. Threads race on it harmlessly: each wait is bounded by itself. */
static _Atomic uint64_t waited_ticks; /* in vain, since something was freed */
static _Atomic uint64_t seen_heartbeat; /* when the last wait ended in vain */
static _Atomic uint32_t seen_freed;

void ta_chunk_count_dropped(void)
{
	struct ring_process *process = ta_image.process;
	uint64_t now = ta_ticks_begin();
	uint64_t never = 0;

	atomic_fetch_add_explicit(&process->n_dropped, 1, memory_order_relaxed);
	atomic_compare_exchange_strong_explicit(&process->first_drop_ticks, &never, now,
						memory_order_relaxed, memory_order_relaxed);
	atomic_store_explicit(&process->last_drop_ticks, now, memory_order_relaxed);
}

void ta_chunk_count_nested(void)
{
	atomic_fetch_add_explicit(&ta_image.process->n_nested, 1, memory_order_relaxed);
}

/*
 * The free chunk with the lowest number, now ours; NULL: none. From the bottom, not from the hint:
 * chunks that were just freed lie in the caches and have their pages mapped here already.
 */
static struct ring_chunk *take_free(void)
{
	for (uint32_t i = 0; i < ta_image.n_chunks; i++) {
		uint32_t free_chunk = RING_CHUNK_FREE;

		if (atomic_load_explicit(&ta_image.chunk_states[i], memory_order_relaxed) !=
		    RING_CHUNK_FREE)
			continue;
		/* Acquire pairs with the collector's release of FREE: its zeros are there. */
		if (!atomic_compare_exchange_strong_explicit(&ta_image.chunk_states[i], &free_chunk,
							     RING_CHUNK_OWNED, memory_order_acquire,
							     memory_order_relaxed))
			continue;
		atomic_store_explicit(&ta_image.control->take_hint, i, memory_order_relaxed);
		return (struct ring_chunk *)(ta_image.chunks + (size_t)i * RING_CHUNK_BYTES);
	}
	return NULL;
}

/* Sleep until the collector frees chunks, at most for so many ticks. */
static void sleep_for_freed(uint32_t freed, uint64_t ticks)
{
	uint64_t ns = ticks * 1000 / (ta_image.ticks_per_ms / 1000 + 1);
	struct timespec timeout = { .tv_sec = 0, .tv_nsec = (long)ns };

	if (ns >= TA_WAIT_MAX_MS * 1000000u)
		timeout.tv_nsec = TA_WAIT_MAX_MS * 1000000;
	atomic_fetch_add(&ta_image.control->n_waiters, 1);
	ta_syscall(SYS_futex, (long)&ta_image.control->chunks_freed, FUTEX_WAIT, freed,
		   (long)&timeout, 0, 0);
	atomic_fetch_sub(&ta_image.control->n_waiters, 1);
}

struct wait {
	uint64_t spent; /* ticks that we kept the thread from running */
	uint64_t
		idle; /* of them, and of earlier waits: since chunks were freed, be it for others */
	uint64_t spun;
	uint32_t freed;
};

/*
 * Wait a little. What counts is what was asked for: once that is over the thread may run, and when it
 * does is a matter of the machine, not of the collector.
 */
static void wait_once(struct wait *wait, uint64_t limit)
{
	uint64_t spin_max = ta_image.ticks_per_ms * SPIN_MAX_US / 1000;
	bool spins = wait->spun < spin_max;
	uint64_t most = spins ? spin_max - wait->spun : limit - wait->idle;
	uint64_t begin = ta_ticks_begin(), ticks;

	if (spins)
		ta_relax();
	else
		sleep_for_freed(wait->freed, most);
	ticks = ta_ticks_begin() - begin;
	if (ticks > most)
		ticks = most;
	if (spins)
		wait->spun += ticks;
	wait->spent += ticks;
	wait->idle += ticks;
}

/* Wait for a chunk until nothing has been freed for limit ticks. */
static struct ring_chunk *wait_free(uint64_t limit)
{
	_Atomic uint32_t *chunks_freed = &ta_image.control->chunks_freed;
	struct wait wait = { .idle = atomic_load(&waited_ticks),
			     .freed = atomic_load(chunks_freed) };
	struct ring_chunk *chunk;

	for (;;) {
		uint32_t freed = atomic_load(chunks_freed);

		if (freed != wait.freed)
			wait = (struct wait){ .spent = wait.spent, .freed = freed };
		chunk = take_free();
		if (chunk || wait.idle >= limit)
			break;
		wait_once(&wait, limit);
	}
	atomic_store(&waited_ticks, chunk ? 0 : wait.idle);
	atomic_fetch_add_explicit(&ta_image.process->wait_ticks, wait.spent, memory_order_relaxed);
	atomic_fetch_add_explicit(&ta_image.process->n_waits, 1, memory_order_relaxed);
	return chunk;
}

/*
 * The pool is full. The budget of waiting is renewed only when the collector has moved and freed
 * something since it was used up: a collector that is stopped, or one that lives but has nothing
 * to free, must not cost the program a wait for each event.
 */
static struct ring_chunk *take_or_wait(void)
{
	struct ring_control *control = ta_image.control;
	uint64_t limit = ta_image.ticks_per_ms * TA_WAIT_MAX_MS;
	uint64_t heartbeat = atomic_load_explicit(&control->heartbeat, memory_order_relaxed);
	uint32_t freed = atomic_load_explicit(&control->chunks_freed, memory_order_relaxed);
	bool exhausted = atomic_load_explicit(&waited_ticks, memory_order_relaxed) >= limit;
	struct ring_chunk *chunk;

	if (exhausted && (heartbeat == seen_heartbeat || freed == seen_freed))
		return NULL;
	if (exhausted)
		atomic_store(&waited_ticks, 0);
	chunk = take_free();
	if (!chunk)
		chunk = wait_free(limit);
	if (!chunk) {
		atomic_store(&seen_heartbeat, atomic_load(&control->heartbeat));
		atomic_store(&seen_freed, atomic_load(&control->chunks_freed));
	}
	return chunk;
}

/* RING_FLAG_NULL_SINK: the records go round in one private chunk. */
static bool next_null(struct ta_thread *thread)
{
	struct ring_chunk *chunk = thread->null_sink;
	long memory;

	if (!chunk) {
		memory = ta_syscall(SYS_mmap, 0, RING_CHUNK_BYTES, 3 /* read, write */,
				    0x22 /* private, anonymous */, -1, 0);
		if (memory < 0)
			return false;
		chunk = (struct ring_chunk *)memory;
		thread->null_sink = chunk;
	}
	chunk->reserved = offsetof(struct ring_chunk, records);
	thread->chunk = chunk;
	thread->announced = true;
	return true;
}

/* Fill the header of a chunk that was just taken. */
static void begin_chunk(struct ta_thread *thread, struct ring_chunk *chunk)
{
	chunk->process_slot = ta_image.slot;
	chunk->process_generation = ta_image.generation;
	chunk->thread_serial = thread->serial;
	chunk->sequence = thread->sequence++;
	/* Pairs with the collector's acquire load: 0 means that the header is not there yet. */
	atomic_store_explicit(&chunk->reserved, offsetof(struct ring_chunk, records),
			      memory_order_release);
}

static void hand_over(struct ring_chunk *chunk)
{
	size_t i = (size_t)((uint8_t *)chunk - ta_image.chunks) / RING_CHUNK_BYTES;

	atomic_store_explicit(&ta_image.chunk_states[i], RING_CHUNK_FULL, memory_order_release);
}

void ta_chunk_finish(struct ta_thread *thread)
{
	struct ring_chunk *chunk = thread->chunk;

	thread->chunk = &ta_chunk_none;
	thread->pending = 0;
	thread->pending_nested = 0;
	if (chunk != &ta_chunk_none && chunk != thread->null_sink)
		hand_over(chunk);
}

bool ta_chunk_next(struct ta_thread *thread)
{
	struct ring_chunk *chunk;

	if (ta_image.flags & RING_FLAG_NULL_SINK)
		return next_null(thread);
	if (atomic_load_explicit(&ta_image.control->ended, memory_order_relaxed)) {
		ta_image_stop();
		return false;
	}
	chunk = take_or_wait();
	if (!chunk)
		return false;
	begin_chunk(thread, chunk);
	ta_chunk_finish(thread);
	thread->chunk = chunk;
	if (!thread->announced) {
		thread->announced = true;
		ta_thread_announce(thread);
	}
	ta_module_announce(thread);
	return true;
}

bool ta_chunk_room(struct ta_thread *thread, uint32_t n_bytes)
{
	uint64_t reserved = atomic_load_explicit(&thread->chunk->reserved, memory_order_relaxed);

	return reserved + n_bytes <= TA_CHUNK_OUTER_LIMIT || ta_chunk_next(thread);
}
