#include "trace/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zstd.h>

#include "trace/columns.h"
#include "trace/frame.h"
#include "trace/index.h"
#include "trace/output.h"
#include "trace/records.h"
#include "trace/salvage.h"
#include "trace/stream.h"

/*
 * An EVENTS frame is closed at so many: its columns then still lie in the L2 cache, and a reader
 * that merges threads holds 1 MiB of events for each. More gain nothing: 4.26 bytes per event at
 * 16384, 4.25 at 65536.
 */
#define EVENTS_PER_FRAME 16384u
#define EVENTS_AT_FIRST	 32u

/* Frames of other types are closed at this size, long before TRACE_FRAME_MAX_BYTES. */
#define FRAME_BYTES (1u << 20)

/* Of records that are added at once: small ones take more room in columns than they have. */
#define MOST_PERF_BYTES (TRACE_FRAME_MAX_BYTES / 2)
/* Less of a disk is not worth a segment. */
#define SMALLEST_ROOM_BYTES 4096u

/* What whoever encodes events has for himself. */
struct trace_lane {
	struct trace_compressor compressor;
	struct trace_output data; /* closed frames that are no definitions */
	uint64_t n_events; /* given */
	uint64_t n_closed_events; /* of them, in frames */
	uint64_t raw_bytes; /* of closed frames */
};

struct trace_writer {
	int fd;
	uint64_t file_bytes; /* up to the end of the last segment */
	uint64_t limit_bytes; /* that the file may have; 0: no limit */
	uint64_t reserve_bytes; /* of them, kept for the last segment */
	uint64_t hold_bytes; /* of a segment that waits for room on the disk, at most */
	bool holds_limit; /* or for room below the limit */
	struct trace_lane
		own; /* of the segment: all that is given here, and what others handed in */
	struct trace_stream *last_events; /* the stream of the last event, often the next one's */
	struct trace_streams streams;
	/* Closed frames of the segment that go first, whenever they were closed. */
	struct trace_output definitions;
	struct trace_index index;
	size_t pending_bytes; /* without events */
	uint64_t n_pending_samples;
	struct trace_writer_totals totals;
};

static inline bool is_definition(enum trace_frame_type type)
{
	return type == TRACE_FRAME_RECORDS || type == TRACE_FRAME_NODES || type == TRACE_FRAME_CODE;
}

/* Write at an offset, going on after short writes and EINTR. *written grows by what was written. */
static int write_at(int fd, const struct trace_output *output, uint64_t offset, uint64_t *written)
{
	for (size_t at = 0; at < output->n_bytes;) {
		ssize_t n =
			pwrite(fd, output->bytes + at, output->n_bytes - at, (off_t)(offset + at));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += (size_t)n;
		*written += (uint64_t)n;
	}
	return 0;
}

/*
 * Write n outputs behind the last segment; if that fails, cut the file back to where it ended.
 * *written: how much there was room for.
 */
static int append(struct trace_writer *writer, const struct trace_output *const outputs[],
		  unsigned n, uint64_t *written)
{
	*written = 0;
	for (unsigned i = 0; i < n; i++) {
		int r = write_at(writer->fd, outputs[i], writer->file_bytes + *written, written);
		if (r < 0) {
			/* If this fails too, a reader still stops at the unfinished frame. */
			if (ftruncate(writer->fd, (off_t)writer->file_bytes) < 0)
				return r;
			return r;
		}
	}
	writer->file_bytes += *written;
	return 0;
}

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
	return append(writer, (const struct trace_output *const[]){ &output }, 1, &written);
}

int trace_writer_open(int fd, const struct trace_file_header *header,
		      struct trace_writer **ret_writer)
{
	struct trace_writer *writer = calloc(1, sizeof(*writer));
	int r = -ENOMEM;

	if (!writer)
		return close(fd), r;
	writer->fd = fd;
	r = trace_compressor_init(&writer->own.compressor) ?: write_header(writer, header);
	if (r < 0)
		return trace_writer_close(writer), r;
	*ret_writer = writer;
	return 0;
}

