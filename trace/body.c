/* From the body of a frame, as it is stored, to the items in it. */
#include "common/array.h"
#include "trace/reader-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/columns.h"
#include "trace/frame.h"
#include "trace/perf-columns.h"
#include "trace/records.h"
#include "trace/varint.h"

/* Sets item->n and its pointer from reader->body. Returns 0, or -EBADMSG for a bad body. */
typedef int (*decoder)(struct trace_reader *reader, const struct trace_frame *head,
		       struct trace_item *item);

static int decode_events(struct trace_reader *reader, const struct trace_frame *head,
			 struct trace_item *item)
{
	int n = trace_columns_check(reader->body, head->raw_bytes);
	if (n < 0)
		return n;
	if ((uint32_t)n != head->n_items)
		return -EBADMSG;
	item->n = (size_t)n;
	if (reader->keeps_columns) {
		item->columns = reader->body;
		item->n_bytes = head->raw_bytes;
		return trace_columns_verify(reader->body);
	}
	if (!reader->events)
		reader->events = malloc(TRACE_FRAME_MAX_EVENTS * sizeof(reader->events[0]));
	if (!reader->events)
		return -ENOMEM;
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
	if (!(head->flags & TRACE_FRAME_FLAG_COLUMNS)) {
		item->n = head->raw_bytes;
		item->perf = reader->body;
		return 0;
	}
	int64_t n = trace_perf_columns_check(reader->body, head->raw_bytes);
	if (n < 0)
		return (int)n;
	int r = grow_array_by(&reader->records, 0, (size_t)n + 1, &reader->records_capacity, 1);
	if (r < 0)
		return r;
	item->n = (size_t)n;
	item->perf = reader->records;
	return trace_perf_columns_decode(reader->body, head->raw_bytes, reader->records);
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

static unsigned find_decoder(unsigned type)
{
	unsigned kind = 0;

	while (kind < N_DECODERS && decoders[kind].type != type)
		kind++;
	return kind;
}

static int check_body(const struct trace_frame *head, const uint8_t *stored)
{
	return trace_checksum(stored, head->body_bytes) == head->checksum ? 0 : -EBADMSG;
}

/* Bring the stored body, raw, to reader->body. */
static int unpack(struct trace_reader *reader, const struct trace_frame *head,
		  const uint8_t *stored)
{
	int r = grow_array_by(&reader->body, 0, head->raw_bytes + TRACE_VARINT_SLACK,
			      &reader->body_capacity, 1);
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

static unsigned known_flags(unsigned type)
{
	return TRACE_FRAME_FLAG_ZSTD | (type == TRACE_FRAME_PERF ? TRACE_FRAME_FLAG_COLUMNS : 0);
}

int trace_reader_body(struct trace_reader *reader, const struct trace_frame *head,
		      const uint8_t *stored, size_t n_bytes, struct trace_item *item)
{
	unsigned kind = find_decoder(head->type);
	bool known = kind < N_DECODERS && !(head->flags & ~known_flags(head->type));
	bool wanted = known && decoders[kind].decode;

	int r = n_bytes < head->body_bytes ? -EBADMSG : check_body(head, stored);
	if (r == 0 && known)
		r = unpack(reader, head, stored);
	if (r == 0 && wanted)
		r = decoders[kind].decode(reader, head, item);
	if (r < 0)
		return r;
	reader->damage.n_unknown_frames += !known;
	return wanted;
}
