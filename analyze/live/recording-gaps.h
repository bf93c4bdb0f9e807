#pragma once
/*
 * What was withheld from a recording: pauses of a process or a thread, and intervals in which only
 * some classes were collected, by the program (memsight.h); and what lies between windows, of all
 * processes. Says whether a sample counts, writes the
 * rows of `withheld` and how much of the run each source counts. Images and threads go by their
 * numbers in the trace, times are ns since the run's start. One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "analyze/process/processes.h"

struct db;
struct withheld;

#define WITHHELD_MAX_ROWS 100000u

/* Both must outlive it. Returns 0 or a negative errno. */
int withheld_open(struct db *db, int64_t run_id, const struct tasks *tasks,
		  struct withheld **ret_withheld);
struct withheld *withheld_close(struct withheld *withheld); /* accepts NULL, returns NULL */

/* A thread pauses or resumes its image, or only_thread itself. Returns 0 or a negative errno. */
int withheld_pause(struct withheld *withheld, uint32_t thread, bool only_thread, int64_t time_ns);
int withheld_resume(struct withheld *withheld, uint32_t thread, bool only_thread, int64_t time_ns);

/* A thread pushes what its image collects (COLLECT_* of collect-words.h), or takes that back. */
int withheld_push(struct withheld *withheld, uint32_t thread, uint32_t classes, int64_t time_ns);
int withheld_pop(struct withheld *withheld, uint32_t thread, int64_t time_ns);

/*
 * Recording goes off for all processes, or on again: windows. What is recorded all the same, since
 * a process had not heard of it yet, is no sign of an end that was lost. 0 or a negative errno.
 */
int withheld_switch(struct withheld *withheld, bool is_on, int64_t time_ns);

/*
 * A thread has recorded an allocation: within a pause each can do so once, since its call may have
 * been under way. At the second time the end of the pause must have been lost: it ends here,
 * counted. The same for intervals without allocations of blocks. Returns 0 or a negative errno.
 */
int withheld_allocated(struct withheld *withheld, uint32_t thread, int64_t time_ns);

/* An image begins by fork: it goes on as its parent. Returns 0 or -ENOMEM. */
int withheld_fork(struct withheld *withheld, uint32_t process, uint32_t parent, int64_t time_ns);

/* An image ends. Returns 0 or a negative errno. */
int withheld_end(struct withheld *withheld, uint32_t process, int64_t time_ns);

/* Whether a class (COLLECT_*) is collected now in a thread of an image. */
bool withheld_collects(const struct withheld *withheld, uint32_t process, uint32_t thread,
		       uint32_t class);

/* What it added up to; times are of all processes or threads together. */
struct withheld_totals {
	uint64_t n_pauses; /* of a process */
	int64_t paused_ns;
	uint64_t n_thread_pauses;
	int64_t thread_paused_ns;
	uint64_t n_collects; /* pushes */
	uint64_t n_lost_ends; /* of pauses and intervals, by withheld_allocated() */
	uint64_t n_rows; /* intervals beyond WITHHELD_MAX_ROWS: in the totals only */
};
const struct withheld_totals *withheld_totals(const struct withheld *withheld);

/*
 * End what is open at end_ns, write the rows and what sources count. Returns 0 or a negative errno.
 */
int withheld_finish(struct withheld *withheld, int64_t end_ns);