int trace_writer_branch(const struct trace_writer *writer, int fd, struct trace_writer **ret_branch)
{
	struct trace_writer *branch = calloc(1, sizeof(*branch));
	int r = -ENOMEM;

	if (!branch)
		return close(fd), r;
	branch->fd = fd;
	branch->file_bytes = writer->file_bytes;
	branch->totals = writer->totals;
	r = trace_compressor_init(&branch->own.compressor);
	r = r ?: trace_index_copy(&writer->index, &branch->index);
	if (r < 0)
		return trace_writer_close(branch), r;
	*ret_branch = branch;
	return 0;
}

int trace_writer_find_cut(const struct trace_writer *writer, uint64_t ticks, uint64_t n_bytes,
			  struct trace_writer_cut *ret_cut)
{
	const struct trace_index_entry *entries = writer->index.entries;

	/* The first one is what was left by the last cut. */
	for (uint32_t i = writer->index.n_entries + 1; i-- > 2;) {
		uint64_t offset =
			i == writer->index.n_entries ? writer->file_bytes : entries[i].offset;

		if (ticks ? entries[i - 1].commit_ticks > ticks
			  : writer->file_bytes - offset < n_bytes)
			continue;
		/* What came since T last moved would all have to stay. */
		if (entries[i - 1].commit_ticks == entries[i - 2].commit_ticks)
			continue;
		*ret_cut = (struct trace_writer_cut){
			.offset = offset,
			.ticks = entries[i - 1].commit_ticks,
		};
		return 0;
	}
	return -ENOENT;
}

int trace_writer_move(struct trace_writer *writer, int fd, const struct trace_writer_cut *cut,
		      const struct trace_index_entry *first)
{
	uint64_t shift = first->offset - cut->offset; /* modulo 2^64 */
	struct trace_index moved = { 0 };
	struct trace_index_entry entry = *first;
	int r = trace_index_reserve(&moved);

	entry.offset = sizeof(struct trace_file_header);
	entry.commit_ticks = cut->ticks;
	if (r == 0)
		trace_index_add(&moved, &entry);
	for (uint32_t i = 0; r == 0 && i < writer->index.n_entries; i++) {
		entry = writer->index.entries[i];
		if (entry.offset < cut->offset)
			continue;
		entry.offset += shift;
		r = trace_index_reserve(&moved);
		if (r == 0)
			trace_index_add(&moved, &entry);
	}
	if (r < 0)
		return trace_index_finish(&moved), r;
	close(writer->fd);
	writer->fd = fd;
	writer->file_bytes += shift;
	writer->totals.n_segments = moved.n_entries;
	trace_index_finish(&writer->index);
	writer->index = moved;
	return 0;
}

static void finish_lane(struct trace_lane *lane)
{
	trace_compressor_finish(&lane->compressor);
	trace_output_finish(&lane->data);
}

struct trace_writer *trace_writer_close(struct trace_writer *writer)
{
	if (!writer)
		return NULL;
	/*
	 * What was kept for the end goes back to the disk; if not, it is 64 KiB that nobody sees.
	 */
	if (writer->reserve_bytes && ftruncate(writer->fd, (off_t)writer->file_bytes) < 0)
		errno = 0;
	close(writer->fd);
	finish_lane(&writer->own);
	trace_streams_finish(&writer->streams);
	trace_output_finish(&writer->definitions);
	trace_index_finish(&writer->index);
	free(writer);
	return NULL;
}

