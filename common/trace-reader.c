#include "common/trace-reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "common/cleanup.h"
#include "common/trace-columns.h"
#include "common/trace-frame.h"
#include "common/trace-records.h"
#include "common/trace-varint.h"
#include "common/trace-window.h"

struct trace_reader {
	struct trace_window window;
	struct trace_file_header header;
	uint64_t offset; /* of the next frame */
	ZSTD_DCtx *zstd;
	uint8_t *body; /* raw, of the current frame, TRACE_VARINT_SLACK bytes behind it */
	size_t body_capacity;
	struct trace_event *events; /* TRACE_FRAME_MAX_EVENTS, allocated when first needed */
	struct trace_damage damage;
	/* A hostile file of many large heads must not make the search quadratic. */
	uint64_t search_budget_bytes;
};

#define SEARCH_BUDGET_BYTES (UINT64_C(1) << 30)

/* ---- Opening ---- */

static int check_version(const struct trace_file_header *header)
{
	if (header->version_major > TRACE_VERSION_MAJOR)
		return -EPROTONOSUPPORT;
	if (header->version_major == 0 || header->header_bytes < sizeof(*header) ||
	    header->header_bytes > TRACE_FRAME_MAX_BYTES)
		return -EBADMSG;
	return 0;
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
	if (fd < 0)
		return -errno;

	struct trace_reader *reader = calloc(1, sizeof(*reader));
	if (!reader)
		return -ENOMEM;

	reader->window.fd = steal_fd(&fd);
	reader->search_budget_bytes = SEARCH_BUDGET_BYTES;
	reader->zstd = ZSTD_createDCtx();
	int r = reader->zstd ? read_header(reader) : -ENOMEM;
	if (r < 0) {
		trace_reader_close(reader);
		return r;
	}
	*ret_reader = reader;
	return 0;
}

struct trace_reader *trace_reader_close(struct trace_reader *reader)
{
	if (!reader)
		return NULL;
	close(reader->window.fd);
	trace_window_finish(&reader->window);
	ZSTD_freeDCtx(reader->zstd);
	free(reader->body);
	free(reader->events);
	free(reader);
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

/* ---- Bodies ---- */

/* Sets item->n and its pointer from reader->body. Returns 0, or -EBADMSG for a bad body. */
typedef int (*decoder)(struct trace_reader *reader, const struct trace_frame *head,
		       struct trace_item *item);

static int decode_events(struct trace_reader *reader, const struct trace_frame *head,
			 struct trace_item *item)
{
	int n = trace_columns_check(reader->body, head->raw_bytes);
	if (n < 0)
		return n;
	if (!reader->events)
		reader->events = malloc(TRACE_FRAME_MAX_EVENTS * sizeof(reader->events[0]));
	if (!reader->events)
		return -ENOMEM;

	if ((uint32_t)n != head->n_items)
		return -EBADMSG;
	item->n = (size_t)n;
	item->events = reader->events;
	return trace_columns_decode(reader->body, reader->events);
}

/* Items of one size; those of a newer writer may be longer, and are moved together. */
static int decode_array(struct trace_reader *reader, const struct trace_frame *head,
			size_t item_bytes)
{
	size_t stride = head->n_items ? head->raw_bytes / head->n_items : 0;

	if (stride < item_bytes || stride * head->n_items != head->raw_bytes)
		return -EBADMSG;
	for (size_t i = 1; stride > item_bytes && i < head->n_items; i++)
		memmove(reader->body + i * item_bytes, reader->body + i * stride, item_bytes);
	return 0;
}

static int decode_nodes(struct trace_reader *reader, const struct trace_frame *head,
			struct trace_item *item)
{
	item->n = head->n_items;
	item->nodes = (const void *)reader->body;
	return decode_array(reader, head, sizeof(struct trace_node));
}

static int decode_accesses(struct trace_reader *reader, const struct trace_frame *head,
			   struct trace_item *item)
{
	item->n = head->n_items;
	item->accesses = (const void *)reader->body;
	return decode_array(reader, head, sizeof(struct trace_access));
}

static int decode_perf(struct trace_reader *reader, const struct trace_frame *head,
		       struct trace_item *item)
{
	item->n = head->raw_bytes;
	item->perf = reader->body;
	return 0;
}

static int decode_code(struct trace_reader *reader, const struct trace_frame *head,
		       struct trace_item *item)
{
	const struct trace_code *code = (const void *)reader->body;

	if (head->raw_bytes < sizeof(*code) || code->n_bytes > head->raw_bytes - sizeof(*code))
		return -EBADMSG;
	item->n = code->n_bytes;
	item->code.head = code;
	item->code.bytes = code + 1;
	return 0;
}

static int decode_aux(struct trace_reader *reader, const struct trace_frame *head,
		      struct trace_item *item)
{
	const struct trace_aux *aux = (const void *)reader->body;

	if (head->raw_bytes < sizeof(*aux) || aux->n_bytes > head->raw_bytes - sizeof(*aux))
		return -EBADMSG;
	item->n = aux->n_bytes;
	item->aux.head = aux;
	item->aux.bytes = aux + 1;
	return 0;
}

static int decode_records(struct trace_reader *reader, const struct trace_frame *head,
			  struct trace_item *item)
{
	uint32_t n_unknown = 0;
	int n = trace_records_check(reader->body, head->raw_bytes, &n_unknown);

