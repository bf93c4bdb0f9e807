#pragma once
/*
 * The trace file, NAME.mst: stable, read by every later version. docs/trace-format.md tells it in
 * prose. Little endian. Times are ticks of the recording's clock (trace_file_header.clock) except
 * inside perf records, which carry CLOCK_MONOTONIC_RAW nanoseconds; TRACE_RECORD_CLOCK converts.
 *
 *	file    = trace_file_header, frame...
 *	frame   = trace_frame, body (body_bytes), zeros to a multiple of 8
 *	segment = frames up to and including a COMMIT frame; at most 1 s or 4 MiB
 *	end     = an INDEX frame, then trace_file_footer; without them the file ended abnormally
 *
 * Within a segment definitions (RECORDS, NODES, CODE) precede the EVENTS and PERF frames that use
 * them. COMMIT(T): every event stamped before T is in this segment or an earlier one. Later
 * segments may still hold events stamped after T only; so a merge needs bounded memory.
 *
 * Change: a new record type, frame type, flag or a longer struct is a new minor version, and old
 * readers step over it by its length; anything else is a new major version, which old readers
 * refuse. A reader refuses minor versions before its own: their structs are shorter.
 */
#include <stddef.h>
#include <stdint.h>

#define TRACE_FILE_MAGIC      "MEMSIGHT"
#define TRACE_FOOTER_MAGIC    "MEMSIEND"
#define TRACE_FRAME_MAGIC     UINT32_C(0x4653f14d) /* unlikely in text and in zstd data */
#define TRACE_VERSION_MAJOR   1
#define TRACE_VERSION_MINOR   5
#define TRACE_SEGMENT_BYTES   (4u << 20) /* of raw bodies, before compression */
#define TRACE_SEGMENT_NS      UINT64_C(1000000000)
#define TRACE_FRAME_MAX_BYTES (16u << 20) /* of a body, stored or raw: larger is damage */

/* 64 bytes at offset 0; these mean the same in every version. */
struct trace_file_header {
	char magic[8];
	uint16_t version_major;
	uint16_t version_minor;
	uint32_t header_bytes; /* 64, or a larger multiple of 8; frames start here */
	uint16_t machine; /* ELF e_machine of the recording host: 62 = x86-64 */
	uint16_t clock; /* enum ring_clock */
	uint32_t reserved0;
	uint64_t ticks_per_second; /* nominal; TRACE_RECORD_CLOCK is exact */
	uint64_t start_ticks; /* time 0 of the run */
	uint8_t recording_id[16]; /* random: two files of one recording agree in it */
	uint64_t checksum; /* XXH3_64bits over the 56 bytes before it */
};
_Static_assert(sizeof(struct trace_file_header) == 64, "trace_file_header is ABI");

enum trace_frame_type {
	TRACE_FRAME_EVENTS = 0x01, /* columns of allocation events of one thread (stream = id) */
	TRACE_FRAME_NODES = 0x02, /* struct trace_node[] of one thread (stream = thread id) */
	TRACE_FRAME_PERF = 0x40, /* perf_event records, see trace-perf.h (stream = source id) */
	TRACE_FRAME_CODE = 0x41, /* struct trace_code, then bytes (stream = process id) */
	TRACE_FRAME_ACCESSES = 0x42, /* struct trace_access[] of --private (stream = source id) */
	TRACE_FRAME_AUX = 0x43, /* struct trace_aux, then bytes of its area (stream = source id) */
	TRACE_FRAME_RECORDS = 0x80, /* struct trace_record..., see below (stream = 0) */
	TRACE_FRAME_COMMIT = 0x81, /* struct trace_commit */
	TRACE_FRAME_INDEX = 0x82, /* struct trace_index_entry[], one for each segment */
};

#define TRACE_FRAME_FLAG_ZSTD	 (1u << 0) /* body is zstd frames of raw_bytes in all */
#define TRACE_FRAME_FLAG_COLUMNS (1u << 1) /* of PERF: columns of schemas/trace-perf.h */

/* 32 bytes before every body. */
struct trace_frame {
	uint32_t magic;
	uint16_t type; /* enum trace_frame_type */
	uint16_t flags;
	uint32_t stream_id;
	uint32_t body_bytes; /* as stored */
	uint32_t raw_bytes; /* decompressed; = body_bytes without TRACE_FRAME_FLAG_ZSTD */
	uint32_t n_items; /* events, nodes, records, PERF: samples; lost with a damaged body */
	uint32_t checksum; /* low 32 bits of XXH3_64bits over the body as stored */
	uint32_t head_checksum; /* low 32 bits of XXH3_64bits over the 28 bytes before it */
};
_Static_assert(sizeof(struct trace_frame) == 32, "trace_frame is ABI");

struct trace_commit {
	uint64_t ticks; /* T */
	uint64_t raw_ns; /* the same moment in CLOCK_MONOTONIC_RAW, for perf records */
};

struct trace_index_entry {
	uint64_t offset; /* of the segment's first frame in the file */
	uint64_t commit_ticks;
	uint64_t n_events; /* allocation events in the segment */
	uint64_t n_samples; /* perf records of type SAMPLE and accesses */
};

/* The last 32 bytes of a file that ended cleanly. */
struct trace_file_footer {
	uint64_t index_offset; /* of the INDEX frame's header */
	uint64_t n_segments;
	uint64_t checksum; /* XXH3_64bits over the 16 bytes before it */
	char magic[8];
};
_Static_assert(sizeof(struct trace_file_footer) == 32, "trace_file_footer is ABI");

/* ---- Allocation events (EVENTS frames) ---- */

