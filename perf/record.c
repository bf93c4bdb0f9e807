#include "perf/record.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include "perf/cursor.h"

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof(*(array)))

typedef void (*parse_body)(struct pmu_cursor *cursor, struct pmu_record *record);

/* ---- The bodies of records ---- */

/* What is left is one string, NUL-terminated and padded with NULs. */
static const char *take_string(struct pmu_cursor *cursor)
{
	const char *text = (const char *)cursor->at;

	if (cursor->is_short || !memchr(text, '\0', pmu_cursor_left(cursor))) {
		cursor->is_short = true;
		return "";
	}
	cursor->at = cursor->end;
	return text;
}

static void take_map_head(struct pmu_cursor *cursor, struct pmu_record *record)
{
	struct pmu_map *map = &record->map;

	map->pid = pmu_cursor_u32(cursor);
	map->tid = pmu_cursor_u32(cursor);
	map->address = pmu_cursor_u64(cursor);
	map->size = pmu_cursor_u64(cursor);
	map->file_offset = pmu_cursor_u64(cursor);
	map->is_data = record->misc & PERF_RECORD_MISC_MMAP_DATA;
}

static void parse_mmap(struct pmu_cursor *cursor, struct pmu_record *record)
{
	take_map_head(cursor, record);
	record->map.prot = record->map.is_data ? 0 : 4; /* PROT_EXEC: all that MMAP tells */
	record->map.path = take_string(cursor);
}

/* The 24 bytes are a build id where the kernel could read one, else device and inode. */
static void take_map_identity(struct pmu_cursor *cursor, struct pmu_record *record)
{
	struct pmu_map *map = &record->map;

	if (!(record->misc & PERF_RECORD_MISC_MMAP_BUILD_ID)) {
		map->major = pmu_cursor_u32(cursor);
		map->minor = pmu_cursor_u32(cursor);
		map->inode = pmu_cursor_u64(cursor);
		map->inode_generation = pmu_cursor_u64(cursor);
		return;
	}
	const uint8_t *bytes = pmu_cursor_take(cursor, 24);
	if (!bytes || bytes[0] > 20) {
		cursor->is_short = true;
		return;
	}
	map->build_id_bytes = bytes[0];
	map->build_id = bytes[0] ? bytes + 4 : NULL;
}

static void parse_mmap2(struct pmu_cursor *cursor, struct pmu_record *record)
{
	take_map_head(cursor, record);
	take_map_identity(cursor, record);
	record->map.prot = pmu_cursor_u32(cursor);
	record->map.flags = pmu_cursor_u32(cursor);
	record->map.path = take_string(cursor);
}

static void parse_comm(struct pmu_cursor *cursor, struct pmu_record *record)
{
	record->comm.pid = pmu_cursor_u32(cursor);
	record->comm.tid = pmu_cursor_u32(cursor);
	record->comm.is_exec = record->misc & PERF_RECORD_MISC_COMM_EXEC;
	record->comm.name = take_string(cursor);
}

static void parse_task(struct pmu_cursor *cursor, struct pmu_record *record)
{
	record->task.pid = pmu_cursor_u32(cursor);
	record->task.parent_pid = pmu_cursor_u32(cursor);
	record->task.tid = pmu_cursor_u32(cursor);
	record->task.parent_tid = pmu_cursor_u32(cursor);
	record->task.time_ns = pmu_cursor_u64(cursor);
}

static void parse_lost(struct pmu_cursor *cursor, struct pmu_record *record)
{
	record->lost.id = pmu_cursor_u64(cursor);
	record->lost.count = pmu_cursor_u64(cursor);
}

static void parse_lost_samples(struct pmu_cursor *cursor, struct pmu_record *record)
{
	record->lost.count = pmu_cursor_u64(cursor);
}

static void parse_throttle(struct pmu_cursor *cursor, struct pmu_record *record)
{
	record->throttle.time_ns = pmu_cursor_u64(cursor);
	record->throttle.id = pmu_cursor_u64(cursor);
	record->throttle.stream_id = pmu_cursor_u64(cursor);
}

static void parse_aux(struct pmu_cursor *cursor, struct pmu_record *record)
{
	record->aux.offset = pmu_cursor_u64(cursor);
	record->aux.size = pmu_cursor_u64(cursor);
	record->aux.flags = pmu_cursor_u64(cursor);
}

static void parse_itrace_start(struct pmu_cursor *cursor, struct pmu_record *record)
{
	record->itrace_start.pid = pmu_cursor_u32(cursor);
	record->itrace_start.tid = pmu_cursor_u32(cursor);
}

