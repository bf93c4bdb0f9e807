/*
 * Decodes whatever bytes as a column of a compact table, and reads every row. The first byte says
 * whether the checksum is put right, so that the fuzzer gets past it, and how many rows the column
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
	FUZZ_REQUIRE(chunk_column_decode(decoder, bytes, n_bytes, NULL, &column) == 0);
	chunk_encoder_close(encoder);
	return column;
}

static void decode(struct chunk_decoder *decoder, const uint8_t *bytes, size_t n_bytes,
		   uint32_t n_others)
{
	static volatile uint64_t keep; /* the reads must not be left out */
	struct chunk_column *column = NULL, *other = NULL;
	int asked = -1;

	if (chunk_column_check(bytes, n_bytes, &asked) < 0)
		return;
	if (asked >= 0 && n_others > 0)
		other = make_other(decoder, n_others);
	if (chunk_column_decode(decoder, bytes, n_bytes, other, &column) == 0)
		keep = keep + sum_rows(column);
	chunk_column_free(column);
	chunk_column_free(other);
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
	if (mode & 1 && n_bytes > CHUNK_CHECKED_FROM) {
		uint32_t checksum =
			trace_checksum(copy + CHUNK_CHECKED_FROM, n_bytes - CHUNK_CHECKED_FROM);
		memcpy(copy, &checksum, sizeof(checksum));
	}
	decode(decoder, copy, n_bytes, mode >> 1);
	return 0;
}
