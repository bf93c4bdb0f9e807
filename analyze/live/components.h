#pragma once
/*
 * Values of plug-ins (TRACE_CALL_COMPONENT): which ones a region began with, and what they came to
 * in each path of regions; tables `component` and `component_value`. Threads and texts go by their
 * numbers, as in regions.h. One thread.
 */
#include <stdint.h>

#include "analyze/live/name-table.h"
#include "schemas/trace-control.h"

struct components;
struct db;

/* texts must outlive it. NULL: no memory. */
struct components *components_create(const struct texts *texts);
struct components *components_destroy(struct components *components); /* accepts NULL */

/* A component was asked by a thread of a process. */
struct component_reading {
	uint32_t thread;
	uint32_t process;
	uint32_t text; /* of the component */
	uint32_t path; /* the region that the thread is in; 0: none */
	uint32_t depth; /* of that region */
	enum trace_asked when;
	int64_t value;
	int64_t asked_ns; /* that asking took */
};

/* Returns 0 or -ENOMEM. */
int components_take(struct components *components, const struct component_reading *reading);

/* A pop has ended the regions of a thread that are deeper than depth. Returns 0 or -ENOMEM. */
int components_pop(struct components *components, uint32_t thread, uint32_t depth);

/* Write both tables. Returns 0 or a negative errno. */
int components_write(const struct components *components, struct db *db, int64_t run_id);
