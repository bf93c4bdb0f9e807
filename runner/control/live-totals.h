#pragma once
/*
 * Live totals while a program runs: bytes that live, by site, from the events that the collector
 * drains (schemas/live-totals.h). Allocations are counted one by one. Which of them still live
 * needs a table of blocks. Above some 25,000 events a second, or 384 Ki live blocks, only a part of
 * the blocks is followed, chosen by a hash of the address, so that a block's end is never looked
 * for in vain. Large ones are always followed.
 *
 * Events of several threads come in no order. So the table keeps what came last, by its time stamp,
 * for each address: an end that comes before its begin is remembered until no older event can come.
 *
 * One thread. Without memory blocks are left out, and counted (n_left_out).
 */
#include <stdbool.h>
#include <stdint.h>

#include "schemas/live-totals.h"
#include "schemas/trace-format.h"

struct live_totals;

/*
 * Begin with nothing. Blocks older than old_seconds (of ticks_per_second) are `old'. Returns NULL
 * without memory.
 */
struct live_totals *live_totals_create(uint32_t old_seconds, uint64_t ticks_per_second);

/* Accepts NULL, returns NULL. Who has mapped the memory keeps it as it is. */
struct live_totals *live_totals_destroy(struct live_totals *totals);

/* The memory, for readers; the totals' own descriptor. */
int live_totals_fd(const struct live_totals *totals);
struct live_header *live_totals_header(struct live_totals *totals);

struct live_thread_name {
	uint32_t process_id; /* of the trace, as below */
	uint32_t pid;
	uint32_t thread_id;
	uint32_t tid;
	const char *name; /* NULL: not known */
};

/* A thread begins, or has another name. */
void live_totals_thread(struct live_totals *totals, const struct live_thread_name *name);
void live_totals_rename(struct live_totals *totals, uint32_t thread_id, const char *name);
void live_totals_thread_end(struct live_totals *totals, uint32_t thread_id);

/* A node of a thread's call stacks; before the first event that uses it. */
void live_totals_node(struct live_totals *totals, uint32_t thread_id,
		      const struct trace_node *node);

/*
 * An event; those that are neither births nor ends of blocks are nothing. Bytes that live are known
 * at once, counts of threads with the next tick, those of sites at most 100 ms later.
 */
void live_totals_event(struct live_totals *totals, uint32_t thread_id,
		       const struct trace_event *event);

/* A process image has ended: so have its blocks, at the next look. */
void live_totals_forget(struct live_totals *totals, uint32_t process_id);

/*
 * Each round of the collector: every event before safe_ticks has come. Once a second ages are
 * looked at. now_ns: CLOCK_MONOTONIC.
 */
void live_totals_tick(struct live_totals *totals, uint64_t now_ns, uint64_t safe_ticks);
