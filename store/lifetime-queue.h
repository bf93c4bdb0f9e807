#pragma once
/*
 * Blocks of a run in the order of what happens to them: allocations come in the order of time,
 * and ends wait in a heap for theirs, so its memory grows with the blocks that are live. What
 * ends at a moment ends before what is born.
 */
#include <stdint.h>

struct sweep_end {
	uint64_t time; /* ns */
	uint64_t size; /* bytes */
	int64_t stack_id;
};

/* Returns 0 or a negative errno. */
typedef int (*sweep_visit)(void *context, const struct sweep_end *end);

struct sweep;
struct sweep *sweep_open(sweep_visit visit, void *context); /* NULL without memory */
struct sweep *sweep_close(struct sweep *sweep); /* accepts NULL */

/* A time of an event that is not before what has happened: of an earlier one it is made that. */
uint64_t sweep_time(const struct sweep *sweep, int64_t time_ns);

/* An end that is to come: sweep_time(). Returns 0 or -ENOMEM. */
int sweep_push(struct sweep *sweep, const struct sweep_end *end);

/*
 * Visit all ends up to a time, that of the next allocation; UINT64_MAX: all. 0, -ENOMEM or the
 * visitor's errno.
 */
int sweep_until(struct sweep *sweep, uint64_t time);
