#pragma once
/* Frame heads of a trace file: their checksums, and whether one found in a file can be believed. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/trace-format.h"

/* Bytes of a body with the zeros behind it. */
static inline size_t trace_padded(size_t n_bytes)
{
	return (n_bytes + 7) / 8 * 8;
}

/* The checksum of a body: low 32 bits of XXH3_64bits. */
uint32_t trace_checksum(const void *bytes, size_t n_bytes);

/* Fill in magic and both checksums; the rest of head, and the body, must be final. */
void trace_frame_seal(struct trace_frame *head, const void *body);

/* Is this a frame head, undamaged and within the limits of the format? */
bool trace_frame_is_good(const struct trace_frame *head);

/* The checksum that a file header must carry. */
uint64_t trace_header_checksum(const struct trace_file_header *header);

/* The checksum that a file footer must carry. */
uint64_t trace_footer_checksum(const struct trace_file_footer *footer);
