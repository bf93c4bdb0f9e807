#include "runner/ring/net.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"

static bool is_end(const struct net_event *event)
{
	return event->event.op == TRACE_OP_FREE;
}

/* A block that was born and has ended, and of whose address no older event can come. */
static bool is_over(const struct net_place *place, uint64_t safe_ticks)
{
	return !is_end(&place->first) && is_end(&place->last) &&
	       place->last.event.ticks < safe_ticks;
}

/* Programs that take new addresses all the time have mostly places of blocks that are over. */
static int forget_old(struct event_net *net, uint64_t safe_ticks)
{
	size_t n = 0;
	int r = 0;

	key_map_finish(&net->by_address);
	for (size_t i = 0; i < net->n_places; i++)
		if (!is_over(&net->places[i], safe_ticks))
			net->places[n++] = net->places[i];
	net->n_places = n;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = key_map_put(&net->by_address, net->places[i].first.event.address,
				net->places[i].first.process, i + 1);
	return r < 0 ? r : n > NET_MAX_PLACES / 4 * 3 ? -ENOBUFS : 0;
}

static int add_place(struct event_net *net, const struct net_event *event)
{
	int r = 0;

	if (net->n_places >= NET_MAX_PLACES)
		r = forget_old(net, net->safe_ticks);
	r = r ?: grow_one(&net->places, net->n_places, &net->n_places_allocated);
	if (r == 0)
		r = key_map_put(&net->by_address, event->event.address, event->process,
				net->n_places + 1);
	if (r == 0)
		net->places[net->n_places++] = (struct net_place){ *event, *event };
	return r;
}

static int take_block(struct event_net *net, const struct net_event *event)
{
	uint64_t number = key_map_get(&net->by_address, event->event.address, event->process);

	if (!number)
		return add_place(net, event);
	struct net_place *place = &net->places[number - 1];
	if (event->event.ticks < place->first.event.ticks)
		place->first = *event;
	if (event->event.ticks >= place->last.event.ticks)
		place->last = *event;
	return 0;
}

/* It ends one block and begins another. */
static int take_realloc(struct event_net *net, const struct net_event *event)
{
	struct net_event birth = *event, end = *event;
	int r = 0;

	end.event = (struct trace_event){
		.op = TRACE_OP_FREE,
		.call = event->event.call,
		.flags = event->event.flags,
		.stack_id = event->event.stack_id,
		.ticks = event->event.begin_ticks,
		.begin_ticks = event->event.begin_ticks,
		.address = event->event.old_address,
	};
	birth.event.old_address = 0;
	birth.event.begin_ticks = birth.event.ticks;
	if (event->event.old_address)
		r = take_block(net, &end);
	return r < 0 ? r : take_block(net, &birth);
}

static int take_other(struct event_net *net, const struct net_event *event)
{
	if (net->n_others >= NET_MAX_PLACES)
		return -ENOBUFS;
	return array_add(net->others, net->n_others, net->n_others_allocated, *event);
}

static void take(struct event_net *net, const struct net_event *event)
{
	int r;

	if (net->n_lost) /* what follows would mean something else without it */
		r = -ENOBUFS;
	else if (event->event.op == TRACE_OP_REALLOC)
		r = take_realloc(net, event);
	else if (event->event.op == TRACE_OP_ALLOC || event->event.op == TRACE_OP_FREE)
		r = take_block(net, event);
	else
		r = take_other(net, event);
	net->n_lost += r < 0;
}

/* What is older gets its place. */
static void settle(struct event_net *net, uint64_t before_ticks)
{
	size_t n = 0;

	for (size_t i = 0; i < net->n_waiting; i++) {
		if (net->waiting[i].event.ticks < before_ticks)
			take(net, &net->waiting[i]);
		else
			net->waiting[n++] = net->waiting[i];
	}
	net->n_waiting = n;
}

void net_hurry(struct event_net *net)
{
	settle(net, UINT64_MAX);
}

void net_take(struct event_net *net, uint64_t process, uint32_t thread_id,
	      const struct trace_event *event, uint64_t safe_ticks)
{
	if (safe_ticks > net->safe_ticks) {
		net->safe_ticks = safe_ticks;
		settle(net, safe_ticks);
	}
	if (net->n_waiting >= NET_MAX_WAITING)
		net_hurry(net);
	if (grow_one(&net->waiting, net->n_waiting, &net->n_waiting_allocated) < 0)
		net->n_lost++;
	else
		net->waiting[net->n_waiting++] =
			(struct net_event){ *event, process, net->n_taken, thread_id };
	net->n_taken++;
}

size_t net_size(const struct event_net *net)
{
	return 2 * net->n_places + net->n_others + net->n_waiting;
}

DEFINE_ORDER(compare, struct net_event, BY(event.ticks) ?: BY(order));

/* What is left, in order of time. How many they are. */
static size_t collect(const struct event_net *net, struct net_event *left)
{
	size_t n = 0;

	for (size_t i = 0; i < net->n_places; i++) {
		const struct net_place *place = &net->places[i];

		if (is_end(&place->first))
			left[n++] = place->first;
		if (!is_end(&place->last))
			left[n++] = place->last;
	}
	for (size_t i = 0; i < net->n_others; i++)
		left[n++] = net->others[i];
	for (size_t i = 0; i < net->n_waiting; i++)
		left[n++] = net->waiting[i];
	qsort(left, n, sizeof(*left), compare);
	return n;
}

int net_give(struct event_net *net, struct trace_writer *writer, uint64_t safe_ticks,
	     uint64_t *ret_n_dropped)
{
	struct net_event *left;
	size_t n, n_given = 0;

	settle(net, safe_ticks);
	left = calloc(net_size(net) + 1, sizeof(*left));
	n = left ? collect(net, left) : 0;
	int r = left ? 0 : -ENOMEM;

	while (r == 0 && n_given < n) {
		r = trace_writer_event(writer, left[n_given].thread_id, &left[n_given].event);
		n_given += r == 0;
	}
	/* Of a realloc both halves may be left. */
	*ret_n_dropped = net->n_taken > n_given ? net->n_taken - n_given : 0;
	free(left);
	net_finish(net);
	return r;
}

void net_finish(struct event_net *net)
{
	key_map_finish(&net->by_address);
	free_all(net->places, net->others, net->waiting);
	*net = (struct event_net){ 0 };
}
