#include "store/columns/column.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "store/columns/encoding.h"
#include "trace/frame.h"

#define TILE_ROWS 1024u /* that are put together at a time: they stay in the cache */
_Static_assert(CHUNK_ROWS % TILE_ROWS == 0 && CHUNK_DICTIONARY_MAX % TILE_ROWS == 0, "whole tiles");

struct chunk_decoder {
	ZSTD_DCtx *zstd;
	uint8_t planes[8][CHUNK_ROWS];
	uint64_t list[CHUNK_DICTIONARY_MAX];
	int64_t values[CHUNK_ROWS]; /* of a column that is narrowed again */
	int64_t others[CHUNK_ROWS];
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
	struct chunk_decoder *decoder = malloc(sizeof(*decoder)); /* 2 MiB: not cleared */
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

uint32_t chunk_column_n_rows(const void *bytes)
{
	struct chunk_column_head head;

	memcpy(&head, bytes, sizeof(head));
	return head.n_rows;
}

/* ---- Planes ---- */

/* Decompress the next plane of n bytes. */
static int read_plane(struct chunk_decoder *decoder, struct input *input, uint8_t *plane,
		      uint32_t n)
{
	uint32_t n_bytes;

	if (input->n_left < sizeof(n_bytes))
		return -EBADMSG;
	memcpy(&n_bytes, input->at, sizeof(n_bytes));
	input->at += sizeof(n_bytes);
	input->n_left -= sizeof(n_bytes);
	if (n_bytes > input->n_left ||
	    ZSTD_decompressDCtx(decoder->zstd, plane, n, input->at, n_bytes) != n)
		return -EBADMSG;
	input->at += n_bytes;
	input->n_left -= n_bytes;
	return 0;
}

static int read_planes(struct chunk_decoder *decoder, struct input *input, unsigned n_planes,
		       uint32_t n)
{
	int r = 0;

	for (unsigned i = 0; i < n_planes && r == 0; i++)
		r = read_plane(decoder, input, decoder->planes[i], n);
	return r;
}

/* The numbers of a tile, which begins at a row. */
wide static void join_planes(const struct chunk_decoder *decoder, unsigned n_planes, uint32_t from,
			     uint64_t *restrict numbers)
{
	memset(numbers, 0, TILE_ROWS * sizeof(*numbers));
	for (unsigned plane = 0; plane < n_planes; plane++) {
		const uint8_t *restrict bytes = decoder->planes[plane] + from;
		for (uint32_t i = 0; i < TILE_ROWS; i++)
			numbers[i] |= (uint64_t)bytes[i] << (8 * plane);
	}
}

/* ---- Values ---- */

/* The column at hand. */
struct reading {
	const struct chunk_column_head *head;
	const struct chunk_wanted *wanted;
	uint64_t has_null; /* 1 or 0 */
	uint64_t before; /* value of the last row that was not NULL */
	const uint64_t *list; /* DICTIONARY */
	uint32_t n_listed;
};

static int read_list(struct chunk_decoder *decoder, struct input *input, struct reading *reading)
{
	uint32_t n = reading->head->n_dictionary;

	if (reading->head->coding != CHUNK_DICTIONARY)
		return 0;
	reading->n_listed = n ? n : CHUNK_DICTIONARY_MAX;
	int r = read_planes(decoder, input, 8, reading->n_listed);
	for (uint32_t i = 0; i < reading->n_listed && r == 0; i += TILE_ROWS)
		join_planes(decoder, 8, i, decoder->list + i);
	return r;
}

static int put_listed(const struct reading *reading, const uint64_t *codes, const uint64_t *list,
		      int64_t *values, uint32_t n)
{
	uint64_t has_null = reading->has_null;

	for (uint32_t i = 0; i < n; i++) {
		if (codes[i] >= reading->n_listed + has_null)
			return -EBADMSG;
		values[i] = codes[i] < has_null ? CHUNK_NULL : (int64_t)list[codes[i] - has_null];
	}
	return 0;
}

/* Distances from the least value: no row depends on another one. */
wide static void put_plain(const struct reading *reading, const uint64_t *codes, int64_t *values,
			   uint32_t n)
{
	uint64_t base = reading->head->base;
	unsigned shift = reading->head->shift;

	for (uint32_t i = 0; i < n && !reading->has_null; i++)
		values[i] = (int64_t)(base + (codes[i] << shift));
	for (uint32_t i = 0; i < n && reading->has_null; i++)
		values[i] = codes[i] ? (int64_t)(base + ((codes[i] - 1) << shift)) : CHUNK_NULL;
}

static void put_distances(struct reading *reading, const uint64_t *codes, const int64_t *others,
			  int64_t *values, uint32_t n)
{
	uint64_t base = reading->head->base, has_null = reading->has_null;
	unsigned shift = reading->head->shift;

	for (uint32_t i = 0; i < n; i++) {
		if (codes[i] < has_null) {
			values[i] = CHUNK_NULL;
			continue;
		}
		uint64_t from = others ? (uint64_t)others[i] : reading->before;
		reading->before = from + base + ((codes[i] - has_null) << shift);
		values[i] = (int64_t)reading->before;
	}
}

/* others: NULL but for RELATIVE. */
static int put_codes(struct reading *reading, const uint64_t *codes, const int64_t *others,
		     int64_t *values, uint32_t n)
{
	if (reading->head->coding == CHUNK_DICTIONARY)
		return put_listed(reading, codes, reading->list, values, n);
	if (reading->head->coding == CHUNK_PLAIN)
		put_plain(reading, codes, values, n);
	else
		put_distances(reading, codes, others, values, n);
	return 0;
}

static int put_tile(const struct chunk_decoder *decoder, struct reading *reading, uint32_t from,
		    int64_t *values)
{
	const struct chunk_column_head *head = reading->head;
	uint32_t n = head->n_rows - from < TILE_ROWS ? head->n_rows - from : TILE_ROWS;
	bool is_relative = head->coding == CHUNK_RELATIVE;
	uint64_t codes[TILE_ROWS];

	join_planes(decoder, head->n_planes, from, codes);
	return put_codes(reading, codes, is_relative ? reading->wanted->others + from : NULL,
			 values, n);
}

static int put_all(const struct chunk_decoder *decoder, struct reading *reading)
{
	int r = 0;

	for (uint32_t i = 0; i < reading->head->n_rows && r == 0; i += TILE_ROWS)
		r = put_tile(decoder, reading, i, reading->wanted->values + i);
	return r;
}

/* ---- Chosen rows ---- */

/* Rows that depend on no other one: only their codes are put together. */
static int put_single(const struct chunk_decoder *decoder, struct reading *reading)
{
	const struct chunk_wanted *wanted = reading->wanted;
	bool is_relative = reading->head->coding == CHUNK_RELATIVE;
	uint64_t codes[TILE_ROWS];
	int r = 0;

	for (uint32_t from = 0, n; from < wanted->n_chosen && r == 0; from += n) {
		n = wanted->n_chosen - from < TILE_ROWS ? wanted->n_chosen - from : TILE_ROWS;
		for (uint32_t i = 0; i < n; i++) {
			codes[i] = 0;
			for (unsigned plane = 0; plane < reading->head->n_planes; plane++)
				codes[i] |= (uint64_t)decoder->planes[plane][wanted->rows[from + i]]
					    << (8 * plane);
		}
		r = put_codes(reading, codes, is_relative ? wanted->others + from : NULL,
			      wanted->values + from, n);
	}
	return r;
}

/* Distances from the row before: all are put together, and the chosen ones are kept. */
static void put_and_keep(const struct chunk_decoder *decoder, struct reading *reading)
{
	const struct chunk_wanted *wanted = reading->wanted;
	int64_t values[TILE_ROWS];
	uint32_t n = 0;

	for (uint32_t from = 0; n < wanted->n_chosen; from += TILE_ROWS) {
		put_tile(decoder, reading, from, values);
		for (; n < wanted->n_chosen && wanted->rows[n] < from + TILE_ROWS; n++)
			wanted->values[n] = values[wanted->rows[n] - from];
	}
}

static int put_chosen(const struct chunk_decoder *decoder, struct reading *reading)
{
	if (reading->head->coding != CHUNK_DELTA)
		return put_single(decoder, reading);
	put_and_keep(decoder, reading);
	return 0;
}

int chunk_column_values(struct chunk_decoder *decoder, const void *bytes, size_t n_bytes,
			const struct chunk_wanted *wanted)
{
	struct input input = { bytes, n_bytes };
	struct chunk_column_head head;
	struct reading reading = { .head = &head, .wanted = wanted, .list = decoder->list };
	int r = read_head(&input, &head);

	if (r < 0 || head.n_rows != wanted->n || (head.coding == CHUNK_RELATIVE && !wanted->others))
		return -EBADMSG;
	reading.has_null = head.flags & CHUNK_HAS_NULL;
	r = read_list(decoder, &input, &reading);
	if (r == 0)
		r = read_planes(decoder, &input, head.n_planes, head.n_rows);
	if (r == 0)
		r = wanted->rows ? put_chosen(decoder, &reading) : put_all(decoder, &reading);
	return r == 0 && input.n_left > 0 ? -EBADMSG : r;
}

/* ---- Columns ---- */

struct chunk_column *chunk_column_free(struct chunk_column *column)
{
	if (!column)
		return NULL;
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

static void put_code(const struct chunk_column *column, uint32_t i, uint64_t code)
{
	if (column->width == 1)
		((uint8_t *)column->codes)[i] = (uint8_t)code;
	else if (column->width == 2)
		((uint16_t *)column->codes)[i] = (uint16_t)code;
	else if (column->width == 4)
		((uint32_t *)column->codes)[i] = (uint32_t)code;
	else
		((uint64_t *)column->codes)[i] = code;
}

/* Values to codes since the least one, in as few bytes as they fit in. */
static int narrow(const int64_t *values, struct chunk_column *column)
{
	int64_t min = INT64_MAX, max = INT64_MIN;
	bool has_null = column->has_null;

	for (uint32_t i = 0; i < column->n; i++) {
		bool is_null = has_null && values[i] == CHUNK_NULL;
		min = !is_null && values[i] < min ? values[i] : min;
		max = !is_null && values[i] > max ? values[i] : max;
	}
	column->base = min <= max ? (uint64_t)min : 0;
	column->width = width_of(min <= max ? (uint64_t)max - column->base + has_null : 0);
	column->n_bytes += (size_t)column->n * column->width;
	if (column->width == 0)
		return 0;
	column->codes = malloc((size_t)column->n * column->width);
	for (uint32_t i = 0; i < column->n && column->codes; i++) {
		bool is_null = has_null && values[i] == CHUNK_NULL;
		put_code(column, i, is_null ? 0 : (uint64_t)values[i] - column->base + has_null);
	}
	return column->codes ? 0 : -ENOMEM;
}

int chunk_column_decode(struct chunk_decoder *decoder, const void *bytes, size_t n_bytes,
			const struct chunk_column *other, struct chunk_column **ret_column)
{
	struct input input = { bytes, n_bytes };
	struct chunk_column_head head;
	int r = read_head(&input, &head);

	if (r < 0 || (head.coding == CHUNK_RELATIVE && (!other || other->n != head.n_rows)))
		return -EBADMSG;
	for (uint32_t i = 0; i < head.n_rows && head.coding == CHUNK_RELATIVE; i++) {
		decoder->others[i] = CHUNK_NULL; /* as the writer had it */
		chunk_column_get(other, i, &decoder->others[i]);
	}
	const struct chunk_wanted wanted = { decoder->values, decoder->others, head.n_rows };
	r = chunk_column_values(decoder, bytes, n_bytes, &wanted);
	struct chunk_column *column = r == 0 ? malloc(sizeof(*column)) : NULL;
	if (!column)
		return r < 0 ? r : -ENOMEM;
	*column = (struct chunk_column){
		.n = head.n_rows,
		.has_null = head.flags & CHUNK_HAS_NULL,
		.is_ascending = head.flags & CHUNK_IS_ASCENDING,
		.n_bytes = sizeof(*column),
	};
	r = narrow(decoder->values, column);
	if (r < 0) {
		chunk_column_free(column);
		return r;
	}
	*ret_column = column;
	return 0;
}
