#pragma once
/*
 * What the writer buffers until a frame is made of it: for each (frame type, stream) the items of
 * the current segment. A stream that was idle for a whole segment is forgotten, and one that grew
 * for a burst gives the room back, so memory follows what the last segment held.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/trace-format.h"
#include "trace/columns.h"
#include "trace/perf-columns.h"

struct trace_stream {
	struct trace_stream *next; /* in order of creation */
	struct trace_stream *next_hashed; /* in the same bucket */
	enum trace_frame_type type;
	uint32_t stream_id;
	uint32_t n_items; /* buffered; of EVENTS: columns.n_events */
	size_t most_bytes; /* buffered at once in this segment; of EVENTS: events */
	struct trace_columns columns; /* EVENTS */
	struct trace_perf_columns perf; /* PERF */
	uint8_t *bytes; /* all other types */
	size_t n_bytes;
	size_t capacity;
};

#define TRACE_STREAM_BUCKETS 1024u

/* All zero is empty; trace_streams_finish() frees. */
struct trace_streams {
	struct trace_stream *first;
	struct trace_stream **last_next; /* where the next one is hung; NULL while empty */
	struct trace_stream *buckets[TRACE_STREAM_BUCKETS];
	uint32_t n_streams;
};

/* Free all streams. */
void trace_streams_finish(struct trace_streams *streams);

/* Find a stream, or make it. Returns NULL when memory is out. */
struct trace_stream *trace_streams_get(struct trace_streams *streams, enum trace_frame_type type,
				       uint32_t stream_id);

/* Find a stream. Returns NULL if there is none. */
struct trace_stream *trace_streams_find(const struct trace_streams *streams,
					enum trace_frame_type type, uint32_t stream_id);

/* Room for n_bytes more behind what is buffered (not EVENTS), or NULL when memory is out. */
uint8_t *trace_stream_reserve(struct trace_stream *stream, size_t n_bytes);

/* Is nothing buffered? */
bool trace_stream_is_empty(const struct trace_stream *stream);

/* Forget what is buffered, keep the memory. */
void trace_stream_clear(struct trace_stream *stream);

/* A segment has ended and every stream is empty: forget idle streams, give back room. */
void trace_streams_rest(struct trace_streams *streams);
