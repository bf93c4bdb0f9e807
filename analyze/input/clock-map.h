#pragma once
/*
 * From the ticks of events and the CLOCK_MONOTONIC_RAW of samples to ns since the run's start, by
 * straight lines between the CLOCK pairs that the collector wrote. Before the first pair and behind
 * the last one the nearest line goes on; with a single pair the nominal rate of the header holds.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/trace-format.h"

struct merge_clock_pair {
	uint64_t ticks;
	uint64_t raw_ns;
	double slope; /* ns a tick, to the next pair; 0: there is none */
};

struct merge_clock {
	struct merge_clock_pair *pairs; /* ascending in both */
	size_t n;
	size_t n_allocated;
	size_t last; /* line of the last answer: from pair last to the next */
	uint64_t start_ticks;
	uint64_t start_raw_ns; /* the same moment; fixed by the first pair */
	double ns_per_tick; /* nominal */
	uint64_t error_ns; /* largest of the pairs */
	uint64_t n_refused; /* pairs that ran backwards */
	/* of the line of the last answer, if it is no absurd one: where it holds, and its height */
	uint64_t held_from;
	uint64_t held_ticks; /* 0: none */
	int64_t held_ns;
	double held_slope;
};

/* start_ticks and ticks_per_second as in the header (0: ticks are ns). */
void merge_clock_init(struct merge_clock *clock, uint64_t start_ticks, uint64_t ticks_per_second);
void merge_clock_finish(struct merge_clock *clock);

/* Add a pair; one that does not follow the last is refused and counted. Returns 0 or -ENOMEM. */
int merge_clock_add(struct merge_clock *clock, const struct trace_clock *record);

/* As merge_clock_of_ticks(), of any time. */
int64_t merge_clock_find(struct merge_clock *clock, uint64_t ticks);

/* ns since the run's start, negative before it. Amortised constant for neighbouring times. */
static inline int64_t merge_clock_of_ticks(struct merge_clock *clock, uint64_t ticks)
{
	uint64_t since = ticks - clock->held_from;

	/* As the answer for any time, where nothing is negative and nothing can overflow. */
	if (since < clock->held_ticks)
		return clock->held_ns + (int64_t)((double)(int64_t)since * clock->held_slope + 0.5);
	return merge_clock_find(clock, ticks);
}
int64_t merge_clock_of_raw(struct merge_clock *clock, uint64_t raw_ns);

/*
 * How far perf's clock is from CLOCK_MONOTONIC_RAW, by what is known to come first: of two things
 * told in one clock each, the order bounds the distance. And ranges of addresses, to tell which two
 * things are of one place. One thread.
 */

/* A map that perf told of, or a block. */
struct clock_range {
	uint64_t start;
	uint64_t end;
	uint64_t time_ns; /* of its begin, in the clock of whoever tells it */
	uint64_t freed_ns; /* of a block; 0: not freed */
	bool is_shared; /* another one lies there at another time: it says nothing */
	bool is_clean; /* of a block: nobody touched its inner pages before time_ns */
};

/* All zero is empty. */
struct clock_ranges {
	struct clock_range *items;
	size_t n;
	size_t n_allocated;
};

/* Add a range; an empty one is left out. 0 or -ENOMEM. */
int clock_ranges_add(struct clock_ranges *ranges, uint64_t start, uint64_t size, uint64_t time_ns);

/* To be called before the first clock_ranges_find(). */
void clock_ranges_sort(struct clock_ranges *ranges);

/* The only one that an address ever lay in; NULL: none, or several. */
const struct clock_range *clock_ranges_find(const struct clock_ranges *ranges, uint64_t address);
void clock_ranges_finish(struct clock_ranges *ranges);

/* Bounds of raw - perf. All zero: none. */
struct clock_bounds {
	int64_t low;
	int64_t high;
	bool has_low;
	bool has_high;
	uint64_t n; /* pairs that were told */
};

/* perf_ns came first, and raw_ns later; or the other way round. */
void clock_bounds_high(struct clock_bounds *bounds, uint64_t perf_ns, uint64_t raw_ns);
void clock_bounds_low(struct clock_bounds *bounds, uint64_t perf_ns, uint64_t raw_ns);

struct clock_offset {
	int64_t offset_ns; /* raw = perf + offset */
	uint64_t error_ns; /* UINT64_MAX: nothing bounds it on one side */
	bool is_known; /* something bounds it at all */
};

/*
 * The least of the upper bounds, since of many delays the shortest is next to nothing; its error is
 * the distance to the lower bound.
 */
struct clock_offset clock_bounds_offset(const struct clock_bounds *bounds);
