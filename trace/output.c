/* For ZSTD_c_literalCompressionMode. A library that does not know it refuses it. */
#define ZSTD_STATIC_LINKING_ONLY

#include "trace/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "trace/frame.h"

/* Below this a zstd frame saves less than it costs. */
#define COMPRESS_MIN_BYTES 128u

/* Parts below this share a block with the next one: a block and its tables cost some 60 bytes. */
#define BLOCK_MIN_BYTES 1024u

/*
 * The level that finds next to no repetitions. Below level 0 zstd leaves out the coding by
 * frequency, too, unless it is told.
 */
#define FREQUENCY_LEVEL (-100)

int trace_compressor_init(struct trace_compressor *ret_compressor)
{
	ZSTD_CCtx *usual = ZSTD_createCCtx(), *by_frequency = ZSTD_createCCtx();

	*ret_compressor = (struct trace_compressor){ usual, by_frequency };
	if (!usual || !by_frequency)
		return -ENOMEM;
	ZSTD_CCtx_setParameter(usual, ZSTD_c_compressionLevel, 1);
	size_t result = ZSTD_CCtx_setParameter(by_frequency, ZSTD_c_literalCompressionMode, 1);
	ZSTD_CCtx_setParameter(by_frequency, ZSTD_c_compressionLevel,
			       ZSTD_isError(result) ? 1 : FREQUENCY_LEVEL);
	return 0;
}

void trace_compressor_finish(struct trace_compressor *compressor)
{
	ZSTD_freeCCtx(compressor->usual);
	ZSTD_freeCCtx(compressor->by_frequency);
	*compressor = (struct trace_compressor){ 0 };
}

void trace_output_finish(struct trace_output *output)
{
	free(output->bytes);
	*output = (struct trace_output){ 0 };
}

/* Make room for n_bytes more. */
static int reserve(struct trace_output *output, size_t n_bytes)
{
	return grow_array_by(&output->bytes, output->n_bytes, n_bytes, &output->capacity, 1);
}

/* Parts that follow each other as one zstd frame. false: there is no room, so it does not pay. */
static bool compress_parts(ZSTD_CCtx *zstd, ZSTD_outBuffer *out, const struct iovec *parts,
			   unsigned n_parts)
{
	size_t unflushed = 0, n_bytes = 0;

	for (unsigned i = 0; i < n_parts; i++)
		n_bytes += parts[i].iov_len;
	ZSTD_CCtx_reset(zstd, ZSTD_reset_session_only);
	ZSTD_CCtx_setPledgedSrcSize(zstd, n_bytes);
	for (unsigned i = 0; i < n_parts; i++) {
		ZSTD_inBuffer in = { parts[i].iov_base, parts[i].iov_len, 0 };
		ZSTD_EndDirective directive = ZSTD_e_continue;

		unflushed += in.size;
		if (i + 1 == n_parts)
			directive = ZSTD_e_end;
		else if (unflushed >= BLOCK_MIN_BYTES)
			directive = ZSTD_e_flush;

		size_t left = ZSTD_compressStream2(zstd, out, &in, directive);
		if (ZSTD_isError(left) || in.pos < in.size ||
		    (directive != ZSTD_e_continue && left > 0))
			return false;
		if (directive == ZSTD_e_flush)
			unflushed = 0;
	}
	return true;
}

/* The part that is coded by frequency; n_parts: none. Small ones share a block with others. */
static unsigned part_by_frequency(const struct trace_frame *head, const struct iovec *parts,
				  unsigned n_parts)
{
	const unsigned ticks = 1 + TRACE_COLUMN_TICKS; /* trace_columns_parts() */

	return head->type == TRACE_FRAME_EVENTS && parts[ticks].iov_len >= BLOCK_MIN_BYTES
		       ? ticks
		       : n_parts;
}

/* Compress the parts into out. Returns the compressed size, or 0 if that does not pay. */
static size_t compress(const struct trace_compressor *compressor, ZSTD_outBuffer out,
		       const struct trace_frame *head, const struct iovec *parts, unsigned n_parts)
{
	unsigned other = part_by_frequency(head, parts, n_parts);
	bool fits = compress_parts(compressor->usual, &out, parts, other);

	if (fits && other < n_parts)
		fits = compress_parts(compressor->by_frequency, &out, parts + other, 1) &&
		       compress_parts(compressor->usual, &out, parts + other + 1,
				      n_parts - other - 1);
	return fits && out.pos < head->raw_bytes ? out.pos : 0;
}

static void store(uint8_t *out, const struct iovec *parts, unsigned n_parts)
{
	for (unsigned i = 0; i < n_parts; i++) {
		if (parts[i].iov_len > 0)
			memcpy(out, parts[i].iov_base, parts[i].iov_len);
		out += parts[i].iov_len;
	}
}

int trace_output_frame(struct trace_output *output, const struct trace_compressor *compressor,
		       struct trace_frame head, const struct iovec *parts, unsigned n_parts)
{
	size_t raw_bytes = 0;

	for (unsigned i = 0; i < n_parts; i++)
		raw_bytes += parts[i].iov_len;
	if (raw_bytes > TRACE_FRAME_MAX_BYTES)
		return -EMSGSIZE;

	int r = reserve(output, sizeof(head) + ZSTD_compressBound(raw_bytes) + 64 * n_parts);
	if (r < 0)
		return r;

	uint8_t *body = output->bytes + output->n_bytes + sizeof(head);
	size_t room = output->capacity - output->n_bytes - sizeof(head) - 8;
	size_t body_bytes = 0;

	head.raw_bytes = (uint32_t)raw_bytes;
	if (raw_bytes >= COMPRESS_MIN_BYTES)
		body_bytes = compress(compressor, (ZSTD_outBuffer){ body, room, 0 }, &head, parts,
				      n_parts);
	head.flags |= body_bytes > 0 ? TRACE_FRAME_FLAG_ZSTD : 0;
	if (body_bytes == 0) {
		store(body, parts, n_parts);
		body_bytes = raw_bytes;
	}

	head.body_bytes = (uint32_t)body_bytes;
	trace_frame_seal(&head, body);
	memcpy(body - sizeof(head), &head, sizeof(head));
	memset(body + body_bytes, 0, trace_padded(body_bytes) - body_bytes);
	output->n_bytes += sizeof(head) + trace_padded(body_bytes);
	return 0;
}

int trace_output_append(struct trace_output *output, const struct trace_output *other)
{
	int r = reserve(output, other->n_bytes);

	if (r < 0)
		return r;
	if (other->n_bytes > 0)
		memcpy(output->bytes + output->n_bytes, other->bytes, other->n_bytes);
	output->n_bytes += other->n_bytes;
	return 0;
}
