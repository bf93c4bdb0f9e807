#include "store/columns/column.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "store/columns/encoding.h"
#include "trace/frame.h"

#define LEVEL	   1
#define HASH_SLOTS (2u * CHUNK_FRAME_ROWS)

struct slot {
	int64_t value;
	uint32_t number; /* 1 + place in the dictionary; 0: free */
};

struct chunk_encoder {
	ZSTD_CCtx *zstd;
	uint64_t codes[CHUNK_FRAME_ROWS];
	uint64_t list[CHUNK_FRAME_ROWS]; /* the dictionary's values */
	uint8_t plane[CHUNK_FRAME_ROWS];
	struct slot slots[HASH_SLOTS]; /* 2^n_slots_log2 are in use */
	unsigned n_slots_log2;
	char *out;
	size_t n_out_max;
};

/* What codes are made of. */
struct narrowed {
	struct chunk_column_head head;
	uint32_t n_list;
};

struct chunk_encoder *chunk_encoder_close(struct chunk_encoder *encoder)
{
	if (!encoder)
		return NULL;
	ZSTD_freeCCtx(encoder->zstd);
	free(encoder->out);
	free(encoder);
	return NULL;
}

struct chunk_encoder *chunk_encoder_open(void)
{
	struct chunk_encoder *encoder = malloc(sizeof(*encoder));
	if (!encoder)
		return NULL;
	encoder->n_out_max = sizeof(struct chunk_column_head) +
			     16 * (sizeof(uint32_t) + ZSTD_compressBound(CHUNK_FRAME_ROWS));
	encoder->zstd = ZSTD_createCCtx();
	encoder->out = malloc(encoder->n_out_max);
	if (!encoder->zstd || !encoder->out)
		return chunk_encoder_close(encoder);
	ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_contentSizeFlag, 1);
	return encoder;
}

/* ---- Codes ---- */

static bool is_null(const struct chunk_values *values, uint32_t i)
{
	return values->may_be_null && values->values[i] == CHUNK_NULL;
}

/* The same of numbers without NULL, which most columns have: no row depends on another one. */
wide static struct chunk_survey survey_all(const int64_t *numbers, uint32_t n)
{
	struct chunk_survey survey = { INT64_MAX, INT64_MIN, 0, 0, true };
	uint64_t falls = 0;

	for (uint32_t i = 0; i < n; i++) {
		survey.min = numbers[i] < survey.min ? numbers[i] : survey.min;
		survey.max = numbers[i] > survey.max ? numbers[i] : survey.max;
		survey.differing |= (uint64_t)(numbers[i] ^ numbers[0]);
	}
	for (uint32_t i = 1; i < n; i++)
		falls |= numbers[i] < numbers[i - 1];
	survey.is_ascending = !falls;
	return survey;
}

/* Of numbers of which those are left out whose value is NULL. */
static struct chunk_survey survey_of(const int64_t *numbers, const struct chunk_values *values)
{
	struct chunk_survey survey = { INT64_MAX, INT64_MIN, 0, 0, true };
	int64_t before = INT64_MIN, first = 0;
	bool is_first = true, falls = false;

	for (uint32_t i = 0; i < values->n; i++) {
		int64_t number = numbers[i];
		if (is_null(values, i)) {
			survey.n_null++;
			continue;
		}
		first = is_first ? number : first;
		is_first = false;
		survey.min = number < survey.min ? number : survey.min;
		survey.max = number > survey.max ? number : survey.max;
		survey.differing |= (uint64_t)(number ^ first);
		falls |= number < before;
		before = number;
	}
	survey.is_ascending = !falls && survey.n_null == 0;
	return survey;
}

struct chunk_survey chunk_survey(const struct chunk_values *values)
{
	struct chunk_survey survey = survey_all(values->values, values->is_alike ? 1 : values->n);

	if (!values->may_be_null || survey.min != CHUNK_NULL)
		return survey;
	if (survey.max != CHUNK_NULL)
		return survey_of(values->values, values);
	return (struct chunk_survey){ INT64_MAX, INT64_MIN, 0, values->n, false };
}

