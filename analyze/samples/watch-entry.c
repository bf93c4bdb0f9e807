#include "analyze/samples/watch-entry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "trace/reader.h"

void watch_entry_destroy(struct watch_entry *entry)
{
	if (!entry)
		return;
	free(entry->target);
	free(entry->note);
	free(entry->spans);
	free(entry->threads);
	free(entry);
}

static char *text_of(const struct trace_watch *record, unsigned i)
{
	size_t n_bytes;
	const char *bytes = trace_record_string(&record->head, i, &n_bytes);

	return strndup(bytes, n_bytes);
}

int watch_entry_create(const struct trace_watch *record, struct watch_entry **ret_entry)
{
	struct watch_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return -ENOMEM;
	entry->number = record->number;
	entry->process = record->process_id;
	entry->address = record->address;
	entry->n_bytes = record->n_bytes;
	entry->is_write_only = record->is_write_only;
	entry->is_hot = record->is_hot;
	entry->last_ns = INT64_MIN;
	entry->ended_ns = INT64_MAX;
	entry->owner_kind = -1;
	entry->target = text_of(record, 0);
	entry->note = text_of(record, 1);
	if (!entry->target || !entry->note) {
		watch_entry_destroy(entry);
		return -ENOMEM;
	}
	*ret_entry = entry;
	return 0;
}

/* ---- Spans ---- */

static int begin_span(struct watch_entry *entry, int64_t time_ns)
{
	if (grow_array(&entry->spans, entry->n_spans, &entry->n_spans_allocated,
		       sizeof(*entry->spans)) < 0)
		return -ENOMEM;
	entry->spans[entry->n_spans++] = (struct watch_span){ time_ns, INT64_MAX };
	return 0;
}

void watch_entry_end(struct watch_entry *entry, int64_t time_ns)
{
	struct watch_span *last = entry->n_spans ? &entry->spans[entry->n_spans - 1] : NULL;

	if (last && last->to_ns == INT64_MAX)
		last->to_ns = time_ns > last->from_ns ? time_ns : last->from_ns;
}

int watch_entry_change(struct watch_entry *entry, unsigned state, int64_t time_ns)
{
	switch (state) {
	case TRACE_WATCH_ARMED:
	case TRACE_WATCH_RESUMED:
		watch_entry_end(entry, time_ns);
		return begin_span(entry, time_ns);
	case TRACE_WATCH_ENDED:
		entry->ended_ns = time_ns;
		watch_entry_end(entry, time_ns);
		return 0;
	case TRACE_WATCH_PAUSED:
		watch_entry_end(entry, time_ns);
		return 0;
	case TRACE_WATCH_REFUSED:
		entry->refused_ns = time_ns;
		return 0;
	default:
		return 0; /* of a newer writer */
	}
}

bool watch_entry_is_armed_at(struct watch_entry *entry, int64_t time_ns)
{
	while (entry->now + 1 < entry->n_spans && time_ns >= entry->spans[entry->now + 1].from_ns)
		entry->now++;
	return entry->n_spans > 0 && time_ns >= entry->spans[entry->now].from_ns &&
	       time_ns <= entry->spans[entry->now].to_ns;
}

/* ---- Counts ---- */

uint64_t watch_entry_address(const struct watch_entry *entry)
{
	return entry->address;
}

uint32_t watch_entry_bytes(const struct watch_entry *entry)
{
	return (uint32_t)entry->n_bytes;
}

static void count(struct watch_counts *counts, const struct decode_before *what)
{
	counts->n_unknown += what->ip == 0;
	counts->n_updates += what->ip && what->is_read && what->is_write;
	counts->n_reads += what->ip && what->is_read && !what->is_write;
	counts->n_writes += what->ip && !what->is_read && what->is_write;
}

static int count_thread(struct watch_entry *entry, int64_t thread_row,
			const struct decode_before *what)
{
	size_t i = 0;

	while (i < entry->n_threads && entry->threads[i].thread_row != thread_row)
		i++;
	if (i == entry->n_threads) {
		if (grow_array(&entry->threads, entry->n_threads, &entry->n_threads_allocated,
			       sizeof(*entry->threads)) < 0)
			return -ENOMEM;
		entry->threads[entry->n_threads++] =
			(struct watch_by_thread){ .thread_row = thread_row };
	}
	count(&entry->threads[i].counts, what);
	return 0;
}

static unsigned bucket_of(int64_t ns)
{
	return ns < 2 ? 0 : 63u - (unsigned)__builtin_clzll((unsigned long long)ns);
}

static void count_reuse(struct watch_entry *entry, int64_t time_ns, int64_t thread_row)
{
	if (entry->last_ns != INT64_MIN && entry->last_span == entry->now) {
		unsigned bucket = bucket_of(time_ns - entry->last_ns);

		entry->reuse[bucket]++;
		entry->reuse_other[bucket] += entry->last_thread != thread_row;
	}
	entry->last_ns = time_ns;
	entry->last_span = entry->now;
	entry->last_thread = thread_row;
}

int watch_entry_count(struct watch_entry *entry, int64_t time_ns, int64_t thread_row,
		      const struct decode_before *what)
{
	count(&entry->counts, what);
	count_reuse(entry, time_ns, thread_row);
	return count_thread(entry, thread_row, what);
}

void watch_entry_own(struct watch_entry *entry, int owner_kind, int64_t owner_id)
{
	if (entry->owner_kind >= 0)
		return;
	entry->owner_kind = owner_kind;
	entry->owner_id = owner_id;
}
