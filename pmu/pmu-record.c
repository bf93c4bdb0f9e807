#include "pmu/pmu-record.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

/* Newer than Debian 12's headers. */
#ifndef PERF_SAMPLE_BRANCH_COUNTERS
#define PERF_SAMPLE_BRANCH_COUNTERS (UINT64_C(1) << 19)
#endif

/* Walks over a record's fields. Behind the end every field reads as 0 and is_short stays set. */
struct cursor {
	const uint8_t *at;
	const uint8_t *end;
	bool is_short;
};

static size_t left(const struct cursor *cursor)
{
	return (size_t)(cursor->end - cursor->at);
}

static const void *take(struct cursor *cursor, uint64_t n_bytes)
{
	const void *bytes = cursor->at;

	if (cursor->is_short || n_bytes > left(cursor)) {
		cursor->is_short = true;
		return NULL;
	}
	cursor->at += n_bytes;
	return bytes;
}

static uint64_t take_u64(struct cursor *cursor)
{
	const void *bytes = take(cursor, sizeof(uint64_t));
	uint64_t value = 0;

	if (bytes)
		memcpy(&value, bytes, sizeof(value));
	return value;
}

static uint32_t take_u32(struct cursor *cursor)
{
	const void *bytes = take(cursor, sizeof(uint32_t));
	uint32_t value = 0;

	if (bytes)
		memcpy(&value, bytes, sizeof(value));
	return value;
}

/* n 64-bit words; n comes out of the record, so n * 8 may overflow. */
static const uint64_t *take_words(struct cursor *cursor, uint64_t n)
{
	if (n > left(cursor) / sizeof(uint64_t)) {
		cursor->is_short = true;
		return NULL;
	}
	return take(cursor, n * sizeof(uint64_t));
}

/* ---- The fields of a SAMPLE, each in the order of the kernel's perf_output_sample() ---- */

typedef void (*take_field)(struct cursor *cursor, const struct pmu_format *format,
			   struct pmu_record *record);

#define WORD_FIELD(name, target)                                                                   \
	static void take_##name(struct cursor *cursor, const struct pmu_format *format,            \
				struct pmu_record *record)                                         \
	{                                                                                          \
		(void)format;                                                                      \
		record->target = take_u64(cursor);                                                 \
	}

WORD_FIELD(id, origin.id)
WORD_FIELD(stream_id, origin.stream_id)
WORD_FIELD(time, origin.time_ns)
WORD_FIELD(ip, sample.ip)
WORD_FIELD(address, sample.address)
WORD_FIELD(period, sample.period)
WORD_FIELD(weight, sample.weight)
WORD_FIELD(data_src, sample.data_src)
WORD_FIELD(transaction, sample.transaction)
WORD_FIELD(physical_address, sample.physical_address)
WORD_FIELD(cgroup, sample.cgroup)
WORD_FIELD(data_page, sample.data_page_bytes)
WORD_FIELD(code_page, sample.code_page_bytes)

static void take_tid(struct cursor *cursor, const struct pmu_format *format,
		     struct pmu_record *record)
{
	(void)format;
	record->origin.pid = take_u32(cursor);
	record->origin.tid = take_u32(cursor);
}

static void take_cpu(struct cursor *cursor, const struct pmu_format *format,
		     struct pmu_record *record)
{
	(void)format;
	record->origin.cpu = take_u32(cursor);
	take_u32(cursor); /* reserved */
}

/* struct read_format: one value, or nr of them behind the shared times. */
static void take_read(struct cursor *cursor, const struct pmu_format *format,
		      struct pmu_record *record)
{
	uint64_t times = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	unsigned n_times = (unsigned)__builtin_popcountll(format->read_format & times);
	unsigned n_each = 1 + (unsigned)__builtin_popcountll(format->read_format &
							     (PERF_FORMAT_ID | PERF_FORMAT_LOST));
	uint64_t n = 1;

	(void)record;
	if (format->read_format & PERF_FORMAT_GROUP)
		n = take_u64(cursor);
	take_words(cursor, n_times);
	if (n > left(cursor)) /* n * n_each cannot overflow behind this */
		cursor->is_short = true;
	else
		take_words(cursor, n * n_each);
}

static void take_callchain(struct cursor *cursor, const struct pmu_format *format,
			   struct pmu_record *record)
{
	uint64_t n = take_u64(cursor);

	(void)format;
	record->sample.callchain = take_words(cursor, n);
	record->sample.n_callchain = record->sample.callchain ? n : 0;
}

/* The kernel pads size + 4 to a multiple of 8 and counts the padding in size. */
static void take_raw(struct cursor *cursor, const struct pmu_format *format,
		     struct pmu_record *record)
{
	uint32_t size = take_u32(cursor);

