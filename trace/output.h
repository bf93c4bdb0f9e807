#pragma once
/*
 * Frames that are ready to be appended to a trace file: compressed, sealed, one behind the other.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <zstd.h>

#include "schemas/trace-format.h"

/*
 * How bodies are compressed. Time stamps of events hardly repeat: to look for repetitions in them
 * takes half of the time of all columns and gains 4 to 7 % of the file's size. So they are coded by
 * frequency only.
 */
struct trace_compressor {
	ZSTD_CCtx *usual;
	ZSTD_CCtx *by_frequency;
};

/* Returns 0 or -ENOMEM; trace_compressor_finish() may be called in either case. */
int trace_compressor_init(struct trace_compressor *ret_compressor);

/* Free the contexts. */
void trace_compressor_finish(struct trace_compressor *compressor);

/* All zero is empty; trace_output_finish() frees. */
struct trace_output {
	uint8_t *bytes;
	size_t n_bytes;
	size_t capacity;
};

/* Free the memory. */
void trace_output_finish(struct trace_output *output);

/*
 * Append a frame whose body is the parts one behind the other (together at most
 * TRACE_FRAME_MAX_BYTES). head: type, stream_id and n_items; the rest is filled in. Each large part
 * becomes a zstd block of its own, since columns differ and share no symbol statistics. So does a
 * column of time stamps, as a zstd frame. A body that does not shrink is stored as it is. Returns
 * 0, -EMSGSIZE or -ENOMEM (then nothing was appended).
 */
int trace_output_frame(struct trace_output *output, const struct trace_compressor *compressor,
		       struct trace_frame head, const struct iovec *parts, unsigned n_parts);

/* Append the frames of another output. Returns 0 or -ENOMEM. */
int trace_output_append(struct trace_output *output, const struct trace_output *other);
