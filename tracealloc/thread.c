#include "tracealloc/thread.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "tracealloc/hooks/dump.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/ring/clock.h"
#include "tracealloc/sampler.h"
#include "tracealloc/stack/stack-bounds.h"
#include "tracealloc/stack/stack.h"

#define STATE_BYTES    ((sizeof(struct ta_thread) + TA_PAGE_BYTES - 1) & -(size_t)TA_PAGE_BYTES)
#define EXIT_ROUNDS    4u /* PTHREAD_DESTRUCTOR_ITERATIONS of POSIX and glibc */
#define FREE_TAG_SHIFT 48
#define MAX_KEY_YIELDS 1000
#define MAX_LOOKED_AT  256u

/* Most processes have one thread, and many are short: its state needs no mapping of its own. */
static uint8_t first_state[STATE_BYTES] __attribute__((aligned(TA_PAGE_BYTES))) TA_LARGE;
static _Atomic bool first_is_taken;

/* Free states: a stack whose head carries a tag against ABA. */
static _Atomic uint64_t free_threads;
static _Atomic uint32_t key_users; /* threads that are about to set the key */

static void push_free(struct ta_thread *thread)
{
	uint64_t head = atomic_load(&free_threads);
	uint64_t next;

	do {
		uint64_t pointer = head & ((UINT64_C(1) << FREE_TAG_SHIFT) - 1);
		uint64_t tag = (head >> FREE_TAG_SHIFT) + 1;

		atomic_store(&thread->next_free, (struct ta_thread *)(uintptr_t)pointer);
		next = (uintptr_t)thread | tag << FREE_TAG_SHIFT;
	} while (!atomic_compare_exchange_weak(&free_threads, &head, next));
}

static struct ta_thread *pop_free(void)
{
	uint64_t head = atomic_load(&free_threads);
	struct ta_thread *thread;
	uint64_t next;

	do {
		uint64_t tag = (head >> FREE_TAG_SHIFT) + 1;

		thread = (struct ta_thread *)(uintptr_t)(head &
							 ((UINT64_C(1) << FREE_TAG_SHIFT) - 1));
		if (!thread)
			return NULL;
		next = (uintptr_t)atomic_load(&thread->next_free) | tag << FREE_TAG_SHIFT;
	} while (!atomic_compare_exchange_weak(&free_threads, &head, next));
	return thread;
}

/* Zeros for a state; a negative errno. */
static long find_state(void)
{
	if (!atomic_exchange(&first_is_taken, true))
		return (long)first_state;
	return ta_map_private(STATE_BYTES);
}

static struct ta_thread *map_state(void)
{
	long memory = find_state();

	if (memory < 0)
		return NULL;
	struct ta_thread *thread = (struct ta_thread *)memory;
	thread->timer = -1; /* 0 might be the program's: who stops sampling looks at all of them */
	thread->next_all = atomic_load(&ta_threads);
	while (!atomic_compare_exchange_weak(&ta_threads, &thread->next_all, thread))
		;
	return thread;
}

/* 0: it is forbidden to ask. */
static uint32_t own_tid(void)
{
	long tid = ta_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);

	return tid > 0 ? (uint32_t)tid : 0;
}

/* Begin a new chain with a state that is new, or was another thread's. */
static void reset(struct ta_thread *thread, bool is_main)
{
	thread->chunk = &ta_chunk_none;
	thread->pending = 0;
	thread->pending_nested = 0;
	thread->last = &thread->traces[0];
	if (!thread->table) {
		thread->table = thread->small_table;
		thread->table_size = TA_TABLE_SMALL;
	}
	if (thread->next_id == 0) /* mapped just now: to clear it would touch all of its pages */
		ta_unwind_forget(&thread->unwind);
	else
		ta_stack_forget(thread);
	thread->next_id = 1;
	thread->serial = atomic_fetch_add(&ta_image.process->n_threads, 1);
	thread->sequence = 0;
	thread->tid = own_tid();
	atomic_store(&thread->pointer, ta_thread_self());
	thread->is_main = is_main;
	thread->announced = false;
	thread->pause_number = 0;
	thread->n_calls = 0;
	thread->fork_ticks = 0; /* of a fork in a handler: its slot has it by now */
	memset(thread->texts, 0, sizeof(thread->texts));
	ta_sampler_start(thread);
	ta_dump_look();
}

/* Set the key, unless it has been given back: its number may be the program's by now. */
static bool set_key(struct ta_thread *thread)
{
	atomic_fetch_add(&key_users, 1);
	bool is_set =
		atomic_load(&ta_image.has_key) && pthread_setspecific(ta_image.key, thread) == 0;
	atomic_fetch_sub(&key_users, 1);
	return is_set;
}

bool ta_thread_give_key(void)
{
	int saved = errno;

	if (!atomic_exchange(&ta_image.has_key, false))
		return false;
	for (int i = 0; i < MAX_KEY_YIELDS && atomic_load(&key_users) > 0; i++)
		ta_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	if (atomic_load(&key_users) > 0) {
		atomic_store(&ta_image.has_key, true); /* we have interrupted who is at it */
		return false;
	}
	pthread_key_delete(ta_image.key);
	errno = saved;
	return true;
}

uint32_t ta_thread_find(uintptr_t pointer)
{
	const struct ta_thread *thread = atomic_load(&ta_threads);

	if (pointer == ta_thread_pointer())
		return own_tid();
	while (thread && atomic_load(&thread->pointer) != pointer)
		thread = thread->next_all;
	return thread ? thread->tid : 0;
}

