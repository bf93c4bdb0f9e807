#include "analyze/samples/queue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"

#define MAX_CPUS 65536u /* a damaged trace may name any */

static bool is_mark(const struct sample_turns *turns, uint64_t carried)
{
	return array_find(turns->marks, turns->n_marks, it, *it == carried);
}

int sample_turns_add(struct sample_turns *turns, const struct trace_period *record)
{
	int r = grow_array(&turns->items, turns->n, &turns->n_allocated, sizeof(*turns->items));

	if (r < 0)
		return r;
	turns->items[turns->n++] = *record;
	if (!is_mark(turns, record->mark) && turns->n_marks < SAMPLE_MAX_MARKS)
		turns->marks[turns->n_marks++] = record->mark;
	return r;
}

/* Is it the first on its CPU since that turn? */
static bool is_first(struct sample_turns *turns, uint32_t cpu, size_t turn)
{
	if (cpu >= MAX_CPUS)
		return false;
	if (grow_array_to(&turns->seen, cpu, &turns->n_cpus, sizeof(*turns->seen)) < 0)
		return false;
	bool is_new = turns->seen[cpu] != turn + 1;
	turns->seen[cpu] = turn + 1;
	return is_new;
}

/* Is it the first of a thread's event that is not its first one? */
static bool is_first_of_later(struct sample_turns *turns, const struct sample_origin *origin)
{
	uint64_t thread = (uint64_t)origin->tid << 32, event = thread | (origin->cpu + 1);

	if (key_map_get(&turns->events, event, origin->carried))
		return false;
	bool is_known = key_map_get(&turns->events, thread, 0);
	return key_map_put(&turns->events, event, origin->carried, 1) == 0 &&
	       key_map_put(&turns->events, thread, 0, 1) == 0 && is_known;
}

uint64_t sample_turns_weight(struct sample_turns *turns, const struct sample_origin *origin)
{
	size_t n_until = array_n_until(turns->items, turns->n, raw_ns, origin->raw_ns);
	uint64_t carried = origin->carried;

	for (size_t i = is_mark(turns, carried) ? n_until : 0; i-- > 0;) {
		const struct trace_period *turn = &turns->items[i];

		if (turn->mark == carried)
			return turn->period + (is_first(turns, origin->cpu, i) ? turn->least : 0);
	}
	if (n_until == 0 || is_mark(turns, carried) || !is_first_of_later(turns, origin))
		return carried;
	return carried + turns->items[n_until - 1].least;
}

void sample_turns_finish(struct sample_turns *turns)
{
	free(turns->items);
	free(turns->seen);
	key_map_finish(&turns->events);
	*turns = (struct sample_turns){ 0 };
}

void sample_queue_init(struct sample_queue *queue)
{
	*queue = (struct sample_queue){ .next_ns = INT64_MAX };
}

struct record_buffer *record_buffer_create(const void *bytes, size_t n_bytes)
{
	struct record_buffer *buffer = malloc(sizeof(*buffer) + n_bytes);

	if (!buffer)
		return NULL;
	*buffer = (struct record_buffer){ .kind = QUEUED_PERF };
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
	free_all(queue->entries, queue->others);
	sample_queue_init(queue);
}

int sample_queue_add(struct sample_queue *queue, const struct queued_sample *entry)
{
	if (grow_one(&queue->entries, queue->n, &queue->n_allocated) < 0 ||
	    grow_one(&queue->others, queue->n, &queue->n_others_allocated) < 0)
		return -ENOMEM;
	queue->entries[queue->n++] = *entry;
	entry->buffer->n_entries++;
	if (entry->time_ns < queue->next_ns)
		queue->next_ns = entry->time_ns;
	return 0;
}

/* Where the entries end that are in order from `at` on. */
static size_t end_of_run(const struct sample_queue *queue, size_t at)
{
	while (++at < queue->n && queue->entries[at - 1].time_ns <= queue->entries[at].time_ns)
		;
	return at < queue->n ? at : queue->n;
}

/* Merge each two neighbouring runs, and change the arrays. Returns how many runs there are then. */
static size_t merge_runs(struct sample_queue *queue)
{
	const struct queued_sample *entries = queue->entries;
	struct queued_sample *to = queue->others;
	size_t n_runs = 0;

	for (size_t at = 0, middle, end; at < queue->n; n_runs++) {
		size_t second = middle = end_of_run(queue, at);
		end = middle < queue->n ? end_of_run(queue, middle) : middle;
		while (at < middle || second < end) {
			bool is_first =
				second == end ||
				(at < middle && entries[at].time_ns <= entries[second].time_ns);
			*to++ = entries[is_first ? at++ : second++];
		}
		at = end;
	}
	queue->others = queue->entries;
	queue->entries = to - queue->n;
	size_t n_allocated = queue->n_allocated;
	queue->n_allocated = queue->n_others_allocated;
	queue->n_others_allocated = n_allocated;
	return n_runs;
}

/*
 * Move what is left to the front and sort it with what came. That is few runs, each of a CPU's
 * ring, which are in order.
 */
static void sort(struct sample_queue *queue)
{
	size_t n = queue->n - queue->first;

	if (queue->first)
		memmove(queue->entries, queue->entries + queue->first, n * sizeof(*queue->entries));
	queue->first = 0;
	queue->n = n;
	if (end_of_run(queue, 0) < n)
		while (merge_runs(queue) > 1)
			;
	queue->n_sorted = n;
	queue->n_looked = 0;
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

const struct queued_sample *sample_queue_look(struct sample_queue *queue, size_t n_most,
					      size_t *ret_n)
{
	size_t n = queue->n_sorted - queue->first;

	*ret_n = queue->n_looked = n < n_most ? n : n_most;
	return &queue->entries[queue->first];
}

void sample_queue_drop(struct sample_queue *queue)
{
	release(&queue->entries[queue->first++]);
	queue->n_looked -= queue->n_looked > 0;
	queue->next_ns = queue->first < queue->n ? queue->entries[queue->first].time_ns : INT64_MAX;
	if (queue->first == queue->n) {
		queue->first = 0;
		queue->n = 0;
		queue->n_sorted = 0;
	}
}
