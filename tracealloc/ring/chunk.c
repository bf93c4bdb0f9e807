#include "tracealloc/ring/chunk.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "tracealloc/attach.h"
#include "tracealloc/own-time.h"
#include "tracealloc/pause.h"
#include "tracealloc/ring/clock.h"
#include "tracealloc/ring/record.h"
#include "tracealloc/sandbox.h"
#include "tracealloc/stack/module.h"
#include "tracealloc/state.h"

#define SPIN_MAX_US 20u

struct ring_chunk ta_chunk_none __attribute__((
	section(".data.zz_large"), aligned(TA_PAGE_BYTES))) = { .reserved = RING_CHUNK_BYTES };

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
 * The number of the free chunk with the lowest number of a range, now ours; end: none. From the
 * bottom, not from the hint: chunks that were just freed lie in the caches and have their pages
 * mapped here already. *is_behind becomes true when there is one that the collector has yet to
 * read.
 */
static uint32_t take_between(uint32_t begin, uint32_t end, bool *is_behind)
{
	for (uint32_t i = begin; i < end; i++) {
		uint32_t state =
			atomic_load_explicit(&ta_image.chunk_states[i], memory_order_relaxed);

		if (state != RING_CHUNK_FREE) {
			*is_behind |= state == RING_CHUNK_FULL;
			continue;
		}
		/* Acquire pairs with the collector's release of FREE: its zeros are there. */
		if (!atomic_compare_exchange_strong_explicit(&ta_image.chunk_states[i], &state,
							     RING_CHUNK_OWNED, memory_order_acquire,
							     memory_order_relaxed))
			continue;
		atomic_store_explicit(&ta_image.control->take_hint, i, memory_order_relaxed);
		return i;
	}
	return end;
}

/* Map the whole pool once more; most programs never need more of it than the shared chunks. */
static bool map_extra(void)
{
	uint64_t shared_bytes =
		ta_image.control->control_bytes + (uint64_t)ta_image.n_shared * RING_CHUNK_BYTES;
	uint64_t n_bytes =
		ta_image.control->control_bytes + (uint64_t)ta_image.n_chunks * RING_CHUNK_BYTES;
	uint8_t *none = NULL;

	if (ta_image.n_chunks == ta_image.n_shared)
		return false;
	if (atomic_load(&ta_image.extra_chunks))
		return true;
	if (!ta_attach_fits_limit(n_bytes))
		return false;
	/* An old size of 0 makes a second mapping of what is shared, mremap(2). */
	long memory = ta_syscall(SYS_mremap, (long)ta_image.control, 0, (long)n_bytes,
				 MREMAP_MAYMOVE, 0, 0);
	if (memory < 0)
		return false;
	ta_syscall(SYS_madvise, memory, (long)n_bytes, MADV_DONTDUMP, 0, 0, 0);
	if (!atomic_compare_exchange_strong(&ta_image.extra_chunks, &none,
					    (uint8_t *)memory + shared_bytes))
		ta_syscall(SYS_munmap, memory, (long)n_bytes, 0, 0, 0, 0);
	return true;
}

/*
 * A free chunk. Threads that idle each keep one: the first ones come from the lower half of those
 * for all, so that the other half goes round, and then from those that are for nothing else.
 */
static struct ring_chunk *take_free(bool is_first, bool *is_behind)
{
	uint32_t half = is_first ? ta_image.n_shared / 2 : ta_image.n_shared;

	*is_behind = false;
	uint32_t i = take_between(0, half, is_behind);
	if (i < half)
		return (struct ring_chunk *)(ta_image.chunks + (size_t)i * RING_CHUNK_BYTES);
	if (is_first && map_extra()) {
		i = take_between(ta_image.n_shared, ta_image.n_chunks, is_behind);
		if (i < ta_image.n_chunks)
			return (struct ring_chunk *)(ta_image.extra_chunks +
						     (size_t)(i - ta_image.n_shared) *
							     RING_CHUNK_BYTES);
	}
	i = take_between(half, ta_image.n_shared, is_behind);
	if (i < ta_image.n_shared)
		return (struct ring_chunk *)(ta_image.chunks + (size_t)i * RING_CHUNK_BYTES);
	return NULL;
}