	(void)format;
	if ((size + sizeof(size)) % sizeof(uint64_t))
		cursor->is_short = true; /* the words behind it are read where they lie */
	record->sample.raw = take(cursor, size);
	record->sample.raw_bytes = record->sample.raw ? size : 0;
}

/* from, to and flags of each branch; not used yet, but what lies behind them is. */
static void take_branches(struct cursor *cursor, const struct pmu_format *format,
			  struct pmu_record *record)
{
	uint64_t n = take_u64(cursor);
	unsigned n_words = format->branch_sample_type & PERF_SAMPLE_BRANCH_COUNTERS ? 4 : 3;

	(void)record;
	if (format->branch_sample_type & PERF_SAMPLE_BRANCH_HW_INDEX)
		take_u64(cursor);
	if (n > left(cursor))
		cursor->is_short = true;
	else
		take_words(cursor, n * n_words);
}

static void take_regs_user(struct cursor *cursor, const struct pmu_format *format,
			   struct pmu_record *record)
{
	struct pmu_sample *sample = &record->sample;

	sample->regs_abi = take_u64(cursor);
	if (sample->regs_abi == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	sample->regs = take_words(cursor, (uint64_t)__builtin_popcountll(format->regs_user));
	sample->regs_mask = sample->regs ? format->regs_user : 0;
}

static void take_stack(struct cursor *cursor, const struct pmu_format *format,
		       struct pmu_record *record)
{
	uint64_t room = take_u64(cursor);
	const void *bytes;
	uint64_t filled;

	(void)format;
	if (!room)
		return;
	bytes = take(cursor, room);
	filled = take_u64(cursor);
	if (!bytes || filled > room) {
		cursor->is_short = true;
		return;
	}
	record->sample.stack = filled ? bytes : NULL;
	record->sample.stack_bytes = filled;
}

/* union perf_sample_weight, little endian: var1_dw, var2_w, var3_w. */
static void take_weight_struct(struct cursor *cursor, const struct pmu_format *format,
			       struct pmu_record *record)
{
	uint64_t word = take_u64(cursor);

	(void)format;
	record->sample.weight = (uint32_t)word;
	record->sample.weight_var2 = (uint16_t)(word >> 32);
	record->sample.weight_var3 = (uint16_t)(word >> 48);
}

static void take_regs_intr(struct cursor *cursor, const struct pmu_format *format,
			   struct pmu_record *record)
{
	(void)record;
	if (take_u64(cursor) != PERF_SAMPLE_REGS_ABI_NONE)
		take_words(cursor, (uint64_t)__builtin_popcountll(format->regs_intr));
}

static void take_aux(struct cursor *cursor, const struct pmu_format *format,
		     struct pmu_record *record)
{
	(void)format;
	(void)record;
	take(cursor, take_u64(cursor));
}

struct field {
	uint64_t bit;
	take_field take;
};

static const struct field sample_fields[] = {
	{ PERF_SAMPLE_IDENTIFIER, take_id },
	{ PERF_SAMPLE_IP, take_ip },
	{ PERF_SAMPLE_TID, take_tid },
	{ PERF_SAMPLE_TIME, take_time },
	{ PERF_SAMPLE_ADDR, take_address },
	{ PERF_SAMPLE_ID, take_id },
	{ PERF_SAMPLE_STREAM_ID, take_stream_id },
	{ PERF_SAMPLE_CPU, take_cpu },
	{ PERF_SAMPLE_PERIOD, take_period },
	{ PERF_SAMPLE_READ, take_read },
	{ PERF_SAMPLE_CALLCHAIN, take_callchain },
	{ PERF_SAMPLE_RAW, take_raw },
	{ PERF_SAMPLE_BRANCH_STACK, take_branches },
	{ PERF_SAMPLE_REGS_USER, take_regs_user },
	{ PERF_SAMPLE_STACK_USER, take_stack },
	{ PERF_SAMPLE_WEIGHT, take_weight },
	{ PERF_SAMPLE_WEIGHT_STRUCT, take_weight_struct },
	{ PERF_SAMPLE_DATA_SRC, take_data_src },
	{ PERF_SAMPLE_TRANSACTION, take_transaction },
	{ PERF_SAMPLE_REGS_INTR, take_regs_intr },
	{ PERF_SAMPLE_PHYS_ADDR, take_physical_address },
	{ PERF_SAMPLE_CGROUP, take_cgroup },
	{ PERF_SAMPLE_DATA_PAGE_SIZE, take_data_page },
	{ PERF_SAMPLE_CODE_PAGE_SIZE, take_code_page },
	{ PERF_SAMPLE_AUX, take_aux },
};

/* The trailer that sample_id_all puts behind every other record, in its own order. */
static const struct field trailer_fields[] = {
	{ PERF_SAMPLE_TID, take_tid }, { PERF_SAMPLE_TIME, take_time },
	{ PERF_SAMPLE_ID, take_id },   { PERF_SAMPLE_STREAM_ID, take_stream_id },
	{ PERF_SAMPLE_CPU, take_cpu }, { PERF_SAMPLE_IDENTIFIER, take_id },
};
#define TRAILER_BITS                                                                               \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID |             \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof(*(array)))

static void take_fields(struct cursor *cursor, const struct pmu_format *format,
			struct pmu_record *record, const struct field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (format->sample_type & fields[i].bit)
			fields[i].take(cursor, format, record);
}

/* ---- The bodies of the other records ---- */

static void parse_sample(struct cursor *cursor, const struct pmu_format *format,
			 struct pmu_record *record)
{
	unsigned mode = record->misc & PERF_RECORD_MISC_CPUMODE_MASK;

