#include "analyze/input/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "trace/columns.h"
#include "trace/varint.h"

#define MOST_IN_CALL  4096u /* events that the end of a block may come before */
#define DECODE_EVENTS 128 /* at a time: they stay in the cache until their turn comes */

/* A frame of a thread that was not decoded to its end yet. */
struct frame {
	struct frame *next;
	uint64_t start_ticks;
	struct trace_columns_place place;
	void *memory; /* that it lies in */
};

/*
 * The events of a thread that wait for their turn: in its order those that are decoded, and behind
 * them frames. Where there are frames the first event is decoded, and nothing can come before it.
 */
struct stream {
	struct merge_event *events;
	size_t first;
	size_t n; /* behind the last */
	size_t n_allocated;
	struct frame *frames;
	struct frame **last_frame;
	bool is_used; /* since merge_shrink() came last */
	bool is_waiting; /* in the heap */
	int64_t due; /* of the first event ... */
	int64_t floor; /* ... and of the one before it: due is never less */
	uint32_t thread;
	uint32_t process;
	size_t place; /* in the heap of streams with events */
};

struct merge {
	struct stream **streams; /* by order of first use */
	size_t n_streams;
	struct key_map by_thread; /* 1 + its place in streams */
	struct stream **waiting; /* a binary heap: the earliest first */
	size_t n_waiting;
	uint64_t n_links;
	int64_t skew;
	struct merge_listener listener;
	struct trace_event decoded[DECODE_EVENTS];
};

int merge_open(int64_t skew, const struct merge_listener *listener, struct merge **ret_merge)
{
	struct merge *merge = calloc(1, sizeof(*merge));
	if (!merge)
		return -ENOMEM;
	merge->skew = skew;
	if (listener)
		merge->listener = *listener;
	*ret_merge = merge;
	return 0;
}

static void drop_frame(struct stream *stream)
{
	struct frame *frame = stream->frames;

	stream->frames = frame->next;
	if (!stream->frames)
		stream->last_frame = &stream->frames;
	free_all(frame->memory, frame);
}

static void free_stream(struct stream *stream)
{
	while (stream->frames)
		drop_frame(stream);
	free_all(stream->events, stream);
}

struct merge *merge_close(struct merge *merge)
{
	if (!merge)
		return NULL;
	array_free(merge->streams, merge->n_streams, it, free_stream(*it));
	key_map_finish(&merge->by_thread);
	free_all(merge->waiting, merge);
	return NULL;
}

/* ---- Which stream ---- */

static struct stream *stream_of(struct merge *merge, uint32_t thread, uint32_t process)
{
	size_t number = key_map_get(&merge->by_thread, thread, 0), n = merge->n_streams;

	if (number)
		return merge->streams[number - 1];
	if (grow_array_of(&merge->streams, n, 1, sizeof(*merge->streams)) < 0 ||
	    grow_array_of(&merge->waiting, n, 1, sizeof(*merge->waiting)) < 0)
		return NULL;

