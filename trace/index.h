#pragma once
/* The index of a trace that is being written: one entry for each segment, bounded. */
#include <stddef.h>
#include <stdint.h>

#include "schemas/trace-format.h"

/* When it is full, neighbours are merged: entries then cover two segments, four ... */
#define TRACE_INDEX_MAX_ENTRIES 65536u

/* All zero is empty; trace_index_finish() frees. */
struct trace_index {
	struct trace_index_entry *entries;
	uint32_t n_entries;
	size_t capacity;
	uint32_t stride; /* segments in one entry; 0 counts as 1 */
	uint32_t n_in_last; /* segments in the last entry */
};

/* Free the memory. */
void trace_index_finish(struct trace_index *index);

/* Make sure that the next trace_index_add() has room. Returns 0 or -ENOMEM. */
int trace_index_reserve(struct trace_index *index);

/* Make a copy in an empty index. Returns 0 or -ENOMEM. */
int trace_index_copy(const struct trace_index *index, struct trace_index *ret_copy);

/* Add a segment; trace_index_reserve() has made room. */
void trace_index_add(struct trace_index *index, const struct trace_index_entry *segment);