enum trace_op {
	TRACE_OP_NONE = 0x00,
	TRACE_OP_ALLOC = 0x01, /* a block was born: address, size */
	TRACE_OP_FREE = 0x02, /* a block is about to be given back: address */
	TRACE_OP_REALLOC = 0x03, /* old_address ended at begin_ticks, address was born at ticks */
	TRACE_OP_MMAP = 0x04, /* address, size, detail = prot | flags << 32 */
	TRACE_OP_MUNMAP = 0x05, /* address, size (page-rounded) about to be unmapped */
	TRACE_OP_MREMAP = 0x06, /* old_address, old_size -> address, size */
	TRACE_OP_PAUSE = 0x07, /* by the program itself; detail: 1 this thread only, 0 the image */
	TRACE_OP_RESUME = 0x08,
	TRACE_OP_BREAK = 0x09, /* the program break moved from old_address to address */
	TRACE_OP_ADVISE = 0x0a, /* madvise: address, size, detail = advice */
	TRACE_OP_PROTECT = 0x0b, /* mprotect: address, size, detail = prot */
	TRACE_OP_LOCK = 0x0c, /* mlock and its family: address, size (0, 0: all), detail = flags */
	TRACE_OP_NOTE = 0x0d, /* what the program says of itself (memsight.h): call tells what */
	/* Only in the ring; the collector turns them into frames and records. */
	TRACE_OP_NODE = 0x10,
	TRACE_OP_THREAD_START = 0x11,
	TRACE_OP_THREAD_END = 0x12,
	TRACE_OP_MODULE = 0x13,
	TRACE_OP_MODULE_UNLOAD = 0x14,
	TRACE_OP_EXEC = 0x15,
	TRACE_OP_PAD = 0x16, /* n_slots without meaning: a reserved record whose call failed */
	TRACE_OP_TEXT = 0x17, /* a name that notes use */
	TRACE_OP_THREAD_NAME = 0x18,
	TRACE_OP_HEAP_RANGE = 0x19, /* memory that a heap of a memory kind took or gave back */
	TRACE_OP_SAMPLE = 0x1a, /* of --source signal; becomes a perf record */
	TRACE_OP_COUNT
};

/* By which function. Numbers are ABI; a new function is a new number, below TRACE_CALL_LIMIT. */
#define TRACE_CALL_LIMIT 64 /* ring records have 6 bits for it */
enum trace_call {
	TRACE_CALL_UNKNOWN,
	TRACE_CALL_MALLOC,
	TRACE_CALL_CALLOC,
	TRACE_CALL_REALLOC,
	TRACE_CALL_REALLOCARRAY,
	TRACE_CALL_FREE,
	TRACE_CALL_POSIX_MEMALIGN,
	TRACE_CALL_MEMALIGN,
	TRACE_CALL_ALIGNED_ALLOC,
	TRACE_CALL_VALLOC,
	TRACE_CALL_PVALLOC,
	TRACE_CALL_MMAP,
	TRACE_CALL_MUNMAP,
	TRACE_CALL_MREMAP,
	TRACE_CALL_FREE_SIZED, /* since 1.1, as all behind it */
	TRACE_CALL_FREE_ALIGNED_SIZED,
	TRACE_CALL_NEW, /* operator new, nothrow too */
	TRACE_CALL_NEW_ARRAY,
	TRACE_CALL_NEW_ALIGNED,
	TRACE_CALL_NEW_ARRAY_ALIGNED,
	TRACE_CALL_DELETE, /* operator delete, sized and aligned ones too */
	TRACE_CALL_DELETE_ARRAY,
	TRACE_CALL_BRK,
	TRACE_CALL_SBRK,
	TRACE_CALL_SHMAT, /* op MMAP, detail = prot | flags << 32, old_size = shmid */
	TRACE_CALL_SHMDT, /* op MUNMAP, size 0: the whole segment */
	TRACE_CALL_MADVISE,
	TRACE_CALL_MPROTECT,
	TRACE_CALL_MLOCK,
	TRACE_CALL_MUNLOCK,
	TRACE_CALL_MLOCKALL,
	TRACE_CALL_MUNLOCKALL,
	TRACE_CALL_REGION_PUSH, /* op NOTE, as those below; detail = name, as trace_text.id */
	TRACE_CALL_REGION_POP, /* detail = name, or 0: the innermost */
	TRACE_CALL_MARK, /* detail = name */
	TRACE_CALL_NAME_OBJECT, /* address, size, detail = name */
	TRACE_CALL_COLLECT_PUSH, /* detail = name: a list as --events has it */
	TRACE_CALL_COLLECT_POP,
	TRACE_CALL_BEFORE, /* a block found when a process was attached to; size: may be used */
	TRACE_CALL_COMPONENT, /* op NOTE: a value of a plug-in, see trace-control.h */
	TRACE_CALL_PLUGIN_LOST, /* op NOTE: a plug-in is asked no more; detail = the reason */
	TRACE_CALL_FUNCTION_ENTER, /* address: of the return address, detail = name */
	TRACE_CALL_FUNCTION_LEAVE, /* likewise */
	TRACE_CALL_FUNCTION_THUNK, /* address: a return address of ours, detail = the program's */
	TRACE_CALL_BLOCK, /* of an own allocator (detail: name, or 0), old_address = pool */
	TRACE_CALL_BLOCK_END, /* address; BLOCK with old_size: it took the place of that block */
	TRACE_CALL_POOL_RESET, /* address: the pool, detail as BLOCK */
	TRACE_CALL_USDT_ALLOC, /* as BLOCK; old_address = bytes that it stands for, or 0 */
	TRACE_CALL_USDT_FREE, /* address */
	TRACE_CALL_OWN_TIME, /* what memsight took, see trace-control.h */
	TRACE_CALL_REF, /* address: one more reference to a block */
	TRACE_CALL_UNREF, /* one less: it ends with the last */
	TRACE_CALL_COMPONENT_WINDOW, /* as COMPONENT, see trace-control.h */
	TRACE_CALL_COMPONENT_SAMPLE, /* likewise */
	TRACE_CALL_COUNT
};
#define TRACE_EVENT_NESTED (1u << 0) /* a flag: made by another hooked call, as an own mmap */

