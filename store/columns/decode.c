#include "store/columns/column.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "store/columns/encoding.h"
#include "trace/frame.h"

struct chunk_decoder {
	ZSTD_DCtx *zstd;
	uint64_t values[CHUNK_ROWS];
	uint64_t list[CHUNK_DICTIONARY_MAX];
	uint8_t plane[CHUNK_ROWS];
};

/* What is left to be read. */
struct input {
	const char *at;
	size_t n_left;
};

struct chunk_decoder *chunk_decoder_close(struct chunk_decoder *decoder)
{
	if (!decoder)
		return NULL;
	ZSTD_freeDCtx(decoder->zstd);
	free(decoder);
	return NULL;
}

struct chunk_decoder *chunk_decoder_open(void)
{
	struct chunk_decoder *decoder = malloc(sizeof(*decoder));
	if (!decoder)
		return NULL;
	decoder->zstd = ZSTD_createDCtx();
	return decoder->zstd ? decoder : chunk_decoder_close(decoder);
}

/* ---- The head ---- */

static bool is_sound(const struct chunk_column_head *head)
{
	bool is_list = head->coding == CHUNK_DICTIONARY;

	return head->coding < CHUNK_CODING_COUNT && head->n_planes <= 8 &&
	       !(head->flags & ~CHUNK_ALL_FLAGS) && head->flags != CHUNK_ALL_FLAGS &&
	       head->shift < 64 && head->other < CHUNK_COLUMNS && head->n_rows > 0 &&
	       head->n_rows <= CHUNK_ROWS && (is_list || head->n_dictionary == 0);
}

static int read_head(struct input *input, struct chunk_column_head *ret_head)
{
	if (input->n_left < sizeof(*ret_head))
		return -EBADMSG;
	memcpy(ret_head, input->at, sizeof(*ret_head));
	input->at += sizeof(*ret_head);
	input->n_left -= sizeof(*ret_head);
	return is_sound(ret_head) ? 0 : -EBADMSG;
}

int chunk_column_check(const void *bytes, size_t n_bytes, int *ret_other)
{
	struct input input = { bytes, n_bytes };
	struct chunk_column_head head;
	int r = read_head(&input, &head);

	if (r < 0)
		return r;
	if (head.checksum !=
	    trace_checksum((const char *)bytes + CHUNK_CHECKED_FROM, n_bytes - CHUNK_CHECKED_FROM))
		return -EBADMSG;
	*ret_other = head.coding == CHUNK_RELATIVE ? head.other : -1;
	return 0;
}

/* ---- Planes ---- */

/* Decompress the next plane of n bytes, and put them into place in numbers. */
static int read_plane(struct chunk_decoder *decoder, struct input *input, unsigned plane,
		      uint64_t *numbers, uint32_t n)
{
	uint32_t n_bytes;

	if (input->n_left < sizeof(n_bytes))
		return -EBADMSG;
	memcpy(&n_bytes, input->at, sizeof(n_bytes));
	input->at += sizeof(n_bytes);
	input->n_left -= sizeof(n_bytes);
	if (n_bytes > input->n_left ||
	    ZSTD_decompressDCtx(decoder->zstd, decoder->plane, n, input->at, n_bytes) != n)
		return -EBADMSG;
	input->at += n_bytes;
	input->n_left -= n_bytes;
	for (uint32_t i = 0; i < n; i++)
		numbers[i] |= (uint64_t)decoder->plane[i] << (8 * plane);
	return 0;
}

static int read_numbers(struct chunk_decoder *decoder, struct input *input, unsigned n_planes,
			uint64_t *numbers, uint32_t n)
{
	int r = 0;

	memset(numbers, 0, n * sizeof(*numbers));
	for (unsigned i = 0; i < n_planes && r == 0; i++)
		r = read_plane(decoder, input, i, numbers, n);
	return r;
}

/* ---- Columns ---- */

struct chunk_column *chunk_column_free(struct chunk_column *column)
{
	if (!column)
		return NULL;
	free(column->dictionary);
	free(column->codes);
	free(column);
	return NULL;
}

static uint8_t width_of(uint64_t max)
{
	return max == 0		   ? 0
	       : max <= UINT8_MAX  ? 1
	       : max <= UINT16_MAX ? 2
	       : max <= UINT32_MAX ? 4
				   : 8;
}

