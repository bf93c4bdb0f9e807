/*
 * Decodes whatever bytes as a column of a compact table, all of its rows and some. The first byte
 * says whether the checksum is put right, so that the fuzzer gets past it, and how many rows the
 * frame has.
 */
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "store/columns/column.h"
#include "store/columns/encoding.h"
#include "tests/robust/fuzz/fuzz.h"
#include "trace/frame.h"

/* The rows of another column: 0, 3, 6 ... of which some are NULL. */
static void make_other(int64_t *others)
{
	for (uint32_t i = 0; i < CHUNK_FRAME_ROWS; i++)
		others[i] = i % 5 ? 3 * (int64_t)i : CHUNK_NULL;
}

static void decode(struct chunk_decoder *decoder, const uint8_t *bytes, size_t n_bytes,
		   unsigned mode)
{
	static volatile int64_t keep; /* the reads must not be left out */
	static int64_t values[CHUNK_FRAME_ROWS], others[CHUNK_FRAME_ROWS];
	static uint32_t rows[CHUNK_FRAME_ROWS];
	struct chunk_outline outline;

	if (chunk_column_check(bytes, n_bytes, &outline) < 0)
		return;
	make_other(others);
	struct chunk_wanted wanted = {
		.values = values,
		.others = mode % 3 ? others : NULL,
		.n = mode % 5 ? outline.n_rows : mode,
	};
	if (mode % 7 == 0) {
		for (uint32_t row = 0; row < outline.n_rows; row += 1 + mode)
			rows[wanted.n_chosen++] = row;
		wanted.rows = rows;
	}
	if (chunk_column_values(decoder, bytes, n_bytes, &wanted) == 0)
		keep = keep + values[0] + values[outline.n_rows - 1];
}

/* Put the size and the checksum right. */
static void mend(uint8_t *bytes, size_t n_bytes)
{
	struct chunk_column_head head;

	if (n_bytes < sizeof(head))
		return;
	memcpy(&head, bytes, sizeof(head));
	head.n_bytes = (uint32_t)n_bytes;
	memcpy(bytes, &head, sizeof(head));
	head.checksum = trace_checksum(bytes + CHUNK_CHECKED_FROM, n_bytes - CHUNK_CHECKED_FROM);
	memcpy(bytes, &head, sizeof(head));
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
	if (mode & 1)
		mend(copy, n_bytes);
	decode(decoder, copy, n_bytes, mode >> 1);
	return 0;
}
