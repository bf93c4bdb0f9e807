#include "trace/frame.h"

/* The only file that compiles xxhash: it is large when inlined. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint32_t trace_checksum(const void *bytes, size_t n_bytes)
{
	return (uint32_t)XXH3_64bits(bytes, n_bytes);
}

static uint32_t head_checksum(const struct trace_frame *head)
{
	return trace_checksum(head, offsetof(struct trace_frame, head_checksum));
}

void trace_frame_seal(struct trace_frame *head, const void *body)
{
	head->magic = TRACE_FRAME_MAGIC;
	head->checksum = trace_checksum(body, head->body_bytes);
	head->head_checksum = head_checksum(head);
}

bool trace_frame_is_good(const struct trace_frame *head)
{
	return head->magic == TRACE_FRAME_MAGIC && head->body_bytes <= TRACE_FRAME_MAX_BYTES &&
	       head->raw_bytes <= TRACE_FRAME_MAX_BYTES &&
	       head->head_checksum == head_checksum(head);
}

uint64_t trace_header_checksum(const struct trace_file_header *header)
{
	return XXH3_64bits(header, offsetof(struct trace_file_header, checksum));
}

uint64_t trace_footer_checksum(const struct trace_file_footer *footer)
{
	return XXH3_64bits(footer, offsetof(struct trace_file_footer, checksum));
}
