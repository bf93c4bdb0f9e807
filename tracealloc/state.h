#pragma once
/*
 * What a process image knows of its recording. All of it is private memory of the image; a forked
 * child inherits a copy and makes it its own in ta_image_attach().
 *
 * The state word lies alone on a page with MADV_WIPEONFORK: it reads TA_ASK in a child that has
 * its own copy of the memory, so that a child can never write into its parent's chunks. A vfork
 * or CLONE_VM child shares the page and goes on in its parent's chain.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sys/mman.h>

#include "schemas/ring.h"
#include "tracealloc/arch/arch.h"

/* Is this the freestanding agent of static programs (tracealloc/agent/)? */
#if defined(TA_AGENT)
#define TA_IS_AGENT 1
#else
#define TA_IS_AGENT 0
#endif

#define TA_PAGE_BYTES	4096u /* of the smallest pages */
#define TA_PATH_BYTES	4096u
#define TA_SOCKET_BYTES 128u /* more than an address of a socket has */

/*
 * For zeros of pages: the linker puts them behind all others, which so lie in few pages
 * (meson.build).
 */
#define TA_LARGE	 __attribute__((section(".bss.zz_large")))
#define ta_likely(x)	 __builtin_expect(!!(x), 1)
#define ta_unlikely(x)	 __builtin_expect(!!(x), 0)
#define ta_always_inline inline __attribute__((always_inline))

/* Keeps the compiler from moving memory accesses across: against signal handlers, not CPUs. */
#define ta_compiler_barrier() __asm__ volatile("" : : : "memory")

/*
 * Values of the state word. Odd values are "on"; what is above bit 2 counts unloaded modules. One
 * bit says that recording is paused: then no hook finds the word that it has seen.
 */
#define TA_PAUSED  (UINT32_C(1) << 31)
#define TA_ORDERED (UINT32_C(1) << 30) /* beside TA_PAUSED: by order of the collector */
#define TA_PAUSES  (TA_PAUSED | TA_ORDERED)

enum ta_state {
	TA_ASK = 0,
	TA_ON = 1,
	TA_OFF = 2,
	TA_BUSY = 4, /* a thread is attaching */
	TA_ON_EPOCH = 8, /* added when a module was unloaded: addresses may get a new meaning */
	TA_SEEN_NONE = ~0, /* ta_tls.seen of a thread without thread state */
	TA_SEEN_PAUSED = ~1, /* ta_tls.seen of a thread that has paused itself */
};

/* In ta_image.clock: ticks, but the counter must not be read. Beside enum ring_clock. */
#define TA_CLOCK_KERNEL 255u

union ta_state_page {
	_Atomic uint32_t word;
	uint8_t page[TA_LARGEST_PAGE_BYTES];
};
extern union ta_state_page ta_state
	__attribute__((aligned(TA_LARGEST_PAGE_BYTES), visibility("hidden")));

/* In ta_image.events always: for hooks that no RING_EVENTS_* bit switches off. */
#define TA_EVENTS_ALWAYS (1u << 31)

