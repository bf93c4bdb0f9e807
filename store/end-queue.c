#include "store/end-queue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"

#define MAX_BUCKETS (1 << 20)
#define FEW	    32u /* that are sorted one into the other */

int end_queue_init(struct end_queue *queue, int64_t end_ns)
{
	*queue = (struct end_queue){ 0 };
	while (end_ns >> queue->shift >= MAX_BUCKETS)
		queue->shift++;
	queue->n_buckets = end_ns > 0 ? (size_t)(end_ns >> queue->shift) + 1 : 1;
	queue->stretches = calloc(queue->n_buckets / END_BUCKETS + 1, sizeof(*queue->stretches));
	return queue->stretches ? 0 : -ENOMEM;
}

void end_queue_finish(struct end_queue *queue)
{
	for (size_t i = 0; queue->stretches && i <= queue->n_buckets / END_BUCKETS; i++)
		free(queue->stretches[i].ends);
	free_all(queue->stretches, queue->items, queue->sorted, queue->heap);
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

static int push_list(struct end_queue *queue, size_t bucket, const struct block_end *end)
{
	uint32_t *list = &queue->lists[bucket % END_BUCKETS], at = queue->free;

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
	queue->items[at - 1].next = *list;
	*list = at;
	return 0;
}

int end_queue_push(struct end_queue *queue, const struct block_end *end)
{
	size_t bucket = bucket_of(queue, end->time_ns);
	struct end_stretch *stretch = &queue->stretches[bucket / END_BUCKETS];

	if (bucket <= queue->at)
		return push_heap(queue, end);
	if (bucket / END_BUCKETS == queue->at / END_BUCKETS)
		return push_list(queue, bucket, end);
	int r = grow_array(&stretch->ends, stretch->n, &stretch->n_allocated,
			   sizeof(*stretch->ends));
	if (r == 0)
		stretch->ends[stretch->n++] = *end;
	return r;
}

/* A stretch comes: its ends go to the lists of their buckets. */
static int spread(struct end_queue *queue, struct end_stretch *stretch)
{
	int r = 0;

	for (size_t i = 0; i < stretch->n && r == 0; i++)
		r = push_list(queue, bucket_of(queue, stretch->ends[i].time_ns), &stretch->ends[i]);
	free(stretch->ends);
	*stretch = (struct end_stretch){ 0 };
	return r;
}

DEFINE_ORDER(compare, struct end_place, a->time_ns > b->time_ns ? -1 : a->time_ns < b->time_ns);

/* The first end is the last one. */
static void sort(struct end_place *places, size_t n)
{
	if (n > FEW) {
		qsort(places, n, sizeof(*places), compare);
		return;
	}
	for (size_t i = 1; i < n; i++) {
		struct end_place place = places[i];
		size_t to = i;
		for (; to > 0 && places[to - 1].time_ns < place.time_ns; to--)
			places[to] = places[to - 1];
		places[to] = place;
	}
}

static int sort_list(struct end_queue *queue, uint32_t list)
{
	for (; list; list = queue->items[list - 1].next) {
		int r = grow_array(&queue->sorted, queue->n_sorted, &queue->n_sorted_allocated,
				   sizeof(*queue->sorted));
		if (r < 0)
			return r;
		queue->sorted[queue->n_sorted++] =
			(struct end_place){ queue->items[list - 1].time_ns, list };
	}
	sort(queue->sorted, queue->n_sorted);
	return 0;
}

/* Make the next bucket that is not empty the one at hand, up to that of a time. */
static int advance(struct end_queue *queue, int64_t time_ns)
{
	size_t last = bucket_of(queue, time_ns);
	int r = 0;

	while (queue->n_sorted == 0 && queue->at < last && r == 0) {
		uint32_t *list = &queue->lists[++queue->at % END_BUCKETS];
		if (queue->at % END_BUCKETS == 0)
			r = spread(queue, &queue->stretches[queue->at / END_BUCKETS]);
		if (r == 0 && *list)
			r = sort_list(queue, *list);
		*list = 0;
	}
	return r;
}

static void take_sorted(struct end_queue *queue, struct block_end *ret_end)
{
	uint32_t number = queue->sorted[--queue->n_sorted].item;
	struct block_end *item = &queue->items[number - 1];

	*ret_end = *item;
	item->next = queue->free;
	queue->free = number;
}

static void take_heap(struct end_queue *queue, struct block_end *ret_end)
{
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
}

int end_queue_take(struct end_queue *queue, int64_t time_ns, struct block_end *ret_end)
{
	bool is_empty = queue->n_sorted == 0 && queue->n_heap == 0;
	int r = is_empty ? advance(queue, time_ns) : 0;

	if (r < 0)
		return r;
	int64_t sorted_ns =
		queue->n_sorted ? queue->sorted[queue->n_sorted - 1].time_ns : INT64_MAX;
	int64_t heap_ns = queue->n_heap ? queue->heap[0].time_ns : INT64_MAX;
	if (queue->n_sorted && sorted_ns <= heap_ns && sorted_ns <= time_ns)
		take_sorted(queue, ret_end);
	else if (queue->n_heap && heap_ns <= time_ns)
		take_heap(queue, ret_end);
	else
		return 0;
	return 1;
}