	struct stream *stream = calloc(1, sizeof(*stream));
	if (!stream || key_map_put(&merge->by_thread, thread, 0, n + 1) < 0)
		return free(stream), NULL;
	stream->thread = thread;
	stream->process = process;
	stream->floor = INT64_MIN;
	stream->last_frame = &stream->frames;
	merge->streams[merge->n_streams++] = stream;
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

/* The stream's first event is another one now, or there is none any more. */
static void find_place(struct merge *merge, struct stream *stream)
{
	if (stream->first < stream->n) {
		set_due(stream);
		if (!stream->is_waiting)
			stream->place = merge->n_waiting++;
		stream->is_waiting = true;
		sift_up(merge, stream);
		sift_down(merge, stream);
		return;
	}
	if (!stream->is_waiting)
		return;
	stream->is_waiting = false;
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
	return grow_one(&stream->events, stream->n, &stream->n_allocated);
}

/* The place of an event behind the last one; NULL without memory. */
static struct merge_event *take_place(struct stream *stream)
{
	return make_room(stream) < 0 ? NULL : &stream->events[stream->n++];
}

/*
 * An event goes to the end of its thread's queue, but before allocations that it came before: a
 * signal handler's events between the two halves of a realloc were reserved behind it. A block that
 * was replaced ends before all that happened in the call, such as the realloc that it lay in.
 */
static void order_last(struct stream *stream)
{
	struct merge_event *events = stream->events;
	const struct merge_event *last = &events[stream->n - 1];
	bool is_replaced = last->call == TRACE_CALL_BLOCK_END && last->flags & MERGE_IS_END;
	size_t first = stream->first;

	if (is_replaced && stream->n - first > MOST_IN_CALL)
		first = stream->n - MOST_IN_CALL;
	for (size_t at = stream->n - 1;
	     at > first && (is_replaced || events[at - 1].flags & MERGE_IS_ALLOCATION) &&
	     events[at - 1].time > events[at].time;
	     at--) {
		struct merge_event before = events[at - 1];
		events[at - 1] = events[at];
		events[at] = before;
	}
}

static int append(struct stream *stream, const struct merge_event *event)
{
	struct merge_event *place = take_place(stream);

	if (!place)
		return -ENOMEM;
	*place = *event;
	order_last(stream);
	return 0;
}

/* An event that moves a block is two. */
static int append_move(struct merge *merge, struct stream *stream, const struct trace_event *event,
		       uint64_t start_ticks, struct merge_event *allocation)
{
	int r = 0;

	if (event->old_address && event->address)
		allocation->link = ++merge->n_links;
	if (event->old_address) {
		struct merge_event end = *allocation;
		end.flags |= MERGE_IS_END;
		end.time = (int64_t)(event->begin_ticks - start_ticks);
		end.address = event->old_address;
		end.size = event->old_size;
		r = append(stream, &end);
	}
	if (r < 0 || !event->address)
		return r;
	allocation->flags |= MERGE_IS_ALLOCATION;
	return append(stream, allocation);
}

/*
 * A block of an own allocator that takes the place of another one: that ends, and it begins. One of
 * 0 bytes is none: the other one has lost its last reference.
 */
static int append_replaced(struct stream *stream, const struct trace_event *event,
			   uint64_t start_ticks, struct merge_event *born)
{
	struct merge_event end = *born;

	born->flags |= MERGE_IS_ALLOCATION;
	end.call = TRACE_CALL_BLOCK_END;
	end.flags |= MERGE_IS_END;
	end.time = (int64_t)(event->begin_ticks - start_ticks);
	end.address = event->old_size;
	int r = append(stream, &end);

	return r < 0 || !born->size ? r : append(stream, born);
}

/* Field by field: a copy of what was just written in parts waits for the parts. */
static void fill(struct merge_event *out, const struct trace_event *event, uint64_t start_ticks)
{
	out->op = event->op;
	out->call = event->call;
	out->flags = event->flags & TRACE_EVENT_NESTED;
	out->stack_id = event->stack_id;
	out->time = (int64_t)(event->ticks - start_ticks);
	out->address = event->address;
	out->size = event->size;
	out->detail = event->detail;
	out->link = 0;
}

/* What memsight took of the thread's time until then: trace-control.h. */
static bool has_own_time(const struct trace_event *event)
{
	return event->call == TRACE_CALL_REGION_PUSH || event->call == TRACE_CALL_REGION_POP ||
	       event->call == TRACE_CALL_FUNCTION_ENTER || event->call == TRACE_CALL_FUNCTION_LEAVE;
}

static int enqueue_rare(struct merge *merge, struct stream *stream, const struct trace_event *event,
			uint64_t start_ticks)
{
	struct merge_event out;

	fill(&out, event, start_ticks);
	if (event->op == TRACE_OP_REALLOC || event->op == TRACE_OP_MREMAP)
		return append_move(merge, stream, event, start_ticks, &out);
	if (event->op == TRACE_OP_NOTE)
		out.link = has_own_time(event) ? event->ticks - event->begin_ticks
					       : event->old_address;
	if (event->op == TRACE_OP_NOTE && event->call == TRACE_CALL_BLOCK && event->old_size)
		return append_replaced(stream, event, start_ticks, &out);
	if (event->op == TRACE_OP_BREAK) {
		bool has_grown = event->address > event->old_address;

		out.address = has_grown ? event->old_address : event->address;
		out.size = (has_grown ? event->address : event->old_address) - out.address;
		out.detail = event->address;
	}
	return append(stream, &out);
}

static int enqueue(struct merge *merge, struct stream *stream, const struct trace_event *event,
		   uint64_t start_ticks)
{
	if (event->op != TRACE_OP_ALLOC && event->op != TRACE_OP_FREE)
		return enqueue_rare(merge, stream, event, start_ticks);
	struct merge_event *place = take_place(stream);
	if (!place)
		return -ENOMEM;
	fill(place, event, start_ticks);
	order_last(stream);
	return 0;
}

/*
 * The next events of the first frame join the queue. 0, -ENOMEM, or -EBADMSG: the frame was not
 * verified, and its events must not be left out in silence.
 */
static int decode_more(struct merge *merge, struct stream *stream)
{
	struct frame *frame = stream->frames;
	int n = trace_columns_read(&frame->place, merge->decoded, DECODE_EVENTS);
	int r = n < 0 ? n : 0;

	if (stream->first == stream->n)
		stream->first = stream->n = 0;
	size_t n_before = stream->n - stream->first;
	for (int i = 0; i < n && r == 0; i++)
		r = enqueue(merge, stream, &merge->decoded[i], frame->start_ticks);
	if (merge->listener.come && r == 0) /* making room may have moved those before */
		merge->listener.come(merge->listener.context, stream->thread,
				     stream->events + stream->first + n_before,
				     stream->n - stream->first - n_before);
	if (n <= 0 || frame->place.n_left == 0)
		drop_frame(stream);
	return r;
}

/* Whether a frame may hold the first event, or one before it: behind allocations only. */
static bool needs_more(const struct stream *stream)
{
	if (!stream->frames)
		return false;
	return stream->first == stream->n ||
	       (stream->events[stream->first].flags & MERGE_IS_ALLOCATION &&
		stream->events[stream->n - 1].flags & MERGE_IS_ALLOCATION);
}

/* Whether the next event of a stream is as good as taken: most are. */
static bool is_plain(const struct stream *stream)
{
	return stream->first < stream->n &&
	       !(stream->events[stream->first].flags & (MERGE_IS_TAKEN | MERGE_IS_ALLOCATION));
}

/* Something was added to the stream, or its first event is gone. 0 or a negative errno. */
static int settle(struct merge *merge, struct stream *stream)
{
	int r = 0;

	do {
		/* Taken out before their turn. */
		while (stream->first < stream->n &&
		       stream->events[stream->first].flags & MERGE_IS_TAKEN)
			stream->first++;
	} while (needs_more(stream) && (r = decode_more(merge, stream)) == 0);
	find_place(merge, stream);
	return r;
}

int merge_push(struct merge *merge, uint32_t thread, uint32_t process,
	       const struct trace_event *event, uint64_t start_ticks)
{
	struct stream *stream = stream_of(merge, thread, process);
	int r = 0;

	if (!stream)
		return -ENOMEM;
	stream->is_used = true;
	while (stream->frames && r == 0)
		r = decode_more(merge, stream);
	r = r ?: enqueue(merge, stream, event, start_ticks);
	return r < 0 ? r : settle(merge, stream);
}

/* Columns with slack behind them, in memory of their own. */
static uint8_t *copy_columns(const struct merge_frame *added)
{
	uint8_t *copy = malloc(added->n_bytes + TRACE_VARINT_SLACK);

	if (copy) {
		memcpy(copy, added->columns, added->n_bytes);
		memset(copy + added->n_bytes, 0, TRACE_VARINT_SLACK);
	}
	return copy;
}

int merge_add(struct merge *merge, const struct merge_frame *added)
{
	struct stream *stream = stream_of(merge, added->thread, added->process);
	struct frame *frame = malloc(sizeof(*frame));
	void *memory = added->memory ?: copy_columns(added);

	if (!stream || !frame || !memory)
		return free_all(memory, frame), -ENOMEM;
	*frame = (struct frame){ .start_ticks = added->start_ticks, .memory = memory };
	trace_columns_begin(added->memory ? added->columns : memory, &frame->place);
	*stream->last_frame = frame;
	stream->last_frame = &frame->next;
	stream->is_used = true;
	return settle(merge, stream);
}

int64_t merge_next(const struct merge *merge)
{
	return merge->n_waiting > 0 ? merge->waiting[0]->due : INT64_MAX;
}

int merge_take(struct merge *merge, uint32_t *ret_thread, struct merge_event *ret_event)
{
	struct stream *stream = merge->waiting[0];

	*ret_event = stream->events[stream->first++];
	ret_event->time = stream->due;
	stream->floor = stream->due;
	*ret_thread = stream->thread;
	if (!is_plain(stream))
		return settle(merge, stream);
	set_due(stream);
	if (merge->n_waiting > 1)
		sift_down(merge, stream);
	return 0;
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
	bool is_allocation = event->op == TRACE_OP_ALLOC ||
			     (event->op == TRACE_OP_REALLOC && event->flags & MERGE_IS_ALLOCATION);

	return is_allocation && event->address == address;
}

/*
 * The event of a stream that ends the block, before any that allocates it. Returns 1 with its
 * number, 0, or a negative errno.
 */
static int find_end(struct merge *merge, struct stream *stream, const struct merge_wanted *wanted,
		    size_t *ret_at)
{
	for (size_t i = stream->first;; i++) {
		size_t n_before = i - stream->first;
		if (i == stream->n && stream->frames) {
			int r = decode_more(merge, stream);
			if (r < 0)
				return r;
			i = stream->first + n_before; /* what is decoded may have moved */
		}
		if (i == stream->n)
			return 0;
		const struct merge_event *event = &stream->events[i];
		if (event->time > wanted->time + merge->skew || gives_birth(event, wanted->address))
			return 0;
		if (ends(event, wanted->address)) {
			*ret_at = i;
			return 1;
		}
	}
}

/* The stream whose end of the block comes first; NULL: none. 0 or -ENOMEM. */
static int find_owner(struct merge *merge, const struct merge_wanted *wanted,
		      struct stream **ret_owner, size_t *ret_at)
{
	int64_t first_ns = INT64_MAX;

