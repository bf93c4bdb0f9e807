#pragma once
/* Bytes of a record of perf_event, or of what perf writes beside them, walked through. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "perf/record.h"

/* Of the other byte order numbers are turned round, where they lie or as they are read. */
enum pmu_order {
	PMU_ORDER_OURS,
	PMU_ORDER_OTHER,
	PMU_ORDER_TURNED, /* the bytes may be written, and are of our order behind the cursor */
};

/* Walks over fields. Behind the end every field reads as 0 and is_short stays set. */
struct pmu_cursor {
	const uint8_t *at;
	const uint8_t *end;
	enum pmu_order order;
	bool is_short;
};

static inline size_t pmu_cursor_left(const struct pmu_cursor *cursor)
{
	return (size_t)(cursor->end - cursor->at);
}

/* n_bytes where they lie; NULL: there are not so many. */
static inline const void *pmu_cursor_take(struct pmu_cursor *cursor, uint64_t n_bytes)
{
	const void *bytes = cursor->at;

	if (cursor->is_short || n_bytes > pmu_cursor_left(cursor)) {
		cursor->is_short = true;
		return NULL;
	}
	cursor->at += n_bytes;
	return bytes;
}

static inline uint64_t pmu_cursor_u64(struct pmu_cursor *cursor)
{
	const void *bytes = pmu_cursor_take(cursor, sizeof(uint64_t));
	uint64_t value = 0;

	if (bytes)
		memcpy(&value, bytes, sizeof(value));
	if (cursor->order != PMU_ORDER_OURS)
		value = __builtin_bswap64(value);
	if (cursor->order == PMU_ORDER_TURNED && bytes)
		memcpy((void *)(uintptr_t)bytes, &value, sizeof(value));
	return value;
}

static inline uint32_t pmu_cursor_u32(struct pmu_cursor *cursor)
{
	const void *bytes = pmu_cursor_take(cursor, sizeof(uint32_t));
	uint32_t value = 0;

	if (bytes)
		memcpy(&value, bytes, sizeof(value));
	if (cursor->order != PMU_ORDER_OURS)
		value = __builtin_bswap32(value);
	if (cursor->order == PMU_ORDER_TURNED && bytes)
		memcpy((void *)(uintptr_t)bytes, &value, sizeof(value));
	return value;
}

/* n 64-bit words where they lie; n comes out of the record, so n * 8 may overflow. */
static inline const uint64_t *pmu_cursor_words(struct pmu_cursor *cursor, uint64_t n)
{
	struct pmu_cursor words = *cursor;

	if (n > pmu_cursor_left(cursor) / sizeof(uint64_t)) {
		cursor->is_short = true;
		return NULL;
	}
	for (uint64_t i = 0; cursor->order == PMU_ORDER_TURNED && i < n; i++)
		pmu_cursor_u64(&words);
	return pmu_cursor_take(cursor, n * sizeof(uint64_t));
}

/* ---- fields.c ---- */

/* Take the fields of a SAMPLE, those that format says, into record->origin and record->sample. */
void pmu_fields_sample(struct pmu_cursor *cursor, const struct pmu_format *format,
		       struct pmu_record *record);

/* Split the trailer off the end of another record's cursor and take it into record->origin. */
void pmu_fields_trailer(struct pmu_cursor *cursor, const struct pmu_format *format,
			struct pmu_record *record);
