#include "trace/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "trace/frame.h"
#include "trace/reader-internal.h"

#define SEARCH_BUDGET_BYTES (UINT64_C(1) << 30)

/* ---- Opening ---- */

static int check_version(const struct trace_file_header *header)
{
	if (header->version_major == 0 || header->header_bytes < sizeof(*header) ||
	    header->header_bytes > TRACE_FRAME_MAX_BYTES)
		return -EBADMSG;
	/* A longer struct is read by an old reader, a shorter one by none. */
	return header->version_major != TRACE_VERSION_MAJOR ||
			       header->version_minor < TRACE_VERSION_MINOR
		       ? -EPROTOTYPE
		       : 0;
}

static int read_header(struct trace_reader *reader)
{
	struct trace_file_header *header = &reader->header;
	const uint8_t *bytes;
	ssize_t n = trace_window_look(&reader->window, 0, sizeof(*header), &bytes);

	if (n < 0)
		return (int)n;
	if ((size_t)n < sizeof(*header) ||
	    memcmp(bytes, TRACE_FILE_MAGIC, sizeof(header->magic)) != 0)
		return -EBADMSG;

	memcpy(header, bytes, sizeof(*header));
	reader->offset = sizeof(*header);
	reader->damage.header_damaged = header->checksum != trace_header_checksum(header);
	if (reader->damage.header_damaged)
		return 0; /* the frames have checksums of their own */
	reader->offset = header->header_bytes;
	return check_version(header);
}

int trace_reader_open(const char *path, struct trace_reader **ret_reader)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : trace_reader_open_fd(fd, ret_reader);
}

int trace_reader_open_fd(int fd, struct trace_reader **ret_reader)
{
	auto_close int own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own_fd < 0)
		return -errno;

	struct trace_reader *reader = calloc(1, sizeof(*reader));
	if (!reader)
		return -ENOMEM;

	reader->window.fd = steal_fd(&own_fd);
	reader->search_budget_bytes = SEARCH_BUDGET_BYTES;
	reader->zstd = ZSTD_createDCtx();
	int r = reader->zstd ? read_header(reader) : -ENOMEM;
	if (r < 0)
		return trace_reader_close(reader), r;
	*ret_reader = reader;
	return 0;
}

int trace_reader_version(const char *path, unsigned *ret_major, unsigned *ret_minor)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct trace_file_header header;
	ssize_t n = fd < 0 ? -1 : pread(fd, &header, sizeof(header), 0);

	if (n < 0)
		return -errno;
	if ((size_t)n < sizeof(header) ||
	    memcmp(header.magic, TRACE_FILE_MAGIC, sizeof(header.magic)) != 0)
		return -EBADMSG;
	*ret_major = header.version_major;
	*ret_minor = header.version_minor;
	return 0;
}

struct trace_reader *trace_reader_close(struct trace_reader *reader)
{
	if (!reader)
		return NULL;
	close(reader->window.fd);
	trace_window_finish(&reader->window);
	ZSTD_freeDCtx(reader->zstd);
	free_all(reader->body, reader->records, reader->events, reader);
	return NULL;
}

const struct trace_file_header *trace_reader_header(const struct trace_reader *reader)
{
	return &reader->header;
}

uint64_t trace_reader_offset(const struct trace_reader *reader)
{
	return reader->offset;
}

const struct trace_damage *trace_reader_damage(const struct trace_reader *reader)
{
	return &reader->damage;
}

/* ---- Going through the file ---- */

/* Does the footer follow at offset, and the end of the file behind it? */
static int find_footer(struct trace_reader *reader, uint64_t offset, uint64_t index_offset)
{
	struct trace_file_footer footer;
	const uint8_t *bytes;
	ssize_t n = trace_window_look(&reader->window, offset, sizeof(footer) + 1, &bytes);

	if (n < 0)
		return (int)n;
	if (n != sizeof(footer))
		return 0;
	memcpy(&footer, bytes, sizeof(footer));
	return memcmp(footer.magic, TRACE_FOOTER_MAGIC, sizeof(footer.magic)) == 0 &&
	       footer.checksum == trace_footer_checksum(&footer) &&
	       footer.index_offset == index_offset;
}

/* An INDEX frame was at that offset. Returns 1 if the file ends well behind it. */
static int end_at_index(struct trace_reader *reader, uint64_t index_offset)
{
	int r = find_footer(reader, reader->offset, index_offset);

	if (r == 1) {
		reader->damage.ended = true;
		reader->offset += sizeof(struct trace_file_footer);
	}
	return r;
}