static const parse_body bodies[] = {
	[PERF_RECORD_MMAP] = parse_mmap,
	[PERF_RECORD_LOST] = parse_lost,
	[PERF_RECORD_COMM] = parse_comm,
	[PERF_RECORD_EXIT] = parse_task,
	[PERF_RECORD_THROTTLE] = parse_throttle,
	[PERF_RECORD_UNTHROTTLE] = parse_throttle,
	[PERF_RECORD_FORK] = parse_task,
	[PERF_RECORD_MMAP2] = parse_mmap2,
	[PERF_RECORD_AUX] = parse_aux,
	[PERF_RECORD_ITRACE_START] = parse_itrace_start,
	[PERF_RECORD_LOST_SAMPLES] = parse_lost_samples,
};

/* ---- Whole records ---- */

static void parse_sample(struct pmu_cursor *cursor, const struct pmu_format *format,
			 struct pmu_record *record)
{
	unsigned mode = record->misc & PERF_RECORD_MISC_CPUMODE_MASK;

	record->is_kernel = mode == PERF_RECORD_MISC_KERNEL || mode == PERF_RECORD_MISC_HYPERVISOR;
	pmu_fields_sample(cursor, format, record);
}

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

static int parse(const struct pmu_format *format, const void *bytes, int length,
		 enum pmu_order order, struct pmu_record *ret_record)
{
	struct perf_event_header header;
	struct pmu_cursor cursor = { .at = (const uint8_t *)bytes + sizeof(header),
				     .end = (const uint8_t *)bytes + length,
				     .order = order };

	memcpy(&header, bytes, sizeof(header));
	memset(ret_record, 0, sizeof(*ret_record));
	ret_record->type = header.type;
	ret_record->misc = header.misc;
	ret_record->bytes = header.size;
	ret_record->origin.cpu = UINT32_MAX;
	if (header.type == PERF_RECORD_SAMPLE) {
		parse_sample(&cursor, format, ret_record);
	} else {
		if (header.type >= ARRAY_LENGTH(bodies) || !bodies[header.type])
			return length;
		if (!format->has_no_trailer)
			pmu_fields_trailer(&cursor, format, ret_record);
		bodies[header.type](&cursor, ret_record);
	}
	ret_record->is_known = true;
	return cursor.is_short ? -EILSEQ : length;
}

int pmu_record_parse(const struct pmu_format *format, const void *bytes, size_t n_bytes,
		     struct pmu_record *ret_record)
{
	int length = pmu_record_length(bytes, n_bytes);

	return length <= 0 ? length : parse(format, bytes, length, PMU_ORDER_OURS, ret_record);
}

int pmu_record_turn(const struct pmu_format *format, void *bytes, size_t n_bytes)
{
	int length = pmu_record_length(bytes, n_bytes);
	struct pmu_record record;

	return length <= 0 ? length : parse(format, bytes, length, PMU_ORDER_TURNED, &record);
}

/* What lies in front of a SAMPLE. */
#define HEAD_FIELDS (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME)

int pmu_record_parse_head(const struct pmu_format *format, const void *bytes, size_t n_bytes,
			  struct pmu_record *ret_record)
{
	const struct pmu_format head = { .sample_type = format->sample_type & HEAD_FIELDS };
	int length = pmu_record_length(bytes, n_bytes);

	if (length <= 0)
		return length;
	if (((const struct perf_event_header *)bytes)->type == PERF_RECORD_SAMPLE)
		format = &head;
	return parse(format, bytes, length, PMU_ORDER_OURS, ret_record);
}

bool pmu_record_sample_ip(const struct pmu_format *format, const void *bytes, size_t n_bytes,
			  struct pmu_origin *ret_origin, uint64_t *ret_ip)
{
	const uint64_t needed = PERF_SAMPLE_IP | PERF_SAMPLE_TID;
	struct pmu_record record;

	if ((format->sample_type & needed) != needed ||
	    pmu_record_parse_head(format, bytes, n_bytes, &record) <= 0 ||
	    record.type != PERF_RECORD_SAMPLE)
		return false;
	*ret_origin = record.origin;
	*ret_ip = record.sample.ip;
	return true;
}

bool pmu_sample_register(const struct pmu_sample *sample, unsigned reg, uint64_t *ret_value)
{
	if (reg >= 64 || !sample->regs || !(sample->regs_mask >> reg & 1))
		return false;
	uint64_t below = sample->regs_mask & ((UINT64_C(1) << reg) - 1);
	*ret_value = sample->regs[__builtin_popcountll(below)];
	return true;
}

bool pmu_sample_stack_pointer(const struct pmu_sample *sample, uint64_t *ret_address)
{
	return pmu_sample_is_x86(sample) &&
	       pmu_sample_register(sample, PMU_X86_STACK_POINTER, ret_address);
}
