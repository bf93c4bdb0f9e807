/* Records of the other byte order. What lies where is as in perf/fields.c and perf/record.c. */
#include <linux/perf_event.h>

#include "analyze/input/perf-data/file-internal.h"

/* Walks over a record and swaps what it passes. */
struct swap {
	uint8_t *at;
	uint8_t *end;
	bool is_short;
};

static uint8_t *take(struct swap *swap, uint64_t n_bytes)
{
	uint8_t *at = swap->at;

	if (swap->is_short || n_bytes > (uint64_t)(swap->end - swap->at)) {
		swap->is_short = true;
		return NULL;
	}
	swap->at += n_bytes;
	return at;
}

static uint64_t swap_u64(struct swap *swap)
{
	uint8_t *at = take(swap, sizeof(uint64_t));
	uint64_t value = 0;

	if (!at)
		return 0;
	memcpy(&value, at, sizeof(value));
	value = __builtin_bswap64(value);
	memcpy(at, &value, sizeof(value));
	return value;
}

static uint32_t swap_u32(struct swap *swap)
{
	uint8_t *at = take(swap, sizeof(uint32_t));
	uint32_t value = 0;

	if (!at)
		return 0;
	memcpy(&value, at, sizeof(value));
	value = __builtin_bswap32(value);
	memcpy(at, &value, sizeof(value));
	return value;
}

static void swap_words(struct swap *swap, uint64_t n)
{
	if (n > (uint64_t)(swap->end - swap->at) / sizeof(uint64_t))
		swap->is_short = true;
	for (uint64_t i = 0; i < n && !swap->is_short; i++)
		swap_u64(swap);
}

typedef void (*swap_field)(struct swap *swap, const struct pmu_format *format);

static void swap_word(struct swap *swap, const struct pmu_format *format)
{
	(void)format;
	swap_u64(swap);
}

static void swap_pair(struct swap *swap, const struct pmu_format *format)
{
	(void)format;
	swap_u32(swap);
	swap_u32(swap);
}

/* All of it is words, but how many is told by the first of a group. */
static void swap_read(struct swap *swap, const struct pmu_format *format)
{
	uint64_t times = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	unsigned n_each = 1 + (unsigned)__builtin_popcountll(format->read_format &
							     (PERF_FORMAT_ID | PERF_FORMAT_LOST));
	uint64_t n = format->read_format & PERF_FORMAT_GROUP ? swap_u64(swap) : 1;

	swap_words(swap, (unsigned)__builtin_popcountll(format->read_format & times));
	swap_words(swap, n < UINT32_MAX ? n * n_each : UINT64_MAX);
}

static void swap_callchain(struct swap *swap, const struct pmu_format *format)
{
	(void)format;
	swap_words(swap, swap_u64(swap));
}

static void swap_raw(struct swap *swap, const struct pmu_format *format)
{
	(void)format;
	take(swap, swap_u32(swap));
}

static void swap_branches(struct swap *swap, const struct pmu_format *format)
{
	uint64_t n = swap_u64(swap);

	if (format->branch_sample_type & PERF_SAMPLE_BRANCH_HW_INDEX)
		swap_u64(swap);
	swap_words(swap, n < UINT32_MAX ? n * 3 : UINT64_MAX);
}

static void swap_regs(struct swap *swap, uint64_t mask)
{
	if (swap_u64(swap) != PERF_SAMPLE_REGS_ABI_NONE)
		swap_words(swap, (uint64_t)__builtin_popcountll(mask));
}

static void swap_regs_user(struct swap *swap, const struct pmu_format *format)
{
	swap_regs(swap, format->regs_user);
}

static void swap_regs_intr(struct swap *swap, const struct pmu_format *format)
{
	swap_regs(swap, format->regs_intr);
}

static void swap_stack(struct swap *swap, const struct pmu_format *format)
{
	uint64_t room = swap_u64(swap);

	(void)format;
	take(swap, room);
	if (room)
		swap_u64(swap);
}

static void swap_aux(struct swap *swap, const struct pmu_format *format)
{
	(void)format;
	take(swap, swap_u64(swap));
}

struct field {
	uint64_t bit;
	swap_field swap;
};

static const struct field sample_fields[] = {
	{ PERF_SAMPLE_IDENTIFIER, swap_word },
	{ PERF_SAMPLE_IP, swap_word },
	{ PERF_SAMPLE_TID, swap_pair },
	{ PERF_SAMPLE_TIME, swap_word },
	{ PERF_SAMPLE_ADDR, swap_word },
	{ PERF_SAMPLE_ID, swap_word },
	{ PERF_SAMPLE_STREAM_ID, swap_word },
	{ PERF_SAMPLE_CPU, swap_pair },
	{ PERF_SAMPLE_PERIOD, swap_word },
	{ PERF_SAMPLE_READ, swap_read },
	{ PERF_SAMPLE_CALLCHAIN, swap_callchain },
	{ PERF_SAMPLE_RAW, swap_raw },
	{ PERF_SAMPLE_BRANCH_STACK, swap_branches },
	{ PERF_SAMPLE_REGS_USER, swap_regs_user },
	{ PERF_SAMPLE_STACK_USER, swap_stack },
	{ PERF_SAMPLE_WEIGHT, swap_word },
	/*
	 * The fields of both words lie mirrored in the other order: as numbers they are the same.
	 */
	{ PERF_SAMPLE_WEIGHT_STRUCT, swap_word },
	{ PERF_SAMPLE_DATA_SRC, swap_word },
	{ PERF_SAMPLE_TRANSACTION, swap_word },
	{ PERF_SAMPLE_REGS_INTR, swap_regs_intr },
	{ PERF_SAMPLE_PHYS_ADDR, swap_word },
	{ PERF_SAMPLE_CGROUP, swap_word },
	{ PERF_SAMPLE_DATA_PAGE_SIZE, swap_word },
	{ PERF_SAMPLE_CODE_PAGE_SIZE, swap_word },
	{ PERF_SAMPLE_AUX, swap_aux },
};