/* What is left of each value; a NULL leaves what stands there, and is left out afterwards. */
wide static void subtract(struct chunk_encoder *encoder, const struct chunk_values *values,
			  enum chunk_coding coding)
{
	const int64_t *from = values->values;
	uint64_t *codes = encoder->codes;
	uint64_t before = 0;

	for (uint32_t i = 0; i < values->n && coding == CHUNK_RELATIVE; i++)
		codes[i] = (uint64_t)from[i] - (uint64_t)values->others[i];
	for (uint32_t i = 0; i < values->n && coding == CHUNK_DELTA; i++) {
		codes[i] = (uint64_t)from[i] - before;
		if (!is_null(values, i))
			before = (uint64_t)from[i];
	}
}

static uint8_t planes_of(uint64_t max)
{
	return max ? (uint8_t)((64 - __builtin_clzll(max) + 7) / 8) : 0;
}

struct shrinking {
	uint64_t base;
	uint64_t shift;
	uint64_t more;
};

wide static void shrink(const int64_t *numbers, uint32_t n, const struct shrinking *how,
			uint64_t *codes)
{
	const struct shrinking by = *how;

	for (uint32_t i = 0; i < n; i++)
		codes[i] = (((uint64_t)numbers[i] - by.base) >> by.shift) + by.more;
}

/* Codes since the least one, with NULL as 0 where there is one. */
static int narrow(struct chunk_encoder *encoder, const struct chunk_values *values,
		  const struct chunk_survey *survey, struct narrowed *narrowed)
{
	struct chunk_column_head *head = &narrowed->head;
	const int64_t *numbers = values->values;
	struct chunk_survey left = *survey;

	head->flags = survey->n_null > 0 ? CHUNK_HAS_NULL : 0;
	if (survey->n_null == values->n) /* codes of no plane are 0 */
		return 0;
	if (head->coding != CHUNK_PLAIN) {
		subtract(encoder, values, head->coding);
		numbers = (const int64_t *)encoder->codes;
		left = survey->n_null ? survey_of(numbers, values) : survey_all(numbers, values->n);
	}
	uint64_t distance = (uint64_t)left.max - (uint64_t)left.min;
	bool has_null = left.n_null > 0;
	if (has_null && distance == UINT64_MAX)
		return -ERANGE;

	head->base = (uint64_t)left.min;
	/* Low bits that are alike in all are 0 in what is left of each. */
	head->shift = left.differing ? (uint8_t)__builtin_ctzll(left.differing) : 0;
	head->n_planes = planes_of((distance >> head->shift) + has_null);
	if (head->n_planes > 0)
		shrink(numbers, values->n, &(struct shrinking){ head->base, head->shift, has_null },
		       encoder->codes);
	for (uint32_t i = 0; i < values->n && head->n_planes > 0 && has_null; i++)
		encoder->codes[i] = is_null(values, i) ? 0 : encoder->codes[i];
	return 0;
}

static struct slot *slot_of(struct chunk_encoder *encoder, int64_t value)
{
	uint64_t hash = (uint64_t)value * UINT64_C(0x9e3779b97f4a7c15);
	size_t i = hash >> (64 - encoder->n_slots_log2);

	while (encoder->slots[i].number && encoder->slots[i].value != value)
		i = (i + 1) & (((size_t)1 << encoder->n_slots_log2) - 1);
	return &encoder->slots[i];
}

/* Free slots, at least twice as many as values. */
static void clear_slots(struct chunk_encoder *encoder, uint32_t n_values)
{
	encoder->n_slots_log2 = 33 - (unsigned)__builtin_clz((n_values - 1) | 1);
	memset(encoder->slots, 0, sizeof(*encoder->slots) << encoder->n_slots_log2);
}

