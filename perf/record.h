#pragma once
/*
 * The only parser of perf_event records. A view: pointers lead into the caller's bytes, nothing is
 * copied or allocated. The bytes are hostile (they come out of a trace file): whatever they hold,
 * no field is read outside the record. Layout: linux/perf_event.h, enum perf_event_type; man 2
 * perf_event_open. Pure functions: any thread, also in signal handlers.
 */
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What the event was opened with: decides how its records look. */
struct pmu_format {
	uint64_t sample_type; /* PERF_SAMPLE_* */
	uint64_t regs_user; /* masks of registers */
	uint64_t regs_intr;
	uint64_t read_format; /* PERF_FORMAT_*, for PERF_SAMPLE_READ */
	uint64_t branch_sample_type;
	bool has_no_trailer; /* opened without sample_id_all: only a SAMPLE tells who and when */
};

/* Who, when and where. Fields that sample_type does not carry are 0 (cpu: UINT32_MAX). */
struct pmu_origin {
	uint32_t pid;
	uint32_t tid;
	uint64_t time_ns; /* of the event's clock: CLOCK_MONOTONIC_RAW in our own traces */
	uint64_t id; /* of the event that sampled (IDENTIFIER or ID) */
	uint64_t stream_id;
	uint32_t cpu;
};

struct pmu_sample {
	uint64_t ip;
	uint64_t address;
	uint64_t period;
	uint64_t weight; /* WEIGHT, or var1_dw of WEIGHT_STRUCT */
	uint16_t weight_var2; /* WEIGHT_STRUCT only */
	uint16_t weight_var3;
	uint64_t data_src;
	uint64_t transaction;
	uint64_t physical_address;
	uint64_t cgroup;
	uint64_t data_page_bytes;
	uint64_t code_page_bytes;
	const uint64_t *callchain; /* n_callchain addresses and PERF_CONTEXT_* markers, or NULL */
	uint64_t n_callchain;
	const void *raw; /* raw_bytes of PERF_SAMPLE_RAW, or NULL */
	uint32_t raw_bytes;
	uint64_t regs_abi; /* PERF_SAMPLE_REGS_ABI_*; 0: no user registers (a kernel thread) */
	uint64_t regs_mask; /* which registers `regs` holds, in order of their bits */
	const uint64_t *regs; /* NULL when there are none */
	const void *stack; /* stack_bytes bytes from the user stack pointer upwards, or NULL */
	uint64_t stack_bytes; /* what the kernel could copy, not what was asked for */
};

/*
 * What begins the raw data of samples that have the bytes below their stack pointer: those of our
 * own source `signal`. The bytes follow; they end at the stack pointer.
 */
#define PMU_RAW_BELOW UINT32_C(0x776f6c62)

static inline bool pmu_sample_has_below(const struct pmu_sample *sample)
{
	uint32_t tag = 0;

	if (sample->raw_bytes > sizeof(tag))
		memcpy(&tag, sample->raw, sizeof(tag));
	return tag == PMU_RAW_BELOW;
}

/* These bytes, in the record; NULL: it has none. */
static inline const void *pmu_sample_below(const struct pmu_sample *sample)
{
	return pmu_sample_has_below(sample) ? (const char *)sample->raw + sizeof(uint32_t) : NULL;
}

/* How many there are. */
static inline uint32_t pmu_sample_below_bytes(const struct pmu_sample *sample)
{
	return pmu_sample_has_below(sample) ? sample->raw_bytes - (uint32_t)sizeof(uint32_t) : 0;
}

/* MMAP and MMAP2. */
struct pmu_map {
	uint32_t pid; /* whose map */
	uint32_t tid; /* who made it */
	uint64_t address;
	uint64_t size;
	uint64_t file_offset;
	uint32_t prot; /* MMAP2; for MMAP PROT_EXEC, or 0 with is_data */
	uint32_t flags; /* MMAP2: MAP_SHARED, MAP_PRIVATE ... */
	bool is_data; /* not executable (PERF_RECORD_MISC_MMAP_DATA) */
	uint32_t major; /* device, inode: 0 when build_id_bytes is not */
	uint32_t minor;
	uint64_t inode;
	uint64_t inode_generation;
	const uint8_t *build_id; /* build_id_bytes (<= 20) of them; NULL with 0 */
	uint8_t build_id_bytes;
	const char *path; /* NUL-terminated inside the record; "//anon", "[heap]", a file */
};

