#include "analyze/samples/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

void sample_queue_init(struct sample_queue *queue)
{
	*queue = (struct sample_queue){ .next_ns = INT64_MAX };
}

struct record_buffer *record_buffer_create(const void *bytes, size_t n_bytes)
{
	struct record_buffer *buffer = malloc(sizeof(*buffer) + n_bytes);

	if (!buffer)
		return NULL;
	buffer->n_entries = 0;
	memcpy(buffer->bytes, bytes, n_bytes);
	return buffer;
}

void record_buffer_settle(struct record_buffer *buffer)
{
	if (buffer->n_entries == 0)
		free(buffer);
}

static void release(const struct queued_sample *entry)
{
	if (--entry->buffer->n_entries == 0)
		free(entry->buffer);
}

void sample_queue_finish(struct sample_queue *queue)
{
	for (size_t i = queue->first; i < queue->n; i++)
		release(&queue->entries[i]);
	free(queue->entries);
	sample_queue_init(queue);
}

int sample_queue_add(struct sample_queue *queue, const struct queued_sample *entry)
{
	if (grow_array(&queue->entries, queue->n, &queue->n_allocated, sizeof(*queue->entries)) < 0)
		return -ENOMEM;

	struct queued_sample *copy = &queue->entries[queue->n++];
	*copy = *entry;
	copy->order = queue->n_orders++;
	copy->buffer->n_entries++;
	if (copy->time_ns < queue->next_ns)
		queue->next_ns = copy->time_ns;
	return 0;
}

static int compare_entries(const void *a, const void *b)
{
	const struct queued_sample *left = a;
	const struct queued_sample *right = b;

	if (left->time_ns != right->time_ns)
		return left->time_ns < right->time_ns ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

/* Move what is left to the front and sort it with what came. */
static void sort(struct sample_queue *queue)
{
	size_t n = queue->n - queue->first;

	if (queue->first)
		memmove(queue->entries, queue->entries + queue->first, n * sizeof(*queue->entries));
	queue->first = 0;
	queue->n = n;
	qsort(queue->entries, n, sizeof(*queue->entries), compare_entries);
	queue->n_sorted = n;
}

const struct queued_sample *sample_queue_peek(struct sample_queue *queue, int64_t time_ns)
{
	if (queue->next_ns >= time_ns || queue->first == queue->n)
		return NULL;
	if (queue->n_sorted < queue->n)
		sort(queue);

	const struct queued_sample *entry = &queue->entries[queue->first];
	queue->next_ns = entry->time_ns;
	return entry->time_ns < time_ns ? entry : NULL;
}

void sample_queue_drop(struct sample_queue *queue)
{
	release(&queue->entries[queue->first++]);
	queue->next_ns = queue->first < queue->n ? queue->entries[queue->first].time_ns : INT64_MAX;
	if (queue->first == queue->n) {
		queue->first = 0;
		queue->n = 0;
		queue->n_sorted = 0;
	}
}
