#pragma once
/*
 * What lies in the shared memory between a traced program (libtracealloc.so) and the collector
 * (in `memsight record`). Same build only: RING_VERSION is compared when a program attaches.
 *
 * The pool is one file descriptor: a control area, then n_chunks chunks of RING_CHUNK_BYTES. A
 * thread owns a chain of chunks; it alone writes to them, the collector alone reads and recycles.
 *
 * Chunk protocol. A free chunk is all zero behind its header. A thread takes it by a CAS of
 * ring_control.chunk_state[i] from FREE to OWNED, fills the header (`reserved` last, with release,
 * to offsetof(struct ring_chunk, records): 0 says that the header is not filled yet), and hands it
 * over with one store of FULL, when all that it reserved is committed. The collector reads OWNED
 * and FULL chunks, and after it has consumed a FULL one (or one whose process ended) zeroes it and
 * stores FREE. A hole in a FULL chunk is damage: what lies behind it is counted as lost.
 *
 * Record protocol: reserve, stamp, fill, commit. `reserved` in the chunk header moves first (one
 * instruction on x86, so that a signal handler's records never overlap), and ring_record.head is
 * stored last, with release; 0 means "not committed yet". The collector stops at the first
 * head of 0 and consumes nothing behind it; reserved beyond that point says that an event is
 * on its way, which holds the commit time of the trace back. A record with op NONE and n_slots > 0
 * is empty (its call failed) and is stepped over.
 *
 * Orders. The collector pauses and resumes all programs by ring_control.order. A paused program
 * looks at it in each hook. One that records does not: there the collector sets RING_CHUNK_CALL in
 * `reserved` of each OWNED chunk by CAS, again in each round until ring_process.order says that the
 * image follows. The owner's own add may undo that, never the other way round. So the next event of
 * a thread finds no room, and looks.
 *
 * A thread that idles keeps its chunk. So that many of them do not take all, the chunks from
 * n_shared on are only for the first chunk of each thread: of an idle one's a page or two are ever
 * written.
 *
 * The collector treats all of it as hostile input: every index, length and op is checked.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define RING_MAGIC		UINT64_C(0x31474e4952534d00) /* "\0MSRING1" */
#define RING_VERSION		19
#define RING_CHUNK_BYTES	65536u
#define RING_LARGEST_PAGE_BYTES 65536u /* of the kernels for aarch64 and ppc64le */
#define RING_CHUNK_CALL		(UINT64_C(1) << 40) /* in ring_chunk.reserved: look at order */
#define RING_RECORD_BYTES	32u /* records are multiples of this and 32-aligned */
#define RING_MAX_PROCESSES	4096u
#define RING_MAX_CHUNKS		65536u /* 4 GiB of pool */
#define RING_MAX_FORKS		1024u /* under way at once, of all programs */
#define RING_FORK_MS		1000u /* a fork without a child for so long has failed */
#define RING_MAX_SAMPLE_BYTES	UINT32_MAX
#define RING_MAX_FRAMES		256u /* deepest call stack, then "truncated: depth" */
#define RING_LOAD_BYTES		4096u

/*
 * What one entry of ring_control.load is, by its first letter; its text follows, to a 0. A function
 * is one of the library before it. The last entry is empty.
 */
#define RING_LOAD_LIBRARY   'L' /* its path */
#define RING_LOAD_INIT	    'I' /* a function that is called when it is loaded */
#define RING_LOAD_REGISTER  'R' /* memsight_register_NAME: the NAME */
#define RING_LOAD_FINI	    'F' /* a function that is called when the process ends */
#define RING_LOAD_COMPONENT 'C' /* the name of one that is to be asked */

/* ring_control.events: which hooks record. A cleared bit means: call through, record nothing. */
#define RING_EVENTS_HEAP    (1u << 0)
#define RING_EVENTS_MMAP    (1u << 1)
#define RING_EVENTS_BRK	    (1u << 2)
#define RING_EVENTS_SHM	    (1u << 3)
#define RING_EVENTS_THREADS (1u << 4)
#define RING_EVENTS_REGIONS (1u << 5)
#define RING_EVENTS_ALL	    ((1u << 6) - 1)

