#pragma once
/*
 * How far perf's clock is from CLOCK_MONOTONIC_RAW, by what is known to come first: of two things
 * told in one clock each, the order bounds the distance. And ranges of addresses, to tell which two
 * things are of one place. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A map that perf told of, or a block. */
struct clock_range {
	uint64_t start;
	uint64_t end;
	uint64_t time_ns; /* of its begin, in the clock of whoever tells it */
	uint64_t death_ns; /* of a block; 0: not freed */
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
