/*
 * The fields that sample_type says: of a SAMPLE, in the order of the kernel's perf_output_sample(),
 * and of the trailer behind every other record.
 */
#include <linux/perf_event.h>

#include "perf/cursor.h"

/* Newer than Debian 12's headers. */
#ifndef PERF_SAMPLE_BRANCH_COUNTERS
#define PERF_SAMPLE_BRANCH_COUNTERS (UINT64_C(1) << 19)
#endif

#define WORD_FIELD(name, target)                                                                   \
	static void take_##name(struct pmu_cursor *cursor, const struct pmu_format *format,        \
				struct pmu_record *record)                                         \
	{                                                                                          \
		(void)format;                                                                      \
		record->target = pmu_cursor_u64(cursor);                                           \
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

static void take_tid(struct pmu_cursor *cursor, const struct pmu_format *format,
		     struct pmu_record *record)
{
	(void)format;
	record->origin.pid = pmu_cursor_u32(cursor);
	record->origin.tid = pmu_cursor_u32(cursor);
}

static void take_cpu(struct pmu_cursor *cursor, const struct pmu_format *format,
		     struct pmu_record *record)
{
	(void)format;
	record->origin.cpu = pmu_cursor_u32(cursor);
	pmu_cursor_u32(cursor); /* reserved */
}

/* struct read_format: one value, or nr of them behind the shared times. */
static void take_read(struct pmu_cursor *cursor, const struct pmu_format *format,
		      struct pmu_record *record)
{
	uint64_t times = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	unsigned n_times = (unsigned)__builtin_popcountll(format->read_format & times);
	unsigned n_each = 1 + (unsigned)__builtin_popcountll(format->read_format &
							     (PERF_FORMAT_ID | PERF_FORMAT_LOST));
	uint64_t n = 1;

	(void)record;
	if (format->read_format & PERF_FORMAT_GROUP)
		n = pmu_cursor_u64(cursor);
	pmu_cursor_words(cursor, n_times);
	if (n > pmu_cursor_left(cursor)) /* n * n_each cannot overflow behind this */
		cursor->is_short = true;
	else
		pmu_cursor_words(cursor, n * n_each);
}

static void take_callchain(struct pmu_cursor *cursor, const struct pmu_format *format,
			   struct pmu_record *record)
{
	uint64_t n = pmu_cursor_u64(cursor);

	(void)format;
	record->sample.callchain = pmu_cursor_words(cursor, n);
	record->sample.n_callchain = record->sample.callchain ? n : 0;
}

/* The kernel pads size + 4 to a multiple of 8 and counts the padding in size. */
static void take_raw(struct pmu_cursor *cursor, const struct pmu_format *format,
		     struct pmu_record *record)
{
	uint32_t size = pmu_cursor_u32(cursor);

	(void)format;
	if ((size + sizeof(size)) % sizeof(uint64_t))
		cursor->is_short = true; /* the words behind it are read where they lie */
	record->sample.raw = pmu_cursor_take(cursor, size);
	record->sample.raw_bytes = record->sample.raw ? size : 0;
}

/* from, to and flags of each branch; not used yet, but what lies behind them is. */
static void take_branches(struct pmu_cursor *cursor, const struct pmu_format *format,
			  struct pmu_record *record)
{
	uint64_t n = pmu_cursor_u64(cursor);
	unsigned n_words = format->branch_sample_type & PERF_SAMPLE_BRANCH_COUNTERS ? 4 : 3;

	(void)record;
	if (format->branch_sample_type & PERF_SAMPLE_BRANCH_HW_INDEX)
		pmu_cursor_u64(cursor);
	if (n > pmu_cursor_left(cursor))
		cursor->is_short = true;
	else
		pmu_cursor_words(cursor, n * n_words);
}

static void take_regs_user(struct pmu_cursor *cursor, const struct pmu_format *format,
			   struct pmu_record *record)
{
	struct pmu_sample *sample = &record->sample;

	sample->regs_abi = pmu_cursor_u64(cursor);
	if (sample->regs_abi == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	sample->regs = pmu_cursor_words(cursor, (uint64_t)__builtin_popcountll(format->regs_user));
	sample->regs_mask = sample->regs ? format->regs_user : 0;
}

static void take_stack(struct pmu_cursor *cursor, const struct pmu_format *format,
		       struct pmu_record *record)
{
	uint64_t room = pmu_cursor_u64(cursor);

	(void)format;
	if (!room)
		return;
	const void *bytes = pmu_cursor_take(cursor, room);
	uint64_t filled = pmu_cursor_u64(cursor);
	if (!bytes || filled > room) {
		cursor->is_short = true;
		return;
	}
	record->sample.stack = filled ? bytes : NULL;
	record->sample.stack_bytes = filled;
}

/* union perf_sample_weight, little endian: var1_dw, var2_w, var3_w. */
static void take_weight_struct(struct pmu_cursor *cursor, const struct pmu_format *format,
			       struct pmu_record *record)
{
	uint64_t word = pmu_cursor_u64(cursor);

	(void)format;
	record->sample.weight = (uint32_t)word;
	record->sample.weight_var2 = (uint16_t)(word >> 32);
	record->sample.weight_var3 = (uint16_t)(word >> 48);
}

static void take_regs_intr(struct pmu_cursor *cursor, const struct pmu_format *format,
			   struct pmu_record *record)
{
	(void)record;
	if (pmu_cursor_u64(cursor) != PERF_SAMPLE_REGS_ABI_NONE)
		pmu_cursor_words(cursor, (uint64_t)__builtin_popcountll(format->regs_intr));
}

static void take_aux(struct pmu_cursor *cursor, const struct pmu_format *format,
		     struct pmu_record *record)
{
	(void)format;
	(void)record;
	pmu_cursor_take(cursor, pmu_cursor_u64(cursor));
}

/* In the order in which they lie: those that are looked at before all others are, and these. */
#define HEAD_FIELDS(FIELD)                                                                         \
	FIELD(IDENTIFIER, id)                                                                      \
	FIELD(IP, ip)                                                                              \
	FIELD(TID, tid)                                                                            \
	FIELD(TIME, time)
#define SAMPLE_FIELDS(FIELD)                                                                       \
	FIELD(ADDR, address)                                                                       \
	FIELD(ID, id)                                                                              \
	FIELD(STREAM_ID, stream_id)                                                                \
	FIELD(CPU, cpu)                                                                            \
	FIELD(PERIOD, period)                                                                      \
	FIELD(READ, read)                                                                          \
	FIELD(CALLCHAIN, callchain)                                                                \
	FIELD(RAW, raw)                                                                            \
	FIELD(BRANCH_STACK, branches)                                                              \
	FIELD(REGS_USER, regs_user)                                                                \
	FIELD(STACK_USER, stack)                                                                   \
	FIELD(WEIGHT, weight)                                                                      \
	FIELD(WEIGHT_STRUCT, weight_struct)                                                        \
	FIELD(DATA_SRC, data_src)                                                                  \
	FIELD(TRANSACTION, transaction)                                                            \
	FIELD(REGS_INTR, regs_intr)                                                                \
	FIELD(PHYS_ADDR, physical_address)                                                         \
	FIELD(CGROUP, cgroup)                                                                      \
	FIELD(DATA_PAGE_SIZE, data_page)                                                           \
	FIELD(CODE_PAGE_SIZE, code_page)                                                           \
	FIELD(AUX, aux)

/* The trailer that sample_id_all puts behind every other record, in its own order. */
#define TRAILER_FIELDS(FIELD)                                                                      \
	FIELD(TID, tid)                                                                            \
	FIELD(TIME, time)                                                                          \
	FIELD(ID, id)                                                                              \
	FIELD(STREAM_ID, stream_id)                                                                \
	FIELD(CPU, cpu)                                                                            \
	FIELD(IDENTIFIER, id)

#define TAKE(bit, name)                                                                            \
	if (format->sample_type & PERF_SAMPLE_##bit)                                               \
		take_##name(cursor, format, record);
#define OR_BIT(bit, name) | PERF_SAMPLE_##bit

void pmu_fields_sample(struct pmu_cursor *cursor, const struct pmu_format *format,
		       struct pmu_record *record)
{
	HEAD_FIELDS(TAKE)
	if (!(format->sample_type & (0 SAMPLE_FIELDS(OR_BIT))))
		return;
	SAMPLE_FIELDS(TAKE)
}

static void take_trailer(struct pmu_cursor *cursor, const struct pmu_format *format,
			 struct pmu_record *record)
{
	TRAILER_FIELDS(TAKE)
}

void pmu_fields_trailer(struct pmu_cursor *cursor, const struct pmu_format *format,
			struct pmu_record *record)
{
	size_t n_bytes =
		sizeof(uint64_t) *
		(size_t)__builtin_popcountll(format->sample_type & (0 TRAILER_FIELDS(OR_BIT)));

	if (n_bytes > pmu_cursor_left(cursor)) {
		cursor->is_short = true;
		return;
	}
	struct pmu_cursor trailer = (struct pmu_cursor){ .at = cursor->end - n_bytes,
							 .end = cursor->end,
							 .order = cursor->order };
	cursor->end -= n_bytes;
	take_trailer(&trailer, format, record);
}
