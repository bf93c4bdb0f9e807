/* What a writer has buffered becomes a segment of its file, or what there is room for. */
#include "trace/writer-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "trace/frame.h"
#include "trace/salvage.h"

/* Less of a disk is not worth a segment. */
#define SMALLEST_ROOM_BYTES 4096u

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

int trace_writer_append(struct trace_writer *writer, const struct trace_output *const outputs[],
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

static int close_frames(struct trace_writer *writer)
{
	for (struct trace_stream *stream = writer->streams.first; stream; stream = stream->next) {
		int r = trace_writer_close_frame(writer, stream);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_commit(struct trace_writer *writer, const struct trace_commit *commit)
{
	struct trace_frame head = { .type = TRACE_FRAME_COMMIT, .n_items = 1 };
	struct iovec part = { (void *)(uintptr_t)commit, sizeof(*commit) };

	return trace_writer_add_frame(writer, &head, &part, 1);
}

/* Start the next segment; what is still pending (memory was out) is dropped. */
static void begin_segment(struct trace_writer *writer)
{
	for (struct trace_stream *stream = writer->streams.first; stream; stream = stream->next) {
		if (trace_writer_is_definition(stream->type))
			writer->totals.n_dropped_definition_bytes += stream->n_bytes;
		trace_stream_clear(stream);
	}
	trace_streams_rest(&writer->streams);
	writer->last_events = NULL;
	writer->data.n_bytes = 0;
	writer->pending_bytes = 0;
	writer->totals.n_events += writer->n_pending_events;
	writer->totals.n_samples += writer->n_pending_samples;
	writer->n_pending_events = 0;
	writer->n_pending_samples = 0;
	writer->raw_bytes = 0;
}

/* What of the segment is not in the file is lost, except for definitions: they wait for the next. */
static void drop_segment(struct trace_writer *writer, uint64_t n_events, uint64_t n_samples)
{
	writer->totals.n_dropped_events += writer->n_pending_events - n_events;
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
	int r = trace_salvage(&writer->definitions, &writer->data, room, &salvage);

	if (r == 0)
		r = trace_writer_append(
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

/* Append the closed segment, or what there is room for. */
static int write_segment(struct trace_writer *writer, bool is_last, struct trace_index_entry *entry)
{
	const struct trace_output *const outputs[] = { &writer->definitions, &writer->data };
	uint64_t n_bytes = outputs[0]->n_bytes + outputs[1]->n_bytes;
	uint64_t room = room_of_segment(writer, is_last), written = 0;
	uint64_t kept = is_last ? 0 : writer->reserve_bytes;
	int r = -EFBIG;

	if (n_bytes <= room && !is_last && !reserve_disk(writer, n_bytes)) {
		r = -ENOSPC;
		room = find_disk_room(writer, n_bytes);
	} else if (n_bytes <= room) {
		r = trace_writer_append(writer, outputs, 2, &written);
		room = written > kept ? written - kept : 0;
	}
	if ((r == -ENOSPC || r == -EDQUOT) && !is_last && n_bytes < writer->hold_bytes)
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
					   .n_events = writer->n_pending_events,
					   .n_samples = writer->n_pending_samples };

	int r = close_frames(writer);
	size_t n_data_bytes = writer->data.n_bytes;
	uint64_t raw_bytes = writer->raw_bytes;

	if (r == 0)
		r = add_commit(writer, commit);
	if (r == 0)
		r = trace_index_reserve(&writer->index);
	if (r < 0)
		entry = (struct trace_index_entry){ 0 };
	else
		r = write_segment(writer, is_last, &entry);
	if (r == -EAGAIN) { /* all but the COMMIT waits for the next try */
		writer->data.n_bytes = n_data_bytes;
		writer->raw_bytes = raw_bytes;
		return r;
	}
	if (r < 0) {
		drop_segment(writer, entry.n_events, entry.n_samples);
		return r;
	}
	count_segment(writer, &entry);
	writer->totals.raw_bytes += writer->raw_bytes;
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
	r = trace_writer_add_frame(writer, &head, &part, 1);
	if (r < 0)
		return r;
	return trace_writer_append(
		writer, (const struct trace_output *const[]){ &writer->data, &end }, 2, &written);
}