/* An event as the reader gives it and the writer takes it. The file holds columns, below. */
struct trace_event {
	uint8_t op; /* enum trace_op */
	uint8_t call; /* enum trace_call */
	uint16_t flags;
	uint32_t stack_id; /* of the same stream's nodes; 0: not recorded */
	uint64_t ticks;
	uint64_t address;
	uint64_t size;
	uint64_t old_address; /* REALLOC, MREMAP; of NOTE: BLOCK */
	uint64_t begin_ticks; /* REALLOC, MMAP, MREMAP, NOTE (trace-control.h); else = ticks */
	uint64_t old_size; /* MREMAP */
	uint64_t detail; /* MMAP; of a picked block: the mean of bytes between picks */
};

/*
 * Body of an EVENTS frame: this head, then the columns one behind the other; in program order of
 * the thread. Every event has a control byte, ticks and address; the rest is there only where it
 * differs from what a reader fills in, so nothing of an event is lost whatever its op. Numbers are
 * LEB128 varints of at most 10 bytes; "zigzag" maps signed to unsigned as (x << 1) ^ (x >> 63).
 */
enum trace_column {
	TRACE_COLUMN_CONTROL, /* one byte: op | TRACE_CONTROL_* */
	TRACE_COLUMN_CALL, /* one byte, where TRACE_CONTROL_CALL */
	TRACE_COLUMN_TICKS, /* minus those of the event before (or base_ticks), mod 2^64 */
	TRACE_COLUMN_ADDRESS, /* zigzag(d >> 4), d = address - address of the event before (or 0) */
	TRACE_COLUMN_SIZE, /* where TRACE_CONTROL_SIZE; else 0 */
	TRACE_COLUMN_STACK, /* stack_id, where TRACE_CONTROL_STACK; else 0 */
	TRACE_COLUMN_EXTRA, /* where TRACE_CONTROL_EXTRA: TRACE_EXTRA_*, then its fields */
	TRACE_COLUMN_COUNT
};

#define TRACE_CONTROL_OP    0x0fu
#define TRACE_CONTROL_CALL  0x10u /* else the usual call of the op, trace_usual_call() */
#define TRACE_CONTROL_EXTRA 0x20u
#define TRACE_CONTROL_STACK 0x40u
#define TRACE_CONTROL_SIZE  0x80u

/* Fields of EXTRA, in this order. */
#define TRACE_EXTRA_LOW		0x01u /* one byte: d & 15; else 0 */
#define TRACE_EXTRA_FLAGS	0x02u /* varint; else 0 */
#define TRACE_EXTRA_BEGIN	0x04u /* varint ticks - begin_ticks, mod 2^64; else equal */
#define TRACE_EXTRA_OLD_ADDRESS 0x08u /* varint zigzag(old_address - address); else 0 */
#define TRACE_EXTRA_OLD_SIZE	0x10u /* varint; else 0 */
#define TRACE_EXTRA_DETAIL	0x20u /* varint; else 0 */
#define TRACE_EXTRA_MORE	0x80u /* varint n, then n bytes from a newer writer, to step over */

#define TRACE_FRAME_MAX_EVENTS 65536u /* in one EVENTS frame: more is damage */

struct trace_events_head {
	uint64_t base_ticks;
	uint32_t n_events;
	uint32_t column_bytes[TRACE_COLUMN_COUNT];
};
_Static_assert(sizeof(struct trace_events_head) == 40, "trace_events_head is ABI");

/* The call that an event of this op has when its control byte names none. */
static inline uint8_t trace_usual_call(uint8_t op)
{
	static const uint8_t usual[16] = {
		[TRACE_OP_ALLOC] = TRACE_CALL_MALLOC,	 [TRACE_OP_FREE] = TRACE_CALL_FREE,
		[TRACE_OP_REALLOC] = TRACE_CALL_REALLOC, [TRACE_OP_MMAP] = TRACE_CALL_MMAP,
		[TRACE_OP_MUNMAP] = TRACE_CALL_MUNMAP,	 [TRACE_OP_MREMAP] = TRACE_CALL_MREMAP,
	};

	return usual[op & TRACE_CONTROL_OP];
}

/*
 * A node of a thread's call stacks. NODES and ACCESSES: the size of one item is the body's bytes
 * divided by n_items, for newer writers can add fields at the end. Ids start at 1; parents call.
 */
struct trace_node {
	uint32_t id;
	uint32_t parent_id; /* 0: nothing further out */
	/*
	 * Return address, or enum trace_stop. Of a frame that a signal interrupted: the address of
	 * its next instruction, plus 1. So pc - 1 is always inside the instruction in question.
	 */
	uint64_t pc;
};