struct ta_image {
	struct ring_control *control; /* the mapped pool; NULL before attaching */
	uint8_t *chunks; /* chunk 0 */
	_Atomic uint32_t *chunk_states;
	_Atomic uint64_t *forks; /* RING_MAX_FORKS */
	struct ring_process *process;
	uint32_t slot;
	uint32_t generation;
	uint32_t pid;
	uint32_t n_chunks;
	uint32_t n_shared;
	_Atomic(uint8_t *)
		extra_chunks; /* chunk n_shared, in a mapping of its own; NULL: not yet */
	uint32_t events; /* RING_EVENTS_* that are recorded now */
	uint32_t wanted; /* copies of ring_control, which the collector may scribble on */
	uint32_t flags;
	uint32_t stacks;
	uint32_t clock; /* enum ring_clock, or TA_CLOCK_KERNEL */
	uint32_t max_frames;
	uint32_t page_bytes;
	bool is_late; /* it was attached to: its limits and environment are left alone */
	bool is_measured; /* what we take of its time is (own-time.h) */
	uint32_t reading_ticks; /* that reading the clock takes, if it is */
	const void *plan; /* schemas/functions-plan.h; NULL: no functions are chosen */
	uint64_t plan_bytes;
	uint64_t pool_bytes; /* that are mapped from control on */
	uint64_t clock_ticks; /* TA_CLOCK_KERNEL: these ticks ... */
	uint64_t clock_raw_ns; /* ... were these ns of CLOCK_MONOTONIC_RAW */
	uint64_t min_bytes; /* smaller blocks are not recorded, or asked about: sample_bytes */
	uint64_t sample_bytes; /* 0: all blocks are recorded; else one in so many bytes */
	const uint8_t *picked; /* which blocks may have been picked (pick.h); NULL: all are */
	uint64_t ticks_per_ms;
	uint64_t signal_period_ns; /* --source signal; 0: this image is not sampled */
	int dump_signal; /* --dump-signal; 0: none, or not for us to have */
	pthread_key_t key; /* its destructor ends a thread's chain */
	_Atomic bool has_key;
	_Atomic bool locks_future; /* the program has asked for mlockall(MCL_FUTURE) */
	uintptr_t stack_start; /* of the first thread of the exec image */
	uintptr_t stack_end;
	_Atomic uint32_t pause_depth; /* memsight_pause() without memsight_resume() */
	_Atomic uint32_t pause_number; /* +1 for each pause */
	_Atomic uint32_t order; /* of the collector, that is followed: ring_control.order */
	_Atomic uint64_t n_early; /* events that came while there was no slot to count them in */
};
extern struct ta_image ta_image __attribute__((visibility("hidden")));

struct ta_thread;

/* What a thread has of its own. Static TLS, initial-exec: must stay within 64 bytes. */
struct ta_own {
	struct ta_thread *thread;
	uintptr_t guard; /* frame of the outermost hook that runs, | TA_GUARD_STACK; 0: none */
	uintptr_t guard_pc; /* return address of that hook */
	const uintptr_t *guard_word; /* where that lies, where the guard does not tell */
	uint32_t seen; /* = known, but while the thread is paused TA_SEEN_PAUSED */
	uint32_t known; /* the state word for which `thread` is right */
	uint64_t left; /* bytes until the next block is picked (pick.h); 0: look there */
	uint8_t pick_shift; /* that the next pick was drawn with, + 1; 0: none was drawn yet */
	uint8_t rounds; /* of the key destructor */
	uint16_t pause_depth; /* memsight_pause_thread() without memsight_resume_thread() */
	bool ended; /* the chain is closed: the thread is exiting */
	bool is_sealed; /* strict seccomp: it can have no time stamp */
};
_Static_assert(sizeof(struct ta_own) <= 64, "static TLS is scarce");

/* What its start has told; apart, so that what forked children write into lies in one page. */
struct ta_told {
	char socket[TA_SOCKET_BYTES]; /* MEMSIGHT_RECORDING as it was at start; "" without */
	char library[TA_PATH_BYTES]; /* our own path, for LD_PRELOAD */
	char placement[TA_PATH_BYTES]; /* MEMSIGHT_PLACEMENT as it was at start; "" without */
};
extern struct ta_told ta_told __attribute__((visibility("hidden")));

/*
 * Map private memory of ours; a negative errno. What the program may lock is left to it. Signal
 * safe.
 */
static inline long ta_map_private(size_t n_bytes)
{
	long memory = ta_syscall(SYS_mmap, 0, (long)n_bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory > 0 && atomic_load_explicit(&ta_image.locks_future, memory_order_relaxed))
		ta_syscall(SYS_munlock, memory, (long)n_bytes, 0, 0, 0, 0);
	return memory;
}

/* Count one event that cannot be recorded since its thread has no chain. Signal safe. */
void ta_image_count_late(void);

/* Count one event of a thread that can have no time stamp: strict seccomp. Signal safe. */
void ta_image_count_sealed(void);

/* Let every thread forget its stacks: a module was unloaded. Nothing when the image is off. */
void ta_image_next_epoch(void);

/* Stop recording for good in this image: the collector has ended. Signal safe. */
void ta_image_stop(void);

/*
 * Is the caller the process that is sampled? A child of vfork shares our memory, not our
 * handlers; one of fork that has not attached yet still has its parent's slot. Signal safe.
 */
bool ta_image_is_own(void);
