#pragma once
/*
 * Live bytes and rates over time in at most TIMELINE_MAX equal intervals, in one pass: when the
 * time runs out of intervals, neighbours are joined and the interval doubles.
 */
#include <stdint.h>

#define TIMELINE_MAX	  1000
#define TIMELINE_FIRST_NS 1000 /* the first interval; others are it, doubled */

struct timeline_slot {
	uint64_t live_bytes; /* at its end */
	uint64_t max_live_bytes;
	double n_allocations; /* estimates where blocks were picked: not whole */
	double n_frees;
	uint64_t n_samples;
	uint64_t n_faults;
};

struct timeline {
	struct timeline_slot slots[TIMELINE_MAX];
	unsigned n; /* slots up to the latest time */
	int64_t interval_ns;
	/* of the slot that was asked for last: most questions are about it again */
	int64_t from_ns;
	unsigned last;
	uint64_t live_bytes; /* now */
};

void timeline_init(struct timeline *timeline);

/*
 * Live bytes changed to live_bytes at time_ns (not before the last change; earlier counts as then).
 */
void timeline_change(struct timeline *timeline, int64_t time_ns, uint64_t live_bytes);

/* As timeline_at(), of any time. */
struct timeline_slot *timeline_find(struct timeline *timeline, int64_t time_ns);

/* The slot of a time, to count in; times before 0 count in the first one. */
static inline struct timeline_slot *timeline_at(struct timeline *timeline, int64_t time_ns)
{
	if (time_ns >= timeline->from_ns && time_ns - timeline->from_ns < timeline->interval_ns)
		return &timeline->slots[timeline->last];
	return timeline_find(timeline, time_ns);
}