/*
 * Search the next good frame head from reader->offset + 1 on. Returns 1 when there is one, 0 at the
 * end of the file, or a negative errno. Byte by byte: bytes may have been lost or inserted.
 */
static int resync(struct trace_reader *reader)
{
	static const uint32_t magic = TRACE_FRAME_MAGIC;
	const size_t look_bytes = 64u << 10;
	uint64_t from = reader->offset++;

	for (;;) {
		struct trace_frame head;
		const uint8_t *bytes;
		ssize_t n = trace_window_look(&reader->window, reader->offset, look_bytes, &bytes);
		if (n < 0)
			return (int)n;
		if ((size_t)n < sizeof(head)) {
			reader->offset += (size_t)n;
			reader->damage.n_skipped_bytes += reader->offset - from;
			return 0;
		}
		const uint8_t *last = bytes + n - sizeof(head);
		const uint8_t *hit = memmem(bytes, (size_t)n - sizeof(head) + sizeof(magic), &magic,
					    sizeof(magic));
		if (!hit) {
			reader->offset += (size_t)(last - bytes) + 1;
			continue;
		}
		reader->offset += (size_t)(hit - bytes);
		memcpy(&head, hit, sizeof(head));
		if (trace_frame_is_good(&head)) {
			reader->damage.n_skipped_bytes += reader->offset - from;
			return 1;
		}
		reader->offset++;
	}
}

/*
 * Find the next good head at or behind reader->offset. Returns 1, 0 at the end of the file, or a
 * negative errno.
 */
static int next_head(struct trace_reader *reader, struct trace_frame *ret_head)
{
	const uint8_t *bytes;

	for (;;) {
		ssize_t n = trace_window_look(&reader->window, reader->offset, sizeof(*ret_head),
					      &bytes);
		if (n < 0)
			return (int)n;
		if ((size_t)n < sizeof(*ret_head)) {
			reader->damage.n_skipped_bytes += (size_t)n;
			reader->offset += (size_t)n;
			return 0;
		}
		memcpy(ret_head, bytes, sizeof(*ret_head));
		if (trace_frame_is_good(ret_head))
			return 1;
		int r = resync(reader);
		if (r <= 0)
			return r;
	}
}

/* Is there a frame, the footer or the end of the file at offset? Or a negative errno. */
static int leads_on(struct trace_reader *reader, uint64_t offset, uint64_t index_offset)
{
	struct trace_frame next;
	const uint8_t *bytes;
	ssize_t n = trace_window_look(&reader->window, offset, sizeof(next), &bytes);

	if (n < 0)
		return (int)n;
	if (n == 0)
		return 1;
	if ((size_t)n < sizeof(next))
		return 0;
	memcpy(&next, bytes, sizeof(next));
	return trace_frame_is_good(&next) ? 1 : find_footer(reader, offset, index_offset);
}

/*
 * Step over a damaged frame. By its length if that leads to the next frame or to the end; else
 * bytes are missing or too many, and the next frame may begin inside what this one claims.
 */
static int step_over_damaged(struct trace_reader *reader, const struct trace_frame *head,
			     bool is_whole)
{
	uint64_t behind = reader->offset + sizeof(*head) + trace_padded(head->body_bytes);
	int r = is_whole ? leads_on(reader, behind, reader->offset) : 0;

	if (r < 0)
		return r;
	reader->damage.n_damaged_frames++;
	if (head->type != TRACE_FRAME_COMMIT && head->type != TRACE_FRAME_INDEX)
		reader->damage.n_lost_items += head->n_items;
	if (r == 1 || head->body_bytes > reader->search_budget_bytes) {
		reader->offset = behind;
	} else {
		reader->search_budget_bytes -= head->body_bytes;
		reader->offset += sizeof(*head);
	}
	return 0;
}

/* Decode the frame whose head was read, and step over it. Returns 1 with an item, 0 without. */
static int next_body(struct trace_reader *reader, const struct trace_frame *head,
		     struct trace_item *item)
{
	const uint8_t *stored;
	ssize_t n = trace_window_look(&reader->window, reader->offset + sizeof(*head),
				      trace_padded(head->body_bytes), &stored);
	if (n < 0)
		return (int)n;

	int r = trace_reader_body(reader, head, stored, (size_t)n, item);
	if (r == -EBADMSG)
		return step_over_damaged(reader, head, (size_t)n >= head->body_bytes);
	if (r >= 0)
		reader->offset += sizeof(*head) + (size_t)n;
	return r;
}

