#pragma once
/*
 * The columns of a PERF frame (schemas/trace-perf.h): what records of perf have in common with an
 * earlier one is not stored again. Most samples of a loop differ in their time and two or three
 * registers, and to compress all of their bytes takes longer than to compare them.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "schemas/trace-format.h"
#include "schemas/trace-perf.h"

enum trace_perf_column { TRACE_PERF_CODES, TRACE_PERF_SMALL, TRACE_PERF_WORDS, TRACE_PERF_COUNT };

struct trace_perf_kept;

/* All zero is empty; trace_perf_columns_finish() frees. */
struct trace_perf_columns {
	uint8_t *bytes[TRACE_PERF_COUNT];
	size_t n[TRACE_PERF_COUNT];
	size_t n_allocated[TRACE_PERF_COUNT];
	size_t n_raw; /* bytes of the records */
	uint32_t n_records;
	struct trace_perf_kept *kept; /* records that others are compared with */
	struct trace_perf_head head; /* made by trace_perf_columns_parts() */
};

/* Free the memory; the columns are then empty and can be used again. */
void trace_perf_columns_finish(struct trace_perf_columns *columns);

/* Forget the records, keep the memory. */
void trace_perf_columns_clear(struct trace_perf_columns *columns);

/* Bytes that the records take in the columns. */
size_t trace_perf_columns_bytes(const struct trace_perf_columns *columns);

/* Bytes that they have room for. */
size_t trace_perf_columns_room(const struct trace_perf_columns *columns);

/*
 * Add whole records; bytes that are none are kept as they are. Returns 0, or -ENOMEM with none or
 * some of them added.
 */
int trace_perf_columns_add(struct trace_perf_columns *columns, const void *records, size_t n_bytes);

#define TRACE_PERF_PARTS (1 + TRACE_PERF_COUNT)

/* The body as parts: the head, then each column. They point into columns until it changes. */
void trace_perf_columns_parts(struct trace_perf_columns *columns,
			      struct iovec parts[TRACE_PERF_PARTS]);

/* Bytes of the records in a body, or -EBADMSG: it has no good head. */
int64_t trace_perf_columns_check(const uint8_t *body, size_t n_bytes);

/*
 * Decode a checked body into room for that many bytes. TRACE_VARINT_SLACK bytes behind the body
 * must be readable. Returns 0, -EBADMSG when it is not well formed, or -ENOMEM.
 */
int trace_perf_columns_decode(const uint8_t *body, size_t n_bytes, uint8_t *records);
