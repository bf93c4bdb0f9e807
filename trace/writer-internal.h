#pragma once
/* Shared by writer.c and segment.c. Results: 0 or a negative errno. */
#include <sys/uio.h>
#include <zstd.h>

#include "trace/index.h"
#include "trace/output.h"
#include "trace/stream.h"
#include "trace/writer.h"

struct trace_writer {
	int fd;
	uint64_t file_bytes; /* up to the end of the last segment */
	uint64_t limit_bytes; /* that the file may have; 0: no limit */
	uint64_t reserve_bytes; /* of them, kept for the last segment */
	uint64_t hold_bytes; /* of a segment that waits for room on the disk, at most */
	ZSTD_CCtx *zstd;
	struct trace_stream *last_events; /* the stream of the last event, often the next one's */
	struct trace_streams streams;
	/* Closed frames of the segment: definitions go first, whenever they were closed. */
	struct trace_output definitions;
	struct trace_output data;
	struct trace_index index;
	size_t pending_bytes; /* without events */
	uint64_t n_pending_events;
	uint64_t n_pending_samples;
	uint64_t raw_bytes; /* of closed frames */
	struct trace_writer_totals totals;
};

static inline bool trace_writer_is_definition(enum trace_frame_type type)
{
	return type == TRACE_FRAME_RECORDS || type == TRACE_FRAME_NODES || type == TRACE_FRAME_CODE;
}

/* ---- writer.c ---- */

/*
 * Make a frame of parts at once; records go before it if it is a definition, since they tell the processes and
 * threads that it names. n_items, type and stream_id of head are set.
 */
int trace_writer_add_frame(struct trace_writer *writer, const struct trace_frame *head,
			   const struct iovec *parts, unsigned n_parts);

/* Make a frame of what a stream has buffered. Nothing if it is empty. */
int trace_writer_close_frame(struct trace_writer *writer, struct trace_stream *stream);

/* ---- segment.c ---- */

/*
 * Write n outputs behind the last segment; if that fails, cut the file back to where it ended.
 * *written: how much there was room for.
 */
int trace_writer_append(struct trace_writer *writer, const struct trace_output *const outputs[],
			unsigned n, uint64_t *written);
