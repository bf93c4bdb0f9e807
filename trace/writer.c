#include "trace/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/columns.h"
#include "trace/frame.h"
#include "trace/records.h"
#include "trace/writer-internal.h"

/* An EVENTS frame is closed at so many: its columns then still lie in the L2 cache, and a reader that
 * merges threads holds 1 MiB of events for each. More gain nothing: 4.26 bytes per event at 16384,
 * 4.25 at 65536. */
#define EVENTS_PER_FRAME 16384u
#define EVENTS_AT_FIRST	 32u

/* Frames of other types are closed at this size, long before TRACE_FRAME_MAX_BYTES. */
#define FRAME_BYTES (1u << 20)

static int write_header(struct trace_writer *writer, const struct trace_file_header *given)
{
	struct trace_file_header header = *given;

	memcpy(header.magic, TRACE_FILE_MAGIC, sizeof(header.magic));
	header.version_major = TRACE_VERSION_MAJOR;
	header.version_minor = TRACE_VERSION_MINOR;
	header.header_bytes = sizeof(header);
	header.checksum = trace_header_checksum(&header);

	struct trace_output output = { (uint8_t *)&header, sizeof(header), sizeof(header) };
	uint64_t written;
	return trace_writer_append(writer, (const struct trace_output *const[]){ &output }, 1,
				   &written);
}

int trace_writer_open(int fd, const struct trace_file_header *header,
		      struct trace_writer **ret_writer)
{
	struct trace_writer *writer = calloc(1, sizeof(*writer));
	int r = -ENOMEM;

	if (!writer) {
		close(fd);
		return r;
	}
	writer->fd = fd;
	writer->zstd = ZSTD_createCCtx();
	if (writer->zstd) {
		ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel, 1);
		r = write_header(writer, header);
	}
	if (r < 0) {
		trace_writer_close(writer);
		return r;
	}
	*ret_writer = writer;
	return 0;
}

struct trace_writer *trace_writer_close(struct trace_writer *writer)
{
	if (!writer)
		return NULL;
	/* What was kept for the end goes back to the disk; if not, it is 64 KiB that nobody sees. */
	if (writer->reserve_bytes && ftruncate(writer->fd, (off_t)writer->file_bytes) < 0)
		errno = 0;
	close(writer->fd);
	ZSTD_freeCCtx(writer->zstd);
	trace_streams_finish(&writer->streams);
	trace_output_finish(&writer->definitions);
	trace_output_finish(&writer->data);
	trace_index_finish(&writer->index);
	free(writer);
	return NULL;
}

size_t trace_writer_pending_bytes(const struct trace_writer *writer)
{
	return writer->pending_bytes + writer->n_pending_events * TRACE_WRITER_EVENT_BYTES;
}

uint64_t trace_writer_file_bytes(const struct trace_writer *writer)
{
	return writer->file_bytes;
}

const struct trace_writer_totals *trace_writer_totals(const struct trace_writer *writer)
{
	return &writer->totals;
}

void trace_writer_limit(struct trace_writer *writer, uint64_t limit_bytes, uint64_t reserve_bytes)
{
	writer->limit_bytes = limit_bytes;
	writer->reserve_bytes = reserve_bytes;
}

void trace_writer_hold(struct trace_writer *writer, uint64_t hold_bytes)
{
	writer->hold_bytes = hold_bytes;
}

/* ---- Frames ---- */

/* Processes and threads are told before their nodes and code. */
static int close_records(struct trace_writer *writer)
{
	struct trace_stream *records = trace_streams_find(&writer->streams, TRACE_FRAME_RECORDS, 0);

	return records ? trace_writer_close_frame(writer, records) : 0;
}

int trace_writer_add_frame(struct trace_writer *writer, const struct trace_frame *head,
			   const struct iovec *parts, unsigned n_parts)
{
	struct trace_output *output = &writer->data;

	if (trace_writer_is_definition(head->type)) {
		int r = head->type == TRACE_FRAME_RECORDS ? 0 : close_records(writer);
		if (r < 0)
			return r;
		output = &writer->definitions;
	}
	for (unsigned i = 0; i < n_parts; i++)
		writer->raw_bytes += parts[i].iov_len;
	return trace_output_frame(output, writer->zstd, *head, parts, n_parts);
}

