#pragma once
/*
 * From perf records and --private accesses to rows: sample, touch, source, owner_share and the
 * samples' losses; and what the allocation sites and the timeline need of them.
 *
 * The import drives it, segment by segment:
 *	samples_source(), samples_source_detail(), samples_perf_clock()	for such records
 *	samples_perf(), samples_accesses(), samples_code()	for each frame: they are kept
 *	samples_advance(T) before it applies an event stamped at T: what was sampled before
 *					T is attributed, with heap and maps as they are then. Only
 *					when *samples_next_ns() < T: that is one load.
 *	samples_event()			for each event of a thread that waits, after it was applied:
 *					while samples_n_waiting() > 0 and samples_is_waiting()
 *	samples_advance(commit)		at a COMMIT, up to its raw_ns
 *	samples_finish() at the end, before globals_, stacks_, modules_ and tasks_write()
 *
 * With REALLOC both halves are events: the end of the old block (block NULL), the
 * allocation of the new.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sqlite3.h>

#include "analyze/live/mapping-set.h"
#include "analyze/live/owners.h"
#include "analyze/process/stacks.h"
#include "schemas/trace-format.h"
#include "schemas/trace-perf.h"
#include "store/touch.h"

/* From CLOCK_MONOTONIC_RAW and ticks to ns since the run's start. */
struct sample_clock {
	void *user;
	int64_t (*from_raw)(void *user, uint64_t raw_ns);
	int64_t (*from_ticks)(void *user, uint64_t ticks);
};

struct sample_call {
	enum trace_probed_what what;
	uint64_t name_id; /* trace_text.id */
	uint64_t slot; /* where its return address lies */
	int64_t time_ns;
	uint32_t taken_ns; /* by the probe, behind time_ns */
};

/* Told for the aggregates; each may be NULL. A negative result ends the import. */
struct sample_sink {
	void *user;
	int (*sample)(void *user, const struct sample_event *taken); /* each sample once */
	/* Whether samples of a thread count now, or the program wants none; NULL: they do. */
	bool (*collects)(void *user, const struct task_thread *thread, bool is_fault);
	int (*touch)(void *user, const struct touch *touch);
	/* The stack.id of a site (struct owner); NULL: sites have none. */
	int64_t (*stack_of)(void *user, uint32_t site);
	/* An image has this map now; thread: number, may be >= TASKS_UNSEEN; 0: not known. */
	int (*map)(void *user, uint32_t process, const struct mapping *mapping);
	/* A thread (its number) has entered or left a function, as the kernel saw it. */
	int (*call)(void *user, uint32_t thread, const struct sample_call *call);
	/* Something that was not recorded or cannot be used; once for each, at the end. */
	int (*loss)(void *user, const char *source, const char *reason, uint64_t count);
};

/* What it works with; all of it must outlive the samples. */
struct db;
struct sample_context {
	struct db *db; /* begun */
	int64_t run_id;
	struct tasks *tasks;
	struct modules *modules;
	/* (process number, address) of a thunk -> what it returns to: TRACE_CALL_FUNCTION_THUNK */
	const struct key_map *thunks;
	struct stacks *stacks;
	struct owners *owners;
	struct sample_clock clock;
	struct sample_sink sink;
	const char *trace_path; /* NULL: it is no file of ours, or grows */
	unsigned machine; /* ELF e_machine of the trace */
	unsigned estimators; /* enum decode_estimator; 0: DECODE_ESTIMATORS */
};

struct samples;

/* Returns 0 or a negative errno. The context is copied. */
int samples_create(const struct sample_context *context, struct samples **ret_samples);
struct samples *samples_destroy(struct samples *samples); /* accepts NULL, returns NULL */

/* A source of the trace: makes its row. 0 or a negative errno. */
int samples_source(struct samples *samples, const struct trace_source *record);

/* What was watched, from when to when. 0 or a negative errno. */
int samples_watched(struct samples *samples, const struct trace_watch *record);

/* More about a source that is known. 0, or -EBADMSG: it is not. */
int samples_source_detail(struct samples *samples, const struct trace_source_detail *record);

/*
 * A pair of perf's own clock and CLOCK_MONOTONIC_RAW; before the frames that need it. 0 or -ENOMEM.
 */
int samples_perf_clock(struct samples *samples, const struct trace_perf_clock *record);
int samples_period(struct samples *samples, const struct trace_period *record);

/* Bound of the error of times that came by such pairs, in ns; 0: none did. */
uint64_t samples_clock_error(const struct samples *samples);

/* Where pages of page faults lay: before the frames with the faults. 0 or -ENOMEM. */
int samples_page_nodes(struct samples *samples, const struct trace_page_nodes *record);

/* A segment has been read: what was told of its faults is done with. */
void samples_end_segment(struct samples *samples);

/* The begin of the trace was cut off (record --last); ledgers and CPU times are of all of it. */
void samples_note_cut(struct samples *samples);

/* What the recorder counted of a source. 0, or -EBADMSG for a source that nobody told. */
int samples_source_ledger(struct samples *samples, const struct trace_source_ledger *record);

/* Frames of the trace; copied. What names no known source or cannot be parsed is counted. */
int samples_perf(struct samples *samples, uint32_t source, const void *records, size_t n_bytes);
int samples_accesses(struct samples *samples, uint32_t source, const struct trace_access *accesses,
		     size_t n);
int samples_code(struct samples *samples, uint32_t process, const struct trace_code *head,
		 const void *bytes);
int samples_aux(struct samples *samples, uint32_t source, const struct trace_aux *head,
		const void *bytes);

/* Something of the trace is lost, before what comes now. */
void samples_damaged(struct samples *samples);

/*
 * So long behind a sample what the trace has still says something of it: samples_advance() is not
 * to come nearer to read_ns, the last commit.
 */
int64_t samples_wait_ns(const struct samples *samples, int64_t read_ns);

/* The time of the earliest record that waits for its turn; INT64_MAX: none. Kept up to date. */
const int64_t *samples_next_ns(const struct samples *samples);

/* Attribute what was sampled before time_ns. 0 or a negative errno. */
int samples_advance(struct samples *samples, int64_t time_ns);

/* How many samples wait for the next event of their thread, and whether those of a thread do. */
const size_t *samples_n_waiting(const struct samples *samples);
bool samples_is_waiting(const struct samples *samples, uint32_t thread);

/*
 * The next event of a thread that waits. block: what it made (ALLOC, or the second half of a
 * REALLOC), or NULL for other events. 0 or a negative errno.
 */
int samples_event(struct samples *samples, uint32_t thread, enum trace_op op,
		  const struct owner_block *block);

/* Write what was watched; end_ns is the run's. 0 or a negative errno. */
int samples_write_watches(struct samples *samples, int64_t end_ns);

/*
 * Attribute the rest; write the sources' n_samples, owner_share and report the losses. has_losses:
 * the trace ended cleanly, so that its own LOSS records say what the kernel lost; otherwise that
 * is taken from perf's LOST records. 0 or a negative errno.
 */
int samples_finish(struct samples *samples, bool has_losses);

/* Behind that: wait until the last rows are in their tables. 0 or a negative errno. */
int samples_wait(struct samples *samples);

static inline void samples_cleanup(struct samples **samples)
{
	*samples = samples_destroy(*samples);
}
#define auto_samples __attribute__((cleanup(samples_cleanup)))