/* Codes are places in a list of the values, in the order in which they come first. */
static int number(struct chunk_encoder *encoder, const struct chunk_values *values,
		  const struct chunk_survey *survey, struct narrowed *narrowed)
{
	struct chunk_column_head *head = &narrowed->head;
	uint64_t has_null = survey->n_null > 0;

	clear_slots(encoder, values->n);
	for (uint32_t i = 0; i < values->n; i++) {
		if (is_null(values, i)) {
			encoder->codes[i] = 0;
			continue;
		}
		struct slot *slot = slot_of(encoder, values->values[i]);
		if (!slot->number) {
			encoder->list[narrowed->n_list] = (uint64_t)values->values[i];
			*slot = (struct slot){ values->values[i], ++narrowed->n_list };
		}
		encoder->codes[i] = slot->number - 1 + has_null;
	}
	if (narrowed->n_list == 0)
		return -ERANGE;
	head->n_dictionary = (uint16_t)narrowed->n_list;
	head->flags = survey->n_null > 0 ? CHUNK_HAS_NULL : 0;
	head->n_planes = planes_of(narrowed->n_list - 1 + has_null);
	return 0;
}

/* ---- Bytes ---- */

wide static void cut_plane(const uint64_t *restrict from, uint32_t n, unsigned shift,
			   uint8_t *restrict plane)
{
	for (uint32_t i = 0; i < n; i++)
		plane[i] = (uint8_t)(from[i] >> shift);
}

/* Append one plane of numbers. Returns 0 or -ENOMEM. */
static int write_plane(struct chunk_encoder *encoder, const uint64_t *from, uint32_t n,
		       unsigned plane, size_t *n_out)
{
	uint32_t n_bytes;

	cut_plane(from, n, 8 * plane, encoder->plane);
	size_t n_written =
		ZSTD_compress2(encoder->zstd, encoder->out + *n_out + sizeof(n_bytes),
			       encoder->n_out_max - *n_out - sizeof(n_bytes), encoder->plane, n);
	if (ZSTD_isError(n_written))
		return -ENOMEM;
	n_bytes = (uint32_t)n_written;
	memcpy(encoder->out + *n_out, &n_bytes, sizeof(n_bytes));
	*n_out += sizeof(n_bytes) + n_written;
	return 0;
}

static int write_planes(struct chunk_encoder *encoder, const struct narrowed *narrowed,
			size_t *n_out)
{
	int r = 0;

	for (unsigned i = 0; i < 8 && r == 0 && narrowed->n_list > 0; i++)
		r = write_plane(encoder, encoder->list, narrowed->n_list, i, n_out);
	for (unsigned i = 0; i < narrowed->head.n_planes && r == 0; i++)
		r = write_plane(encoder, encoder->codes, narrowed->head.n_rows, i, n_out);
	return r;
}

int chunk_column_encode(struct chunk_encoder *encoder, const struct chunk_values *values,
			struct chunk_plan plan, const void **ret_bytes, size_t *ret_n_bytes)
{
	struct narrowed narrowed = {
		.head = { .coding = (uint8_t)plan.coding, .n_rows = values->n },
	};
	size_t n_out = sizeof(narrowed.head);

	if (values->n == 0 || values->n > CHUNK_FRAME_ROWS)
		return -EINVAL;
	struct chunk_survey survey = chunk_survey(values);
	int r = plan.coding == CHUNK_DICTIONARY ? number(encoder, values, &survey, &narrowed)
						: narrow(encoder, values, &survey, &narrowed);

	r = r ?: write_planes(encoder, &narrowed, &n_out);
	if (r < 0)
		return r;
	if (plan.coding == CHUNK_RELATIVE)
		narrowed.head.other = plan.other;
	narrowed.head.n_bytes = (uint32_t)n_out;
	memcpy(encoder->out, &narrowed.head, sizeof(narrowed.head));
	narrowed.head.checksum =
		trace_checksum(encoder->out + CHUNK_CHECKED_FROM, n_out - CHUNK_CHECKED_FROM);
	memcpy(encoder->out, &narrowed.head, sizeof(narrowed.head));
	*ret_bytes = encoder->out;
	*ret_n_bytes = n_out;
	return 0;
}