static const struct field trailer_fields[] = {
	{ PERF_SAMPLE_TID, swap_pair }, { PERF_SAMPLE_TIME, swap_word },
	{ PERF_SAMPLE_ID, swap_word },	{ PERF_SAMPLE_STREAM_ID, swap_word },
	{ PERF_SAMPLE_CPU, swap_pair }, { PERF_SAMPLE_IDENTIFIER, swap_word },
};

#define N_SAMPLE_FIELDS	 (sizeof(sample_fields) / sizeof(sample_fields[0]))
#define N_TRAILER_FIELDS (sizeof(trailer_fields) / sizeof(trailer_fields[0]))

/*
 * Bodies up to their strings: 4 and 8 are numbers of so many bytes, i what a map names its file by.
 */
static const char *const bodies[] = {
	[PERF_RECORD_MMAP] = "44888",
	[PERF_RECORD_LOST] = "88",
	[PERF_RECORD_COMM] = "44",
	[PERF_RECORD_EXIT] = "44448",
	[PERF_RECORD_THROTTLE] = "888",
	[PERF_RECORD_UNTHROTTLE] = "888",
	[PERF_RECORD_FORK] = "44448",
	[PERF_RECORD_MMAP2] = "44888i44",
	[PERF_RECORD_AUX] = "888",
	[PERF_RECORD_ITRACE_START] = "44",
	[PERF_RECORD_LOST_SAMPLES] = "8",
	[PERF_RECORD_SWITCH] = "",
	[PERF_RECORD_SWITCH_CPU_WIDE] = "44",
};

#define N_BODIES (sizeof(bodies) / sizeof(bodies[0]))

void perf_data_swap_head(void *record)
{
	struct perf_event_header head;

	memcpy(&head, record, sizeof(head));
	head.type = __builtin_bswap32(head.type);
	head.misc = __builtin_bswap16(head.misc);
	head.size = __builtin_bswap16(head.size);
	memcpy(record, &head, sizeof(head));
}

static void swap_identity(struct swap *swap, uint16_t misc)
{
	if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		take(swap, 24);
		return;
	}
	swap_u32(swap);
	swap_u32(swap);
	swap_words(swap, 2);
}

static void swap_numbers(struct swap *swap, const char *body, uint16_t misc)
{
	for (; *body; body++) {
		if (*body == '4')
			swap_u32(swap);
		else if (*body == '8')
			swap_u64(swap);
		else
			swap_identity(swap, misc);
	}
}

static void swap_fields(struct swap *swap, const struct pmu_format *format,
			const struct field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (format->sample_type & fields[i].bit)
			fields[i].swap(swap, format);
	}
}

static size_t trailer_bytes(const struct pmu_format *format)
{
	size_t n = 0;

	for (size_t i = 0; i < N_TRAILER_FIELDS; i++)
		n += format->sample_type & trailer_fields[i].bit ? sizeof(uint64_t) : 0;
	return format->has_no_trailer ? 0 : n;
}

bool perf_data_swap_body(const struct pmu_format *format, void *record, size_t n_bytes)
{
	struct perf_event_header head;
	struct swap swap = { (uint8_t *)record + sizeof(head), (uint8_t *)record + n_bytes, false };

	memcpy(&head, record, sizeof(head));
	if (head.type == PERF_RECORD_SAMPLE) {
		swap_fields(&swap, format, sample_fields, N_SAMPLE_FIELDS);
		return !swap.is_short;
	}
	if (head.type < N_BODIES && bodies[head.type])
		swap_numbers(&swap, bodies[head.type], head.misc);

	size_t n_trailer = trailer_bytes(format);
	if ((size_t)(swap.end - swap.at) < n_trailer)
		return false;
	swap.at = swap.end - n_trailer;
	if (n_trailer)
		swap_fields(&swap, format, trailer_fields, N_TRAILER_FIELDS);
	return !swap.is_short;
}

size_t perf_data_sample_id_at(const struct pmu_format *format)
{
	uint64_t before = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR;

	if (format->sample_type & PERF_SAMPLE_IDENTIFIER)
		return sizeof(struct perf_event_header);
	if (!(format->sample_type & PERF_SAMPLE_ID))
		return 0;
	return sizeof(struct perf_event_header) +
	       sizeof(uint64_t) * (size_t)__builtin_popcountll(format->sample_type & before);
}

size_t perf_data_trailer_id_at(const struct pmu_format *format)
{
	uint64_t behind = PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU;

	if (format->has_no_trailer)
		return 0;
	if (format->sample_type & PERF_SAMPLE_IDENTIFIER)
		return sizeof(uint64_t);
	if (!(format->sample_type & PERF_SAMPLE_ID))
		return 0;
	return sizeof(uint64_t) * (1 + (size_t)__builtin_popcountll(format->sample_type & behind));
}
