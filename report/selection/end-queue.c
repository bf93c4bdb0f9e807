#include "report/selection/end-queue.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

#define MAX_BUCKETS (1 << 20) /* 4 MiB, of which few pages are at work at a time */

int end_queue_init(struct end_queue *queue, int64_t end_ns)
{
	*queue = (struct end_queue){ 0 };
	while (end_ns >> queue->shift >= MAX_BUCKETS)
		queue->shift++;
	queue->n_buckets = end_ns > 0 ? (size_t)(end_ns >> queue->shift) + 1 : 1;
	queue->buckets = calloc(queue->n_buckets, sizeof(*queue->buckets));
	return queue->buckets ? 0 : -ENOMEM;
}

void end_queue_finish(struct end_queue *queue)
{
	free(queue->items);
	free(queue->buckets);
	free(queue->heap);
	*queue = (struct end_queue){ 0 };
}

static size_t bucket_of(const struct end_queue *queue, int64_t time_ns)
{
	size_t bucket = time_ns > 0 ? (size_t)(time_ns >> queue->shift) : 0;

	return bucket < queue->n_buckets ? bucket : queue->n_buckets - 1;
}

static int push_heap(struct end_queue *queue, const struct block_end *end)
{
	int r = grow_array(&queue->heap, queue->n_heap, &queue->n_heap_allocated,
			   sizeof(*queue->heap));
	if (r < 0)
		return r;

	size_t i = queue->n_heap++;
	for (; i > 0 && queue->heap[(i - 1) / 2].time_ns > end->time_ns; i = (i - 1) / 2)
		queue->heap[i] = queue->heap[(i - 1) / 2];
	queue->heap[i] = *end;
	return 0;
}

int end_queue_push(struct end_queue *queue, const struct block_end *end)
{
	size_t bucket = bucket_of(queue, end->time_ns);
	uint32_t at = queue->free;

	if (bucket <= queue->at)
		return push_heap(queue, end);
	if (at) {
		queue->free = queue->items[at - 1].next;
	} else {
		int r = queue->n == UINT32_MAX
				? -ENOMEM
				: grow_array(&queue->items, queue->n, &queue->n_allocated,
					     sizeof(*queue->items));
		if (r < 0)
			return r;
		at = (uint32_t)++queue->n;
	}
	queue->items[at - 1] = *end;
	queue->items[at - 1].next = queue->buckets[bucket];
	queue->buckets[bucket] = at;
	return 0;
}

static int fill_heap(struct end_queue *queue, uint32_t list)
{
	while (list) {
		struct block_end *item = &queue->items[list - 1];
		uint32_t next = item->next;
		int r = push_heap(queue, item);
		if (r < 0)
			return r;
		item->next = queue->free;
		queue->free = list;
		list = next;
	}
	return 0;
}

/* Make the next bucket that is not empty the one at hand, up to that of a time. */
static int advance(struct end_queue *queue, int64_t time_ns)
{
	size_t last = bucket_of(queue, time_ns);
	int r = 0;

	while (queue->n_heap == 0 && queue->at < last && r == 0) {
		uint32_t list = queue->buckets[++queue->at];
		queue->buckets[queue->at] = 0;
		r = fill_heap(queue, list);
	}
	return r;
}

int end_queue_take(struct end_queue *queue, int64_t time_ns, struct block_end *ret_end)
{
	int r = queue->n_heap == 0 ? advance(queue, time_ns) : 0;

	if (r < 0 || queue->n_heap == 0 || queue->heap[0].time_ns > time_ns)
		return r;
	*ret_end = queue->heap[0];
	const struct block_end last = queue->heap[--queue->n_heap];
	size_t i = 0;
	for (size_t child; (child = 2 * i + 1) < queue->n_heap; i = child) {
		if (child + 1 < queue->n_heap &&
		    queue->heap[child + 1].time_ns < queue->heap[child].time_ns)
			child++;
		if (last.time_ns <= queue->heap[child].time_ns)
			break;
		queue->heap[i] = queue->heap[child];
	}
	queue->heap[i] = last;
	return 1;
}