/* Sleep until the collector frees chunks, at most for so many ticks. */
static void sleep_for_freed(uint32_t freed, uint64_t ticks)
{
	_Atomic uint32_t *n_waiters = &ta_image.control->n_waiters;
	uint64_t ns = ticks * 1000 / (ta_image.ticks_per_ms / 1000 + 1);
	struct timespec timeout = { .tv_sec = 0, .tv_nsec = (long)ns };

	if (ns >= TA_WAIT_MAX_MS * 1000000u)
		timeout.tv_nsec = TA_WAIT_MAX_MS * 1000000;
	atomic_fetch_add(n_waiters, 1);
	ta_syscall(SYS_futex, (long)n_waiters, FUTEX_WAKE, 1, 0, 0, 0);
	ta_syscall(SYS_futex, (long)&ta_image.control->chunks_freed, FUTEX_WAIT, freed,
		   (long)&timeout, 0, 0);
	atomic_fetch_sub(n_waiters, 1);
}

/* In ticks of waiting. */
struct wait {
	uint64_t spent; /* in all */
	uint64_t idle; /* and in earlier waits: since the collector's last sign of life */
	uint64_t live; /* since chunks were freed, be it for others */
	uint64_t spun;
	uint64_t pulse;
	uint32_t freed;
	bool is_behind; /* the collector has something to read */
};

/*
 * Wait a little. What counts is what was asked for: once that is over the thread may run, and when
 * it does is a matter of the machine, not of the collector.
 */
static void wait_once(struct wait *wait, uint64_t limit)
{
	uint64_t spin_max = ta_image.ticks_per_ms * SPIN_MAX_US / 1000;
	uint64_t slice = ta_image.ticks_per_ms * TA_WAIT_SLICE_MS;
	bool spins = wait->spun < spin_max;
	uint64_t most = spins ? spin_max - wait->spun : limit - wait->idle;
	uint64_t begin = ta_ticks_begin(), ticks;

	if (most > slice)
		most = slice;
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
	wait->live += ticks;
}

/*
 * A pulse is a sign of life only where there is something that the collector would do, if it could.
 */
static void look_for_life(struct wait *wait)
{
	uint32_t freed = atomic_load(&ta_image.control->chunks_freed);
	uint64_t pulse = atomic_load(&ta_image.control->pulse);

	if (freed != wait->freed)
		*wait = (struct wait){ .spent = wait->spent, .freed = freed };
	else if (pulse != wait->pulse && wait->is_behind)
		wait->idle = 0;
	wait->pulse = pulse;
}

/* Wait for a chunk until there was no sign of life for limit ticks. */
static struct ring_chunk *wait_free(bool is_first, uint64_t limit)
{
	uint64_t live_limit = ta_image.ticks_per_ms * TA_WAIT_LIVE_MAX_MS;
	struct wait wait = { .idle = atomic_load(&waited_ticks),
			     .pulse = atomic_load(&ta_image.control->pulse),
			     .freed = atomic_load(&ta_image.control->chunks_freed) };
	struct ring_chunk *chunk;

	for (;;) {
		look_for_life(&wait);
		chunk = take_free(is_first, &wait.is_behind);
		if (chunk || wait.idle >= limit || wait.live >= live_limit)
			break;
		wait_once(&wait, limit);
	}
	atomic_store(&waited_ticks, chunk ? 0 : limit);
	atomic_fetch_add_explicit(&ta_image.process->wait_ticks, wait.spent, memory_order_relaxed);
	atomic_fetch_add_explicit(&ta_image.process->n_waits, 1, memory_order_relaxed);
	return chunk;
}

/*
 * The pool is full. The budget of waiting is renewed only when the collector has moved and freed
 * something since it was used up: a collector that is stopped, or one that lives but has nothing
 * to free, must not cost the program a wait for each event.
 */
static struct ring_chunk *take_or_wait(bool is_first)
{
	struct ring_control *control = ta_image.control;
	uint64_t limit = ta_image.ticks_per_ms * TA_WAIT_MAX_MS;
	uint64_t heartbeat = atomic_load_explicit(&control->heartbeat, memory_order_relaxed);
	uint32_t freed = atomic_load_explicit(&control->chunks_freed, memory_order_relaxed);
	bool exhausted = atomic_load_explicit(&waited_ticks, memory_order_relaxed) >= limit;
	bool is_behind;

