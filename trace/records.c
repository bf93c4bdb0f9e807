#include "trace/records.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "schemas/trace-contents.h"
#include "schemas/trace-control.h"
#include "trace/reader.h"

#define SHAPE(type)	    .struct_bytes = sizeof(struct type)
#define LENGTH(type, n)	    offsetof(struct type, n##_bytes)
#define LENGTHS(count, ...) .n_strings = (count), .length_offset = { __VA_ARGS__ }

static const struct trace_record_shape shapes[] = {
	[TRACE_RECORD_PROCESS] = { SHAPE(trace_process), LENGTHS(2, LENGTH(trace_process, exe),
								 LENGTH(trace_process, command)) },
	[TRACE_RECORD_PROCESS_END] = { SHAPE(trace_process_end) },
	[TRACE_RECORD_THREAD] = { SHAPE(trace_thread), LENGTHS(1, LENGTH(trace_thread, name)) },
	[TRACE_RECORD_THREAD_END] = { SHAPE(trace_thread_end) },
	[TRACE_RECORD_THREAD_NAME] = { SHAPE(trace_thread_name),
				       LENGTHS(1, LENGTH(trace_thread_name, name)) },
	[TRACE_RECORD_MODULE] = { SHAPE(trace_module), LENGTHS(2, LENGTH(trace_module, build_id),
							       LENGTH(trace_module, path)) },
	[TRACE_RECORD_MODULE_UNLOAD] = { SHAPE(trace_module),
					 LENGTHS(2, LENGTH(trace_module, build_id),
						 LENGTH(trace_module, path)) },
	[TRACE_RECORD_MAPPING] = { SHAPE(trace_mapping), LENGTHS(1, LENGTH(trace_mapping, path)) },
	[TRACE_RECORD_LOSS] = { SHAPE(trace_loss), LENGTHS(2, LENGTH(trace_loss, source),
							   LENGTH(trace_loss, reason)) },
	[TRACE_RECORD_RANK] = { SHAPE(trace_rank) },
	[TRACE_RECORD_SOURCE] = { SHAPE(trace_source),
				  LENGTHS(3, LENGTH(trace_source, name), LENGTH(trace_source, unit),
					  LENGTH(trace_source, remedy)) },
	[TRACE_RECORD_SOURCE_DETAIL] = { SHAPE(trace_source_detail),
					 LENGTHS(2, LENGTH(trace_source_detail, event),
						 LENGTH(trace_source_detail, note)) },
	[TRACE_RECORD_PERF_CLOCK] = { SHAPE(trace_perf_clock) },
	[TRACE_RECORD_WATCH] = { SHAPE(trace_watch),
				 LENGTHS(2, LENGTH(trace_watch, text), LENGTH(trace_watch, note)) },
	[TRACE_RECORD_SOURCE_LEDGER] = { SHAPE(trace_source_ledger) },
	[TRACE_RECORD_PAGE_NODES] = { SHAPE(trace_page_nodes),
				      LENGTHS(1, LENGTH(trace_page_nodes, items)) },
	[TRACE_RECORD_CODE_SEEN] = { SHAPE(trace_code_seen),
				     LENGTHS(1, LENGTH(trace_code_seen, pages)) },
	[TRACE_RECORD_PERIOD] = { SHAPE(trace_period) },
	[TRACE_RECORD_PAGES] = { SHAPE(trace_pages),
				 LENGTHS(2, LENGTH(trace_pages, runs), LENGTH(trace_pages, maps)) },
	[TRACE_RECORD_TOUCHES] = { SHAPE(trace_touches), LENGTHS(1, LENGTH(trace_touches, runs)) },
	[TRACE_RECORD_WRITES] = { SHAPE(trace_writes), LENGTHS(1, LENGTH(trace_writes, runs)) },
	[TRACE_RECORD_CONTENTS] = { SHAPE(trace_contents),
				    LENGTHS(1, LENGTH(trace_contents, blocks)) },
	[TRACE_RECORD_RUN] = { SHAPE(trace_run),
			       LENGTHS(4, LENGTH(trace_run, program), LENGTH(trace_run, mode),
				       LENGTH(trace_run, command), LENGTH(trace_run, directory)) },
	[TRACE_RECORD_FACT] = { SHAPE(trace_fact),
				LENGTHS(2, LENGTH(trace_fact, key), LENGTH(trace_fact, value)) },
	[TRACE_RECORD_CLOCK] = { SHAPE(trace_clock) },
	[TRACE_RECORD_PROCESS_SAMPLE] = { SHAPE(trace_process_sample),
					  LENGTHS(1, LENGTH(trace_process_sample, node)) },
	[TRACE_RECORD_EXIT] = { SHAPE(trace_exit) },
	[TRACE_RECORD_HEAP_RANGE] = { SHAPE(trace_heap_range),
				      LENGTHS(2, LENGTH(trace_heap_range, kind),
					      LENGTH(trace_heap_range, place)) },
	[TRACE_RECORD_TEXT] = { SHAPE(trace_text), LENGTHS(1, LENGTH(trace_text, text)) },
	[TRACE_RECORD_WINDOW] = { SHAPE(trace_window), LENGTHS(1, LENGTH(trace_window, cause)) },
	[TRACE_RECORD_OUTSIDE_MARK] = { SHAPE(trace_outside_mark),
					LENGTHS(1, LENGTH(trace_outside_mark, text)) },
	[TRACE_RECORD_TRIPS] = { SHAPE(trace_trips) },
	[TRACE_RECORD_COUNTER] = { SHAPE(trace_counter), LENGTHS(2, LENGTH(trace_counter, name),
								 LENGTH(trace_counter, unit)) },
};

