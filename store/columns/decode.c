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
	int64_t values[CHUNK_ROWS]; /* of a column that is put in order */
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
	       head->n_rows <= CHUNK_ROWS && (is_list || head->n_dictionary == 0) &&
	       head->n_bytes >= sizeof(*head);
}

/* The next piece is taken off: its head, and what follows that. */
static int take_piece(struct input *input, struct chunk_column_head *ret_head,
		      struct input *ret_piece)
{
	if (input->n_left < sizeof(*ret_head))
		return -EBADMSG;
	memcpy(ret_head, input->at, sizeof(*ret_head));
	if (!is_sound(ret_head) || ret_head->n_bytes > input->n_left)
		return -EBADMSG;
	*ret_piece = (struct input){ input->at + sizeof(*ret_head),
				     ret_head->n_bytes - sizeof(*ret_head) };
	input->at += ret_head->n_bytes;
	input->n_left -= ret_head->n_bytes;
	return 0;
}

int chunk_column_check(const void *bytes, size_t n_bytes, struct chunk_outline *ret_outline)
{
	struct input input = { bytes, n_bytes }, piece;
	struct chunk_column_head head;
	struct chunk_outline outline = { .other = -1 };
	int r = 0;

	do {
		const char *at = input.at;
		r = take_piece(&input, &head, &piece);
		if (r < 0 || head.n_rows > CHUNK_ROWS - outline.n_rows ||
		    head.checksum != trace_checksum(at + CHUNK_CHECKED_FROM,
						    head.n_bytes - CHUNK_CHECKED_FROM))
			return -EBADMSG;
		if (head.coding == CHUNK_RELATIVE && outline.other >= 0 &&
		    outline.other != head.other)
			return -EBADMSG;
		outline.other = head.coding == CHUNK_RELATIVE ? head.other : outline.other;
		outline.has_null = outline.has_null || head.flags & CHUNK_HAS_NULL;
		outline.n_rows += head.n_rows;
	} while (input.n_left > 0);
	*ret_outline = outline;
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
	const struct chunk_wanted *wanted; /* of the piece */
	uint32_t first_row; /* of the piece, in the column */
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
				codes[i] |=
					(uint64_t)decoder->planes[plane][wanted->rows[from + i] -
									 reading->first_row]
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
		uint32_t first = reading->first_row + from;
		for (; n < wanted->n_chosen && wanted->rows[n] - first < TILE_ROWS; n++)
			wanted->values[n] = values[wanted->rows[n] - first];
	}
}

static int put_chosen(const struct chunk_decoder *decoder, struct reading *reading)
{
	if (reading->head->coding != CHUNK_DELTA)
		return put_single(decoder, reading);
	put_and_keep(decoder, reading);
	return 0;
}

static int read_piece(struct chunk_decoder *decoder, struct input *piece, struct reading *reading)
{
	const struct chunk_column_head *head = reading->head;

	if (head->coding == CHUNK_RELATIVE && !reading->wanted->others)
		return -EBADMSG;
	reading->has_null = head->flags & CHUNK_HAS_NULL;
	reading->list = decoder->list;
	int r = read_list(decoder, piece, reading);
	if (r == 0)
		r = read_planes(decoder, piece, head->n_planes, head->n_rows);
	if (r == 0)
		r = reading->wanted->rows ? put_chosen(decoder, reading)
					  : put_all(decoder, reading);
	return r == 0 && piece->n_left > 0 ? -EBADMSG : r;
}

/* How many of the chosen rows from one on come before a row. */
static uint32_t count_before(const struct chunk_wanted *wanted, uint32_t from, uint32_t row)
{
	uint32_t to = from;

	if (!wanted->rows)
		return row - from;
	while (to < wanted->n_chosen && wanted->rows[to] < row)
		to++;
	return to - from;
}

int chunk_column_values(struct chunk_decoder *decoder, const void *bytes, size_t n_bytes,
			const struct chunk_wanted *wanted)
{
	struct input input = { bytes, n_bytes }, bytes_of_piece;
	struct chunk_column_head head;
	uint32_t row = 0, at = 0; /* that come next, of all and of those that are wanted */
	int r = 0;

	while (r == 0 && input.n_left > 0) {
		r = take_piece(&input, &head, &bytes_of_piece);
		if (r < 0 || head.n_rows > wanted->n - row)
			return -EBADMSG;
		uint32_t n = count_before(wanted, at, row + head.n_rows);
		const struct chunk_wanted piece = {
			.values = wanted->values + at,
			.others = wanted->others ? wanted->others + at : NULL,
			.rows = n < head.n_rows ? wanted->rows + at : NULL,
			.n_chosen = n,
		};
		struct reading reading = { .head = &head, .wanted = &piece, .first_row = row };
		if (n > 0)
			r = read_piece(decoder, &bytes_of_piece, &reading);
		row += head.n_rows;
		at += n;
	}
	return r == 0 && row < wanted->n ? -EBADMSG : r;
}

/* ---- Columns ---- */

struct chunk_column *chunk_column_free(struct chunk_column *column)
{
	free(column);
	return NULL;
}

static bool ascends(const struct chunk_column *column)
{
	for (uint32_t i = 1; i < column->n; i++) {
		if (column->values[i] < column->values[i - 1])
			return false;
	}
	return !column->has_null;
}

int chunk_column_decode(struct chunk_decoder *decoder, const struct chunk_source *source,
			const struct chunk_column *other, struct chunk_column **ret_column)
{
	const struct chunk_outline *outline = &source->outline;
	uint32_t n = outline->n_rows;
	const uint16_t *places = source->places;

	if (outline->other >= 0 && (!other || other->n != n))
		return -EBADMSG;
	struct chunk_column *column = malloc(sizeof(*column) + n * sizeof(column->values[0]));
	if (!column)
		return -ENOMEM;
	*column = (struct chunk_column){ .n = n, .has_null = outline->has_null };
	for (uint32_t i = 0; i < n && places && outline->other >= 0; i++)
		decoder->others[i] = other->values[places[i]];
	const struct chunk_wanted wanted = {
		.values = places ? decoder->values : column->values,
		.others = outline->other < 0 ? NULL
			  : places	     ? decoder->others
					     : other->values,
		.n = n,
	};
	int r = chunk_column_values(decoder, source->bytes, source->n_bytes, &wanted);
	if (r < 0) {
		free(column);
		return r;
	}
	for (uint32_t i = 0; i < n && places; i++)
		column->values[places[i]] = decoder->values[i];
	column->is_ascending = ascends(column);
	*ret_column = column;
	return 0;
}
