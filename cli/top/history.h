#pragma once
/*
 * Curves of a run over all of its time, in memory of one size: where there is no more room, two
 * neighbours become one, and so do those that follow. One thread at a time.
 */
#include <stddef.h>
#include <stdint.h>

struct history_point {
	uint64_t begin_ns, end_ns; /* since the program's start */
	uint64_t live_bytes; /* at its end */
	uint64_t max_live_bytes;
	uint64_t rss_bytes; /* the most */
	uint64_t n_allocations; /* in it */
	uint64_t n_frees;
};

struct history; /* of HISTORY_POINTS at most */
#define HISTORY_POINTS 32768u

/* NULL without memory. */
struct history *history_create(void);
struct history *history_destroy(struct history *history); /* accepts NULL, returns NULL */

/* What follows the last one. */
void history_add(struct history *history, const struct history_point *point);

/*
 * Those that meet a span of time, joined to at most n_wanted (1 or more), into an array of so many.
 * Returns how many there are.
 */
size_t history_read(const struct history *history, uint64_t from_ns, uint64_t to_ns,
		    struct history_point *points, size_t n_wanted);
