#pragma once
/*
 * From the ticks of events and the CLOCK_MONOTONIC_RAW of samples to ns since the run's start, by
 * straight lines between the CLOCK pairs that the collector wrote. Before the first pair and behind
 * the last one the nearest line goes on; with a single pair the nominal rate of the header holds.
 */
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
};

/* start_ticks and ticks_per_second as in the header (0: ticks are ns). */
void merge_clock_init(struct merge_clock *clock, uint64_t start_ticks, uint64_t ticks_per_second);
void merge_clock_finish(struct merge_clock *clock);

/* Add a pair; one that does not follow the last is refused and counted. Returns 0 or -ENOMEM. */
int merge_clock_add(struct merge_clock *clock, const struct trace_clock *record);

/* ns since the run's start, negative before it. Amortised constant for neighbouring times. */
int64_t merge_clock_of_ticks(struct merge_clock *clock, uint64_t ticks);
int64_t merge_clock_of_raw(struct merge_clock *clock, uint64_t raw_ns);