	if (n < 0)
		return n;
	if ((uint32_t)n + n_unknown != head->n_items)
		return -EBADMSG;
	reader->damage.n_unknown_records += n_unknown;
	item->n = (size_t)n;
	item->n_bytes = head->raw_bytes;
	item->records = (const void *)reader->body;
	return 0;
}

static int decode_commit(struct trace_reader *reader, const struct trace_frame *head,
			 struct trace_item *item)
{
	if (head->raw_bytes < sizeof(*item->commit))
		return -EBADMSG;
	item->n = 1;
	item->commit = (const void *)reader->body;
	return 0;
}

static const struct {
	enum trace_frame_type type;
	decoder decode; /* NULL: known, but not given */
} decoders[] = {
	{ TRACE_FRAME_EVENTS, decode_events },
	{ TRACE_FRAME_NODES, decode_nodes },
	{ TRACE_FRAME_PERF, decode_perf },
	{ TRACE_FRAME_CODE, decode_code },
	{ TRACE_FRAME_ACCESSES, decode_accesses },
	{ TRACE_FRAME_RECORDS, decode_records },
	{ TRACE_FRAME_COMMIT, decode_commit },
	{ TRACE_FRAME_AUX, decode_aux },
	{ TRACE_FRAME_INDEX, NULL },
};

#define N_DECODERS (sizeof(decoders) / sizeof(decoders[0]))

static int reserve_body(struct trace_reader *reader, size_t n_bytes)
{
	if (reader->body && n_bytes <= reader->body_capacity)
		return 0;

	uint8_t *body = realloc(reader->body, n_bytes + TRACE_VARINT_SLACK);
	if (!body)
		return -ENOMEM;
	reader->body = body;
	reader->body_capacity = n_bytes;
	return 0;
}

static int check_body(const struct trace_frame *head, const uint8_t *stored)
{
	return trace_checksum(stored, head->body_bytes) == head->checksum ? 0 : -EBADMSG;
}

/* Bring the stored body, raw, to reader->body. */
static int unpack(struct trace_reader *reader, const struct trace_frame *head,
		  const uint8_t *stored)
{
	int r = reserve_body(reader, head->raw_bytes);
	if (r < 0)
		return r;

	if (head->flags & TRACE_FRAME_FLAG_ZSTD) {
		size_t n = ZSTD_decompressDCtx(reader->zstd, reader->body, head->raw_bytes, stored,
					       head->body_bytes);
		if (ZSTD_isError(n) || n != head->raw_bytes)
			return -EBADMSG;
	} else {
		if (head->raw_bytes != head->body_bytes)
			return -EBADMSG;
		memcpy(reader->body, stored, head->body_bytes);
	}
	memset(reader->body + head->raw_bytes, 0, TRACE_VARINT_SLACK);
	return 0;
}

/* ---- Going through the file ---- */

static void count_damaged(struct trace_reader *reader, const struct trace_frame *head)
{
	reader->damage.n_damaged_frames++;
	if (head->type != TRACE_FRAME_COMMIT && head->type != TRACE_FRAME_INDEX)
		reader->damage.n_lost_items += head->n_items;
}

/* Count what is given: all of it is uncommitted until the next COMMIT comes by. */
static void count_given(struct trace_reader *reader, const struct trace_item *item,
			const struct trace_frame *head)
{
	if (item->type == TRACE_FRAME_COMMIT) {
		reader->damage.committed_ticks = item->commit->ticks;
		reader->damage.n_uncommitted_items = 0;
	} else {
		reader->damage.n_uncommitted_items += head->n_items;
	}
}

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
 * Step over a damaged frame. By its length if that leads to the next frame or to the end; else bytes
 * are missing or too many, and the next frame may begin inside what this one claims.
 */
static int step_over_damaged(struct trace_reader *reader, const struct trace_frame *head,
			     bool is_whole)
{
	uint64_t behind = reader->offset + sizeof(*head) + trace_padded(head->body_bytes);
	int r = is_whole ? leads_on(reader, behind, reader->offset) : 0;

	if (r < 0)
		return r;
	count_damaged(reader, head);
	if (r == 1 || head->body_bytes > reader->search_budget_bytes) {
		reader->offset = behind;
	} else {
		reader->search_budget_bytes -= head->body_bytes;
		reader->offset += sizeof(*head);
	}
	return 0;
}

/* Decode the frame whose head was read, and step over it. Returns 1 with an item, 0 without. */
static int next_body(struct trace_reader *reader, const struct trace_frame *head, unsigned kind,
		     struct trace_item *item)
{
	const uint8_t *stored;
	ssize_t n = trace_window_look(&reader->window, reader->offset + sizeof(*head),
				      trace_padded(head->body_bytes), &stored);
	if (n < 0)
		return (int)n;
	bool known = kind < N_DECODERS && !(head->flags & ~TRACE_FRAME_FLAG_ZSTD);
	bool wanted = known && decoders[kind].decode;

	int r = (size_t)n < head->body_bytes ? -EBADMSG : check_body(head, stored);
	if (r == 0 && known)
		r = unpack(reader, head, stored);
	if (r == 0 && wanted)
		r = decoders[kind].decode(reader, head, item);
	if (r == -EBADMSG)
		return step_over_damaged(reader, head, (size_t)n >= head->body_bytes);
	if (r < 0)
		return r;
	reader->offset += sizeof(*head) + (size_t)n;
	reader->damage.n_unknown_frames += !known;
	return wanted;
}

static unsigned find_decoder(unsigned type)
{
	unsigned kind = 0;

	while (kind < N_DECODERS && decoders[kind].type != type)
		kind++;
	return kind;
}

int trace_reader_next(struct trace_reader *reader, struct trace_item *ret_item)
{
	while (!reader->damage.ended) {
		struct trace_frame head;
		int r = next_head(reader, &head);
		if (r <= 0)
			return r;

		uint64_t offset = reader->offset;
		struct trace_item item = { .type = head.type, .stream_id = head.stream_id };
		r = next_body(reader, &head, find_decoder(head.type), &item);
		if (r < 0)
			return r;
		if (r == 1) {
			count_given(reader, &item, &head);
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