	*ret_owner = NULL;
	for (size_t i = 0; i < merge->n_waiting; i++) {
		struct stream *stream = merge->waiting[i];
		size_t at;

		if (stream->thread == wanted->thread || stream->process != wanted->process ||
		    stream->due > wanted->time + merge->skew)
			continue;
		int r = find_end(merge, stream, wanted, &at);
		if (r < 0)
			return r;
		if (r == 0 || (*ret_owner && stream->events[at].time >= first_ns))
			continue;
		first_ns = stream->events[at].time;
		*ret_owner = stream;
		*ret_at = at;
	}
	return 0;
}

int merge_take_end(struct merge *merge, const struct merge_wanted *wanted, uint32_t *ret_thread,
		   struct merge_event *ret_event, bool *ret_is_next)
{
	struct stream *owner;
	size_t at = 0;
	int r = find_owner(merge, wanted, &owner, &at);

	if (r < 0 || !owner)
		return r;
	*ret_thread = owner->thread;
	*ret_event = owner->events[at];
	*ret_is_next = at == owner->first;
	owner->events[at].flags |= MERGE_IS_TAKEN;
	r = settle(merge, owner);
	return r < 0 ? r : 1;
}

void merge_shrink(struct merge *merge)
{
	for (size_t i = 0; i < merge->n_streams; i++) {
		struct stream *stream = merge->streams[i];
		bool was_used = stream->is_used;

		stream->is_used = false;
		if (stream->is_waiting || was_used)
			continue;
		free(stream->events);
		stream->events = NULL;
		stream->first = stream->n = stream->n_allocated = 0;
	}
}
