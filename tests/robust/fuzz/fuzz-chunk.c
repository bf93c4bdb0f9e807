/*
 * Decodes whatever bytes as a column of a compact table, and reads every row. The first byte says
 * whether checksums are put right, so that the fuzzer gets past them, and how many rows the column
 * has that one may be written relative to.
 */
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "store/columns/column.h"
#include "store/columns/encoding.h"
#include "tests/robust/fuzz/fuzz.h"
#include "trace/frame.h"

#define MAX_OTHER 127u

static uint64_t sum_rows(const struct chunk_column *column)
{
	uint64_t sum = 0;
	int64_t value;

	for (uint32_t i = 0; i < column->n; i++)
		sum += chunk_column_get(column, i, &value) ? (uint64_t)value : 1;
	return sum;
}

/* Rows of another column: 0, 3, 6 ... of which some are NULL. */
static struct chunk_column *make_other(struct chunk_decoder *decoder, uint32_t n)
{
	struct chunk_encoder *encoder = chunk_encoder_open();
	struct chunk_column *column = NULL;
	int64_t rows[MAX_OTHER + 1];
	const void *bytes;
	size_t n_bytes;

	for (uint32_t i = 0; i < n; i++)
		rows[i] = i % 5 ? 3 * (int64_t)i : CHUNK_NULL;
	struct chunk_values values = { .values = rows, .n = n, .may_be_null = true };
	FUZZ_REQUIRE(encoder && chunk_column_encode(encoder, &values,
						    (struct chunk_plan){ .coding = CHUNK_PLAIN },
						    &bytes, &n_bytes) == 0);
	struct chunk_source source = { .bytes = bytes, .n_bytes = n_bytes };
	FUZZ_REQUIRE(chunk_column_check(bytes, n_bytes, &source.outline) == 0);
	FUZZ_REQUIRE(chunk_column_decode(decoder, &source, NULL, &column) == 0);
	chunk_encoder_close(encoder);
	return column;
}

static void decode(struct chunk_decoder *decoder, const uint8_t *bytes, size_t n_bytes,
		   uint32_t n_others)
{
	static volatile uint64_t keep; /* the reads must not be left out */
	struct chunk_column *column = NULL, *other = NULL;
	struct chunk_source source = { .bytes = bytes, .n_bytes = n_bytes };
	uint16_t places[MAX_OTHER + 1];

	if (chunk_column_check(bytes, n_bytes, &source.outline) < 0)
		return;
	if (n_others % 3 == 2 && source.outline.n_rows <= MAX_OTHER) {
		for (uint32_t i = 0; i < source.outline.n_rows; i++)
			places[i] = (uint16_t)(source.outline.n_rows - 1 - i);
		source.places = places;
	}
	if (source.outline.other >= 0 && n_others > 0)
		other = make_other(decoder, n_others);
	if (chunk_column_decode(decoder, &source, other, &column) == 0)
		keep = keep + sum_rows(column);
	chunk_column_free(column);
	chunk_column_free(other);
}

/* Put the size and the checksum of a piece right. Returns how long it is. */
static size_t mend_piece(uint8_t *bytes, size_t n_left)
{
	struct chunk_column_head head;

	memcpy(&head, bytes, sizeof(head));
	if (head.n_bytes < sizeof(head) || head.n_bytes > n_left)
		head.n_bytes = (uint32_t)n_left;
	memcpy(bytes, &head, sizeof(head));
	head.checksum =
		trace_checksum(bytes + CHUNK_CHECKED_FROM, head.n_bytes - CHUNK_CHECKED_FROM);
	memcpy(bytes, &head, sizeof(head));
	return head.n_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static struct chunk_decoder *decoder;
	uint8_t mode = (uint8_t)fuzz_take(&bytes, &n_bytes, 1);
	auto_free uint8_t *copy = malloc(n_bytes + 1);

	if (!decoder)
		decoder = chunk_decoder_open();
	FUZZ_REQUIRE(copy && decoder);
	memcpy(copy, bytes, n_bytes);
	for (size_t at = 0; mode & 1 && n_bytes - at >= sizeof(struct chunk_column_head);)
		at += mend_piece(copy + at, n_bytes - at);
	decode(decoder, copy, n_bytes, mode >> 1);
	return 0;
}