static void put_codes(struct chunk_column *column, const uint64_t *codes)
{
	for (uint32_t i = 0; i < column->n && column->width == 1; i++)
		((uint8_t *)column->codes)[i] = (uint8_t)codes[i];
	for (uint32_t i = 0; i < column->n && column->width == 2; i++)
		((uint16_t *)column->codes)[i] = (uint16_t)codes[i];
	for (uint32_t i = 0; i < column->n && column->width == 4; i++)
		((uint32_t *)column->codes)[i] = (uint32_t)codes[i];
	if (column->width == 8)
		memcpy(column->codes, codes, column->n * sizeof(*codes));
}

/* Codes into as few bytes as they fit in. */
static int set_codes(struct chunk_column *column, const uint64_t *codes)
{
	uint64_t max = 0;

	for (uint32_t i = 0; i < column->n; i++)
		max = codes[i] > max ? codes[i] : max;
	column->width = width_of(max);
	column->n_bytes += (size_t)column->n * column->width;
	if (column->width == 0)
		return 0;
	column->codes = malloc((size_t)column->n * column->width);
	if (!column->codes)
		return -ENOMEM;
	put_codes(column, codes);
	return 0;
}

static int set_dictionary(struct chunk_column *column, const uint64_t *list, uint32_t n)
{
	column->dictionary = malloc(n * sizeof(*list));
	if (!column->dictionary)
		return -ENOMEM;
	memcpy(column->dictionary, list, n * sizeof(*list));
	column->n_bytes += n * sizeof(*list);
	return 0;
}

static int read_dictionary(struct chunk_decoder *decoder, struct input *input,
			   const struct chunk_column_head *head, struct chunk_column *column)
{
	uint32_t n = head->n_dictionary ? head->n_dictionary : CHUNK_DICTIONARY_MAX;
	uint64_t end = (uint64_t)n + column->has_null;
	int r = read_numbers(decoder, input, 8, decoder->list, n);

	if (r == 0)
		r = read_numbers(decoder, input, head->n_planes, decoder->values, column->n);
	for (uint32_t i = 0; i < column->n && r == 0; i++)
		r = decoder->values[i] < end ? 0 : -EBADMSG;
	if (r == 0)
		r = set_dictionary(column, decoder->list, n);
	return r < 0 ? r : set_codes(column, decoder->values);
}

/* Sum up what is told row by row: codes, of which 0 is NULL, become values where they are not. */
static void add_up(uint64_t *codes, const struct chunk_column_head *head,
		   const struct chunk_column *other)
{
	uint64_t has_null = head->flags & CHUNK_HAS_NULL;
	uint64_t before = 0;

	for (uint32_t i = 0; i < head->n_rows; i++) {
		int64_t from = (int64_t)before;
		if (has_null && codes[i] == 0)
			continue;
		if (other && !chunk_column_get(other, i, &from))
			from = CHUNK_NULL; /* as the writer had it */
		codes[i] = (uint64_t)from + head->base + ((codes[i] - has_null) << head->shift);
		before = codes[i];
	}
}

/* Which codes stand for NULL: one bit a row, taken before values take their place. */
static void keep_nulls(struct chunk_decoder *decoder, const struct chunk_column_head *head)
{
	for (uint32_t i = 0; i < head->n_rows; i++)
		decoder->plane[i] = head->flags & CHUNK_HAS_NULL && decoder->values[i] == 0;
}

/*
 * Values to codes since the least one. Fails where NULL would leave no room: the writer has none.
 */
static int narrow(struct chunk_decoder *decoder, struct chunk_column *column)
{
	uint64_t *values = decoder->values;
	int64_t min = INT64_MAX, max = INT64_MIN;

	for (uint32_t i = 0; i < column->n; i++) {
		int64_t value = (int64_t)values[i];
		if (decoder->plane[i])
			continue;
		min = value < min ? value : min;
		max = value > max ? value : max;
	}
	if (min > max)
		min = max = 0;
	if (column->has_null && (uint64_t)max - (uint64_t)min == UINT64_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < column->n; i++)
		values[i] = decoder->plane[i] ? 0 : values[i] - (uint64_t)min + column->has_null;
	column->base = (uint64_t)min;
	return set_codes(column, values);
}