/* ring_control.flags */
#define RING_FLAG_FOLLOW    (1u << 0) /* exec and spawn hooks put our variables back */
#define RING_FLAG_NULL_SINK (1u << 1) /* hooks run, nothing is stored */
#define RING_FLAG_LEAVE	    (1u << 3) /* a process that ends waits for ring_process.leaving */
#define RING_FLAG_API_MARKS (1u << 2) /* the program's own pause, resume and collect are ignored */
#define RING_FLAG_USDT	    (1u << 5) /* the probes of tracealloc/pick/usdt.h fire */
#define RING_FLAG_STATIC    (1u << 6) /* static programs get the agent (schemas/recording.h) */
#define RING_FLAG_STEERED   (1u << 7) /* pauses of the program leave calls of functions out */
#define RING_FLAG_WRITES    (1u << 4) /* a userfaultfd is wanted (schemas/recording.h) */

/*
 * The signal of --source signal: SIGRTMAX - 3 where libc takes two for itself. Programs that use it
 * are not sampled.
 */
#define RING_SIGNAL		61
#define RING_SAMPLE_REGISTERS	18u
#define RING_SAMPLE_STACK_BYTES 256u
#define RING_SAMPLE_BELOW_BYTES 128u /* the red zone: System V ABI, 3.2.2 */

/* Why an image is not sampled by signal any more. */
enum ring_signal_stop {
	RING_SIGNAL_SAMPLED,
	RING_SIGNAL_IN_USE, /* the program has a handler of its own for it */
	RING_SIGNAL_FORBIDDEN, /* a filter of the program forbids the return from handlers */
	RING_SIGNAL_HIDDEN, /* a static program, of which nobody knows where it sets signals */
};

/* Whose the signal of --dump-signal is in an image. */
enum ring_dump {
	RING_DUMP_NOBODYS, /* none was asked for, or the image has not looked yet */
	RING_DUMP_OURS,
	RING_DUMP_IN_USE, /* the program has a handler of its own, or ignores it */
	RING_DUMP_HIDDEN, /* as RING_SIGNAL_HIDDEN: there is no handler */
};

enum ring_stacks {
	RING_STACKS_NONE, /* every event has stack 0 */
	RING_STACKS_FP, /* the return address, then the rbp chain while it is valid */
	RING_STACKS_DWARF,
};

/* What the ticks of the recording are. */
enum ring_clock {
	RING_CLOCK_TICKS, /* TSC, CNTVCT, timebase: constant rate, synchronous between CPUs */
	RING_CLOCK_RAW, /* CLOCK_MONOTONIC_RAW nanoseconds, where the counter is not fit */
};

enum ring_chunk_state {
	RING_CHUNK_FREE,
	RING_CHUNK_OWNED,
	RING_CHUNK_FULL,
};

enum ring_process_state {
	RING_PROCESS_FREE, /* the collector's */
	RING_PROCESS_CLAIMED, /* a program is filling it (CAS from FREE) */
	RING_PROCESS_READY, /* filled: the collector may read it */
	RING_PROCESS_ENDED, /* the image is gone; the collector frees the slot when drained */
};

/* Whether programs go on to record. */
enum ring_ended {
	RING_RECORDING,
	RING_ENDED, /* recording is over: record nothing more */
	/* nothing more can be kept: take no chunk, count what is not recorded as dropped */
	RING_STOPPED,
};

/* How a process image came to be. */
enum ring_birth {
	RING_BIRTH_EXEC, /* said hello over the socket */
	RING_BIRTH_FORK, /* fork or clone without CLONE_VM of a traced image */
};

/* A process is about to end: the collector looks at its memory while it is still there. */
enum ring_leaving {
	RING_LEAVING_NOT,
	RING_LEAVING_ASKED, /* by the program, which waits */
	RING_LEAVING_SEEN, /* the collector looks */
	RING_LEAVING_DONE, /* it has looked: go */
};

/*
 * One process image (fork or exec makes a new one). 232 bytes; counters are written by the program.
 */
