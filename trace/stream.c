#include "trace/stream.h"

#include <stdlib.h>

#include "common/array.h"

static struct trace_stream **bucket(struct trace_streams *streams, enum trace_frame_type type,
				    uint32_t stream_id)
{
	return &streams->buckets[(stream_id + (uint32_t)type * 131) % TRACE_STREAM_BUCKETS];
}

static void free_stream(struct trace_stream *stream)
{
	trace_columns_finish(&stream->columns);
	trace_perf_columns_finish(&stream->perf);
	free(stream->bytes);
	free(stream);
}

void trace_streams_finish(struct trace_streams *streams)
{
	struct trace_stream *next;

	for (struct trace_stream *stream = streams->first; stream; stream = next) {
		next = stream->next;
		free_stream(stream);
	}
	*streams = (struct trace_streams){ 0 };
}

struct trace_stream *trace_streams_find(const struct trace_streams *streams,
					enum trace_frame_type type, uint32_t stream_id)
{
	struct trace_stream *stream =
		*bucket((struct trace_streams *)(uintptr_t)streams, type, stream_id);

	while (stream && (stream->stream_id != stream_id || stream->type != type))
		stream = stream->next_hashed;
	return stream;
}

struct trace_stream *trace_streams_get(struct trace_streams *streams, enum trace_frame_type type,
				       uint32_t stream_id)
{
	struct trace_stream *stream = trace_streams_find(streams, type, stream_id);
	if (stream)
		return stream;

	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return NULL;

	struct trace_stream **hash_head = bucket(streams, type, stream_id);
	stream->type = type;
	stream->stream_id = stream_id;
	stream->next_hashed = *hash_head;
	*hash_head = stream;
	if (!streams->last_next)
		streams->last_next = &streams->first;
	*streams->last_next = stream;
	streams->last_next = &stream->next;
	streams->n_streams++;
	return stream;
}

uint8_t *trace_stream_reserve(struct trace_stream *stream, size_t n_bytes)
{
	if (grow_array_by(&stream->bytes, stream->n_bytes, n_bytes, &stream->capacity, 1) < 0)
		return NULL;
	return stream->bytes + stream->n_bytes;
}

bool trace_stream_is_empty(const struct trace_stream *stream)
{
	return stream->n_bytes == 0 && stream->columns.n_events == 0 && stream->perf.n_raw == 0;
}

void trace_stream_clear(struct trace_stream *stream)
{
	size_t used = stream->n_bytes + stream->columns.n_events +
		      trace_perf_columns_bytes(&stream->perf);

	if (used > stream->most_bytes)
		stream->most_bytes = used;
	stream->n_bytes = 0;
	stream->n_items = 0;
	trace_columns_clear(&stream->columns);
	trace_perf_columns_clear(&stream->perf);
}

/* Give back memory that the segment used less than a quarter of. */
static void shrink(struct trace_stream *stream)
{
	if (stream->most_bytes < stream->columns.capacity / 4)
		trace_columns_finish(&stream->columns);
	if (stream->most_bytes < trace_perf_columns_room(&stream->perf) / 4)
		trace_perf_columns_finish(&stream->perf);
	if (stream->most_bytes < stream->capacity / 4) {
		free(stream->bytes);
		stream->bytes = NULL;
		stream->capacity = 0;
	}
	stream->most_bytes = 0;
}

static void unhash(struct trace_streams *streams, struct trace_stream *stream)
{
	struct trace_stream **link = bucket(streams, stream->type, stream->stream_id);

	while (*link != stream)
		link = &(*link)->next_hashed;
	*link = stream->next_hashed;
}

void trace_streams_rest(struct trace_streams *streams)
{
	struct trace_stream **link = &streams->first;

	while (*link) {
		struct trace_stream *stream = *link;
		if (stream->most_bytes > 0) {
			shrink(stream);
			link = &stream->next;
			continue;
		}
		*link = stream->next;
		unhash(streams, stream);
		free_stream(stream);
		streams->n_streams--;
	}
	streams->last_next = link;
}
