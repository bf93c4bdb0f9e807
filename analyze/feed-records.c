#include "analyze/feed-records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void feed_records_finish(struct feed_records *records)
{
	free(records->bytes);
	*records = (struct feed_records){ 0 };
}

static int reserve(struct feed_records *records, size_t n_bytes)
{
	size_t n_needed = records->n_bytes + n_bytes;

	if (n_needed <= records->capacity)
		return 0;
	uint8_t *bytes = realloc(records->bytes, 2 * n_needed);
	if (!bytes)
		return -ENOMEM;
	records->bytes = bytes;
	records->capacity = 2 * n_needed;
	return 0;
}

int feed_records_add(struct feed_records *records, const void *record, size_t struct_bytes,
		     const struct trace_string *strings, size_t n_strings)
{
	size_t n_bytes = struct_bytes;
	struct trace_record head;

	for (size_t i = 0; i < n_strings; i++)
		n_bytes += strings[i].n_bytes;
	n_bytes = (n_bytes + 7) / 8 * 8;
	if (reserve(records, n_bytes) < 0)
		return -ENOMEM;

	uint8_t *out = records->bytes + records->n_bytes;
	memset(out, 0, n_bytes);
	memcpy(&head, record, sizeof(head));
	head.struct_bytes = (uint16_t)struct_bytes;
	head.bytes = (uint32_t)n_bytes;
	memcpy(out, record, struct_bytes);
	memcpy(out, &head, sizeof(head));
	out += struct_bytes;
	for (size_t i = 0; i < n_strings; i++) {
		if (strings[i].n_bytes)
			memcpy(out, strings[i].bytes, strings[i].n_bytes);
		out += strings[i].n_bytes;
	}
	records->n_bytes += n_bytes;
	records->n++;
	return 0;
}

struct trace_item feed_records_take(struct feed_records *records)
{
	struct trace_item item = {
		.type = TRACE_FRAME_RECORDS,
		.n = records->n,
		.n_bytes = records->n_bytes,
		.records = (const struct trace_record *)records->bytes,
	};

	records->n = records->n_bytes = 0;
	return item;
}