void trace_reader_only(struct trace_reader *reader, const enum trace_frame_type *types, size_t n)
{
	reader->is_choosy = true;
	reader->wanted[TRACE_FRAME_COMMIT] = true;
	reader->wanted[TRACE_FRAME_INDEX] = true;
	for (size_t i = 0; i < n; i++)
		reader->wanted[types[i]] = true;
}

void trace_reader_keep_columns(struct trace_reader *reader)
{
	reader->keeps_columns = true;
}

void trace_reader_grows(struct trace_reader *reader,
			int64_t (*wait)(void *context, uint64_t n_bytes), void *context)
{
	/* What was seen behind the header may not have been whole. */
	trace_window_finish(&reader->window);
	reader->window.wait = wait;
	reader->window.context = context;
	reader->window.whole_bytes = reader->offset;
}

int trace_reader_next(struct trace_reader *reader, struct trace_item *ret_item)
{
	while (!reader->damage.ended) {
		struct trace_frame head;
		int r = next_head(reader, &head);
		if (r <= 0)
			return r;

		if (reader->is_choosy && head.type <= UINT8_MAX && !reader->wanted[head.type]) {
			reader->offset += sizeof(head) + trace_padded(head.body_bytes);
			continue;
		}

		uint64_t offset = reader->offset;
		struct trace_item item = {
			.type = head.type,
			.stream_id = head.stream_id,
			.is_behind_damage =
				reader->damage.n_damaged_frames || reader->damage.n_skipped_bytes,
		};
		r = next_body(reader, &head, &item);
		if (r < 0)
			return r;
		if (r == 1) {
			/* All that is given is uncommitted until the next COMMIT comes by. */
			if (item.type == TRACE_FRAME_COMMIT) {
				reader->damage.committed_ticks = item.commit->ticks;
				reader->damage.n_uncommitted_items = 0;
			} else {
				reader->damage.n_uncommitted_items += head.n_items;
			}
			*ret_item = item;
			return 1;
		}
		if (head.type == TRACE_FRAME_INDEX) {
			r = end_at_index(reader, offset);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* ---- The index ---- */

/* The index at offset, raw, in reader->body. Returns 1 with its head, or 0. */
static int read_index(struct trace_reader *reader, uint64_t offset, struct trace_frame *ret_head)
{
	struct trace_item item;
	const uint8_t *bytes;
	ssize_t n = trace_window_look(&reader->window, offset, sizeof(*ret_head), &bytes);

	if (n != sizeof(*ret_head))
		return 0;
	memcpy(ret_head, bytes, sizeof(*ret_head));
	if (!trace_frame_is_good(ret_head) || ret_head->type != TRACE_FRAME_INDEX)
		return 0;
	n = trace_window_look(&reader->window, offset + sizeof(*ret_head),
			      trace_padded(ret_head->body_bytes), &bytes);
	return n >= (ssize_t)ret_head->body_bytes &&
	       trace_reader_body(reader, ret_head, bytes, (size_t)n, &item) == 0 &&
	       reader->damage.n_damaged_frames == 0;
}

bool trace_reader_count(struct trace_reader *reader, uint64_t *ret_n_events,
			uint64_t *ret_n_samples)
{
	const struct trace_damage damage = reader->damage;
	struct trace_file_footer footer;
	struct trace_index_entry entry;
	struct trace_frame head;
	struct stat st;

	*ret_n_events = *ret_n_samples = 0;
	if (fstat(reader->window.fd, &st) < 0 || st.st_size < (off_t)sizeof(footer) ||
	    pread(reader->window.fd, &footer, sizeof(footer), st.st_size - (off_t)sizeof(footer)) !=
		    sizeof(footer) ||
	    memcmp(footer.magic, TRACE_FOOTER_MAGIC, sizeof(footer.magic)) != 0 ||
	    footer.checksum != trace_footer_checksum(&footer) ||
	    footer.index_offset > (uint64_t)st.st_size)
		return false;
	bool is_there = read_index(reader, footer.index_offset, &head) > 0;
	reader->damage = damage;
	for (size_t at = 0; is_there && at + sizeof(entry) <= head.raw_bytes; at += sizeof(entry)) {
		memcpy(&entry, reader->body + at, sizeof(entry));
		*ret_n_events += entry.n_events;
		*ret_n_samples += entry.n_samples;
	}
	return is_there;
}