static int read_column(struct chunk_decoder *decoder, struct input *input,
		       const struct chunk_column *other, struct chunk_column *column)
{
	struct chunk_column_head head;
	int r = read_head(input, &head);

	if (r < 0 || (head.coding == CHUNK_RELATIVE && (!other || other->n != head.n_rows)))
		return -EBADMSG;
	*column = (struct chunk_column){
		.n = head.n_rows,
		.has_null = head.flags & CHUNK_HAS_NULL,
		.is_ascending = head.flags & CHUNK_IS_ASCENDING,
		.base = head.base,
		.n_bytes = sizeof(*column),
	};
	if (head.coding == CHUNK_DICTIONARY)
		return read_dictionary(decoder, input, &head, column);
	r = read_numbers(decoder, input, head.n_planes, decoder->values, head.n_rows);
	if (r < 0)
		return r;
	if (head.coding == CHUNK_PLAIN) {
		column->shift = head.shift;
		return set_codes(column, decoder->values);
	}
	keep_nulls(decoder, &head);
	add_up(decoder->values, &head, head.coding == CHUNK_RELATIVE ? other : NULL);
	return narrow(decoder, column);
}

int chunk_column_decode(struct chunk_decoder *decoder, const void *bytes, size_t n_bytes,
			const struct chunk_column *other, struct chunk_column **ret_column)
{
	struct input input = { bytes, n_bytes };
	struct chunk_column *column = calloc(1, sizeof(*column));

	if (!column)
		return -ENOMEM;
	int r = read_column(decoder, &input, other, column);
	if (r == 0 && input.n_left > 0)
		r = -EBADMSG;
	if (r < 0) {
		chunk_column_free(column);
		return r;
	}
	*ret_column = column;
	return 0;
}

/* ---- Values ---- */

static int put_listed(struct chunk_decoder *decoder, struct input *input,
		      const struct chunk_column_head *head, int64_t *values)
{
	uint32_t n = head->n_dictionary ? head->n_dictionary : CHUNK_DICTIONARY_MAX;
	uint64_t has_null = head->flags & CHUNK_HAS_NULL;
	const uint64_t *codes = decoder->values;
	int r = read_numbers(decoder, input, 8, decoder->list, n);

	if (r == 0)
		r = read_numbers(decoder, input, head->n_planes, decoder->values, head->n_rows);
	for (uint32_t i = 0; i < head->n_rows && r == 0; i++) {
		if (codes[i] >= n + has_null)
			r = -EBADMSG;
		else
			values[i] = codes[i] < has_null
					    ? CHUNK_NULL
					    : (int64_t)decoder->list[codes[i] - has_null];
	}
	return r;
}

/* Distances from the least value: no row depends on another one. */
static void put_plain(const struct chunk_decoder *decoder, const struct chunk_column_head *head,
		      int64_t *values)
{
	const uint64_t *codes = decoder->values;
	uint64_t base = head->base;

	if (!(head->flags & CHUNK_HAS_NULL)) {
		for (uint32_t i = 0; i < head->n_rows; i++)
			values[i] = (int64_t)(base + (codes[i] << head->shift));
		return;
	}
	for (uint32_t i = 0; i < head->n_rows; i++)
		values[i] =
			codes[i] ? (int64_t)(base + ((codes[i] - 1) << head->shift)) : CHUNK_NULL;
}

static void put_distances(const struct chunk_decoder *decoder, const struct chunk_column_head *head,
			  const int64_t *others, int64_t *values)
{
	const uint64_t *codes = decoder->values;
	uint64_t has_null = head->flags & CHUNK_HAS_NULL, before = 0;

	for (uint32_t i = 0; i < head->n_rows; i++) {
		if (codes[i] < has_null) {
			values[i] = CHUNK_NULL;
			continue;
		}
		uint64_t from = others ? (uint64_t)others[i] : before;
		before = from + head->base + ((codes[i] - has_null) << head->shift);
		values[i] = (int64_t)before;
	}
}

int chunk_column_values(struct chunk_decoder *decoder, const void *bytes, size_t n_bytes,
			const struct chunk_wanted *wanted)
{
	struct input input = { bytes, n_bytes };
	struct chunk_column_head head;
	int r = read_head(&input, &head);

	if (r < 0 || head.n_rows != wanted->n || (head.coding == CHUNK_RELATIVE && !wanted->others))
		return -EBADMSG;
	if (head.coding == CHUNK_DICTIONARY)
		r = put_listed(decoder, &input, &head, wanted->values);
	else
		r = read_numbers(decoder, &input, head.n_planes, decoder->values, head.n_rows);
	if (r == 0 && head.coding == CHUNK_PLAIN)
		put_plain(decoder, &head, wanted->values);
	else if (r == 0 && head.coding != CHUNK_DICTIONARY)
		put_distances(decoder, &head, head.coding == CHUNK_RELATIVE ? wanted->others : NULL,
			      wanted->values);
	return r == 0 && input.n_left > 0 ? -EBADMSG : r;
}