struct ring_process {
	_Atomic uint32_t state; /* enum ring_process_state */
	uint32_t generation; /* the collector's; +1 each time that the slot is freed */
	uint32_t pid; /* as the program sees it (getpid) */
	uint32_t parent_slot; /* of a forked image; UINT32_MAX after exec */
	uint32_t birth; /* enum ring_birth */
	_Atomic uint32_t n_threads; /* next thread serial */
	uint64_t start_ticks;
	_Atomic uint64_t n_dropped; /* events not recorded: the pool was full */
	_Atomic uint64_t n_nested; /* events not recorded: nested in a hook with a full chunk */
	/* events not recorded: no thread state (thread or process ending) */
	_Atomic uint64_t n_late;
	/* deeper than max_frames; of equal ones in a row only one */
	_Atomic uint64_t n_truncated_stacks;
	_Atomic uint64_t wait_ticks; /* time spent waiting for a chunk */
	_Atomic uint64_t n_waits;
	_Atomic uint64_t n_below_min; /* blocks smaller than min_bytes, not recorded */
	_Atomic uint64_t first_drop_ticks; /* 0: none yet */
	_Atomic uint64_t last_drop_ticks;
	/* of full tables; each is written again if it returns */
	_Atomic uint64_t n_displaced_nodes;
	uint64_t fork_ticks; /* when its parent called fork; 0: not known, or not forked */
	/* --source signal: */
	_Atomic uint64_t n_lost_samples; /* no room, or in a hook whose chunk is nearly full */
	_Atomic uint64_t n_unsampled_threads; /* no timer could be had (ulimit -i) */
	_Atomic uint64_t blocked_ns; /* CPU time of threads that had the signal blocked */
	_Atomic uint32_t signal_stop; /* enum ring_signal_stop */
	_Atomic uint32_t order; /* the image follows it: as ring_control.order */
	_Atomic uint64_t n_unseen_libraries; /* of another namespace, or bound past us */
	/* events of threads in strict seccomp: no time stamp can be had */
	_Atomic uint64_t n_sealed;
	_Atomic uint64_t n_not_followed; /* programs started behind filters that would kill us */
	_Atomic uint32_t leaving; /* enum ring_leaving; a futex word */
	_Atomic uint32_t lent; /* likewise: what was lent (RING_FLAG_WRITES) is to be closed */
	/* files that were loaded into an image that was attached to, after their first code ran */
	_Atomic uint64_t n_late_libraries;
	/* sample_bytes: what recording picked blocks has taken of the program's time */
	_Atomic uint64_t pick_ticks;
	_Atomic uint32_t dump; /* enum ring_dump */
	uint32_t reserved0;
	uint64_t entry_address; /* of --start-after, told before the welcome; 0: none */
	_Atomic uint64_t n_functions_refused; /* chosen, and left as they were */
	_Atomic uint64_t n_calls_unseen; /* of functions: no thunk was left for them */
};
_Static_assert(sizeof(struct ring_process) == 232, "ring_process is shared");

/*
 * A limit that some process has set higher than its program wanted. Who finds itself with exactly
 * this value has it from there: by fork, exec or posix_spawn.
 */
struct ring_limit {
	_Atomic uint64_t value; /* as the kernel has it; 0: none, or not yet */
	uint64_t ours; /* so much of it is above what the program has set */
	uint32_t resource; /* RLIMIT_* */
	uint32_t is_hard;
};

#define RING_MAX_LIMITS 32u

/* The start of the pool. */
/* Who records: a process and its PID namespace. */
struct ring_recorder {
	uint64_t started; /* its start, in clock ticks since boot */
	uint64_t space; /* inode of the namespace */
	uint32_t pid; /* as it is called there; 0: not known */
	uint32_t has_ended; /* only in answers: its recording has */
};

