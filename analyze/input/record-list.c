#include "analyze/input/record-list.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

int record_list_add_record(struct record_list *list, const void *record, size_t struct_bytes,
			   const struct trace_string *strings, size_t n_strings)
{
	size_t n_bytes = trace_record_size(struct_bytes, strings, n_strings);

	if (grow_array_by(&list->bytes, list->n_bytes, n_bytes, &list->n_allocated, 1) < 0)
		return -ENOMEM;
	int r = trace_record_put(list->bytes + list->n_bytes, record, struct_bytes, strings,
				 n_strings);
	if (r < 0)
		return r;
	list->n_bytes += n_bytes;
	list->n++;
	return 0;
}

int record_list_fact(struct record_list *list, const char *key, const char *value)
{
	const struct trace_fact fact = { .head.type = TRACE_RECORD_FACT };

	return record_list_add(list, &fact, trace_text(key), trace_text(value));
}

int record_list_loss(struct record_list *list, const char *source, const char *reason,
		     uint64_t count)
{
	const struct trace_loss loss = { .head.type = TRACE_RECORD_LOSS, .count = count };

	return count ? record_list_add(list, &loss, trace_text(source), trace_text(reason)) : 0;
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
