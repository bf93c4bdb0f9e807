#pragma once
/*
 * A trace file into a database.
 *
 * The import reads the trace segment by segment, merges events, samples and records by time
 * (merge.h), keeps what is alive (live.h), and writes rows. The address side (modules.h, stacks.h)
 * and the sample side (samples.h) are called in the order of time and see `live` as it was then:
 *
 *	stacks_add_nodes(), samples_add_*()	as read from the file, ahead of time
 *	modules_load(), _unload(), _fork()	in time order
 *	stacks_resolve()			in time order, for every birth
 *	samples_run(until)			in time order: live is the state at `until`
 *	samples_on_event()			after an event of a thread with `pending` was applied
 *	*_finish()				after the last event
 */
#include <stdbool.h>
#include <stdint.h>

#include "analyze/db.h"
#include "analyze/live.h"

struct clock_map;
struct stacks;
struct samples;
struct modules;

/* Called now and then with the bytes of the file that were read, of all. */
typedef void (*import_progress)(void *context, uint64_t n_bytes, uint64_t n_all_bytes);

struct import_options {
	bool force; /* replace the run when the database has this recording already */
	import_progress progress; /* may be NULL */
	void *context;
};

/* What came of it. */
struct import_result {
	int64_t run_id;
	bool is_skipped; /* the database has this recording already */
	bool ended_cleanly;
	uint64_t n_events;
	uint64_t n_allocations;
	uint64_t n_samples;
	uint64_t n_lost; /* sum of all losses */
	int64_t duration_ns;
};

/*
 * Add the recording of a trace file to a database that was begun. The caller commits. Returns 0, or
 * what trace_reader_open() returns, or a negative errno of the database.
 */
int import_trace(struct db *db, const char *path, const struct import_options *options,
		 struct import_result *ret_result);

/* ---- For the parts of an import ---- */

struct import {
	struct db *db;
	int64_t run_id;
	const struct import_options *options;
	struct clock_map *clock; /* ticks and CLOCK_MONOTONIC_RAW -> ns since the run's start */
	struct live live;
	struct stacks *stacks;
	struct samples *samples;
	int64_t now_ns; /* that the merge has reached */
	int64_t first_allocation; /* allocation.id = first_allocation + heap_block.id */
	int64_t first_mapping; /* mapping.id = first_mapping + mapping.id */
};

/*
 * Count something that cannot be used; equal ones are added up into one row of `loss`. source and
 * reason must be string literals. process and thread may be NULL. Never fails.
 */
void import_lose(struct import *import, const char *source, const char *reason, uint64_t count);
