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

/* Compress the parts into out. Returns the compressed size, or 0 if that does not pay. */
static size_t compress(ZSTD_CCtx *zstd, ZSTD_outBuffer out, const struct iovec *parts,
		       unsigned n_parts, size_t raw_bytes)
{
	size_t unflushed = 0;

	ZSTD_CCtx_reset(zstd, ZSTD_reset_session_only);
	ZSTD_CCtx_setPledgedSrcSize(zstd, raw_bytes);
	for (unsigned i = 0; i < n_parts; i++) {
		ZSTD_inBuffer in = { parts[i].iov_base, parts[i].iov_len, 0 };
		ZSTD_EndDirective directive = ZSTD_e_continue;

		unflushed += in.size;
		if (i + 1 == n_parts)
			directive = ZSTD_e_end;
		else if (unflushed >= BLOCK_MIN_BYTES)
			directive = ZSTD_e_flush;

		size_t left = ZSTD_compressStream2(zstd, &out, &in, directive);
		if (ZSTD_isError(left) || in.pos < in.size ||
		    (directive != ZSTD_e_continue && left > 0))
			return 0;
		if (directive == ZSTD_e_flush)
			unflushed = 0;
	}
	return out.pos < raw_bytes ? out.pos : 0;
}

static void store(uint8_t *out, const struct iovec *parts, unsigned n_parts)
{
	for (unsigned i = 0; i < n_parts; i++) {
		if (parts[i].iov_len > 0)
			memcpy(out, parts[i].iov_base, parts[i].iov_len);
		out += parts[i].iov_len;
	}
}

int trace_output_frame(struct trace_output *output, ZSTD_CCtx *zstd, struct trace_frame head,
		       const struct iovec *parts, unsigned n_parts)
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
	if (raw_bytes >= COMPRESS_MIN_BYTES)
		body_bytes = compress(zstd, (ZSTD_outBuffer){ body, room, 0 }, parts, n_parts,
				      raw_bytes);
	head.flags |= body_bytes > 0 ? TRACE_FRAME_FLAG_ZSTD : 0;
	if (body_bytes == 0) {
		store(body, parts, n_parts);
		body_bytes = raw_bytes;
	}

	head.raw_bytes = (uint32_t)raw_bytes;
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
