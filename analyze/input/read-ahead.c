#include "analyze/input/read-ahead.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/worker-thread.h"
#include "trace/varint.h"

#define MAX_BYTES (8u << 20) /* of items that nobody has taken; one more may be on its way */

/* A copy of an item; its bytes lie behind it. */
struct ahead_item {
	struct ahead_item *next;
	struct trace_item item;
	uint64_t offset; /* of the file, behind it */
	size_t n_bytes;
	_Alignas(16) char bytes[];
};

struct ahead {
	struct feed inner; /* the thread's, until it has ended */
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct ahead_item *first, **last; /* to be taken */
	size_t n_bytes;
	int result; /* of the last item, when has_ended */
	bool has_ended;
	bool is_joined;
	bool gives_up; /* nobody wants what is left */
	struct ahead_item *taken; /* NULL also: its memory was given away */
	uint64_t offset; /* of the file, behind it */
	struct trace_damage damage; /* when it was opened */
	struct trace_file_header header;
};

/* ---- Copies ---- */

/* What an item points to: up to two pieces. */
struct pieces {
	const void *head;
	size_t n_head;
	const void *rest;
	size_t n_rest;
};

static const uint8_t slack[TRACE_VARINT_SLACK]; /* behind columns */

static struct pieces pieces_of(const struct trace_item *item)
{
	switch (item->type) {
	case TRACE_FRAME_RECORDS:
		return (struct pieces){ item->records, item->n_bytes, NULL, 0 };
	case TRACE_FRAME_EVENTS:
		if (item->columns)
			return (struct pieces){ item->columns, item->n_bytes, slack,
						sizeof(slack) };
		return (struct pieces){ item->events, item->n * sizeof(*item->events), NULL, 0 };
	case TRACE_FRAME_NODES:
		return (struct pieces){ item->nodes, item->n * sizeof(*item->nodes), NULL, 0 };
	case TRACE_FRAME_ACCESSES:
		return (struct pieces){ item->accesses, item->n * sizeof(*item->accesses), NULL,
					0 };
	case TRACE_FRAME_PERF:
		return (struct pieces){ item->perf, item->n, NULL, 0 };
	case TRACE_FRAME_CODE:
		return (struct pieces){ item->code.head, sizeof(*item->code.head), item->code.bytes,
					item->n };
	case TRACE_FRAME_AUX:
		return (struct pieces){ item->aux.head, sizeof(*item->aux.head), item->aux.bytes,
					item->n };
	case TRACE_FRAME_COMMIT:
		return (struct pieces){ item->commit, sizeof(*item->commit), NULL, 0 };
	default:
		return (struct pieces){ NULL, 0, NULL, 0 };
	}
}

/*
 * Let the copy point to its own bytes. All members of the union but code and aux are one pointer.
 */
static void point(struct ahead_item *copy, const struct pieces *pieces, size_t at_rest)
{
	if (copy->item.type == TRACE_FRAME_CODE) {
		copy->item.code.head = (const void *)copy->bytes;
		copy->item.code.bytes = copy->bytes + at_rest;
	} else if (copy->item.type == TRACE_FRAME_AUX) {
		copy->item.aux.head = (const void *)copy->bytes;
		copy->item.aux.bytes = copy->bytes + at_rest;
	} else if (copy->item.columns) {
		copy->item.columns = (const void *)copy->bytes;
	} else if (pieces->head) {
		copy->item.perf = copy->bytes;
	}
}

static struct ahead_item *copy_of(const struct trace_item *item, uint64_t offset)
{
	struct pieces pieces = pieces_of(item);
	size_t at_rest = (pieces.n_head + 15) & ~(size_t)15;
	size_t n_bytes = at_rest + pieces.n_rest;
	struct ahead_item *copy = malloc(sizeof(*copy) + n_bytes);

	if (!copy)
		return NULL;
	copy->next = NULL;
	copy->item = *item;
	copy->offset = offset;
	copy->n_bytes = n_bytes;
	if (pieces.n_head > 0)
		memcpy(copy->bytes, pieces.head, pieces.n_head);
	if (pieces.n_rest > 0)
		memcpy(copy->bytes + at_rest, pieces.rest, pieces.n_rest);
	point(copy, &pieces, at_rest);
	return copy;
}

/* ---- The thread ---- */

