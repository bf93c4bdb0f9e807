#include "analyze/input/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"

#define FETCH_EVENTS 8 /* of a thread, fetched into the cache before their turn */
#define KEEP_EVENTS  1024 /* an unused queue of more gives its memory back */

/* The events of a thread that wait for their turn, in its order. */
struct stream {
	struct merge_event *events;
	size_t first;
	size_t n; /* behind the last */
	size_t n_allocated;
	bool is_used; /* since merge_shrink() came last */
	int64_t due; /* of the first event ... */
	int64_t floor; /* ... and of the one before it: due is never less */
	uint32_t thread;
	uint32_t process;
	size_t place; /* in the heap of streams with events */
};

struct merge {
	struct stream **streams; /* by order of first use */
	size_t n_streams;
	struct stream **by_thread; /* open addressing, n_by_thread a power of two */
	size_t n_by_thread;
	struct stream **waiting; /* a binary heap: the earliest first */
	size_t n_waiting;
	uint64_t n_links;
	int64_t skew;
};

int merge_open(int64_t skew, struct merge **ret_merge)
{
	struct merge *merge = calloc(1, sizeof(*merge));
	if (!merge)
		return -ENOMEM;
	merge->skew = skew;
	*ret_merge = merge;
	return 0;
}

struct merge *merge_close(struct merge *merge)
{
	if (!merge)
		return NULL;
	for (size_t i = 0; i < merge->n_streams; i++) {
		free(merge->streams[i]->events);
		free(merge->streams[i]);
	}
	free(merge->streams);
	free(merge->by_thread);
	free(merge->waiting);
	free(merge);
	return NULL;
}

/* ---- Which stream ---- */

static struct stream **place_of(struct stream **table, size_t n, uint32_t thread)
{
	size_t i = thread * UINT32_C(0x9e3779b1) & (n - 1);

	while (table[i] && table[i]->thread != thread)
		i = (i + 1) & (n - 1);
	return &table[i];
}

/* Room for one more stream in all three arrays. */
static int grow(struct merge *merge)
{
	size_t n = merge->n_by_thread ? 2 * merge->n_by_thread : 64;

	if (2 * merge->n_streams < merge->n_by_thread)
		return 0;
	struct stream **streams = reallocarray(merge->streams, n, sizeof(struct stream *));
	if (!streams)
		return -ENOMEM;
	merge->streams = streams;
	struct stream **waiting = reallocarray(merge->waiting, n, sizeof(struct stream *));
	if (!waiting)
		return -ENOMEM;
	merge->waiting = waiting;
	struct stream **table = calloc(n, sizeof(struct stream *));
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < merge->n_streams; i++)
		*place_of(table, n, streams[i]->thread) = streams[i];
	free(merge->by_thread);
	merge->by_thread = table;
	merge->n_by_thread = n;
	return 0;
}

static struct stream *stream_of(struct merge *merge, uint32_t thread, uint32_t process)
{
	if (grow(merge) < 0)
		return NULL;
	struct stream **place = place_of(merge->by_thread, merge->n_by_thread, thread);
	if (*place)
		return *place;

	struct stream *stream = calloc(1, sizeof(*stream));
	if (!stream)
		return NULL;
	stream->thread = thread;
	stream->process = process;
	stream->floor = INT64_MIN;
	merge->streams[merge->n_streams++] = stream;
	*place = stream;
	return stream;
}

/* ---- The heap of streams ---- */

static bool is_before(const struct stream *a, const struct stream *b)
{
	return a->due < b->due || (a->due == b->due && a->thread < b->thread);
}

static void put(struct merge *merge, size_t i, struct stream *stream)
{
	merge->waiting[i] = stream;
	stream->place = i;
}