/* Why a stack could not be followed further out; stands as the outermost node's pc. */
enum trace_stop {
	TRACE_STOP_NONE,
	TRACE_STOP_NO_FRAME_POINTER,
	TRACE_STOP_DEPTH,
	TRACE_STOP_NO_RULE, /* no unwind information for a pc */
	TRACE_STOP_BAD_STACK, /* outside the thread's stack */
	TRACE_STOP_TABLE_FULL, /* the thread's stack table has no room */
	TRACE_STOP_BEFORE, /* alone: a block from before the attach; who made it is not known */
	TRACE_STOP_MAX = 4096, /* a pc below this is a reason, not an address */
};

/* ---- Samples ---- */

enum trace_code_kind {
	TRACE_CODE_FIXED, /* code that stays as it is for as long as it is mapped */
	TRACE_CODE_DATA, /* snapshot of read-only data (GOT, switch tables) */
	TRACE_CODE_CHANGING, /* code that may be written to: lines of what this reading found new */
	TRACE_CODE_HELD, /* struct trace_held[address], all their ranges, all words of these */
};

#define TRACE_CODE_PAGE_BYTES 4096u
#define TRACE_CODE_LINE_BYTES 64u

/*
 * Head of a CODE frame; n_bytes bytes follow. Those of code that may change are whole lines of one
 * page: all of it at its first reading, and what differs from the reading before at later ones.
 */
struct trace_code {
	uint64_t address;
	uint64_t ticks; /* when they were read, or some ms before */
	/* the reading, in CLOCK_MONOTONIC_RAW; HELD: 0; in older traces CHANGING only */
	uint64_t begin_raw_ns;
	uint64_t end_raw_ns;
	uint32_t n_bytes;
	uint32_t kind; /* enum trace_code_kind */
};

/*
 * What memory held that a sample's window loads addresses from. A range: address of the first word
 * of 8 bytes + words (1 to 8) - 1; with TRACE_HELD_SAME the words are those that were stored last.
 */
struct trace_held {
	uint64_t ip; /* of the sample */
	uint64_t loop; /* the lowest address of its window: what changes is told by loops */
	uint64_t before_raw_ns; /* CLOCK_MONOTONIC_RAW, the end of that one; 0: none */
	uint64_t after_raw_ns; /* the begin of this one */
	uint32_t n_ranges;
	uint32_t has_changed; /* a word, since that reading: then there are no ranges */
};
_Static_assert(sizeof(struct trace_held) == 40, "trace_held is ABI");
#define TRACE_HELD_WORDS   8u
#define TRACE_HELD_SAME	   (UINT64_C(1) << 63)
#define TRACE_HELD_SAME_NS UINT64_C(31000000000) /* at most so long before */

/* A decoded access of `record --private`: no registers, no bytes of the program. */
struct trace_access {
	uint64_t raw_ns;
	uint64_t ip; /* of the instruction that accesses */
	uint64_t sample_ip; /* where the timer fired */
	uint64_t address;
	uint64_t data_src;
	uint32_t sample; /* accesses of one sample share the number; counts from 1 */
	uint32_t pid;
	uint32_t tid;
	uint32_t size;
	float share; /* of the sample's weight */
	uint8_t is_write;
	uint8_t role; /* TRACE_ROLE_* */
	uint8_t reserved[2];
};
_Static_assert(sizeof(struct trace_access) == 64, "trace_access is ABI");

enum trace_role {
	TRACE_ROLE_EXACT, /* the access at the sampled instruction itself */
	TRACE_ROLE_WINDOW, /* time, divided over the accesses of its loop or block */
	TRACE_ROLE_STALL, /* the instruction that was waited for */
	TRACE_ROLE_FAULT, /* a page fault */
	TRACE_ROLE_NONE, /* --private: the sample resolved to no access */
	/* Since 1.2. */
	TRACE_ROLE_MIX, /* accesses of one iteration of its loop, by their number: no time */
	TRACE_ROLE_STACK_POINTER, /* no access: of a thread whose stack no record bounds */
};

/* Head of an AUX frame (1.2): bytes as hardware wrote them, whole packets or not (Arm SPE). */
struct trace_aux {
	uint64_t raw_ns; /* when they were taken out */
	uint64_t offset; /* in the stream of this CPU: a gap is a loss */
	uint64_t flags; /* PERF_AUX_FLAG_* of the AUX records that told of them, or-ed */
	uint32_t cpu;
	uint32_t n_bytes;
};

/* ---- Records (RECORDS frames): head, struct, strings ---- */

enum trace_record_type {
	TRACE_RECORD_PROCESS = 0x01,
	TRACE_RECORD_PROCESS_END = 0x02,
	TRACE_RECORD_THREAD = 0x03,
	TRACE_RECORD_THREAD_END = 0x04,
	TRACE_RECORD_THREAD_NAME = 0x05,
	TRACE_RECORD_MODULE = 0x06,
	TRACE_RECORD_MODULE_UNLOAD = 0x07,
	TRACE_RECORD_MAPPING = 0x08,
	TRACE_RECORD_LOSS = 0x09,
	TRACE_RECORD_TEXT = 0x0a,
	TRACE_RECORD_HEAP_RANGE = 0x0b,
	TRACE_RECORD_RANK = 0x0c,
	TRACE_RECORD_SOURCE = 0x40,
	TRACE_RECORD_SOURCE_DETAIL = 0x41,
	TRACE_RECORD_PERF_CLOCK = 0x42,
	TRACE_RECORD_WATCH = 0x43,
	TRACE_RECORD_SOURCE_LEDGER = 0x44,
	TRACE_RECORD_PAGE_NODES = 0x45,
	TRACE_RECORD_CODE_SEEN = 0x46,
	TRACE_RECORD_PERIOD = 0x47,
	TRACE_RECORD_PAGES = 0x48,
	TRACE_RECORD_TOUCHES = 0x49,
	TRACE_RECORD_WRITES = 0x4a,
	TRACE_RECORD_CONTENTS = 0x4b, /* trace-contents.h */
	TRACE_RECORD_RUN = 0x80,
	TRACE_RECORD_FACT = 0x81,
	TRACE_RECORD_CLOCK = 0x82,
	TRACE_RECORD_PROCESS_SAMPLE = 0x83,
	TRACE_RECORD_EXIT = 0x84,
	TRACE_RECORD_COUNTER = 0x85,
	TRACE_RECORD_WINDOW = 0x86, /* trace-control.h */
	TRACE_RECORD_OUTSIDE_MARK = 0x87,
	TRACE_RECORD_TRIPS = 0x88,
};

