#include "analyze/input/record-list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

static uint8_t *reserve(struct record_list *list, size_t n_bytes)
{
	if (grow_array_by(&list->bytes, list->n_bytes, n_bytes, &list->n_allocated, 1) < 0)
		return NULL;
	uint8_t *at = list->bytes + list->n_bytes;

	memset(at, 0, n_bytes);
	list->n_bytes += n_bytes;
	return at;
}

int record_list_add(struct record_list *list, const void *record, size_t struct_bytes,
		    const struct trace_string *strings, size_t n_strings)
{
	size_t n_bytes = struct_bytes;
	struct trace_record head;

	for (size_t i = 0; i < n_strings; i++)
		n_bytes += strings[i].n_bytes;
	n_bytes = (n_bytes + 7) / 8 * 8;
	uint8_t *at = reserve(list, n_bytes);
	if (!at)
		return -ENOMEM;

	memcpy(at, record, struct_bytes);
	memcpy(&head, at, sizeof(head));
	head.struct_bytes = (uint16_t)struct_bytes;
	head.bytes = (uint32_t)n_bytes;
	memcpy(at, &head, sizeof(head));
	at += struct_bytes;
	for (size_t i = 0; i < n_strings; i++) {
		if (strings[i].n_bytes)
			memcpy(at, strings[i].bytes, strings[i].n_bytes);
		at += strings[i].n_bytes;
	}
	list->n++;
	return 0;
}

int record_list_fact(struct record_list *list, const char *key, const char *value)
{
	const struct trace_string strings[] = { { key, (uint32_t)strlen(key) },
						{ value, (uint32_t)strlen(value) } };
	const struct trace_fact fact = { .head.type = TRACE_RECORD_FACT,
					 .key_bytes = strings[0].n_bytes,
					 .value_bytes = strings[1].n_bytes };

	return record_list_add(list, &fact, sizeof(fact), strings, 2);
}

int record_list_loss(struct record_list *list, const char *source, const char *reason,
		     uint64_t count)
{
	const struct trace_string strings[] = { { source, (uint32_t)strlen(source) },
						{ reason, (uint32_t)strlen(reason) } };
	const struct trace_loss loss = { .head.type = TRACE_RECORD_LOSS,
					 .count = count,
					 .source_bytes = strings[0].n_bytes,
					 .reason_bytes = strings[1].n_bytes };

	return count ? record_list_add(list, &loss, sizeof(loss), strings, 2) : 0;
}

struct trace_item record_list_item(const struct record_list *list)
{
	return (struct trace_item){
		.type = TRACE_FRAME_RECORDS,
		.n = list->n,
		.n_bytes = list->n_bytes,
		.records = (const struct trace_record *)(const void *)list->bytes,
	};
}

void record_list_clear(struct record_list *list)
{
	list->n_bytes = 0;
	list->n = 0;
}

void record_list_finish(struct record_list *list)
{
	free(list->bytes);
	*list = (struct record_list){ 0 };
}