void ta_thread_forked(void)
{
	struct ta_thread *own = ta_tls.thread;

	/* The other threads stayed in the parent: their states are free memory here. */
	atomic_store(&free_threads, 0);
	atomic_store(&key_users, 0);
	for (struct ta_thread *i = atomic_load(&ta_threads); i; i = i->next_all) {
		if (i == own)
			continue;
		atomic_store(&i->pointer, 0);
		i->timer = -1; /* timers stay in the parent */
		ta_stack_release(i);
		push_free(i);
	}
	ta_tls.ended = false;
	ta_tls.rounds = 0;
	ta_tls.pause_depth = 0;
	ta_pick_forked();
	if (!own)
		return;
	/* To clear its tables here would copy each of their pages first. */
	ta_stack_release(own);
	ta_stack_discard(own);
	reset(own, true);
}

/* The last record of a chain fits behind the limit of all others. */
static void write_end(struct ta_thread *thread)
{
	uint64_t reserved = atomic_load_explicit(&thread->chunk->reserved, memory_order_relaxed);
	struct ring_record *record;

	if (reserved > TA_CHUNK_END_LIMIT) {
		ta_chunk_count_dropped();
		return;
	}
	record = ta_record_take(thread, &thread->pending, sizeof(*record));
	if (record)
		ta_record_fill(record, RING_HEAD(TRACE_OP_THREAD_END, 0, 1, 0), ta_ticks_begin(), 0,
			       0);
}

/* End a chain; the state is ready for another one. */
static void finish(struct ta_thread *thread)
{
	ta_sampler_end(thread);
	ta_record_repair(thread);
	if (thread->announced)
		write_end(thread);
	ta_chunk_finish(thread);
	ta_stack_release(thread);
}

static bool is_gone(const struct ta_thread *thread)
{
	return ta_syscall(SYS_tgkill, ta_image.pid, thread->tid, 0, 0, 0, 0) == -ESRCH;
}

/*
 * Without a key: the state of a thread that ended without a word; its chain is ended. NULL: none.
 */
static struct ta_thread *reclaim(void)
{
	struct ta_thread *thread = atomic_load(&ta_threads);

	for (uint32_t i = 0; thread && i < MAX_LOOKED_AT; i++, thread = thread->next_all) {
		uintptr_t pointer = atomic_load(&thread->pointer);

		if (pointer == 0 || !is_gone(thread) ||
		    !atomic_compare_exchange_strong(&thread->pointer, &pointer, 0))
			continue;
		finish(thread);
		return thread;
	}
	return NULL;
}

bool ta_thread_begin(bool is_main)
{
	struct ta_thread *thread = pop_free();

	if (!thread && !atomic_load(&ta_image.has_key))
		thread = reclaim();
	if (!thread)
		thread = map_state();
	if (!thread)
		return false;
	reset(thread, is_main);
	ta_stack_bounds(is_main, &thread->stack_start, &thread->stack_end);
	ta_tls.thread = thread;
	ta_tls.rounds = 0;
	set_key(thread);
	return true;
}

/*
 * Other destructors may still free. Setting the key again brings us back in the next round, so the
 * chain ends in the last one that libc makes.
 */
void ta_thread_exit(void *pointer)
{
	struct ta_thread *thread = pointer;
	uint32_t state = atomic_load_explicit(&ta_state.word, memory_order_relaxed);

	if (ta_tls.thread != thread || state == TA_ASK || state == TA_OFF)
		return;
	if (++ta_tls.rounds < EXIT_ROUNDS && set_key(thread))
		return;
	ta_hook_guard(TA_FRAME());
	finish(thread);
	ta_tls.thread = NULL;
	ta_tls.seen = ta_tls.known = (uint32_t)TA_SEEN_NONE;
	ta_tls.ended = true;
	atomic_store(&thread->pointer, 0);
	push_free(thread);
	ta_compiler_barrier();
	ta_tls.guard = 0;
}

static void drop(struct ta_thread *thread)
{
	if (thread->null_sink)
		ta_syscall(SYS_munmap, (long)thread->null_sink, RING_CHUNK_BYTES, 0, 0, 0, 0);
	if ((uint8_t *)thread != first_state) {
		ta_syscall(SYS_munmap, (long)thread, STATE_BYTES, 0, 0, 0, 0);
		return;
	}
	/* Zeros again, as it began. */
	if (ta_syscall(SYS_madvise, (long)thread, STATE_BYTES, MADV_DONTNEED, 0, 0, 0) < 0)
		memset(first_state, 0, sizeof(first_state));
	atomic_store(&first_is_taken, false);
}

void ta_thread_drop_all(const uint64_t *pointers, uint32_t n, bool are_own)
{
	const struct ta_own fresh = { .seen = (uint32_t)TA_SEEN_NONE,
				      .known = (uint32_t)TA_SEEN_NONE };
	uintptr_t offset = (uintptr_t)&ta_tls - ta_thread_pointer();
	struct ta_thread *next;

	for (struct ta_thread *i = atomic_load(&ta_threads); i; i = i->next_all)
		if (atomic_exchange(&i->pointer, 0) && are_own)
			finish(i);
	if (atomic_exchange(&ta_image.has_key, false))
		pthread_key_delete(ta_image.key);
	/* Those that wait in the kernel stand as well: nobody's copy is in use. */
	for (uint32_t i = 0; i < n; i++)
		memcpy((void *)(uintptr_t)(pointers[i] + offset), &fresh, sizeof(fresh));
	for (struct ta_thread *i = atomic_exchange(&ta_threads, NULL); i; i = next) {
		next = i->next_all;
		drop(i);
	}
	atomic_store(&free_threads, 0);
}
