#pragma once
/*
 * The events of all threads in one order: of time between threads, of the program within one.
 * An event that moves a block (realloc, mremap) is two here: the end of the old one, at the time
 * before the call, and the allocation of the new one. A move of the break has the lower of the two
 * as its address, and a size. One thread.
 *
 * Times are ticks since the run's start, not ns: what a tick is in ns is known better and better
 * while a trace is read, and the order must not depend on it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/trace-format.h"

/*
 * Two threads' stamps may differ by this much from the true order: a free that follows the
 * allocation of the same address within it came before. So nothing later than this before
 * the end of what was read is given out.
 */
#define MERGE_SKEW_NS 10000

/* merge_event.flags, beside TRACE_EVENT_* */
#define MERGE_IS_END	    (1u << 15) /* the old half of a realloc or mremap */
#define MERGE_IS_ALLOCATION (1u << 14) /* the new half */
#define MERGE_IS_TAKEN	    (1u << 13) /* given out early by merge_take_end() */

struct merge_event {
	uint8_t op; /* enum trace_op */
	uint8_t call;
	uint16_t flags;
	uint32_t stack_id; /* the thread's node */
	int64_t time;
	uint64_t address; /* of the old one for an end */
	uint64_t size;
	uint64_t detail; /* as trace_event.detail; BREAK: the break afterwards */
	uint64_t link; /* the same number in both halves; NOTE: old_address; else 0 */
};

struct merge;

/* Who hears of a thread's next events before their turn, and may have fetched what they need. */
struct merge_listener {
	void *context;
	void (*come)(void *context, uint32_t thread, const struct merge_event *events, size_t n);
};

/* skew: MERGE_SKEW_NS in ticks. listener: copied; NULL: nobody. Returns 0 or -ENOMEM. */
int merge_open(int64_t skew, const struct merge_listener *listener, struct merge **ret_merge);
struct merge *merge_close(struct merge *merge); /* accepts NULL, returns NULL */

/*
 * Add the next event of a thread of an image. Its stamps are taken since start_ticks. Returns 0 or
 * -ENOMEM.
 */
int merge_push(struct merge *merge, uint32_t thread, uint32_t process,
	       const struct trace_event *event, uint64_t start_ticks);

/*
 * The same for all of a frame whose events are decoded when their turn comes. The memory that its
 * columns lie in is freed then, or at a failure; NULL: they are copied.
 */
struct merge_frame {
	uint32_t thread;
	uint32_t process;
	uint64_t start_ticks;
	const uint8_t *columns; /* verified: trace_item.columns */
	size_t n_bytes;
	void *memory; /* TRACE_VARINT_SLACK bytes behind the columns are its, too */
};
int merge_add(struct merge *merge, const struct merge_frame *frame);

/* When the next event is due; INT64_MAX: there is none. It is never less than the one before. */
int64_t merge_next(const struct merge *merge);

/*
 * Take the next event out; call only when there is one. Its time is what merge_next() was: where
 * stamps of a thread run backwards its order counts. Returns 0 with the thread, or a
 * negative errno.
 */
int merge_take(struct merge *merge, uint32_t *ret_thread, struct merge_event *ret_event);

/*
 * A block was born at an address of an image that is still taken. If another thread ends it within
 * MERGE_SKEW_NS, take that event out now: 1 with the thread and the event. *ret_is_next: it was the
 * thread's next event. Else 0, or a negative errno.
 */
struct merge_wanted {
	uint32_t process;
	uint32_t thread; /* whose allocation it is */
	uint64_t address;
	int64_t time;
};
int merge_take_end(struct merge *merge, const struct merge_wanted *wanted, uint32_t *ret_thread,
		   struct merge_event *ret_event, bool *ret_is_next);

/*
 * Up to here all was taken that could be. Give back the memory of queues that were empty since the
 * last time, too.
 */
void merge_shrink(struct merge *merge);
