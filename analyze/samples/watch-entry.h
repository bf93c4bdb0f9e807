#pragma once
/*
 * Shared by watch-*.c: one arming of a watch, from its first record to its rows. Who may call what
 * from outside stands in watch-log.h.
 */
#include "analyze/samples/watch-log.h"

#define WATCH_REUSE_BUCKETS 64u

/* Armed without a break. */
struct watch_span {
	int64_t from_ns;
	int64_t to_ns; /* INT64_MAX: still */
};

struct watch_counts {
	uint64_t n_reads;
	uint64_t n_writes;
	uint64_t n_updates;
	uint64_t n_unknown;
};

struct watch_by_thread {
	int64_t thread_row;
	struct watch_counts counts;
};

struct watch_entry {
	uint32_t number;
	uint32_t process;
	uint64_t address;
	uint64_t n_bytes;
	bool is_write_only;
	bool is_hot;
	char *target;
	char *note;
	int64_t refused_ns;
	int64_t ended_ns; /* INT64_MAX: not told */
	struct watch_span *spans;
	size_t n_spans;
	size_t n_spans_allocated;
	size_t now; /* span of the last trap */
	struct watch_counts counts;
	struct watch_by_thread *threads;
	size_t n_threads;
	size_t n_threads_allocated;
	uint64_t reuse[WATCH_REUSE_BUCKETS];
	uint64_t reuse_other[WATCH_REUSE_BUCKETS];
	int64_t last_ns; /* of the last access in this span; INT64_MIN: none yet */
	size_t last_span;
	int64_t last_thread;
	int owner_kind; /* < 0: not known */
	int64_t owner_id;
};

/* Of its first record; its spans are those of watch_entry_change(). 0 or -ENOMEM. */
int watch_entry_create(const struct trace_watch *record, struct watch_entry **ret_entry);
void watch_entry_destroy(struct watch_entry *entry); /* accepts NULL */

/* A record says that it is in a state (enum trace_watch_state) from then on. 0 or -ENOMEM. */
int watch_entry_change(struct watch_entry *entry, unsigned state, int64_t time_ns);

/* The span that is open ends then; none may be. */
void watch_entry_end(struct watch_entry *entry, int64_t time_ns);

/* Was it armed then? Times do not go back, but for those of other CPUs by a little. */
bool watch_entry_is_armed_at(struct watch_entry *entry, int64_t time_ns);

/* ---- watch-rows.c ---- */

/* The rows of n entries, each of which has ended. 0 or a negative errno. */
int watch_rows_write(struct watch_entry *const *entries, size_t n, const struct tasks *tasks,
		     sqlite3 *db, int64_t run_id);