/* Hand a copy over when there is room. Returns false when nobody wants more. */
static bool give(struct ahead *ahead, struct ahead_item *copy)
{
	pthread_mutex_lock(&ahead->mutex);
	while (ahead->n_bytes > MAX_BYTES && !ahead->gives_up)
		pthread_cond_wait(&ahead->changed, &ahead->mutex);
	*ahead->last = copy;
	ahead->last = &copy->next;
	ahead->n_bytes += copy->n_bytes;
	bool goes_on = !ahead->gives_up;
	pthread_cond_signal(&ahead->changed);
	pthread_mutex_unlock(&ahead->mutex);
	return goes_on;
}

static void *read_ahead(void *context)
{
	struct ahead *ahead = context;
	struct trace_item item;
	int r;

	while ((r = feed_next(&ahead->inner, &item)) > 0) {
		struct ahead_item *copy = copy_of(&item, feed_offset(&ahead->inner));
		if (!copy) {
			r = -ENOMEM;
			break;
		}
		if (!give(ahead, copy))
			break;
	}
	pthread_mutex_lock(&ahead->mutex);
	ahead->result = r < 0 ? r : 0;
	ahead->has_ended = true;
	pthread_cond_signal(&ahead->changed);
	pthread_mutex_unlock(&ahead->mutex);
	return NULL;
}

/* ---- The feed ---- */

static void join(struct ahead *ahead)
{
	if (!ahead->is_joined)
		pthread_join(ahead->thread, NULL);
	ahead->is_joined = true;
}

static int next_item(void *self, struct trace_item *ret_item)
{
	struct ahead *ahead = self;

	free(ahead->taken);
	pthread_mutex_lock(&ahead->mutex);
	while (!ahead->first && !ahead->has_ended)
		pthread_cond_wait(&ahead->changed, &ahead->mutex);
	struct ahead_item *copy = ahead->taken = ahead->first;
	if (copy) {
		ahead->first = copy->next;
		if (!ahead->first)
			ahead->last = &ahead->first;
		ahead->n_bytes -= copy->n_bytes;
		pthread_cond_signal(&ahead->changed);
	}
	pthread_mutex_unlock(&ahead->mutex);
	if (!copy) {
		join(ahead);
		return ahead->result;
	}
	ahead->offset = copy->offset;
	*ret_item = copy->item;
	return 1;
}

static void *keep_item(void *self)
{
	struct ahead *ahead = self;

	return steal_ptr(&ahead->taken);
}

static const struct trace_file_header *header_of(const void *self)
{
	return &((const struct ahead *)self)->header;
}

static const struct trace_damage *damage_of(const void *self)
{
	const struct ahead *ahead = self;

	return ahead->is_joined ? feed_damage(&ahead->inner) : &ahead->damage;
}

static uint64_t offset_of(const void *self)
{
	const struct ahead *ahead = self;

	return ahead->is_joined ? feed_offset(&ahead->inner) : ahead->offset;
}

static void close_ahead(void *self)
{
	struct ahead *ahead = self;

	pthread_mutex_lock(&ahead->mutex);
	ahead->gives_up = true;
	pthread_cond_signal(&ahead->changed);
	pthread_mutex_unlock(&ahead->mutex);
	join(ahead);
	while (ahead->first) {
		struct ahead_item *copy = ahead->first;
		ahead->first = copy->next;
		free(copy);
	}
	free(ahead->taken);
	feed_close(&ahead->inner);
	pthread_cond_destroy(&ahead->changed);
	pthread_mutex_destroy(&ahead->mutex);
	free(ahead);
}

static const struct feed_class ahead_class = { next_item, header_of,   damage_of,
					       offset_of, close_ahead, keep_item };

int feed_ahead(struct feed *feed)
{
	struct ahead *ahead = calloc(1, sizeof(*ahead));

	if (!ahead)
		return -ENOMEM;
	ahead->inner = *feed;
	ahead->last = &ahead->first;
	ahead->damage = *feed_damage(feed);
	ahead->header = *feed_header(feed);
	pthread_mutex_init(&ahead->mutex, NULL);
	pthread_cond_init(&ahead->changed, NULL);
	int r = quiet_thread_start(&ahead->thread, read_ahead, ahead);
	if (r < 0)
		return free(ahead), r;
	feed->class = &ahead_class;
	feed->self = ahead;
	return 0;
}