/*
 * Every record starts with this; bytes counts it, the struct and the strings, and is a multiple of
 * 8. Each struct ends in the lengths of its strings, which follow in that order without NUL.
 */
struct trace_record {
	uint16_t type;
	uint16_t struct_bytes; /* of head and struct: a newer writer's may be longer */
	uint32_t bytes;
};

/* Why an image is not traced; 0 when it is. */
enum trace_why_not {
	TRACE_TRACED,
	TRACE_NOT_STATIC,
	TRACE_NOT_SETUID,
	TRACE_NOT_32BIT,
	TRACE_NOT_CHROOT,
	TRACE_NOT_ENVIRONMENT, /* the variables did not reach it */
	TRACE_NOT_FOLLOWED, /* --no-follow, --no-alloc */
	TRACE_NOT_ATTACHED, /* said no hello for another reason */
	TRACE_NOT_SANITIZER, /* its sanitizer bears no library before its own; since 1.1 */
	TRACE_NOT_PERF_DATA, /* since 1.2: of a perf.data, which tells of no allocations */
	TRACE_NOT_COUNT,
};

/* One image of a process: fork and exec each open a new one. Ids start at 1. */
struct trace_process {
	struct trace_record head;
	uint32_t process_id;
	uint32_t parent_id; /* the image that forked, or before exec; 0: none */
	uint32_t pid; /* in the collector's namespace */
	uint32_t ns_pid; /* as the program sees it */
	uint32_t exec_seq; /* 0 for the first image with this pid, +1 for each exec */
	uint16_t birth; /* enum ring_birth */
	uint16_t why_not; /* enum trace_why_not */
	uint64_t start_ticks;
	uint32_t exe_bytes;
	uint32_t command_bytes; /* arguments, separated by NUL */
};

struct trace_process_end {
	struct trace_record head;
	uint32_t process_id;
	int32_t status; /* as from wait(); -1: not known; -2: another image by exec */
	uint64_t ticks;
};

/* One incarnation of a thread. Ids start at 1, over all processes, in order of creation. */
struct trace_thread {
	struct trace_record head;
	uint32_t thread_id; /* = the stream_id of its EVENTS and NODES */
	uint32_t process_id;
	uint32_t tid; /* in the collector's namespace */
	uint32_t ns_tid; /* as the program sees it */
	uint64_t start_ticks;
	uint64_t stack_start; /* 0: not known */
	uint64_t stack_end;
	uint64_t fs_base;
	uint32_t is_main;
	uint32_t name_bytes;
};

struct trace_thread_end {
	struct trace_record head;
	uint32_t thread_id;
	uint32_t reserved;
	uint64_t ticks;
};

struct trace_thread_name {
	struct trace_record head;
	uint64_t ticks;
	uint32_t thread_id;
	uint32_t name_bytes;
};

/* MODULE and MODULE_UNLOAD. */
struct trace_module {
	struct trace_record head;
	uint64_t ticks;
	uint64_t bias; /* address = ELF p_vaddr + bias */
	uint64_t start; /* first byte of the lowest PT_LOAD */
	uint64_t end; /* behind the highest PT_LOAD */
	uint32_t process_id;
	uint32_t reserved;
	uint32_t build_id_bytes;
	uint32_t path_bytes;
};

/* A map that was there when the image attached (from /proc/PID/maps). */
struct trace_mapping {
	struct trace_record head;
	uint64_t ticks;
	uint64_t start;
	uint64_t size;
	uint64_t file_offset;
	uint32_t process_id;
	uint32_t prot; /* PROT_* */
	uint32_t flags; /* MAP_SHARED or MAP_PRIVATE */
	uint32_t path_bytes; /* as in maps: "[heap]", "[stack]", a path, or empty */
};

/* Something that was not recorded, or cannot be used. Counts are added up by analyze. */
struct trace_loss {
	struct trace_record head;
	uint64_t count;
	uint64_t from_ticks; /* 0: not known */
	uint64_t to_ticks;
	uint32_t process_id; /* 0: the whole run */
	uint32_t thread_id; /* 0: the whole process */
	uint32_t source_bytes; /* "tracealloc", "clock", "faults", "collector" ... */
	uint32_t reason_bytes; /* "pool full", "ring overrun" ... */
};

/*
 * A name that NOTE events use: before the first of them in each thread; it may be repeated. Its id
 * is the same everywhere: 64-bit FNV-1a over its bytes (draft-eastlake-fnv), 0 becoming 1.
 */
struct trace_text {
	struct trace_record head;
	uint64_t id;
	uint32_t process_id;
	uint32_t text_bytes;
};

