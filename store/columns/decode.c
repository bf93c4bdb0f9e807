#include "store/columns/column.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "store/columns/encoding.h"
#include "trace/frame.h"

#define TILE_ROWS 1024u /* that are put together at a time: they stay in the cache */
_Static_assert(CHUNK_FRAME_ROWS % TILE_ROWS == 0, "whole tiles");

struct chunk_decoder {
	ZSTD_DCtx *zstd;
	uint8_t planes[8][CHUNK_FRAME_ROWS];
	uint64_t list[CHUNK_FRAME_ROWS];
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
	struct chunk_decoder *decoder = malloc(sizeof(*decoder)); /* not cleared */
	if (!decoder)
		return NULL;
	decoder->zstd = ZSTD_createDCtx();
	return decoder->zstd ? decoder : chunk_decoder_close(decoder);
}

/* ---- The head ---- */

static bool is_sound(const struct chunk_column_head *head)
{
	return head->coding < CHUNK_CODING_COUNT && head->n_planes <= 8 &&
	       !(head->flags & ~CHUNK_HAS_NULL) && head->shift < 64 &&
	       head->other < CHUNK_COLUMNS && head->n_rows > 0 &&
	       head->n_rows <= CHUNK_FRAME_ROWS && head->n_dictionary <= CHUNK_FRAME_ROWS &&
	       (head->coding == CHUNK_DICTIONARY) == (head->n_dictionary > 0);
}

static int read_head(const void *bytes, size_t n_bytes, struct chunk_column_head *ret_head)
{
	if (n_bytes < sizeof(*ret_head))
		return -EBADMSG;
	memcpy(ret_head, bytes, sizeof(*ret_head));
	return is_sound(ret_head) && ret_head->n_bytes == n_bytes ? 0 : -EBADMSG;
}

int chunk_column_check(const void *bytes, size_t n_bytes, struct chunk_outline *ret_outline)
{
	struct chunk_column_head head;

	if (read_head(bytes, n_bytes, &head) < 0 ||
	    head.checksum != trace_checksum((const char *)bytes + CHUNK_CHECKED_FROM,
					    n_bytes - CHUNK_CHECKED_FROM))
		return -EBADMSG;
	*ret_outline = (struct chunk_outline){
		.n_rows = head.n_rows,
		.other = head.coding == CHUNK_RELATIVE ? head.other : -1,
		.has_null = head.flags & CHUNK_HAS_NULL,
	};
	return 0;
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
};

static int read_list(struct chunk_decoder *decoder, struct input *input, struct reading *reading)
{
	uint32_t n = reading->head->n_dictionary;
	int r = n ? read_planes(decoder, input, 8, n) : 0;

	for (uint32_t i = 0; i < n && r == 0; i += TILE_ROWS)
		join_planes(decoder, 8, i, decoder->list + i);
	return r;
}

static int put_listed(const struct reading *reading, const uint64_t *codes, const uint64_t *list,
		      int64_t *values, uint32_t n)
{
	uint64_t has_null = reading->has_null;

	for (uint32_t i = 0; i < n; i++) {
		if (codes[i] >= reading->head->n_dictionary + has_null)
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

/* The same with distances from another column. */
wide static void put_relative(const struct reading *reading, const uint64_t *codes,
			      const int64_t *others, int64_t *values, uint32_t n)
{
	uint64_t base = reading->head->base, has_null = reading->has_null;
	unsigned shift = reading->head->shift;

	for (uint32_t i = 0; i < n && !has_null; i++)
		values[i] = (int64_t)((uint64_t)others[i] + base + (codes[i] << shift));
	for (uint32_t i = 0; i < n && has_null; i++) {
		uint64_t value = (uint64_t)others[i] + base + ((codes[i] - 1) << shift);
		values[i] = codes[i] ? (int64_t)value : CHUNK_NULL;
	}
}

/* Distances from the row before: each waits for one addition only. */
static void put_deltas(struct reading *reading, const uint64_t *codes, int64_t *values, uint32_t n)
{
	uint64_t base = reading->head->base, has_null = reading->has_null;
	uint64_t before = reading->before;
	unsigned shift = reading->head->shift;

	for (uint32_t i = 0; i < n; i++) {
		bool is_null = codes[i] < has_null;
		before += is_null ? 0 : base + ((codes[i] - has_null) << shift);
		values[i] = is_null ? CHUNK_NULL : (int64_t)before;
	}
	reading->before = before;
}

/* others: NULL but for RELATIVE. */
static int put_codes(struct reading *reading, const uint64_t *codes, const int64_t *others,
		     int64_t *values, uint32_t n)
{
	if (reading->head->coding == CHUNK_DICTIONARY)
		return put_listed(reading, codes, reading->list, values, n);
	if (reading->head->coding == CHUNK_PLAIN)
		put_plain(reading, codes, values, n);
	else if (others)
		put_relative(reading, codes, others, values, n);
	else
		put_deltas(reading, codes, values, n);
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
		for (; n < wanted->n_chosen && wanted->rows[n] - from < TILE_ROWS; n++)
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
	struct chunk_column_head head;

	if (read_head(bytes, n_bytes, &head) < 0 || head.n_rows != wanted->n ||
	    (head.coding == CHUNK_RELATIVE && !wanted->others))
		return -EBADMSG;
	struct input input = { (const char *)bytes + sizeof(head), n_bytes - sizeof(head) };
	struct reading reading = {
		.head = &head,
		.wanted = wanted,
		.has_null = head.flags & CHUNK_HAS_NULL,
		.list = decoder->list,
	};
	int r = read_list(decoder, &input, &reading);
	r = r ?: read_planes(decoder, &input, head.n_planes, head.n_rows);
	if (r == 0)
		r = wanted->rows ? put_chosen(decoder, &reading) : put_all(decoder, &reading);
	return r == 0 && input.n_left > 0 ? -EBADMSG : r;
}