size_t trace_writer_pending_bytes(const struct trace_writer *writer)
{
	return writer->pending_bytes + writer->own.n_events * TRACE_WRITER_EVENT_BYTES;
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

void trace_writer_hold(struct trace_writer *writer, uint64_t hold_bytes, bool with_limit)
{
	writer->hold_bytes = hold_bytes;
	writer->holds_limit = with_limit;
}

/* ---- Frames ---- */

static int close_frame(struct trace_writer *writer, struct trace_stream *stream);

/* Processes and threads are told before their nodes and code. */
static int close_records(struct trace_writer *writer)
{
	struct trace_stream *records = trace_streams_find(&writer->streams, TRACE_FRAME_RECORDS, 0);

	return records ? close_frame(writer, records) : 0;
}

/*
 * Make a frame of parts at once; records go before it if it is a definition, since they tell the
 * processes and threads that it names. n_items, type and stream_id of head are set.
 */
static int add_frame(struct trace_writer *writer, const struct trace_frame *head,
		     const struct iovec *parts, unsigned n_parts)
{
	struct trace_output *output = &writer->own.data;

	if (is_definition(head->type)) {
		int r = head->type == TRACE_FRAME_RECORDS ? 0 : close_records(writer);
		if (r < 0)
			return r;
		output = &writer->definitions;
	}
	for (unsigned i = 0; i < n_parts; i++)
		writer->own.raw_bytes += parts[i].iov_len;
	return trace_output_frame(output, &writer->own.compressor, *head, parts, n_parts);
}

/* Make a frame of the events that a stream has buffered. */
static int close_events(struct trace_lane *lane, struct trace_stream *stream)
{
	struct iovec parts[TRACE_COLUMNS_PARTS];
	const struct trace_frame head = { .type = TRACE_FRAME_EVENTS,
					  .stream_id = stream->stream_id,
					  .n_items = stream->columns.n_events };
	size_t n_bytes = trace_columns_parts(&stream->columns, parts);
	int r = trace_output_frame(&lane->data, &lane->compressor, head, parts,
				   TRACE_COLUMNS_PARTS);

	if (r < 0)
		return r;
	lane->raw_bytes += n_bytes;
	lane->n_closed_events += head.n_items;
	trace_stream_clear(stream);
	return 0;
}

/* Make a frame of what a stream has buffered. Nothing if it is empty. */
static int close_frame(struct trace_writer *writer, struct trace_stream *stream)
{
	struct iovec parts[TRACE_PERF_PARTS] = { { stream->bytes, stream->n_bytes } };
	struct trace_frame head = { .type = (uint16_t)stream->type,
				    .stream_id = stream->stream_id,
				    .n_items = stream->n_items };
	unsigned n_parts = 1;

	if (trace_stream_is_empty(stream))
		return 0;
	if (stream->type == TRACE_FRAME_EVENTS)
		return close_events(&writer->own, stream);
	if (stream->type == TRACE_FRAME_PERF) {
		head.flags = TRACE_FRAME_FLAG_COLUMNS;
		trace_perf_columns_parts(&stream->perf, parts);
		n_parts = TRACE_PERF_PARTS;
	}

	int r = add_frame(writer, &head, parts, n_parts);
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
		int r = close_frame(writer, stream);
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

int trace_writer_record(struct trace_writer *writer, const void *record, size_t struct_bytes,
			const struct trace_string *strings, size_t n_strings)
{
	size_t n_bytes = trace_record_size(struct_bytes, strings, n_strings);
	struct trace_stream *stream = trace_streams_get(&writer->streams, TRACE_FRAME_RECORDS, 0);
	uint8_t *out;

	if (!stream)
		return -ENOMEM;
	int r = reserve(writer, stream, n_bytes, &out);
	r = r ?: trace_record_put(out, record, struct_bytes, strings, n_strings);
	if (r < 0)
		return r;
	stream->n_bytes += n_bytes;
	stream->n_items++;
	writer->pending_bytes += n_bytes;
	return 0;
}

/* The columns of a stream are full: let them grow, or make a frame of them. */
static int make_room(struct trace_lane *lane, struct trace_stream *stream)
{
	uint32_t capacity = stream->columns.capacity;

	if (capacity >= EVENTS_PER_FRAME)
		return close_events(lane, stream);
	return trace_columns_reserve(&stream->columns, capacity ? capacity * 2 : EVENTS_AT_FIRST);
}

int trace_lane_event(struct trace_lane *lane, struct trace_stream *events,
		     const struct trace_event *event)
{
	if (event->op > TRACE_CONTROL_OP || event->op == TRACE_OP_NONE)
		return -EINVAL;
	if (events->columns.n_events == events->columns.capacity) {
		int r = make_room(lane, events);
		if (r < 0)
			return r;
	}
	trace_columns_append(&events->columns, event);
	lane->n_events++;
	return 0;
}

uint32_t trace_lane_records(struct trace_lane *lane, struct trace_stream *events,
			    struct trace_records *records)
{
	uint32_t n = trace_columns_append_records(&events->columns, records);

	lane->n_events += n;
	return n;
}

uint32_t trace_writer_records(struct trace_writer *writer, uint32_t thread_id,
			      struct trace_records *records)
{
	struct trace_stream *last = writer->last_events;

	return last && last->stream_id == thread_id
		       ? trace_lane_records(&writer->own, last, records)
		       : 0;
}

struct trace_stream *trace_writer_events(struct trace_writer *writer, uint32_t thread_id)
{
	return trace_streams_get(&writer->streams, TRACE_FRAME_EVENTS, thread_id);
}

int trace_writer_event(struct trace_writer *writer, uint32_t thread_id,
		       const struct trace_event *event)
{
	if (!writer->last_events || writer->last_events->stream_id != thread_id) {
		struct trace_stream *stream = trace_writer_events(writer, thread_id);

		if (!stream)
			return -ENOMEM;
		writer->last_events = stream;
	}
	return trace_lane_event(&writer->own, writer->last_events, event);
}

int trace_lane_open(struct trace_lane **ret_lane)
{
	struct trace_lane *lane = calloc(1, sizeof(*lane));

	if (!lane || trace_compressor_init(&lane->compressor) < 0)
		return trace_lane_close(lane), -ENOMEM;
	*ret_lane = lane;
	return 0;
}

struct trace_lane *trace_lane_close(struct trace_lane *lane)
{
	if (lane)
		finish_lane(lane);
	free(lane);
	return NULL;
}

int trace_writer_join(struct trace_writer *writer, struct trace_lane *lane)
{
	int r = trace_output_append(&writer->own.data, &lane->data);

	if (r < 0) {
		writer->totals.n_events += lane->n_closed_events;
		writer->totals.n_dropped_events += lane->n_closed_events;
		lane->n_events -= lane->n_closed_events;
	} else {
		writer->own.raw_bytes += lane->raw_bytes;
	}
	writer->own.n_events += lane->n_events;
	lane->data.n_bytes = 0;
	lane->n_events = lane->n_closed_events = lane->raw_bytes = 0;
	return r;
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
	struct trace_stream *stream =
		trace_streams_get(&writer->streams, TRACE_FRAME_PERF, source_id);
	int r = 0;

	if (!stream)
		return -ENOMEM;
	if (n_bytes > MOST_PERF_BYTES)
		return -EMSGSIZE;
	writer->n_pending_samples += n_bytes ? 0 : n_samples;
	if (n_bytes == 0)
		return 0;
	if (stream->perf.n_raw > 0 && stream->perf.n_raw + n_bytes > FRAME_BYTES)
		r = close_frame(writer, stream);
	if (r < 0)
		return r;
	size_t n_before = trace_perf_columns_bytes(&stream->perf);
	r = trace_perf_columns_add(&stream->perf, records, n_bytes);
	writer->pending_bytes += trace_perf_columns_bytes(&stream->perf) - n_before;
	if (r < 0)
		return r;
	stream->n_items += n_samples;
	writer->n_pending_samples += n_samples;
	return 0;
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
	int r = add_frame(writer, &head, parts, 2);
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

	int r = add_frame(writer, &head, parts, 2);
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

/* ---- Segments: what is buffered goes into the file, or what there is room for ---- */

static int close_frames(struct trace_writer *writer)
{
	for (struct trace_stream *stream = writer->streams.first; stream; stream = stream->next) {
		int r = close_frame(writer, stream);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_commit(struct trace_writer *writer, const struct trace_commit *commit)
{
	struct trace_frame head = { .type = TRACE_FRAME_COMMIT, .n_items = 1 };
	struct iovec part = { (void *)(uintptr_t)commit, sizeof(*commit) };

	return add_frame(writer, &head, &part, 1);
}

/* Start the next segment; what is still pending (memory was out) is dropped. */
static void begin_segment(struct trace_writer *writer)
{
	for (struct trace_stream *stream = writer->streams.first; stream; stream = stream->next) {
		if (is_definition(stream->type))
			writer->totals.n_dropped_definition_bytes += stream->n_bytes;
		trace_stream_clear(stream);
	}
	trace_streams_rest(&writer->streams);
	writer->last_events = NULL;
	writer->own.data.n_bytes = 0;
	writer->pending_bytes = 0;
	writer->totals.n_events += writer->own.n_events;
	writer->totals.n_samples += writer->n_pending_samples;
	writer->n_pending_samples = 0;
	writer->own.n_events = writer->own.n_closed_events = writer->own.raw_bytes = 0;
}

/*
 * What of the segment is not in the file is lost, except for definitions: they wait for the next.
 */
static void drop_segment(struct trace_writer *writer, uint64_t n_events, uint64_t n_samples)
{
	writer->totals.n_dropped_events += writer->own.n_events - n_events;
	writer->totals.n_dropped_samples += writer->n_pending_samples - n_samples;
	if (writer->definitions.n_bytes > TRACE_WRITER_KEPT_BYTES) {
		writer->totals.n_dropped_definition_bytes += writer->definitions.n_bytes;
		writer->definitions.n_bytes = 0;
	}
	begin_segment(writer);
}

/* A segment is in the file. */
static void count_segment(struct trace_writer *writer, struct trace_index_entry *entry)
{
	trace_index_add(&writer->index, entry);
	writer->totals.n_segments++;
}

static bool is_out_of_room(int error)
{
	return error == -ENOSPC || error == -EDQUOT || error == -EFBIG;
}

/* Bytes behind the last segment that a segment may take; the index comes behind the last one. */
static uint64_t room_of_segment(const struct trace_writer *writer, bool is_last)
{
	uint64_t kept = is_last ? 0 : writer->reserve_bytes;
	uint64_t end = (writer->index.n_entries + 1) * sizeof(struct trace_index_entry) +
		       sizeof(struct trace_frame) + sizeof(struct trace_file_footer);

	if (writer->limit_bytes == 0)
		return UINT64_MAX;
	end += writer->file_bytes + kept;
	return end < writer->limit_bytes ? writer->limit_bytes - end : 0;
}

/* Write what fits of a segment. */
static void salvage_segment(struct trace_writer *writer, size_t room,
			    struct trace_index_entry *entry)
{
	struct trace_salvage salvage = { 0 };
	uint64_t written;
	int r = trace_salvage(&writer->definitions, &writer->own.data, room, &salvage);

	if (r == 0)
		r = append(
			writer,
			(const struct trace_output *const[]){ &salvage.definitions, &salvage.data },
			2, &written);
	entry->n_events = r == 0 ? salvage.n_events : 0;
	entry->n_samples = r == 0 ? salvage.n_samples : 0;
	if (r == 0) {
		struct trace_output kept = writer->definitions;

		writer->definitions = salvage.left;
		salvage.left = kept;
		writer->totals.n_dropped_definition_bytes += salvage.n_dropped_bytes;
		count_segment(writer, entry);
	}
	trace_salvage_finish(&salvage);
}

/* Make sure that the disk has room for n_bytes, and for the end of the trace behind them. */
static bool reserve_disk(const struct trace_writer *writer, uint64_t n_bytes)
{
	uint64_t end = (writer->index.n_entries + 1) * sizeof(struct trace_index_entry);

	if (writer->reserve_bytes == 0)
		return true;
	n_bytes += writer->reserve_bytes + end;
	return fallocate(writer->fd, FALLOC_FL_KEEP_SIZE, (off_t)writer->file_bytes,
			 (off_t)n_bytes) == 0 ||
	       (errno != ENOSPC && errno != EDQUOT);
}

/* A disk that has no room for n_bytes: for about how many it has. */
static uint64_t find_disk_room(const struct trace_writer *writer, uint64_t n_bytes)
{
	for (n_bytes /= 2; n_bytes >= SMALLEST_ROOM_BYTES; n_bytes /= 2) {
		if (reserve_disk(writer, n_bytes))
			return n_bytes;
	}
	return 0;
}

static bool may_wait(const struct trace_writer *writer, int error)
{
	return error == -ENOSPC || error == -EDQUOT || (error == -EFBIG && writer->holds_limit);
}

/* Append the closed segment, or what there is room for. */
static int write_segment(struct trace_writer *writer, bool is_last, struct trace_index_entry *entry)
{
	const struct trace_output *const outputs[] = { &writer->definitions, &writer->own.data };
	uint64_t n_bytes = outputs[0]->n_bytes + outputs[1]->n_bytes;
	uint64_t room = room_of_segment(writer, is_last), written = 0;
	uint64_t kept = is_last ? 0 : writer->reserve_bytes;
	int r = -EFBIG;

	if (n_bytes <= room && !is_last && !reserve_disk(writer, n_bytes)) {
		r = -ENOSPC;
		room = find_disk_room(writer, n_bytes);
	} else if (n_bytes <= room) {
		r = append(writer, outputs, 2, &written);
		room = written > kept ? written - kept : 0;
	}
	if (may_wait(writer, r) && !is_last && n_bytes < writer->hold_bytes)
		return -EAGAIN;
	if (is_out_of_room(r))
		salvage_segment(writer, room, entry);
	else if (r < 0)
		*entry = (struct trace_index_entry){ 0 };
	return r;
}

static int commit_segment(struct trace_writer *writer, const struct trace_commit *commit,
			  bool is_last)
{
	struct trace_index_entry entry = { .offset = writer->file_bytes,
					   .commit_ticks = commit->ticks,
					   .n_events = writer->own.n_events,
					   .n_samples = writer->n_pending_samples };

	int r = close_frames(writer);
	size_t n_data_bytes = writer->own.data.n_bytes;
	uint64_t raw_bytes = writer->own.raw_bytes;

	r = r ?: add_commit(writer, commit) ?: trace_index_reserve(&writer->index);
	if (r < 0)
		entry = (struct trace_index_entry){ 0 };
	else
		r = write_segment(writer, is_last, &entry);
	if (r == -EAGAIN) { /* all but the COMMIT waits for the next try */
		writer->own.data.n_bytes = n_data_bytes;
		writer->own.raw_bytes = raw_bytes;
		return r;
	}
	if (r < 0) {
		drop_segment(writer, entry.n_events, entry.n_samples);
		return r;
	}
	count_segment(writer, &entry);
	writer->totals.raw_bytes += writer->own.raw_bytes;
	writer->definitions.n_bytes = 0;
	begin_segment(writer);
	return 0;
}

int trace_writer_commit(struct trace_writer *writer, const struct trace_commit *commit,
			uint64_t *ret_n_dropped)
{
	uint64_t n_before = writer->totals.n_dropped_events;
	int r = commit_segment(writer, commit, false);

	if (ret_n_dropped)
		*ret_n_dropped = writer->totals.n_dropped_events - n_before;
	return r;
}

int trace_writer_finish(struct trace_writer *writer, const struct trace_commit *commit)
{
	struct trace_frame head = { .type = TRACE_FRAME_INDEX, .n_items = writer->index.n_entries };
	struct trace_file_footer footer = { .magic = TRACE_FOOTER_MAGIC };

	uint64_t written;

	int r = commit_segment(writer, commit, true);
	if (r < 0)
		return r;

	struct iovec part = { writer->index.entries,
			      writer->index.n_entries * sizeof(writer->index.entries[0]) };
	head.n_items = writer->index.n_entries;
	footer.index_offset = writer->file_bytes;
	footer.n_segments = writer->totals.n_segments;
	footer.checksum = trace_footer_checksum(&footer);
	struct trace_output end = { (uint8_t *)&footer, sizeof(footer), sizeof(footer) };
	r = add_frame(writer, &head, &part, 1);
	if (r < 0)
		return r;
	return append(writer, (const struct trace_output *const[]){ &writer->own.data, &end }, 2,
		      &written);
}