int trace_writer_close_frame(struct trace_writer *writer, struct trace_stream *stream)
{
	struct iovec parts[TRACE_COLUMNS_PARTS] = { { stream->bytes, stream->n_bytes } };
	struct trace_frame head = { .type = (uint16_t)stream->type,
				    .stream_id = stream->stream_id,
				    .n_items = stream->n_items };
	unsigned n_parts = 1;

	if (trace_stream_is_empty(stream))
		return 0;
	if (stream->type == TRACE_FRAME_EVENTS) {
		head.n_items = stream->columns.n_events;
		trace_columns_parts(&stream->columns, parts);
		n_parts = TRACE_COLUMNS_PARTS;
	}

	int r = trace_writer_add_frame(writer, &head, parts, n_parts);
	if (r < 0)
		return r;
	trace_stream_clear(stream);
	return 0;
}

/* Room for n_bytes more of a stream, in its current frame or in a new one. */
static int reserve(struct trace_writer *writer, struct trace_stream *stream, size_t n_bytes,
		   uint8_t **ret_bytes)
{
	if (n_bytes > TRACE_FRAME_MAX_BYTES)
		return -EMSGSIZE;
	if (stream->n_bytes > 0 && stream->n_bytes + n_bytes > FRAME_BYTES) {
		int r = trace_writer_close_frame(writer, stream);
		if (r < 0)
			return r;
	}
	uint8_t *bytes = trace_stream_reserve(stream, n_bytes);
	if (!bytes)
		return -ENOMEM;
	*ret_bytes = bytes;
	return 0;
}

/* Buffer n_bytes that hold n_items. */
static int add_items(struct trace_writer *writer, const struct trace_frame *head, const void *items,
		     size_t n_bytes)
{
	struct trace_stream *stream =
		trace_streams_get(&writer->streams, head->type, head->stream_id);
	uint8_t *bytes;

	if (!stream)
		return -ENOMEM;
	if (n_bytes == 0)
		return 0;
	int r = reserve(writer, stream, n_bytes, &bytes);
	if (r < 0)
		return r;

	memcpy(bytes, items, n_bytes);
	stream->n_bytes += n_bytes;
	stream->n_items += head->n_items;
	writer->pending_bytes += n_bytes;
	return 0;
}

/* ---- What can be added ---- */

static int check_record(const struct trace_record *head, size_t struct_bytes,
			const struct trace_string *strings, size_t n_strings)
{
	const struct trace_record_shape *shape = trace_record_shape(head->type);

	if (struct_bytes < sizeof(*head) || struct_bytes > UINT16_MAX)
		return -EINVAL;
	if (!shape)
		return 0;
	if (struct_bytes < shape->struct_bytes || n_strings != shape->n_strings)
		return -EINVAL;
	for (unsigned i = 0; i < n_strings; i++) {
		if (trace_record_length(head, shape, i) != strings[i].n_bytes)
			return -EINVAL;
	}
	return 0;
}

int trace_writer_record(struct trace_writer *writer, const void *record, size_t struct_bytes,
			const struct trace_string *strings, size_t n_strings)
{
	struct trace_record head;
	size_t n_bytes = struct_bytes;
	uint8_t *out;

	int r = check_record(record, struct_bytes, strings, n_strings);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n_strings; i++)
		n_bytes += strings[i].n_bytes;
	size_t padded = (n_bytes + 7) / 8 * 8;

	struct trace_stream *stream = trace_streams_get(&writer->streams, TRACE_FRAME_RECORDS, 0);
	if (!stream)
		return -ENOMEM;
	r = reserve(writer, stream, padded, &out);
	if (r < 0)
		return r;

	memset(out + padded - 8, 0, 8);
	memcpy(out, record, struct_bytes);
	memcpy(&head, out, sizeof(head));
	head.struct_bytes = (uint16_t)struct_bytes;
	head.bytes = (uint32_t)padded;
	memcpy(out, &head, sizeof(head));
	out += struct_bytes;
	for (size_t i = 0; i < n_strings; i++) {
		if (strings[i].n_bytes > 0)
			memcpy(out, strings[i].bytes, strings[i].n_bytes);
		out += strings[i].n_bytes;
	}
	stream->n_bytes += padded;
	stream->n_items++;
	writer->pending_bytes += padded;
	return 0;
}

/* The columns of a stream are full: let them grow, or make a frame of them. */
static int make_room(struct trace_writer *writer, struct trace_stream *stream)
{
	uint32_t capacity = stream->columns.capacity;

	if (capacity >= EVENTS_PER_FRAME)
		return trace_writer_close_frame(writer, stream);
	return trace_columns_reserve(&stream->columns, capacity ? capacity * 2 : EVENTS_AT_FIRST);
}

