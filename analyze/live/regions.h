#pragma once
/*
 * Regions of memsight.h, and functions that are recorded as regions: which ones each thread is in,
 * the rows of `region` (one for each trip, up to a bound) and the aggregate region_total (one for
 * each path of regions, over all threads).
 *
 * A call of a function is known by where its return address lies on the stack. What lies below that
 * of another call on the same stack is over: it was left by an exception or longjmp. A thread has
 * several stacks where coroutines run on it; which addresses are of one is known of its own stack
 * only, and of others taken from their distance. A function that is called while it is running, by
 * whatever way, is on the path of the outer call, whose time has that of the inner one already.
 *
 * Threads go by their numbers in the trace, times are ns since the run's start. One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "analyze/live/name-table.h"
#include "analyze/process/own-time.h"
#include "analyze/process/processes.h"

struct db;
struct regions;

#define REGIONS_MAX_DEPTH 1000u /* open at once in a thread; deeper ones are only counted */
#define REGIONS_MAX_ROWS  200000u
#define REGIONS_MAX_CALLS 200000u /* of functions, open at once in a thread */
#define REGIONS_MAX_PATHS 200000u /* through functions; further ones count as if called by none */

/* region.ending */
enum region_ending {
	REGION_POPPED,
	REGION_POPPED_AROUND,
	REGION_LEFT,
};

/* All must outlive it. Returns 0 or a negative errno. */
int regions_open(struct db *db, int64_t run_id, const struct tasks *tasks,
		 const struct texts *texts, struct regions **ret_regions);
struct regions *regions_close(struct regions *regions); /* accepts NULL, returns NULL */

/* A thread enters a region; text is its name's number. Returns 0 or a negative errno. */
int regions_push(struct regions *regions, uint32_t thread, uint32_t text, int64_t time_ns);

/*
 * It leaves the innermost one of that name, with those inside it; text 0: the innermost. 0 or an
 * errno.
 */
int regions_pop(struct regions *regions, uint32_t thread, uint32_t text, int64_t time_ns);

/*
 * A component of a plug-in was asked, behind the note that began a region, or before the one that
 * ends some: which, is set here. Returns 0 or -ENOMEM.
 */
struct component_reading;
int regions_component(struct regions *regions, struct component_reading *reading);

/*
 * A thread calls a function, whose return address lies at slot, or comes back to it. 0 or a
 * negative errno. A return without a call is none: a forked child returns from what its parent
 * has called.
 */
struct region_call {
	uint32_t text;
	uint64_t slot;
	int64_t time_ns;
	bool is_probed; /* a probe of the kernel saw it, no hook of ours, ... */
	uint32_t taken_ns; /* ... which takes so much, of what the thread is in behind it */
};
int regions_enter(struct regions *regions, uint32_t thread, const struct region_call *call);
int regions_leave(struct regions *regions, uint32_t thread, const struct region_call *call);

/* A function was called so often more, by whichever threads: nothing else is known of that. */
int regions_count(struct regions *regions, uint32_t text, uint64_t n);

/*
 * What memsight does is taken off the times of paths (own-time.h): a thread has run an empty hook;
 * a hook has run in the region that it is in; something of ours was measured there. 0 or -ENOMEM.
 */
int regions_empty(struct regions *regions, uint32_t thread, const struct own_empty *empty);
int regions_hook(struct regions *regions, uint32_t thread, enum own_cost cost);
int regions_took(struct regions *regions, uint32_t thread, enum trace_own what, double ns);

/* What a thread does counts for the region that it is in. */
struct block_weight;
void regions_allocated(struct regions *regions, uint32_t thread, const struct block_weight *weight);
void regions_sample(struct regions *regions, uint32_t thread, int64_t weight, int64_t time_ns);
void regions_fault(struct regions *regions, uint32_t thread);

/* What could not be counted as it was told. */
struct regions_losses {
	uint64_t n_pops; /* without a push */
	uint64_t n_too_deep; /* pushes beyond REGIONS_MAX_DEPTH */
	uint64_t n_paths; /* calls beyond REGIONS_MAX_PATHS */
	uint64_t n_rows; /* trips beyond REGIONS_MAX_ROWS: in the aggregate only */
};
const struct regions_losses *regions_losses(const struct regions *regions);

/*
 * End what is open, with its thread or at end_ns, and write all, components too. Returns 0 or a
 * negative errno.
 */
int regions_finish(struct regions *regions, int64_t end_ns);