const struct trace_record_shape *trace_record_shape(unsigned type)
{
	if (type >= sizeof(shapes) / sizeof(shapes[0]) || shapes[type].struct_bytes == 0)
		return NULL;
	return &shapes[type];
}

/* The length of string i (below n_strings) as the record says. */
static uint32_t trace_record_length(const struct trace_record *record,
				    const struct trace_record_shape *shape, unsigned i)
{
	uint32_t length;

	memcpy(&length, (const char *)record + shape->length_offset[i], sizeof(length));
	return length;
}

size_t trace_record_size(size_t struct_bytes, const struct trace_string *strings, size_t n_strings)
{
	size_t n_bytes = struct_bytes;

	for (size_t i = 0; i < n_strings; i++)
		n_bytes += strings[i].n_bytes;
	return (n_bytes + 7) / 8 * 8;
}

int trace_record_put(void *out, const void *record, size_t struct_bytes,
		     const struct trace_string *strings, size_t n_strings)
{
	struct trace_record head = *(const struct trace_record *)record;
	const struct trace_record_shape *shape = trace_record_shape(head.type);
	char *at = out;

	if (struct_bytes < sizeof(head) || struct_bytes > UINT16_MAX ||
	    (shape && (struct_bytes < shape->struct_bytes || n_strings != shape->n_strings)))
		return -EINVAL;
	head.struct_bytes = (uint16_t)struct_bytes;
	head.bytes = (uint32_t)trace_record_size(struct_bytes, strings, n_strings);
	memset(at + head.bytes - 8, 0, 8);
	memcpy(at, record, struct_bytes);
	memcpy(at, &head, sizeof(head));
	for (size_t i = 0; shape && i < n_strings; i++)
		memcpy(at + shape->length_offset[i], &strings[i].n_bytes, sizeof(uint32_t));
	at += struct_bytes;
	for (size_t i = 0; i < n_strings; i++) {
		if (strings[i].n_bytes > 0)
			memcpy(at, strings[i].bytes, strings[i].n_bytes);
		at += strings[i].n_bytes;
	}
	return 0;
}

/* Does the record fit into n_bytes, and what it holds into the record? */
static bool fits(const struct trace_record *record, size_t n_bytes)
{
	if (n_bytes < sizeof(*record) || record->bytes > n_bytes || record->bytes % 8 != 0 ||
	    record->struct_bytes < sizeof(*record) || record->struct_bytes > record->bytes)
		return false;

	const struct trace_record_shape *shape = trace_record_shape(record->type);
	if (!shape)
		return true;
	if (record->struct_bytes < shape->struct_bytes)
		return false;

	uint64_t sum = record->struct_bytes;
	for (unsigned i = 0; i < shape->n_strings; i++)
		sum += trace_record_length(record, shape, i);
	return sum <= record->bytes;
}

int trace_records_check(const void *body, size_t n_bytes, uint32_t *ret_n_unknown)
{
	const char *next = body;
	uint32_t n_unknown = 0;
	int n_known = 0;

	while (n_bytes > 0) {
		const struct trace_record *record = (const void *)next;
		if (!fits(record, n_bytes))
			return -EBADMSG;
		if (trace_record_shape(record->type))
			n_known++;
		else
			n_unknown++;
		next += record->bytes;
		n_bytes -= record->bytes;
	}
	*ret_n_unknown = n_unknown;
	return n_known;
}

const struct trace_record *trace_record_next(const struct trace_item *item,
					     const struct trace_record *record)
{
	const char *end = (const char *)item->records + item->n_bytes;
	const char *next =
		record ? (const char *)record + record->bytes : (const char *)item->records;

	for (; next < end; next += ((const struct trace_record *)(const void *)next)->bytes) {
		record = (const void *)next;
		if (trace_record_shape(record->type))
			return record;
	}
	return NULL;
}

const char *trace_record_string(const struct trace_record *record, unsigned i, size_t *ret_bytes)
{
	const struct trace_record_shape *shape = trace_record_shape(record->type);
	const char *string = (const char *)record + record->struct_bytes;

	if (!shape || i >= shape->n_strings) {
		*ret_bytes = 0;
		return "";
	}
	for (unsigned j = 0; j < i; j++)
		string += trace_record_length(record, shape, j);
	*ret_bytes = trace_record_length(record, shape, i);
	return string;
}