struct ring_control {
	uint64_t magic;
	uint32_t version;
	uint32_t control_bytes; /* offset of chunk 0, a multiple of RING_LARGEST_PAGE_BYTES */
	uint32_t n_chunks;
	uint32_t n_processes; /* slots: RING_MAX_PROCESSES */
	uint32_t events; /* RING_EVENTS_* */
	uint32_t flags; /* RING_FLAG_* */
	uint32_t stacks; /* enum ring_stacks */
	uint32_t clock; /* enum ring_clock */
	uint32_t max_frames; /* <= RING_MAX_FRAMES */
	/* chunks below it are for all; from it on each is a thread's first one */
	uint32_t n_shared;
	uint64_t min_bytes; /* blocks below it are counted, not recorded; 0: record all */
	uint64_t ticks_per_ms; /* for bounds of waits only */
	uint64_t signal_period_ns; /* CPU time between samples of --source signal; 0: none */
	uint32_t page_bytes; /* of the kernel: sizes of mappings are rounded to it */
	_Atomic uint32_t order; /* +1 for each pause and each end of one: odd, all is paused */
	/*
	 * A mark or region of this id (trace_text.id) begins the first window: who finds it takes
	 * it by CAS to 0, makes the order before start_order (0: none) that one, and stores when
	 * that was.
	 */
	_Atomic uint64_t start_after;
	_Atomic uint64_t start_ticks; /* 0: not yet */
	_Atomic uint32_t start_order;
	/*
	 * Only one block in so many bytes on the average is recorded; 0: all are. Each pick is
	 * drawn for sample_bytes << sample_shift as it is then, at most RING_MAX_SAMPLE_BYTES.
	 */
	_Atomic uint32_t sample_shift;
	uint64_t sample_bytes;
	uint32_t dump_signal; /* its number: a handler counts it in n_dump_signals; 0: none */
	uint32_t n_trips; /* functions of the plan whose calls are only counted; 0: none */
	uint64_t trips_at; /* where in the pool: _Atomic uint64_t of each, before chunk 0 */
	/* The collector's side, a cache line of its own. */
	_Atomic uint64_t heartbeat; /* +1 for each round; still for long: nobody drains */
	_Atomic uint32_t chunks_freed; /* futex word: +1 when chunks were freed */
	_Atomic uint32_t ended; /* enum ring_ended */
	_Atomic uint64_t pulse; /* +1 each ms while programs wait: the collector lives, if late */
	struct ring_recorder recorder;
	uint8_t reserved2[16];
	/* The programs' side. */
	_Atomic uint32_t take_hint; /* where the last free chunk was found */
	/* threads that wait for chunks; a futex word of the collector's */
	_Atomic uint32_t n_waiters;
	_Atomic uint32_t processes_used; /* slots at or above it were never claimed */
	_Atomic uint32_t forks_used; /* forks at or above it were never under way */
	_Atomic uint32_t limits_used; /* ever; the next one goes to its remainder */
	_Atomic uint32_t n_dump_signals; /* that have come, in all processes */
	/* images whose code may not be written, or with nothing free near the entry_address */
	_Atomic uint32_t n_entries_refused;
	uint8_t reserved3[36];
	struct ring_limit limits[RING_MAX_LIMITS];
	char load[RING_LOAD_BYTES]; /* --load: entries as RING_LOAD_ has them */
	/*
	 * struct ring_process processes[n_processes], _Atomic uint64_t forks[RING_MAX_FORKS], then
	 * _Atomic uint32_t chunk_state[n_chunks]
	 */
};
_Static_assert(sizeof(struct ring_control) == 5120, "ring_control is shared");
_Static_assert(offsetof(struct ring_control, heartbeat) == 128, "a cache line of its own");
_Static_assert(offsetof(struct ring_control, take_hint) == 192, "a cache line of its own");

/* The slots of a mapped pool. */
static inline struct ring_process *ring_processes(struct ring_control *control)
{
	return (struct ring_process *)(control + 1);
}

/*
 * Forks under way in a mapped pool: a moment before each, or 0. Fork protocol: a parent puts the
 * time in place of a 0, or of one that is older than RING_FORK_MS, and only then stamps its fork.
 * The child, a copy of it, makes that 0 again when its slot is READY. So who reads forks first and
 * then the slots finds each child in the one or the other, and may commit what is older than all of
 * them. As for chunk states, where they lie hangs on n_processes, which must have been checked, and
 * may be scribbled on later: to be asked once.
 */
static inline _Atomic uint64_t *ring_forks(struct ring_control *control)
{
	return (_Atomic uint64_t *)(ring_processes(control) + control->n_processes);
}

/* The chunk states of a mapped pool; n_processes must have been checked against the mapping. */
static inline _Atomic uint32_t *ring_chunk_states(struct ring_control *control)
{
	return (_Atomic uint32_t *)(ring_forks(control) + RING_MAX_FORKS);
}