/* Blocks born in here lie in a heap of a memory kind (--heap). */
struct trace_heap_range {
	struct trace_record head;
	uint64_t ticks;
	uint64_t start;
	uint64_t size;
	uint32_t process_id;
	uint32_t is_removed; /* 1: given back */
	uint32_t kind_bytes; /* "pmem", "hbw" ... as --heap names it */
	uint32_t place_bytes; /* folder or nodes, or empty */
};

/* auto tried it, and went on to a lesser one. Since 1.2. */
#define TRACE_SOURCE_PASSED_OVER 1u

/* The image is this rank of a parallel job (MPI, srun). Since 1.2. */
struct trace_rank {
	struct trace_record head;
	uint32_t process_id;
	uint32_t rank;
};

/* An access source that was opened, or could not be. PERF frames name it by source_id. */
struct trace_source {
	struct trace_record head;
	uint32_t source_id; /* from 1 */
	uint32_t error; /* errno of the opening; 0: it ran */
	uint32_t perf_type;
	uint32_t stack_bytes;
	uint64_t perf_config;
	uint64_t sample_type; /* of every record in its PERF frames; sample_id_all is set */
	uint64_t regs_user; /* mask */
	uint64_t period; /* in the source's unit; 0: frequency mode */
	uint64_t frequency_hz;
	uint32_t exclude_kernel;
	uint32_t clock_id; /* CLOCK_MONOTONIC_RAW */
	uint32_t name_bytes; /* "clock", "faults", "tasks" ... */
	uint32_t unit_bytes; /* "ns of user CPU time", "page faults" ... */
	uint32_t remedy_bytes; /* what a user can do about the error */
	uint32_t flags; /* TRACE_SOURCE_* */
};

/* What one sample of a source says. */
enum trace_sample_kind {
	TRACE_SAMPLE_UNKNOWN, /* traces before 1.2: by the source's name */
	TRACE_SAMPLE_TIME, /* where time went, and nothing else */
	TRACE_SAMPLE_REGISTERS, /* time and registers: decode */
	TRACE_SAMPLE_FAULT, /* a page fault */
	TRACE_SAMPLE_ACCESS, /* the sampled access itself: PEBS, POWER */
	TRACE_SAMPLE_IBS, /* registers of AMD's IBS in PERF_SAMPLE_RAW */
	TRACE_SAMPLE_SPE, /* packets of Arm's SPE in AUX frames */
	TRACE_SAMPLE_WATCH, /* an access to a watched address */
	TRACE_SAMPLE_TASKS, /* maps, names, births and ends */
	TRACE_SAMPLE_PAGES, /* none: TOUCHES records say which pages were touched */
	TRACE_SAMPLE_CALLS, /* struct trace_probed of trace-perf.h */
};

enum trace_direction {
	TRACE_DIRECTION_EACH, /* each sample tells (data_src, raw registers, its instruction) */
	TRACE_DIRECTION_LOADS,
	TRACE_DIRECTION_STORES,
};

/* More about a source that was opened; follows its SOURCE record. Since 1.2. */
struct trace_source_detail {
	struct trace_record head;
	uint32_t source_id;
	uint16_t kind; /* enum trace_sample_kind */
	uint8_t direction; /* enum trace_direction */
	uint8_t precise; /* precise_ip as accepted */
	uint64_t perf_config1;
	uint64_t perf_config2;
	uint64_t read_format;
	uint64_t regs_intr; /* mask */
	uint64_t branch_sample_type;
	uint64_t watch_address; /* WATCH: what is watched, ... */
	uint32_t watch_bytes; /* ... and how much of it */
	uint32_t min_latency; /* cycles: loads below it are not sampled; 0: all */
	uint32_t stride; /* one in this many is taken where the program thins out; 0 or 1: all */
	uint32_t event_bytes; /* its name as asked or found: "MEM_TRANS_RETIRED:LOAD_LATENCY" */
	uint32_t note_bytes; /* what was given up while opening, or empty */
	uint32_t reserved;
};

/*
 * How times of a source whose SOURCE.clock_id is UINT32_MAX (perf's own clock) become
 * CLOCK_MONOTONIC_RAW: both at one moment. Again at each end and in between. Since 1.2.
 */
struct trace_perf_clock {
	struct trace_record head;
	uint64_t perf_ns;
	uint64_t raw_ns; /* +- error_ns */
	uint64_t error_ns;
	uint32_t source_id; /* 0: all of them */
	uint32_t reserved;
};

/*
 * A timed source goes on with another period. Samples of other threads carry theirs; those of the
 * thread that the source was opened on carry `mark` instead (0: it is exact from here on, all carry
 * it; else those of some CPUs), and have `period` from raw_ns to the next PERIOD of that mark. A
 * period of it begins there, nothing younger than `least` is sampled: a CPU's first is for both.
 */
struct trace_period {
	struct trace_record head;
	uint64_t raw_ns;
	uint64_t mark;
	uint64_t period; /* in the source's unit, as the others */
	uint64_t least;
	uint32_t source_id;
	uint32_t reserved;
};

enum trace_watch_state {
	TRACE_WATCH_ARMED, /* from here on each access is a sample of source "watch" */
	TRACE_WATCH_PAUSED, /* too many of them: none from here on */
	TRACE_WATCH_RESUMED,
	/* the object, its module or its process is gone; or it is others' turn */
	TRACE_WATCH_ENDED,
	TRACE_WATCH_REFUSED, /* the note says why */
};

