#pragma once
/*
 * What memsight itself took of the time of threads while they were in regions and functions: tables
 * `hook_cost` and `own_time`. What hooks take alike is known from empty ones that each process has
 * run, the mean of the middle half; what differs was measured (schemas/trace-control.h). Threads go
 * by their places (processes.h). One thread.
 */
#include <stdint.h>

#include "analyze/process/processes.h"
#include "schemas/trace-control.h"

struct db;
struct own_time;

/* What is known from empty ones; hook_cost.hook, and kinds of own_time. */
enum own_cost {
	OWN_INSIDE, /* a call of a function: in its time */
	OWN_OUTSIDE, /* in that of who calls */
	OWN_REGION, /* a push or pop of memsight.h */
	OWN_BLOCK, /* a block, or memory that is mapped, with its call stack if it is the last */
	OWN_END, /* an end of a block, or a hook that takes no call stack */
	OWN_COSTS
};

/* Measured as what enum trace_own has before it: probes of the kernel; no note of a trace. */
#define OWN_UPROBES TRACE_OWN_BLOCK

#define OWN_MAX_EMPTY 65536u /* of each that are looked at */

/* What was taken from a stretch of time. */
struct own_taken {
	uint64_t n[OWN_COSTS];
	double ns; /* that were measured */
};

void own_taken_add(struct own_taken *to, const struct own_taken *more);

/* tasks must outlive it. NULL: no memory. */
struct own_time *own_time_create(const struct tasks *tasks);
struct own_time *own_time_destroy(struct own_time *own); /* accepts NULL */

/*
 * A thread has run an empty hook, up to time_ns: it took the time since the one before, if that was
 * of the same kind (of calls: in or outside), but for work_ns of it. Returns 0 or -ENOMEM.
 */
struct own_empty {
	enum own_cost cost;
	int64_t time_ns;
	double work_ns;
};
int own_time_empty(struct own_time *own, uint32_t thread, const struct own_empty *empty);

/* A hook has run in a thread, or that was measured: counted for the thread. 0 or -ENOMEM. */
int own_time_count(struct own_time *own, uint32_t thread, enum own_cost cost);
int own_time_measured(struct own_time *own, uint32_t thread, enum trace_own what, double ns);

/*
 * All of it in ns, by the empty ones that are there; by all of them once they are settled, when no
 * more come. Nothing for what was never measured.
 */
double own_time_of(struct own_time *own, const struct own_taken *taken);
void own_time_settle(struct own_time *own);

/* Write both tables. Returns 0 or a negative errno. */
int own_time_write(struct own_time *own, struct db *db, int64_t run_id);
