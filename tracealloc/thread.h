#pragma once
/*
 * The state of a thread: its chain of chunks, its table of stacks. It lives in memory of our own
 * (mmap), is handed to the next thread when one ends, and is found through 64 bytes of static TLS.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "schemas/ring.h"
#include "tracealloc/arch/arch.h"
#include "tracealloc/stack/unwind.h"
#include "tracealloc/state.h"

#define TA_TRACE_FRAMES RING_MAX_FRAMES
#define TA_TABLE_SMALL	256u /* entries inside the thread state */
#define TA_TABLE_MAX	(1u << 17) /* entries: 2 MiB for each thread at most */

#define TA_UNRECORDED 4096u /* a power of 2 */
#define TA_BLOCK_LOG2 4u /* of the alignment of blocks */
#define TA_TEXTS      128u /* a power of 2 */

/* One frame of a captured stack. */
struct ta_frame {
	uintptr_t address; /* of the frame: where the caller's rbp is stored */
	uintptr_t pc; /* return address */
};

/* A captured stack, innermost frame first. */
struct ta_trace {
	uint32_t n;
	uint32_t id;
	uint32_t stop; /* enum trace_stop; TRACE_STOP_NONE: it reaches the outermost frame */
	struct ta_frame frame[TA_TRACE_FRAMES];
};

/* Entry of the table of nodes. */
struct ta_node {
	uint64_t hash; /* of the whole stack that ends in the node */
	uint32_t pc_low; /* of its return address */
	uint32_t id; /* 0: free */
};

/* A call of an allocator that a block comes from (functions/allocators.h). */
struct ta_alloc_call {
	uintptr_t slot; /* where its return address lies: that of a thunk */
	uintptr_t thunk;
	uint64_t size;
	uint64_t pool;
	uint64_t old;
	uint64_t out; /* where it stores what it hands out */
	uint64_t begin_ticks; /* 0: its result does not matter */
	bool is_unref; /* of the block `old` */
};
#define TA_ALLOC_CALLS 4u /* under way at once: of different stacks, or in destructors */

struct ta_thread {
	struct ring_chunk *chunk; /* never NULL: without a chunk it is ta_chunk_none */
	uint64_t pending; /* offset | bytes << 32 of the record being written */
	uint64_t pending_nested; /* the same for a hook in a signal handler */
	const struct ta_trace *last; /* the trace captured last, one of traces[] */
	uintptr_t stack_start; /* bounds of the thread's stack; both 0: not known */
	uintptr_t stack_end;
	struct ta_node *table;
	uint32_t table_size; /* a power of 2 */
	uint32_t stack_id; /* of the trace captured last */
	uint32_t next_id; /* of a node; ids are never used twice in a chain */
	uint32_t stop_node[8]; /* node of (parent 0, enum trace_stop), 0: not made yet */
	uint32_t serial;
	uint32_t sequence; /* of the next chunk in the chain */
	uint32_t tid;
	_Atomic uintptr_t pointer; /* thread pointer; 0: nobody's state now */
	bool is_main;
	bool announced; /* THREAD_START is written */
	void *null_sink; /* RING_FLAG_NULL_SINK: the private chunk */
	uint32_t pause_number; /* of the pause that unrecorded[] is about */
	uint64_t pick_random; /* state of the generator of picks; 0: it has no seed yet */
	uintptr_t pick_site; /* what the outermost hook returns to, where its block was picked */
	const void *fired_end; /* --usdt for all blocks: whose end has fired last */
	struct ta_thread *next_all;
	_Atomic(struct ta_thread *) next_free;
	uint64_t fork_ticks; /* it is calling fork since then; 0: it is not */
	uint64_t fork_told_ticks; /* what it has put for that into ring_forks() ... */
	uint32_t fork_place; /* ... and where; RING_MAX_FORKS: there was no room */
	uint64_t held_since_ns; /* --source signal: of its CPU time; is_held */
	int timer; /* --source signal; -1: none */
	bool is_held; /* the timer stands still: the thread has the signal blocked */
	struct ta_asking *asking; /* a plug-in runs (plugin.h): hooks record nothing; else NULL */
	uint64_t block_end; /* which of an own allocator has ended last; 0: one began since */
	_Atomic uint64_t own_ticks; /* own-time.h: that no record has told */
	uint64_t told_ticks; /* those that records of their own have */
	uint32_t n_calls;
	struct ta_alloc_call calls[TA_ALLOC_CALLS];
	uint64_t texts[TA_TEXTS]; /* ids of texts that the chain has, by their low bits */
	/* A page each time that it is met: what a short process needs stands first. */
	struct ta_unwind unwind; /* RING_STACKS_DWARF */
	/* One page. */
	_Alignas(TA_PAGE_BYTES) struct ta_node small_table[TA_TABLE_SMALL];
	struct ta_trace traces[2]; /* RING_STACKS_FP */
	uint32_t unrecorded[TA_UNRECORDED]; /* blocks born in this pause; see pause.h */
};

_Static_assert(sizeof(struct ta_thread) <= 65536, "an idle thread must stay small");

/* In ta_tls.guard: the hook has captured its stack, thread->stack_id is its id. */
#define TA_GUARD_STACK ((uintptr_t)1)

#if defined(TA_AGENT)
#include "tracealloc/agent/seat.h"
#define ta_tls (*ta_seat_here()) /* the program has no TLS for us */
#else
/* With gcc 12 the attribute on the declaration alone is lost, so it stands at both places. */
extern _Thread_local struct ta_own ta_tls
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static ta_always_inline bool ta_seat_is_own(void)
{
	return true;
}

static ta_always_inline bool ta_seat_take(void)
{
	return true;
}
#endif

/* All states ever made, by next_all; those of threads that are gone stay among them. */
extern _Atomic(struct ta_thread *) ta_threads __attribute__((visibility("hidden")));

/*
 * Give the calling thread a state and a chain. is_main: the image's first thread. Sets
 * ta_tls.thread; false when there is no memory. Only in an outermost hook, guard set; errno kept.
 */
bool ta_thread_begin(bool is_main);

/* Forget what the thread knew of its parent's chain: it is now alone in a forked child. */
void ta_thread_forked(void);

/* Destructor of the pthread key: ends the chain in the last round. */
void ta_thread_exit(void *thread);

/*
 * Give our pthread key back: the program wants more than are left. From now on nobody tells of the
 * end of a thread; a later one that needs a state looks for those that are gone. False: there is
 * none.
 */
bool ta_thread_give_key(void);

/*
 * The tid of a live thread with this thread pointer (its pthread_t); 0: it has no chain. Any
 * thread.
 */
uint32_t ta_thread_find(uintptr_t pointer);

/*
 * End all chains, and forget all states: those of the threads with these thread pointers, which
 * are all there are and stand outside of us, and of those that are gone. The pool is still there.
 * are_own false: they are a copy of those of the image that we were forked from, which go on.
 */
void ta_thread_drop_all(const uint64_t *pointers, uint32_t n, bool are_own);
