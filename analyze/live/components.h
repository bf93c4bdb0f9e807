#pragma once
/*
 * Values of plug-ins (TRACE_CALL_COMPONENT): which ones a region began with, and what they came to
 * in each path of regions; tables `component`, `component_value` and `component_sample`. Texts go
 * by their numbers as in regions.h, threads by their places (processes.h). One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "analyze/live/name-table.h"
#include "schemas/trace-control.h"

struct components;
struct db;

/* texts and db must outlive it. NULL: no memory. */
struct components *components_create(const struct texts *texts, struct db *db, int64_t run_id);
struct components *components_destroy(struct components *components); /* accepts NULL */

/* A component was asked by a thread of a process. */
struct component_reading {
	uint32_t thread;
	int64_t thread_row;
	uint32_t process;
	uint32_t text; /* of the component */
	uint32_t path; /* of the region that has begun with the thread's last note */
	uint64_t trip; /* its number, which grows; 0: none has, or its record is lost */
	uint32_t window; /* that it is in, or that has ended last; 0: none */
	enum trace_asked when;
	int64_t value;
	int64_t asked_ns; /* that asking took */
};

/* Returns 0 or -ENOMEM. */
int components_take(struct components *components, const struct component_reading *reading);

/* A thread was sampled; what is asked at samples next in it belongs to that one. */
void components_sampled(struct components *components, uint32_t thread, int64_t time_ns);

/* A trip through a region is over. */
struct component_trip {
	uint32_t thread;
	uint64_t trip;
	uint64_t around; /* the trip that it was in; 0: none */
	bool is_inner; /* of a function that goes on around it: it is part of that one's total */
};

/*
 * End a trip with what was read before the note that ends it; without it there is no value. And
 * that note is done: what was read before it ends nothing more. 0 or -ENOMEM.
 */
int components_end(struct components *components, const struct component_trip *trip);
void components_ended(struct components *components, uint32_t thread);

/* Write the tables. Returns 0 or a negative errno. */
int components_write(const struct components *components);