static void sift_up(struct merge *merge, struct stream *stream)
{
	size_t i = stream->place;

	while (i > 0 && is_before(stream, merge->waiting[(i - 1) / 2])) {
		put(merge, i, merge->waiting[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	put(merge, i, stream);
}

static void sift_down(struct merge *merge, struct stream *stream)
{
	size_t i = stream->place;

	for (size_t child; (child = 2 * i + 1) < merge->n_waiting; i = child) {
		if (child + 1 < merge->n_waiting &&
		    is_before(merge->waiting[child + 1], merge->waiting[child]))
			child++;
		if (!is_before(merge->waiting[child], stream))
			break;
		put(merge, i, merge->waiting[child]);
	}
	put(merge, i, stream);
}

static void set_due(struct stream *stream)
{
	int64_t time = stream->events[stream->first].time;

	stream->due = time > stream->floor ? time : stream->floor;
}

/* The stream has a new first event, earlier than the one before, or its first at all. */
static void move_forward(struct merge *merge, struct stream *stream, bool is_new)
{
	set_due(stream);
	if (is_new)
		stream->place = merge->n_waiting++;
	sift_up(merge, stream);
}

/* The stream's first event is gone, and with it those that were taken out before their turn. */
static void move_back(struct merge *merge, struct stream *stream)
{
	while (stream->first < stream->n && stream->events[stream->first].flags & MERGE_IS_TAKEN)
		stream->first++;
	if (stream->first < stream->n) {
		set_due(stream);
		sift_down(merge, stream);
		return;
	}
	struct stream *last = merge->waiting[--merge->n_waiting];
	if (last != stream) {
		last->place = stream->place;
		sift_up(merge, last);
		sift_down(merge, last);
	}
}

/* ---- Queues ---- */

/* What comes next finds pages that were touched. */
static void move_to_front(struct stream *stream)
{
	size_t n = stream->n - stream->first;

	if (n > 0)
		memmove(stream->events, stream->events + stream->first,
			n * sizeof(*stream->events));
	stream->first = 0;
	stream->n = n;
}

/* Room behind the last event, by moving the queue to its front or by more memory. */
static int make_room(struct stream *stream)
{
	if (stream->n < stream->n_allocated)
		return 0;
	if (stream->first > stream->n_allocated / 2) {
		move_to_front(stream);
		return 0;
	}
	return grow_array(&stream->events, stream->n, &stream->n_allocated,
			  sizeof(*stream->events));
}

/*
 * An event goes to the end of its thread's queue, but before births that it came before: a signal
 * handler's events between the two halves of a realloc were reserved behind it.
 */
static int append(struct merge *merge, struct stream *stream, const struct merge_event *event)
{
	int r = make_room(stream);
	if (r < 0)
		return r;

	stream->is_used = true;
	size_t at = stream->n;
	while (at > stream->first && stream->events[at - 1].flags & MERGE_IS_BIRTH &&
	       stream->events[at - 1].time > event->time) {
		stream->events[at] = stream->events[at - 1];
		at--;
	}
	stream->events[at] = *event;
	bool is_new = stream->n++ == stream->first;
	if (at == stream->first)
		move_forward(merge, stream, is_new);
	return 0;
}

int merge_push(struct merge *merge, uint32_t thread, uint32_t process,
	       const struct trace_event *event, uint64_t start_ticks)
{
	bool moves = event->op == TRACE_OP_REALLOC || event->op == TRACE_OP_MREMAP;
	struct stream *stream = stream_of(merge, thread, process);
	struct merge_event out = {
		.op = event->op,
		.call = event->call,
		.flags = event->flags & TRACE_EVENT_NESTED,
		.stack_id = event->stack_id,
		.time = (int64_t)(event->ticks - start_ticks),
		.address = event->address,
		.size = event->size,
		.detail = event->detail,
	};
	int r = 0;

	if (!stream)
		return -ENOMEM;
	if (event->op == TRACE_OP_BREAK) {
		bool has_grown = event->address > event->old_address;

		out.address = has_grown ? event->old_address : event->address;
		out.size = (has_grown ? event->address : event->old_address) - out.address;
		out.detail = event->address;
	}
	if (moves && event->old_address && event->address)
		out.link = ++merge->n_links;
	if (moves && event->old_address) {
		struct merge_event end = out;
		end.flags |= MERGE_IS_END;
		end.time = (int64_t)(event->begin_ticks - start_ticks);
		end.address = event->old_address;
		end.size = event->old_size;
		r = append(merge, stream, &end);
	}
	if (moves && !event->address)
		return r;
	if (moves)
		out.flags |= MERGE_IS_BIRTH;
	return r < 0 ? r : append(merge, stream, &out);
}

int64_t merge_next(const struct merge *merge)
{
	return merge->n_waiting > 0 ? merge->waiting[0]->due : INT64_MAX;
}

uint32_t merge_take(struct merge *merge, struct merge_event *ret_event)
{
	struct stream *stream = merge->waiting[0];

	if (stream->n - stream->first > FETCH_EVENTS)
		__builtin_prefetch(&stream->events[stream->first + FETCH_EVENTS]);
	*ret_event = stream->events[stream->first++];
	ret_event->time = stream->due;
	stream->floor = stream->due;
	move_back(merge, stream);
	return stream->thread;
}

/* ---- Repair of the order between threads ---- */

static bool ends(const struct merge_event *event, uint64_t address)
{
	bool is_end = event->op == TRACE_OP_FREE ||
		      (event->op == TRACE_OP_REALLOC && event->flags & MERGE_IS_END);

	return is_end && event->address == address && !(event->flags & MERGE_IS_TAKEN);
}

static bool gives_birth(const struct merge_event *event, uint64_t address)
{
	bool is_birth = event->op == TRACE_OP_ALLOC ||
			(event->op == TRACE_OP_REALLOC && event->flags & MERGE_IS_BIRTH);

	return is_birth && event->address == address;
}

/* The place of the event of a stream that ends the block, before any that gives birth to it. */
static struct merge_event *find_end(const struct merge *merge, const struct stream *stream,
				    const struct merge_wanted *wanted)
{
	for (size_t i = stream->first; i < stream->n; i++) {
		struct merge_event *event = &stream->events[i];
		if (event->time > wanted->time + merge->skew || gives_birth(event, wanted->address))
			return NULL;
		if (ends(event, wanted->address))
			return event;
	}
	return NULL;
}

/* The event is gone from the queue. */
static void take_out(struct merge *merge, struct stream *stream, struct merge_event *event)
{
	event->flags |= MERGE_IS_TAKEN;
	if (event == &stream->events[stream->first])
		move_back(merge, stream);
}

bool merge_take_end(struct merge *merge, const struct merge_wanted *wanted, uint32_t *ret_thread,
		    struct merge_event *ret_event, bool *ret_is_next)
{
	struct merge_event *first = NULL;
	struct stream *owner = NULL;

	for (size_t i = 0; i < merge->n_waiting; i++) {
		struct stream *stream = merge->waiting[i];
		if (stream->thread == wanted->thread || stream->process != wanted->process ||
		    stream->due > wanted->time + merge->skew)
			continue;
		struct merge_event *event = find_end(merge, stream, wanted);
		if (event && (!first || event->time < first->time)) {
			first = event;
			owner = stream;
		}
	}
	if (!first)
		return false;
	*ret_thread = owner->thread;
	*ret_event = *first;
	*ret_is_next = first == &owner->events[owner->first];
	take_out(merge, owner, first);
	return true;
}

void merge_shrink(struct merge *merge)
{
	for (size_t i = 0; i < merge->n_streams; i++) {
		struct stream *stream = merge->streams[i];
		bool was_used = stream->is_used;

		stream->is_used = false;
		if (stream->first > stream->n - stream->first)
			move_to_front(stream);
		if (stream->n > 0 || was_used || stream->n_allocated <= KEEP_EVENTS)
			continue;
		free(stream->events);
		stream->events = NULL;
		stream->n_allocated = 0;
	}
}