	record->is_kernel = mode == PERF_RECORD_MISC_KERNEL || mode == PERF_RECORD_MISC_HYPERVISOR;
	take_fields(cursor, format, record, sample_fields, ARRAY_LENGTH(sample_fields));
}

/* What is left is one string, NUL-terminated and padded with NULs. */
static const char *take_string(struct cursor *cursor)
{
	const char *text = (const char *)cursor->at;

	if (cursor->is_short || !memchr(text, '\0', left(cursor))) {
		cursor->is_short = true;
		return "";
	}
	cursor->at = cursor->end;
	return text;
}

static void take_map_head(struct cursor *cursor, struct pmu_record *record)
{
	struct pmu_map *map = &record->map;

	map->pid = take_u32(cursor);
	map->tid = take_u32(cursor);
	map->address = take_u64(cursor);
	map->size = take_u64(cursor);
	map->file_offset = take_u64(cursor);
	map->is_data = record->misc & PERF_RECORD_MISC_MMAP_DATA;
}

static void parse_mmap(struct cursor *cursor, const struct pmu_format *format,
		       struct pmu_record *record)
{
	(void)format;
	take_map_head(cursor, record);
	record->map.prot = record->map.is_data ? 0 : 4; /* PROT_EXEC: all that MMAP tells */
	record->map.path = take_string(cursor);
}

/* The 24 bytes are a build id where the kernel could read one, else device and inode. */
static void take_map_identity(struct cursor *cursor, struct pmu_record *record)
{
	struct pmu_map *map = &record->map;
	const uint8_t *bytes;

	if (!(record->misc & PERF_RECORD_MISC_MMAP_BUILD_ID)) {
		map->major = take_u32(cursor);
		map->minor = take_u32(cursor);
		map->inode = take_u64(cursor);
		map->inode_generation = take_u64(cursor);
		return;
	}
	bytes = take(cursor, 24);
	if (!bytes || bytes[0] > 20) {
		cursor->is_short = true;
		return;
	}
	map->build_id_bytes = bytes[0];
	map->build_id = bytes[0] ? bytes + 4 : NULL;
}

static void parse_mmap2(struct cursor *cursor, const struct pmu_format *format,
			struct pmu_record *record)
{
	(void)format;
	take_map_head(cursor, record);
	take_map_identity(cursor, record);
	record->map.prot = take_u32(cursor);
	record->map.flags = take_u32(cursor);
	record->map.path = take_string(cursor);
}

static void parse_comm(struct cursor *cursor, const struct pmu_format *format,
		       struct pmu_record *record)
{
	(void)format;
	record->comm.pid = take_u32(cursor);
	record->comm.tid = take_u32(cursor);
	record->comm.is_exec = record->misc & PERF_RECORD_MISC_COMM_EXEC;
	record->comm.name = take_string(cursor);
}

static void parse_task(struct cursor *cursor, const struct pmu_format *format,
		       struct pmu_record *record)
{
	(void)format;
	record->task.pid = take_u32(cursor);
	record->task.parent_pid = take_u32(cursor);
	record->task.tid = take_u32(cursor);
	record->task.parent_tid = take_u32(cursor);
	record->task.time_ns = take_u64(cursor);
}

static void parse_lost(struct cursor *cursor, const struct pmu_format *format,
		       struct pmu_record *record)
{
	(void)format;
	record->lost.id = take_u64(cursor);
	record->lost.count = take_u64(cursor);
}

static void parse_lost_samples(struct cursor *cursor, const struct pmu_format *format,
			       struct pmu_record *record)
{
	(void)format;
	record->lost.count = take_u64(cursor);
}

static void parse_throttle(struct cursor *cursor, const struct pmu_format *format,
			   struct pmu_record *record)
{
	(void)format;
	record->throttle.time_ns = take_u64(cursor);
	record->throttle.id = take_u64(cursor);
	record->throttle.stream_id = take_u64(cursor);
}

static void parse_aux(struct cursor *cursor, const struct pmu_format *format,
		      struct pmu_record *record)
{
	(void)format;
	record->aux.offset = take_u64(cursor);
	record->aux.size = take_u64(cursor);
	record->aux.flags = take_u64(cursor);
}

static void parse_itrace_start(struct cursor *cursor, const struct pmu_format *format,
			       struct pmu_record *record)
{
	(void)format;
	record->itrace_start.pid = take_u32(cursor);
	record->itrace_start.tid = take_u32(cursor);
}

static const take_field bodies[] = {
	[PERF_RECORD_MMAP] = parse_mmap,
	[PERF_RECORD_LOST] = parse_lost,
	[PERF_RECORD_COMM] = parse_comm,
	[PERF_RECORD_EXIT] = parse_task,
	[PERF_RECORD_THROTTLE] = parse_throttle,
	[PERF_RECORD_UNTHROTTLE] = parse_throttle,
	[PERF_RECORD_FORK] = parse_task,
	[PERF_RECORD_SAMPLE] = parse_sample,
	[PERF_RECORD_MMAP2] = parse_mmap2,
	[PERF_RECORD_AUX] = parse_aux,
	[PERF_RECORD_ITRACE_START] = parse_itrace_start,
	[PERF_RECORD_LOST_SAMPLES] = parse_lost_samples,
};

/* ---- Whole records ---- */

int pmu_record_length(const void *bytes, size_t n_bytes)
{
	struct perf_event_header header;

	if ((uintptr_t)bytes % sizeof(uint64_t))
		return -EINVAL;
	if (n_bytes == 0)
		return 0;
	if (n_bytes < sizeof(header))
		return -EBADMSG;
	memcpy(&header, bytes, sizeof(header));
	if (header.size < sizeof(header) || header.size % sizeof(uint64_t) || header.size > n_bytes)
		return -EBADMSG;
	return header.size;
}

/* Split the trailer off the end of the cursor and take it. */
static void take_trailer(struct cursor *cursor, const struct pmu_format *format,
			 struct pmu_record *record)
{
	size_t n_bytes =
		sizeof(uint64_t) * (size_t)__builtin_popcountll(format->sample_type & TRAILER_BITS);
	struct cursor trailer;