/* Bytes of the control area for so many slots and chunks. */
static inline size_t ring_control_bytes(uint32_t n_processes, uint32_t n_chunks)
{
	size_t bytes = sizeof(struct ring_control) + n_processes * sizeof(struct ring_process) +
		       RING_MAX_FORKS * sizeof(uint64_t) + n_chunks * sizeof(uint32_t);

	return (bytes + RING_LARGEST_PAGE_BYTES - 1) / RING_LARGEST_PAGE_BYTES *
	       RING_LARGEST_PAGE_BYTES;
}

/* A chunk: this header, then records. */
struct ring_chunk {
	uint32_t process_slot;
	uint32_t process_generation; /* of that slot when the image claimed it */
	uint32_t thread_serial; /* within the process image, from 0 */
	uint32_t sequence; /* of this chunk in the thread's chain, from 0 */
	/* bytes from the chunk's start: where the next record goes; | RING_CHUNK_CALL */
	_Atomic uint64_t reserved;
	uint8_t padding[40];
	uint8_t records[RING_CHUNK_BYTES - 64];
};
_Static_assert(sizeof(struct ring_chunk) == RING_CHUNK_BYTES, "ring_chunk is shared");
_Static_assert(offsetof(struct ring_chunk, records) == 64, "records start on a cache line");

/*
 * The op numbers are those of the trace (TRACE_OP_* in trace-format.h) so that the
 * collector copies them; schemas/trace-format.h says what each means.
 */

/* ring_record.head: op | call << 8 | n_slots << 16 | stack_id << 32; n_slots counts 32 bytes. */
#define RING_HEAD(op, call, n_slots, stack_id)                                                     \
	((uint64_t)(op) | (uint64_t)(call) << 8 | (uint64_t)(n_slots) << 16 |                      \
	 (uint64_t)(stack_id) << 32)
#define RING_HEAD_OP(head)	 ((uint8_t)(head))
#define RING_HEAD_CALL(head)	 ((uint8_t)((head) >> 8))
#define RING_HEAD_SLOTS(head)	 ((uint16_t)((head) >> 16))
#define RING_HEAD_STACK_ID(head) ((uint32_t)((head) >> 32))

/*
 * One slot: ALLOC, FREE, MUNMAP, and of NOTE those of functions, of ends of blocks and pools, of
 * references, and OWN_TIME, whose size is trace_event.detail. FUNCTION_ENTER and FUNCTION_LEAVE
 * have no stack, and in its place ticks - trace_event.begin_ticks.
 * The ALLOC of a picked block has two: ring_record2.
 */
struct ring_record {
	_Atomic uint64_t head;
	uint64_t ticks; /* ALLOC: after the real call; FREE, MUNMAP: before it */
	uint64_t address;
	uint64_t size; /* FREE: 0 */
};
_Static_assert(sizeof(struct ring_record) == RING_RECORD_BYTES, "ring_record is shared");

/*
 * Two slots: REALLOC, ALLOC of a picked block, MMAP, MREMAP, PAUSE, RESUME, BREAK, ADVISE, PROTECT,
 * LOCK, NOTE; trace-format.h says which fields each has, the others are 0.
 */
struct ring_record2 {
	struct ring_record base; /* ticks: after the call; address, size: the new ones */
	uint64_t old_address; /* REALLOC, MREMAP, a BLOCK; 0 for realloc(NULL, n) */
	uint64_t begin_ticks; /* before the call */
	uint64_t old_size; /* MREMAP; else 0 */
	/* as trace_event.detail; MMAP: prot | flags << 32; of a picked block: its interval */
	uint64_t detail;
};
_Static_assert(sizeof(struct ring_record2) == 2 * RING_RECORD_BYTES, "ring_record2 is shared");

/*
 * One slot: NODE, a node of the thread's call stacks; it precedes the first event that uses it.
 * Ids count from 1 within the thread's chain; parent 0 is the outside. pc is a return address, or
 * a value below TRACE_STOP_MAX: why the stack could not be followed further out.
 */
struct ring_node {
	_Atomic uint64_t head; /* its stack_id is the id of the node */
	uint64_t pc;
	uint32_t parent_id;
	uint32_t reserved0;
	uint64_t reserved1;
};
_Static_assert(sizeof(struct ring_node) == RING_RECORD_BYTES, "ring_node is shared");