static int find_events(struct trace_writer *writer, uint32_t thread_id)
{
	struct trace_stream *stream =
		trace_streams_get(&writer->streams, TRACE_FRAME_EVENTS, thread_id);

	if (!stream)
		return -ENOMEM;
	writer->last_events = stream;
	return 0;
}

int trace_writer_event(struct trace_writer *writer, uint32_t thread_id,
		       const struct trace_event *event)
{
	if (event->op > TRACE_CONTROL_OP || event->op == TRACE_OP_NONE)
		return -EINVAL;
	if (!writer->last_events || writer->last_events->stream_id != thread_id) {
		int r = find_events(writer, thread_id);
		if (r < 0)
			return r;
	}
	struct trace_stream *stream = writer->last_events;
	if (stream->columns.n_events == stream->columns.capacity) {
		int r = make_room(writer, stream);
		if (r < 0)
			return r;
	}
	trace_columns_append(&stream->columns, event);
	writer->n_pending_events++;
	return 0;
}

int trace_writer_node(struct trace_writer *writer, uint32_t thread_id,
		      const struct trace_node *node)
{
	struct trace_frame head = { .type = TRACE_FRAME_NODES,
				    .stream_id = thread_id,
				    .n_items = 1 };

	return add_items(writer, &head, node, sizeof(*node));
}

int trace_writer_perf(struct trace_writer *writer, uint32_t source_id, const void *records,
		      size_t n_bytes, uint32_t n_samples)
{
	struct trace_frame head = { .type = TRACE_FRAME_PERF,
				    .stream_id = source_id,
				    .n_items = n_samples };

	int r = add_items(writer, &head, records, n_bytes);
	if (r == 0)
		writer->n_pending_samples += n_samples;
	return r;
}

int trace_writer_accesses(struct trace_writer *writer, uint32_t source_id,
			  const struct trace_access *accesses, size_t n)
{
	size_t most = FRAME_BYTES / sizeof(*accesses);

	while (n > 0) {
		size_t n_now = n < most ? n : most;
		struct trace_frame head = { .type = TRACE_FRAME_ACCESSES,
					    .stream_id = source_id,
					    .n_items = (uint32_t)n_now };
		int r = add_items(writer, &head, accesses, n_now * sizeof(*accesses));
		if (r < 0)
			return r;
		writer->n_pending_samples += n_now;
		accesses += n_now;
		n -= n_now;
	}
	return 0;
}

int trace_writer_code(struct trace_writer *writer, uint32_t process_id,
		      const struct trace_code *code, const void *bytes)
{
	struct trace_frame head = { .type = TRACE_FRAME_CODE,
				    .stream_id = process_id,
				    .n_items = 1 };
	struct iovec parts[] = { { (void *)(uintptr_t)code, sizeof(*code) },
				 { (void *)(uintptr_t)bytes, code->n_bytes } };

	if (code->n_bytes == 0)
		return 0;
	int r = trace_writer_add_frame(writer, &head, parts, 2);
	if (r == 0)
		writer->pending_bytes += sizeof(*code) + code->n_bytes;
	return r;
}

static int add_aux(struct trace_writer *writer, uint32_t source_id, const struct trace_aux *aux,
		   const uint8_t *bytes)
{
	struct trace_frame head = { .type = TRACE_FRAME_AUX, .stream_id = source_id, .n_items = 1 };
	struct iovec parts[] = { { (void *)(uintptr_t)aux, sizeof(*aux) },
				 { (void *)(uintptr_t)bytes, aux->n_bytes } };

	int r = trace_writer_add_frame(writer, &head, parts, 2);
	if (r == 0) {
		writer->pending_bytes += sizeof(*aux) + aux->n_bytes;
		writer->n_pending_samples++;
	}
	return r;
}

int trace_writer_aux(struct trace_writer *writer, uint32_t source_id, const struct trace_aux *aux,
		     const void *bytes)
{
	struct trace_aux piece = *aux;
	const uint8_t *at = bytes;
	uint32_t left = aux->n_bytes;
	int r;

	do {
		piece.n_bytes = left < FRAME_BYTES ? left : FRAME_BYTES;
		r = add_aux(writer, source_id, &piece, at);
		at += piece.n_bytes;
		left -= piece.n_bytes;
		piece.offset += piece.n_bytes;
		piece.flags = 0;
	} while (r == 0 && left > 0);
	return r;
}