	if (n_bytes > left(cursor)) {
		cursor->is_short = true;
		return;
	}
	trailer = (struct cursor){ .at = cursor->end - n_bytes, .end = cursor->end };
	cursor->end -= n_bytes;
	take_fields(&trailer, format, record, trailer_fields, ARRAY_LENGTH(trailer_fields));
}

int pmu_record_parse(const struct pmu_format *format, const void *bytes, size_t n_bytes,
		     struct pmu_record *ret_record)
{
	int length = pmu_record_length(bytes, n_bytes);
	struct perf_event_header header;
	struct cursor cursor;

	if (length <= 0)
		return length;
	memcpy(&header, bytes, sizeof(header));
	cursor = (struct cursor){ .at = (const uint8_t *)bytes + sizeof(header),
				  .end = (const uint8_t *)bytes + length };
	memset(ret_record, 0, sizeof(*ret_record));
	ret_record->type = header.type;
	ret_record->misc = header.misc;
	ret_record->bytes = header.size;
	ret_record->origin.cpu = UINT32_MAX;
	if (header.type >= ARRAY_LENGTH(bodies) || !bodies[header.type])
		return length;

	ret_record->is_known = true;
	if (header.type != PERF_RECORD_SAMPLE && !format->has_no_trailer)
		take_trailer(&cursor, format, ret_record);
	bodies[header.type](&cursor, format, ret_record);
	return cursor.is_short ? -EILSEQ : length;
}

bool pmu_record_sample_ip(const struct pmu_format *format, const void *bytes, size_t n_bytes,
			  struct pmu_origin *ret_origin, uint64_t *ret_ip)
{
	const uint64_t needed = PERF_SAMPLE_IP | PERF_SAMPLE_TID;
	const uint64_t early = needed | PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME;
	const struct pmu_format head = { .sample_type = format->sample_type & early };
	int length = pmu_record_length(bytes, n_bytes);
	struct pmu_record record;

	if (length <= 0 || (format->sample_type & needed) != needed ||
	    ((const struct perf_event_header *)bytes)->type != PERF_RECORD_SAMPLE)
		return false;
	if (pmu_record_parse(&head, bytes, (size_t)length, &record) < 0)
		return false;
	*ret_origin = record.origin;
	*ret_ip = record.sample.ip;
	return true;
}

bool pmu_sample_register(const struct pmu_sample *sample, unsigned reg, uint64_t *ret_value)
{
	uint64_t below;

	if (reg >= 64 || !sample->regs || !(sample->regs_mask >> reg & 1))
		return false;
	below = sample->regs_mask & ((UINT64_C(1) << reg) - 1);
	*ret_value = sample->regs[__builtin_popcountll(below)];
	return true;
}