/* What record --watch and --watch-hot watch, and when. Samples of it carry address. Since 1.2. */
struct trace_watch {
	struct trace_record head;
	uint64_t ticks;
	uint64_t address;
	uint64_t n_bytes;
	uint32_t number; /* of the watch, from 1; each time that it is armed anew has its own */
	/* the image; forks of it have the same memory and are watched as well */
	uint32_t process_id;
	uint16_t state; /* enum trace_watch_state */
	uint8_t is_write_only;
	uint8_t is_hot; /* --watch-hot chose it */
	uint32_t text_bytes; /* as it was asked for */
	uint32_t note_bytes;
	uint32_t reserved;
};

/*
 * What a source gave and what it did not, from its opening to its end; once, at the end of the
 * trace. What of it is a loss also stands in LOSS records. Since 1.2.
 */
struct trace_source_ledger {
	struct trace_record head;
	uint32_t source_id;
	uint32_t is_exact; /* n_lost is the kernel's count; 0: LOST records', without the last */
	uint64_t n_taken; /* samples that were read */
	uint64_t n_lost; /* records that found the ring full */
	uint64_t n_lost_samples; /* dropped by hardware or driver */
	uint64_t n_dropped; /* read, and not stored: recording had stopped */
	uint64_t n_throttles; /* times that the kernel stopped the event until the next tick */
	uint64_t throttled_ns; /* time without samples for that, added over CPUs */
	uint64_t n_bad_bytes; /* in which no record could be told */
	uint64_t n_aux_truncated; /* AUX records that say so of their bytes */
	uint64_t n_aux_partial;
	uint64_t n_aux_collisions;
	uint64_t n_behind; /* times that a ring was found more than three quarters full */
};

/* Names the run. program.mode.repetition is how people select it. */
struct trace_run {
	struct trace_record head;
	uint64_t start_unix_ns;
	uint32_t repetition; /* from 1 */
	uint32_t program_bytes;
	uint32_t mode_bytes;
	uint32_t command_bytes; /* arguments, separated by NUL */
	uint32_t directory_bytes;
	uint32_t reserved;
};

/* Something about the host or the run, as text: "kernel", "cpu_model", "governor" ... */
struct trace_fact {
	struct trace_record head;
	uint64_t ticks;
	uint32_t at_end; /* 0: at the start, 1: at the end of the run */
	uint32_t key_bytes;
	uint32_t value_bytes;
	uint32_t reserved;
};

struct trace_clock {
	struct trace_record head;
	uint64_t ticks;
	uint64_t raw_ns; /* CLOCK_MONOTONIC_RAW at ticks, +- error_ns */
	uint64_t error_ns; /* half the time between the two readings around it */
};

/* Memory of a process at one moment; n_nodes pairs of uint32 node, uint64 bytes (12 bytes). */
struct trace_process_sample {
	struct trace_record head;
	uint64_t ticks;
	uint64_t rss_bytes;
	uint64_t anonymous_bytes;
	uint64_t user_ns; /* CPU time so far */
	uint64_t system_ns;
	uint32_t process_id;
	uint32_t node_bytes; /* length of the pairs */
};

/* A page fault of the PERF frames of this segment, and where its page lay some ms later. */
struct trace_page_node {
	uint64_t time_ns; /* as in the fault's perf record */
	uint64_t address; /* as well */
	uint32_t node;
	uint32_t reserved;
};
_Static_assert(sizeof(struct trace_page_node) == 24, "trace_page_node is ABI");

/* Page faults of one process; those of which nothing is known are left out. */
struct trace_page_nodes {
	struct trace_record head;
	uint32_t pid; /* as in the faults' perf records */
	uint32_t items_bytes; /* length of the struct trace_page_node[] */
};

/*
 * Pages of code that may change were read again, and no line had changed. Together with the CODE
 * frames these are all readings of a page: what two of them in a row saw alike is what ran between.
 */
struct trace_code_seen {
	struct trace_record head;
	uint32_t process_id;
	uint32_t pages_bytes; /* length of their addresses, 8 bytes each */
	uint64_t begin_raw_ns;
	uint64_t end_raw_ns;
};

/* Why pages were looked at. */
enum trace_pages_reason {
	TRACE_PAGES_PEAK, /* the process had more resident memory than before */
	TRACE_PAGES_TICK, /* --pages INTERVAL */
	TRACE_PAGES_END, /* the process was about to end, and waited for it */
};

/* How they were. */
enum trace_pages_way {
	TRACE_PAGES_SCAN, /* ioctl PAGEMAP_SCAN */
	TRACE_PAGES_TABLE, /* /proc/PID/pagemap: pages of zeros and huge pages are not told apart */
};

/* What a page is: neither present nor swapped means never touched, or given back. */
#define TRACE_PAGE_PRESENT 0x01u
#define TRACE_PAGE_SWAPPED 0x02u
#define TRACE_PAGE_FILE	   0x04u /* of a file or of shared memory; asked for in such maps only */
#define TRACE_PAGE_ZERO	   0x08u /* the kernel's page of zeros: only read so far, not resident */
#define TRACE_PAGE_HUGE	   0x10u /* part of a huge page */
#define TRACE_PAGE_SHARED  0x20u /* mapped by others, too; of FILE always asked, see has_shared */
#define TRACE_PAGE_BITS	   6u

/*
 * The pages of one process at one moment, in parts of TRACE_PAGES_PART_BYTES at most; those of a
 * snapshot follow each other, number and is_last tell where it ends. All parts of runs one behind
 * the other are a row of runs in order of address: varint (pages since the end of the run before,
 * or address 0), varint (pages of this one << TRACE_PAGE_BITS | TRACE_PAGE_*); with has_nodes also
 * varint (1 + NUMA node; 0: not known). Pages that are neither present nor swapped are left out.
 * Maps: the text of /proc/PID/maps. Memory of /proc/PID/status was read before and after.
 */