/* FORK: a thread or process was born; EXIT: a thread ended. */
struct pmu_task {
	uint32_t pid;
	uint32_t tid;
	uint32_t parent_pid;
	uint32_t parent_tid;
	uint64_t time_ns;
};

struct pmu_record {
	uint32_t type; /* PERF_RECORD_* */
	uint16_t misc; /* PERF_RECORD_MISC_* */
	uint16_t bytes;
	bool is_known; /* false: stepped over, only type, misc and bytes are filled */
	bool is_kernel; /* SAMPLE: the cpu was in the kernel or hypervisor */
	struct pmu_origin origin;
	union {
		struct pmu_sample sample; /* SAMPLE */
		struct pmu_map map; /* MMAP, MMAP2 */
		struct {
			uint32_t pid;
			uint32_t tid;
			bool is_exec; /* named by exec: another image */
			const char *name; /* NUL-terminated inside the record */
		} comm;
		struct pmu_task task; /* FORK, EXIT */
		struct {
			uint64_t id;
			uint64_t count;
		} lost; /* LOST, LOST_SAMPLES (id 0) */
		struct {
			uint64_t time_ns;
			uint64_t id;
			uint64_t stream_id;
		} throttle; /* THROTTLE, UNTHROTTLE */
		struct {
			uint64_t offset;
			uint64_t size;
			uint64_t flags; /* PERF_AUX_FLAG_* */
		} aux; /* AUX */
		struct {
			uint32_t pid;
			uint32_t tid;
		} itrace_start; /* ITRACE_START */
	};
};

/*
 * Length of the record at `bytes` when n_bytes lie there. Returns its length (>= 8, a multiple of
 * 8, <= n_bytes), 0 when n_bytes is 0, or -EBADMSG when no record can be told: then nothing behind
 * it can be either. -EINVAL: bytes is not 8-byte aligned.
 */
int pmu_record_length(const void *bytes, size_t n_bytes);

/*
 * Parse the record at `bytes`. Returns its length, so that `bytes + length` is the next one; 0 at
 * the end (n_bytes 0); or the errors of pmu_record_length(). -EILSEQ: the record's own fields do
 * not fit into it; ret_record->bytes is then its length, so that it can be stepped over and counted
 * (the rest of ret_record is not to be used). A type that is not known is no error: is_known is
 * false.
 */
int pmu_record_parse(const struct pmu_format *format, const void *bytes, size_t n_bytes,
		     struct pmu_record *ret_record);

/*
 * Put a record of the other byte order, whose head is in ours already, into ours. Numbers in what a
 * source calls raw stay. Returns as pmu_record_parse().
 */
int pmu_record_turn(const struct pmu_format *format, void *bytes, size_t n_bytes);

/*
 * As pmu_record_parse(), but of a SAMPLE only its id, ip, who and when are read: all else of it is
 * 0, and was not looked at.
 */
int pmu_record_parse_head(const struct pmu_format *format, const void *bytes, size_t n_bytes,
			  struct pmu_record *ret_record);

/*
 * The fast way for whoever only needs where and who of a SAMPLE: pid, tid and ip without looking at
 * the rest. Returns false when it is no sample, or sample_type carries not all of IP and TID.
 */
bool pmu_record_sample_ip(const struct pmu_format *format, const void *bytes, size_t n_bytes,
			  struct pmu_origin *ret_origin, uint64_t *ret_ip);

/*
 * Are its registers x86-64's by their numbers? Those end at 23; what other processors tell goes
 * further (arch/arm64/include/uapi/asm/perf_regs.h: 32 is the pc), so that a trace may come from
 * anywhere.
 */
static inline bool pmu_sample_is_x86(const struct pmu_sample *sample)
{
	return sample->regs && sample->regs_abi == PERF_SAMPLE_REGS_ABI_64 &&
	       sample->regs_mask >> 24 == 0;
}

/*
 * The value of register `reg` (PERF_REG_X86_SP ...) of a sample. Returns false when it is not
 * there.
 */
bool pmu_sample_register(const struct pmu_sample *sample, unsigned reg, uint64_t *ret_value);

#define PMU_X86_STACK_POINTER 7 /* PERF_REG_X86_SP of asm/perf_regs.h, on every machine */

/* The user's stack pointer of a sample of x86-64. Returns false when it is not there. */
bool pmu_sample_stack_pointer(const struct pmu_sample *sample, uint64_t *ret_address);
