#include "runner/sampling/code-spans.h"

#include <stddef.h>

/* What is that near to a span becomes part of it: code of one file. */
#define NEAR_BYTES (UINT64_C(256) << 10)

static bool is_near(const struct code_spans *spans, size_t i, uint64_t start, uint64_t end)
{
	uint64_t low = spans->items[i].start, high = spans->items[i].end;

	return (start <= high || start - high <= NEAR_BYTES) &&
	       (end >= low || low - end <= NEAR_BYTES);
}

void code_spans_add(struct code_spans *spans, uint32_t process_id, uint64_t start, uint64_t end)
{
	size_t i = 0;

	while (i < spans->n &&
	       (spans->items[i].process_id != process_id || !is_near(spans, i, start, end)))
		i++;
	if (i == CODE_SPANS) {
		spans->is_full = true;
		return;
	}
	if (i == spans->n) {
		spans->items[spans->n].start = start;
		spans->items[spans->n].end = end;
		spans->items[spans->n++].process_id = process_id;
	}
	if (start < spans->items[i].start)
		spans->items[i].start = start;
	if (end > spans->items[i].end)
		spans->items[i].end = end;
}

bool code_spans_forget(struct code_spans *spans, uint32_t process_id, uint64_t start, uint64_t end)
{
	bool is_whole = start == 0 && end == UINT64_MAX, is_kept = spans->is_full;

	for (size_t i = spans->n; i-- > 0;) {
		if (spans->items[i].process_id != process_id || spans->items[i].start >= end ||
		    spans->items[i].end <= start)
			continue;
		is_kept = true;
		if (is_whole)
			spans->items[i] = spans->items[--spans->n];
	}
	return is_kept;
}
