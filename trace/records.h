#pragma once
/* What is known of each record type: how long its struct is and where its string lengths stand. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "schemas/trace-format.h"

#define TRACE_RECORD_MAX_STRINGS 4

/* struct_bytes 0: not a known type. */
struct trace_record_shape {
	uint16_t struct_bytes;
	uint16_t n_strings;
	uint16_t length_offset[TRACE_RECORD_MAX_STRINGS]; /* of a uint32_t in the struct */
};

/* The shape of a record type, or NULL if it is not known. */
const struct trace_record_shape *trace_record_shape(unsigned type);

/* A string behind a record. */
struct trace_string {
	const void *bytes;
	uint32_t n_bytes;
};

static inline struct trace_string trace_text(const char *text)
{
	return (struct trace_string){ text, (uint32_t)strlen(text) };
}

static inline struct trace_string trace_bytes(const void *bytes, size_t n_bytes)
{
	return (struct trace_string){ bytes, (uint32_t)n_bytes };
}

/* Strings and their number, as two arguments: TRACE_STRINGS(trace_text(key), trace_text(value)). */
#define TRACE_STRINGS(...)                                                                         \
	(const struct trace_string[]){ __VA_ARGS__ },                                              \
		sizeof((const struct trace_string[]){ __VA_ARGS__ }) / sizeof(struct trace_string)

/* What a record and its strings take in a RECORDS body: a multiple of 8. */
size_t trace_record_size(size_t struct_bytes, const struct trace_string *strings, size_t n_strings);

/*
 * Put a record and its strings into that many bytes. What the struct says of its own length and of
 * the strings' is filled in, where its type is known. Returns 0, or -EINVAL, with nothing put, for
 * a struct that is too short or other than n_strings strings.
 */
int trace_record_put(void *out, const void *record, size_t struct_bytes,
		     const struct trace_string *strings, size_t n_strings);

/*
 * Check the records that fill a RECORDS body (8-aligned). Returns the number of records of known
 * types and sets *ret_n_unknown, or returns -EBADMSG if one does not fit.
 */
int trace_records_check(const void *body, size_t n_bytes, uint32_t *ret_n_unknown);
