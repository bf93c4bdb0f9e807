#pragma once
/* What is known of each record type: how long its struct is and where its string lengths stand. */
#include <stddef.h>
#include <stdint.h>

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

/* The length of string i (below n_strings) as the record says. */
uint32_t trace_record_length(const struct trace_record *record,
			     const struct trace_record_shape *shape, unsigned i);

/*
 * Check the records that fill a RECORDS body (8-aligned). Returns the number of records of known
 * types and sets *ret_n_unknown, or returns -EBADMSG if one does not fit.
 */
int trace_records_check(const void *body, size_t n_bytes, uint32_t *ret_n_unknown);
