#pragma once
/* Records for a feed that makes its own, laid out as in a RECORDS frame. */
#include "common/trace-reader.h"
#include "common/trace-writer.h"

/* All zero is empty. */
struct feed_records {
	uint8_t *bytes;
	size_t n_bytes;
	size_t capacity;
	size_t n;
};

void feed_records_finish(struct feed_records *records);

/* As trace_writer_record(). Returns 0 or -ENOMEM. */
int feed_records_add(struct feed_records *records, const void *record, size_t struct_bytes,
		     const struct trace_string *strings, size_t n_strings);

/* What was added as an item, valid until the next call; the records are empty then. */
struct trace_item feed_records_take(struct feed_records *records);