/* Three slots: THREAD_START, the first record of a chain. */
struct ring_thread_start {
	_Atomic uint64_t head;
	uint64_t ticks;
	uint32_t tid; /* as the program sees it (gettid) */
	uint32_t is_main; /* the image's first thread */
	uint64_t stack_start; /* lowest address of the thread's stack; 0: not known */
	uint64_t stack_end;
	uint64_t fs_base; /* thread pointer */
	char name[16]; /* comm, NUL-padded */
	uint8_t reserved[32];
};
_Static_assert(sizeof(struct ring_thread_start) == 3 * RING_RECORD_BYTES, "is shared");

/*
 * One slot: THREAD_END uses struct ring_record with address and size 0. PAUSE and RESUME have two.
 * n slots: PAD; only its head means anything. It stands where a call failed after its record was
 * reserved, or where a signal handler jumped out of a hook.
 */

/*
 * n slots: MODULE (loaded) and MODULE_UNLOAD. The bytes behind the struct: build_id_bytes of the
 * build-id, then path_bytes of the path, no NUL.
 */
struct ring_module {
	_Atomic uint64_t head;
	uint64_t ticks;
	uint64_t bias; /* address = ELF p_vaddr + bias (dlpi_addr) */
	uint64_t start; /* first byte of the lowest PT_LOAD */
	uint64_t end; /* behind the highest PT_LOAD, p_memsz */
	uint64_t tls_offset; /* reserved, 0 */
	uint16_t build_id_bytes;
	uint16_t path_bytes;
	uint32_t reserved0;
	uint64_t reserved1;
	uint8_t bytes[];
};
_Static_assert(sizeof(struct ring_module) == 2 * RING_RECORD_BYTES, "is shared");

/* n slots: TEXT, a name that NOTE events use; text_bytes of it behind the struct, no NUL. */
struct ring_text {
	_Atomic uint64_t head;
	uint64_t id; /* as trace_text.id */
	uint16_t text_bytes;
	uint8_t reserved[14];
	uint8_t bytes[];
};
_Static_assert(sizeof(struct ring_text) == RING_RECORD_BYTES, "is shared");

/* Two slots: THREAD_NAME, the name that a thread of this image has from now on. */
struct ring_thread_name {
	_Atomic uint64_t head;
	uint64_t ticks;
	uint32_t tid; /* as the program sees it; need not be the thread that writes */
	uint32_t reserved0;
	char name[16]; /* NUL-padded */
	uint8_t reserved1[24];
};
_Static_assert(sizeof(struct ring_thread_name) == 2 * RING_RECORD_BYTES, "is shared");

/* n slots: HEAP_RANGE; behind the struct kind_bytes of the kind, then place_bytes, no NUL. */
struct ring_heap_range {
	_Atomic uint64_t head;
	uint64_t ticks;
	uint64_t start;
	uint64_t size;
	uint16_t kind_bytes;
	uint16_t place_bytes;
	uint32_t is_removed;
	uint8_t reserved[24];
	uint8_t bytes[];
};
_Static_assert(sizeof(struct ring_heap_range) == 2 * RING_RECORD_BYTES, "is shared");

/* n slots: EXEC, an exec or spawn about to be tried; path_bytes of the path behind it, no NUL. */
struct ring_exec {
	_Atomic uint64_t head;
	uint64_t ticks;
	uint16_t path_bytes;
	uint8_t is_spawn; /* posix_spawn, or exec in a vfork child: the image goes on */
	uint8_t reserved[13];
	uint8_t bytes[];
};
_Static_assert(sizeof(struct ring_exec) == RING_RECORD_BYTES, "is shared");

/*
 * n slots: SAMPLE, of --source signal. Behind it below_bytes of the stack that end at the stack
 * pointer, and stack_bytes from there up.
 */
struct ring_sample {
	_Atomic uint64_t head;
	uint64_t ticks;
	uint64_t fs_base;
	/* that it stands for: the timer is looked at by the kernel's tick only */
	uint32_t n_periods;
	uint16_t stack_bytes;
	uint16_t below_bytes;
	uint64_t registers
		[RING_SAMPLE_REGISTERS]; /* in the order of perf's bits: ax, bx, cx ... r15 */
	uint64_t reserved1[2];
	uint8_t stack[];
};
_Static_assert(sizeof(struct ring_sample) == 6 * RING_RECORD_BYTES, "is shared");