#define TRACE_PAGES_PART_BYTES (256u << 10)
struct trace_pages {
	struct trace_record head;
	uint64_t ticks; /* begin of the look */
	uint64_t end_ticks;
	uint64_t rss_bytes, rss_after_bytes; /* VmRSS before and behind it */
	uint64_t swap_bytes; /* VmSwap before */
	uint64_t uncounted_bytes; /* present, and not in VmRSS: HugetlbPages, pages of devices */
	uint64_t most_bytes; /* VmHWM: the most that was ever resident */
	uint32_t process_id;
	uint32_t number; /* of the snapshot in this file, from 1 */
	uint32_t page_bytes;
	uint8_t reason; /* enum trace_pages_reason */
	uint8_t has_shared; /* 0: TRACE_PAGE_SHARED was asked of pages of files only */
	uint8_t way; /* enum trace_pages_way */
	uint8_t is_last; /* part of its snapshot */
	uint32_t runs_bytes, maps_bytes;
	uint64_t pss_bytes; /* Pss of /proc/PID/smaps_rollup behind it; 0: not asked */
	uint64_t has_nodes; /* 0 or 1 */
	uint64_t leaving_bytes; /* of VmRSS, of pages whose mappings were just being unmapped */
};

/* What a mapping of TOUCHES is. */
#define TRACE_TOUCH_FILE    0x01u /* of a file or shared: touches of others may be among them */
#define TRACE_TOUCH_STACK   0x02u /* of the main thread */
#define TRACE_TOUCH_HUGE    0x04u /* part of it in huge pages, which count as a whole */
#define TRACE_TOUCH_UNKNOWN 0x08u /* hugetlbfs: the kernel keeps no account */
#define TRACE_TOUCH_SWAPPED 0x10u /* part of it swapped: touched before that is not seen */
#define TRACE_TOUCH_TOOL    0x20u /* memory that memsight brought along */
#define TRACE_TOUCH_BITS    6u

/*
 * Which pages of a process were read or written in an interval (--source pages): each touch from
 * begin_ticks to ticks is seen, whoever made it, the kernel's copies too. Between ticks and the
 * next begin the marks are read and cleared: a touch then may be seen or not. In parts, as PAGES.
 * Runs are in order of address, a mapping each: varint (pages since the end of the run before, or
 * address 0), varint (its pages << TRACE_TOUCH_BITS | TRACE_TOUCH_*), varint (resident ones, but
 * for pages of zeros), varint (touched ones of them); with has_nodes varint (how many nodes have
 * some) and for each varint (number), varint (pages). Without a resident page it has none. 1.2.
 */
struct trace_touches {
	struct trace_record head;
	uint64_t begin_ticks;
	uint64_t ticks;
	uint64_t end_ticks; /* all marks were read */
	uint64_t resident_bytes; /* sums over the runs */
	uint64_t touched_bytes;
	uint64_t own_ns; /* CPU time that reading and clearing took */
	uint64_t program_ns; /* what the marks cost the program, as measured on this host */
	uint32_t process_id;
	uint32_t number; /* of the interval in this file, from 1 */
	uint32_t page_bytes;
	uint16_t has_nodes; /* 0 or 1 */
	uint8_t is_end; /* the process was about to end, and waited for it */
	uint8_t is_last; /* part of its interval */
	uint32_t reserved1;
	uint32_t runs_bytes;
};

/* What a run of WRITES is; 0: not one of its pages was written, and some may not be resident. */
#define TRACE_WRITE_WRITTEN 0x01u /* each of its pages was */
#define TRACE_WRITE_HUGE    0x02u /* not known: they are huge pages, and are to stay so */
#define TRACE_WRITE_NEW	    0x04u /* not known: watched from the end of this interval on only */
#define TRACE_WRITE_BITS    3u

/*
 * Pages that were written in an interval of --source pages, from begin_ticks to ticks; up to
 * end_ticks, in this or the next one. TOUCHES of the same number lies within. In parts, as PAGES;
 * runs as there, with TRACE_WRITE_*. Of pages without a run nothing is known. Since 1.2.
 */
struct trace_writes {
	struct trace_record head;
	uint64_t begin_ticks;
	uint64_t ticks;
	uint64_t end_ticks;
	uint64_t known_bytes; /* sums over the runs: those of which it is known, written or not */
	uint64_t written_bytes;
	uint64_t own_ns; /* CPU time that asking took */
	uint64_t program_ns; /* what first writes cost the program, as measured on this host */
	uint32_t process_id;
	uint32_t number; /* of the interval in this file, from 1; that of TOUCHES asked with it */
	uint32_t page_bytes, is_last; /* part of its interval */
	uint32_t reserved, runs_bytes;
};

/* How the command ended. */
struct trace_exit {
	struct trace_record head;
	uint64_t ticks;
	int32_t status; /* as from wait() */
	uint32_t reserved;
	uint64_t user_ns; /* rusage of the command and its waited-for children */
	uint64_t system_ns;
	uint64_t max_rss_bytes;
	uint64_t minor_faults;
	uint64_t major_faults;
	uint64_t collector_cpu_ns;
};

struct trace_counter {
	struct trace_record head;
	uint64_t value;
	uint64_t enabled_ns;
	uint64_t running_ns;
	uint32_t process_id;
	uint32_t name_bytes;
	uint32_t unit_bytes;
	uint32_t reserved;
};

/* Modules from here on have no place in memory that is known: they get no row. */
#define TRACE_MADE_UP_ADDRESS (UINT64_C(1) << 62)
