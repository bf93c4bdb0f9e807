#pragma once
/*
 * A perf.data that was recorded beside a trace: whether it is of the same run, and how its clock
 * goes.
 *
 * It is of the same run when it tells of a map where the trace has a module of the same pid. Times
 * of CLOCK_MONOTONIC_RAW are taken as they are. Those of any other clock are shifted by one offset,
 * bounded by what both tell: code is mapped before the trace names its module, memory before a
 * block is born in it, a block is accessed before its free, and its inner pages after malloc() gave
 * it; a thread ends behind its last event.
 */
#include "analyze/input/clock-map.h"
#include "common/hash-map.h"

/* A module of a process. */
struct beside_module {
	uint32_t pid;
	uint64_t start;
	uint64_t end;
	uint64_t time_ns; /* it was there by then */
};

/* A thread that called the allocator or ended. */
struct beside_thread {
	uint32_t thread_id;
	uint32_t pid;
	uint32_t tid;
	uint64_t last_ns; /* of its events; 0: none */
};

/*
 * What a trace holds that a perf.data of the same run can be known by: its images, their modules,
 * the lives of threads and blocks, in CLOCK_MONOTONIC_RAW. All zero is empty.
 */
struct beside_trace {
	struct beside_module *modules;
	size_t n_modules;
	size_t n_modules_allocated;
	struct beside_thread *threads;
	size_t n_threads;
	size_t n_threads_allocated;
	struct key_map pids; /* (process id, 0) -> pid */
	struct key_map starts; /* (pid, 0) -> time of its first image; -> number (pid, 1) */
	size_t n_pids;
	struct key_map thread_index; /* (thread id, 0) -> index + 1 */
	struct key_map tids; /* (pid, tid) -> how many threads had both */
	struct clock_ranges blocks; /* by beside_place() */
	struct key_map frees; /* (place, 0) -> time */
	bool has_too_many; /* blocks: none is kept */
	uint32_t n_sources; /* the highest source_id */
	char *source_names; /* each behind a newline, of those that ran */
	uint64_t start_ns;
	uint64_t end_ns;
};

struct beside {
	char *path; /* of the perf.data */
	struct beside_trace trace;
	struct clock_offset offset;
	const char *clock; /* "CLOCK_MONOTONIC", "perf's own clock" ... */
	uint64_t n_bounds; /* pairs that the offset was made of; 0: the clock is ours */
	uint64_t first_ns; /* of the perf.data, in its clock */
	uint64_t last_ns;
	char both[64]; /* -EEXIST: the source that both have */
};

/*
 * Align. 0 or a negative errno: -ENXIO: they are of different runs; -ESTALE: of one pid each, but
 * at different times; -EEXIST: both sampled the same; -ERANGE: nothing bounds the offset on both
 * sides; -EBADMSG: the trace is none; -EPROTO: the perf.data is none; as beside_trace_read().
 * Closed by the caller.
 */
int beside_open(const char *trace_path, const char *perf_path, struct beside *beside);
void beside_close(struct beside *beside); /* accepts one that is all zero */

/* The time of the first image of a pid; 0: the trace has none. */
uint64_t beside_trace_first(const struct beside_trace *trace, uint32_t pid);

/* Whether a source of that name ran. */
bool beside_trace_has_source(const struct beside_trace *trace, const char *name);

static inline void beside_cleanup(struct beside *beside)
{
	beside_close(beside);
}
#define auto_beside __attribute__((cleanup(beside_cleanup)))
