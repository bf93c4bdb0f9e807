#include "tracealloc/thread.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tracealloc/clock.h"
#include "tracealloc/hook.h"
#include "tracealloc/sampler.h"
#include "tracealloc/stack.h"
#include "tracealloc/stack-bounds.h"

#define STATE_BYTES    ((sizeof(struct ta_thread) + TA_PAGE_BYTES - 1) & -(size_t)TA_PAGE_BYTES)
#define EXIT_ROUNDS    4u /* PTHREAD_DESTRUCTOR_ITERATIONS of POSIX and glibc */
#define FREE_TAG_SHIFT 48

_Thread_local struct ta_tls ta_tls
	__attribute__((tls_model("initial-exec"))) = { .seen = (uint32_t)TA_SEEN_NONE,
						       .known = (uint32_t)TA_SEEN_NONE };

/* All states ever made, and the free ones: a stack whose head carries a tag against ABA. */
static _Atomic(struct ta_thread *) all_threads;
static _Atomic uint64_t free_threads;

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

static struct ta_thread *map_state(void)
{
	long memory = ta_syscall(SYS_mmap, 0, (long)STATE_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ta_thread *thread;

	if (memory < 0)
		return NULL;
	thread = (struct ta_thread *)memory;
	thread->timer = -1; /* 0 might be the program's: who stops sampling looks at all of them */
	thread->next_all = atomic_load(&all_threads);
	while (!atomic_compare_exchange_weak(&all_threads, &thread->next_all, thread))
		;
	return thread;
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
	ta_stack_forget(thread);
	thread->next_id = 1;
	thread->serial = atomic_fetch_add(&ta_image.process->n_threads, 1);
	thread->sequence = 0;
	thread->tid = (uint32_t)ta_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
	atomic_store(&thread->pointer, ta_thread_self());
	thread->is_main = is_main;
	thread->announced = false;
	thread->pause_number = 0;
	thread->fork_ticks = 0; /* of a fork in a handler: its slot has it by now */
	memset(thread->texts, 0, sizeof(thread->texts));
	ta_sampler_start(thread);
}

void ta_thread_each_timer(void)
{
	for (struct ta_thread *i = atomic_load(&all_threads); i; i = i->next_all)
		ta_sampler_end(i);
}

uint32_t ta_thread_find(uintptr_t pointer)
{
	const struct ta_thread *thread = atomic_load(&all_threads);

	if (pointer == ta_thread_pointer())
		return (uint32_t)ta_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
	while (thread && atomic_load(&thread->pointer) != pointer)
		thread = thread->next_all;
	return thread ? thread->tid : 0;
}

bool ta_thread_begin(bool is_main)
{
	struct ta_thread *thread = pop_free();

	if (!thread)
		thread = map_state();
	if (!thread)
		return false;
	reset(thread, is_main);
	ta_stack_bounds(&thread->stack_start, &thread->stack_end);
	ta_tls.thread = thread;
	ta_tls.rounds = 0;
	if (ta_image.has_key)
		pthread_setspecific(ta_image.key, thread);
	return true;
}

void ta_thread_forked(void)
{
	struct ta_thread *own = ta_tls.thread;

	/* The other threads stayed in the parent: their states are free memory here. */
	atomic_store(&free_threads, 0);
	for (struct ta_thread *i = atomic_load(&all_threads); i; i = i->next_all) {
		if (i == own)
			continue;
		atomic_store(&i->pointer, 0);
		i->timer = -1; /* timers stay in the parent */
		push_free(i);
	}
	ta_tls.ended = false;
	ta_tls.rounds = 0;
	ta_tls.pause_depth = 0;
	if (own)
		reset(own, true);
}

void ta_thread_announce(struct ta_thread *thread)
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
	/* Elsewhere TLS lies above it: what is in a thread's map and not on its stack is the map's. */
	record->fs_base = TA_TLS_IS_BELOW ? ta_thread_pointer() : 0;
	ta_syscall(SYS_prctl, PR_GET_NAME, (long)record->name, 0, 0, 0, 0);
	ta_record_commit(&record->head, RING_HEAD(TRACE_OP_THREAD_START, 0, 3, 0));
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

static void end_chain(struct ta_thread *thread)
{
	ta_sampler_end(thread);
	ta_record_repair(thread);
	if (thread->announced)
		write_end(thread);
	ta_chunk_finish(thread);
	ta_stack_release(thread);
	ta_tls.thread = NULL;
	ta_tls.seen = ta_tls.known = (uint32_t)TA_SEEN_NONE;
	ta_tls.ended = true;
	atomic_store(&thread->pointer, 0);
	push_free(thread);
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
	if (++ta_tls.rounds < EXIT_ROUNDS && pthread_setspecific(ta_image.key, thread) == 0)
		return;
	ta_hook_guard(TA_FRAME());
	end_chain(thread);
	ta_compiler_barrier();
	ta_tls.guard = 0;
}
