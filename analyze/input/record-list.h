#pragma once
/* Records of a trace (RECORDS frames) made in memory, as a reader gives them. All zero is empty. */
#include <stddef.h>
#include <stdint.h>

#include "trace/reader.h"
#include "trace/writer.h"

struct record_list {
	uint8_t *bytes; /* 8-byte aligned */
	size_t n_bytes;
	size_t n_allocated;
	size_t n; /* records */
};

/* Add a record, given as for trace_writer_add(). 0, -ENOMEM or -EINVAL. */
#define record_list_add(list, record, ...)                                                         \
	record_list_add_record(list, record, sizeof(*(record)), TRACE_STRINGS(__VA_ARGS__))
int record_list_add_record(struct record_list *list, const void *record, size_t struct_bytes,
			   const struct trace_string *strings, size_t n_strings);

/* A FACT of the run's start. 0 or -ENOMEM. */
int record_list_fact(struct record_list *list, const char *key, const char *value);

/* A LOSS without times; a count of 0 adds none. 0 or -ENOMEM. */
int record_list_loss(struct record_list *list, const char *source, const char *reason,
		     uint64_t count);

/* The records as one item; they stay there. */
struct trace_item record_list_item(const struct record_list *list);

void record_list_clear(struct record_list *list);
void record_list_finish(struct record_list *list);
