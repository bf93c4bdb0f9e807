#pragma once
/* Shared by reader.c and body.c. */
#include <zstd.h>

#include "trace/reader.h"
#include "trace/window.h"

struct trace_reader {
	struct trace_window window;
	struct trace_file_header header;
	uint64_t offset; /* of the next frame */
	ZSTD_DCtx *zstd;
	uint8_t *body; /* raw, of the current frame, TRACE_VARINT_SLACK bytes behind it */
	size_t body_capacity;
	uint8_t *records; /* PERF, out of its columns */
	size_t records_capacity;
	struct trace_event *events; /* TRACE_FRAME_MAX_EVENTS, allocated when first needed */
	bool keeps_columns; /* events are not decoded */
	struct trace_damage damage;
	bool is_choosy; /* gives wanted[] only */
	bool wanted[UINT8_MAX + 1];
	/* A hostile file of many large heads must not make the search quadratic. */
	uint64_t search_budget_bytes;
};

/*
 * Make an item of the body of a frame that is stored in n_bytes, or in fewer than its head says at
 * the end of the file. Returns 1 with the item, which is valid until the next call; 0 for a frame
 * that nobody is given, or that is unknown: the damage counts it; or a negative errno, -EBADMSG for
 * a damaged body.
 */
int trace_reader_body(struct trace_reader *reader, const struct trace_frame *head,
		      const uint8_t *stored, size_t n_bytes, struct trace_item *item);
