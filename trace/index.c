#include "trace/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

void trace_index_finish(struct trace_index *index)
{
	free(index->entries);
	*index = (struct trace_index){ 0 };
}

/* Let `entry` also cover `segment`, which follows it. */
static void cover(struct trace_index_entry *entry, const struct trace_index_entry *segment)
{
	entry->commit_ticks = segment->commit_ticks;
	entry->n_events += segment->n_events;
	entry->n_samples += segment->n_samples;
}

static void merge_neighbours(struct trace_index *index)
{
	uint32_t n_pairs = index->n_entries / 2; /* the maximum is even: nothing is left over */

	for (uint32_t i = 0; i < n_pairs; i++) {
		index->entries[i] = index->entries[2 * i];
		cover(&index->entries[i], &index->entries[2 * i + 1]);
	}
	index->n_entries = n_pairs;
	index->stride *= 2;
	index->n_in_last = index->stride;
}

int trace_index_reserve(struct trace_index *index)
{
	if (index->n_entries == TRACE_INDEX_MAX_ENTRIES)
		return 0;
	return grow_one(&index->entries, index->n_entries, &index->capacity);
}

int trace_index_copy(const struct trace_index *index, struct trace_index *ret_copy)
{
	struct trace_index copy = *index;

	copy.capacity = index->n_entries;
	copy.entries = malloc((index->n_entries + 1) * sizeof(*copy.entries));
	if (!copy.entries)
		return -ENOMEM;
	if (index->n_entries > 0)
		memcpy(copy.entries, index->entries, index->n_entries * sizeof(*copy.entries));
	*ret_copy = copy;
	return 0;
}

void trace_index_add(struct trace_index *index, const struct trace_index_entry *segment)
{
	if (index->stride == 0)
		index->stride = index->n_in_last = 1;
	if (index->n_entries == TRACE_INDEX_MAX_ENTRIES && index->n_in_last == index->stride)
		merge_neighbours(index);
	if (index->n_entries > 0 && index->n_in_last < index->stride) {
		cover(&index->entries[index->n_entries - 1], segment);
		index->n_in_last++;
		return;
	}
	index->entries[index->n_entries++] = *segment;
	index->n_in_last = 1;
}
