#pragma once
/*
 * Samples: perf records and decoded accesses of a trace become rows of `source`, `sample` and
 * `touch`, each access given to exactly one owner.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/live.h"
#include "schemas/trace-format.h"

struct import;
struct samples;

/* 0 or a negative errno. */
int samples_open(struct import *import, struct samples **ret_samples);

/* Accepts NULL, returns NULL. */
struct samples *samples_close(struct samples *samples);

/* As read from the file, ahead of time; what is needed later is copied. 0 or a negative errno. */
int samples_add_source(struct samples *samples, const struct trace_source *record);
int samples_add_perf(struct samples *samples, uint32_t source_number, const void *bytes, size_t n);
int samples_add_accesses(struct samples *samples, uint32_t source_number,
			 const struct trace_access *accesses, size_t n);
int samples_add_code(struct samples *samples, uint32_t process_number,
		     const struct trace_code *head, const void *bytes);

/*
 * A segment is read in whole: samples up to commit_ns are known (more may come later behind it).
 * Sorts what was added. Returns 0 or a negative errno.
 */
int samples_commit(struct samples *samples, int64_t commit_ns);

/* Time of the earliest sample or task record that samples_run() has not passed; INT64_MAX: none. */
int64_t samples_next_ns(const struct samples *samples);

/* Pass everything stamped <= until_ns, in time order. 0 or a negative errno. */
int samples_run(struct samples *samples, int64_t until_ns);

/*
 * thread->pending is set and its next event was applied. block: what it gave birth to, or NULL.
 * Samples inside of it from while it was being made are its own (phase "allocating").
 */
int samples_on_event(struct samples *samples, struct live_thread *thread,
		     const struct trace_event *event, const struct heap_block *block);

/* The sums of one stack's site over touches with owner heap; indexed by stack number. */
struct samples_site {
	double n_samples; /* clock: sum of shares */
	double n_samples_sq; /* clock: sum over samples of share^2 */
	double time_ns; /* clock: sum of share x weight */
	uint64_t n_faults;
	int64_t first_touch_ns; /* INT64_MAX: none */
	int64_t last_touch_ns; /* INT64_MIN: none */
};

/*
 * After the last event: pending samples find their owners, rows are flushed, owner_share is
 * written. 0 or a negative errno.
 */
int samples_finish(struct samples *samples);

/* The sums of a stack number, or NULL: no touch. Valid until close. */
const struct samples_site *samples_site(const struct samples *samples, uint32_t stack);

/* For the timeline: called by samples_run() for each sample. is_fault: of source faults. */
void import_count_sample(struct import *import, int64_t time_ns, bool is_fault);