	if (exhausted && (heartbeat == seen_heartbeat || freed == seen_freed))
		return NULL;
	if (exhausted)
		atomic_store(&waited_ticks, 0);
	struct ring_chunk *chunk = take_free(is_first, &is_behind);
	if (!chunk && ta_sandbox_may_wait())
		chunk = wait_free(is_first, limit);
	else if (!chunk)
		atomic_store(&waited_ticks, limit); /* until something is freed */
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
		memory = ta_map_private(RING_CHUNK_BYTES);
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
	/* A read maps all pages of the chunk that others have used, a write only its own. */
	(void)atomic_load_explicit(&chunk->reserved, memory_order_relaxed);
	chunk->process_slot = ta_image.slot;
	chunk->process_generation = ta_image.generation;
	chunk->thread_serial = thread->serial;
	chunk->sequence = thread->sequence++;
	/* Pairs with the collector's acquire load: 0 means that the header is not there yet. */
	atomic_store_explicit(&chunk->reserved, offsetof(struct ring_chunk, records),
			      memory_order_release);
}

static size_t index_of(const struct ring_chunk *chunk)
{
	size_t i = (size_t)((const uint8_t *)chunk - ta_image.chunks) / RING_CHUNK_BYTES;

	if (i < ta_image.n_shared)
		return i;
	return ta_image.n_shared +
	       (size_t)((const uint8_t *)chunk - ta_image.extra_chunks) / RING_CHUNK_BYTES;
}

/*
 * Go on in another chunk, and hand over the one before. A signal handler finds the one or the other
 * at any moment, and what it has begun it has also committed when it comes back.
 */
static void change_chunk(struct ta_thread *thread, struct ring_chunk *next)
{
	struct ring_chunk *chunk = thread->chunk;

	ta_compiler_barrier();
	thread->chunk = next;
	ta_compiler_barrier();
	thread->pending = 0;
	thread->pending_nested = 0;
	if (chunk != &ta_chunk_none && chunk != thread->null_sink)
		atomic_store_explicit(&ta_image.chunk_states[index_of(chunk)], RING_CHUNK_FULL,
				      memory_order_release);
}

void ta_chunk_finish(struct ta_thread *thread)
{
	change_chunk(thread, &ta_chunk_none);
}

/* ---- What a new chunk begins with ---- */

/* THREAD_START is the first record of a chain. */
static void announce_thread(struct ta_thread *thread)
{
	struct ring_thread_start *record;

	record = ta_record_reserve_big(thread, sizeof(*record));
	if (!record)
		return;
	record->ticks = ta_ticks_begin();
	record->tid = thread->tid;
	record->is_main = thread->is_main;
	record->stack_start = thread->stack_start;
	record->stack_end = thread->stack_end;
	/*
	 * Elsewhere TLS lies above it: what is in a thread's map and not on its stack is the
	 * map's.
	 */
	record->fs_base = TA_TLS_IS_BELOW ? ta_thread_pointer() : 0;
	ta_syscall(SYS_prctl, PR_GET_NAME, (long)record->name, 0, 0, 0, 0);
	ta_record_commit(&record->head, RING_HEAD(TRACE_OP_THREAD_START, 0, 3, 0));
}

static bool tell(struct ta_thread *thread, const struct ta_module *module, enum trace_op op)
{
	struct ring_module *record;
	uint32_t n_bytes = (uint32_t)sizeof(*record) + module->build_id_bytes + module->path_bytes;
	uint32_t n_slots = (n_bytes + RING_RECORD_BYTES - 1) / RING_RECORD_BYTES;

	record = ta_record_reserve_big(thread, n_slots * RING_RECORD_BYTES);
	if (!record)
		return false;
	record->ticks = ta_ticks_begin();
	record->bias = module->bias;
	record->start = module->start;
	record->end = module->end;
	record->build_id_bytes = module->build_id_bytes;
	record->path_bytes = module->path_bytes;
	memcpy(record->bytes, module->build_id, module->build_id_bytes);
	memcpy(record->bytes + module->build_id_bytes, module->path, module->path_bytes);
	ta_record_commit(&record->head, RING_HEAD(op, 0, n_slots, 0));
	return true;
}

