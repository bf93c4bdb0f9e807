#pragma once
/*
 * What is left of events that have no room in the trace: per address the end of what was there
 * before, and the birth of what is there now. Blocks that are born and end in between are left out;
 * other events all stay. So after a gap the trace still knows what lives.
 *
 * Events of several threads come in no order: at each address the first and the last one by their
 * stamps count. Where an older one may come yet, none is left out: what looks like one block may be
 * the ends of two. One thread. All zero is empty.
 */
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"
#include "trace/writer.h"

#define NET_MAX_PLACES	(256u << 10) /* some 80 MiB */
#define NET_MAX_WAITING (512u << 10) /* some 50 MiB */

struct net_event {
	struct trace_event event;
	uint64_t process;
	uint64_t order; /* in which it came */
	uint32_t thread_id; /* of the trace */
};

struct net_place {
	struct net_event first; /* of its address */
	struct net_event last; /* may be the same one */
};

struct event_net {
	struct key_map by_address;
	struct net_place *places;
	size_t n_places;
	size_t n_places_allocated;
	struct net_event *others;
	size_t n_others;
	size_t n_others_allocated;
	struct net_event *waiting; /* for those that are older */
	size_t n_waiting;
	size_t n_waiting_allocated;
	uint64_t safe_ticks; /* all that is older has a place */
	uint64_t n_taken; /* events */
	uint64_t n_lost; /* of them: there was no room, or no memory, for them */
};

/*
 * Take an event. process: a number that no other process that lives has. safe_ticks: no older event
 * will come. What is not taken for want of memory, or over NET_MAX_PLACES, is counted in n_lost. Of
 * more than NET_MAX_WAITING that wait all get their place.
 */
void net_take(struct event_net *net, uint64_t process, uint32_t thread_id,
	      const struct trace_event *event, uint64_t safe_ticks);

/* Let none wait any more, since there is no room for them. */
void net_hurry(struct event_net *net);

/* The most events that net_give() will give. */
size_t net_size(const struct event_net *net);

/*
 * Give what is left to a writer, in order of time, and be empty. safe_ticks as in net_take().
 * *ret_n_dropped: what is left out of all that was taken since. Returns 0 or a negative errno: then
 * nothing of it was given, or not all, and all that was not counts as dropped.
 */
int net_give(struct event_net *net, struct trace_writer *writer, uint64_t safe_ticks,
	     uint64_t *ret_n_dropped);

/* Free all; it is empty afterwards. */
void net_finish(struct event_net *net);