static void tell_news(struct ta_thread *thread, struct ta_module *module)
{
	if (!atomic_load(&module->announced)) {
		if (!tell(thread, module, TRACE_OP_MODULE))
			return;
		atomic_store(&module->announced, true);
		ta_module_count_told();
	}
	if (atomic_load(&module->gone) && !module->gone_told &&
	    tell(thread, module, TRACE_OP_MODULE_UNLOAD)) {
		module->gone_told = true;
		ta_module_count_told();
	}
}

void ta_chunk_announce(struct ta_thread *thread)
{
	struct ta_module *module;

	if (!ta_module_begin_news())
		return;
	for (uint32_t i = 0; (module = ta_module_at(i)); i++)
		tell_news(thread, module);
	ta_module_end_news();
}

static bool next_chunk(struct ta_thread *thread)
{
	uint32_t ended;

	if (ta_image.flags & RING_FLAG_NULL_SINK)
		return next_null(thread);
	if (atomic_load(&ta_image.order) != atomic_load(&ta_image.control->order))
		ta_pause_obey();
	ended = atomic_load_explicit(&ta_image.control->ended, memory_order_relaxed);
	if (ended == RING_ENDED)
		ta_image_stop();
	if (ended != RING_RECORDING)
		return false;
	struct ring_chunk *chunk = take_or_wait(thread->sequence == 0);
	if (!chunk)
		return false;
	begin_chunk(thread, chunk);
	change_chunk(thread, chunk);
	if (!thread->announced) {
		thread->announced = true;
		announce_thread(thread);
	}
	ta_chunk_announce(thread);
	return true;
}

bool ta_chunk_next(struct ta_thread *thread)
{
	if (ta_likely(!ta_image.is_measured))
		return next_chunk(thread);
	uint64_t since = ta_own_now(thread);
	bool is_there = next_chunk(thread);
	if (is_there)
		ta_own_tell(thread, 0, TRACE_OWN_ROOM, ta_own_now(thread) - since);
	else
		ta_own_add(thread, since);
	return is_there;
}

/* The bytes that are reserved. An outermost hook answers the collector's call first. */
static uint32_t answer_call(struct ta_thread *thread, bool is_outermost)
{
	struct ring_chunk *chunk = thread->chunk;
	uint64_t reserved = atomic_load_explicit(&chunk->reserved, memory_order_relaxed);

	if (ta_unlikely(reserved & RING_CHUNK_CALL) && is_outermost) {
		/*
		 * The collector sets it where it is not set; handlers that interrupt us leave it.
		 */
		ta_local_fetch_add(&chunk->reserved, -RING_CHUNK_CALL);
		ta_pause_obey();
		ta_pause_tell();
		reserved = atomic_load_explicit(&thread->chunk->reserved, memory_order_relaxed);
	}
	return (uint32_t)reserved;
}

bool ta_chunk_room(struct ta_thread *thread, uint32_t n_bytes)
{
	return answer_call(thread, true) + n_bytes <= TA_CHUNK_OUTER_LIMIT || ta_chunk_next(thread);
}

/* ---- Records ---- */

bool ta_record_make_room(struct ta_thread *thread, uint32_t bits)
{
	if (answer_call(thread, !bits) <= (bits ? TA_CHUNK_NESTED_LIMIT : TA_CHUNK_OUTER_LIMIT))
		return true;
	if (bits) {
		ta_chunk_count_nested();
		return false;
	}
	if (ta_chunk_next(thread))
		return true;
	/* What comes behind the end of the recording is no loss. */
	if (atomic_load(&ta_state.word) != TA_OFF)
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
	    offset + n_bytes > (uint32_t)atomic_load_explicit(&thread->chunk->reserved,
							      memory_order_relaxed) ||
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

void ta_chunk_unmap(void)
{
	uint64_t shared_bytes =
		ta_image.control->control_bytes + (uint64_t)ta_image.n_shared * RING_CHUNK_BYTES;
	uint64_t all_bytes =
		ta_image.control->control_bytes + (uint64_t)ta_image.n_chunks * RING_CHUNK_BYTES;

	if (ta_image.extra_chunks)
		ta_syscall(SYS_munmap, (long)(ta_image.extra_chunks - shared_bytes),
			   (long)all_bytes, 0, 0, 0, 0);
	ta_syscall(SYS_munmap, (long)ta_image.control, (long)ta_image.pool_bytes, 0, 0, 0, 0);
	atomic_store(&waited_ticks, 0);
	atomic_store(&seen_heartbeat, 0);
	atomic_store(&seen_freed, 0);
}
