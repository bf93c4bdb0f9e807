#pragma once
/*
 * What a trace tells that a perf.data of the same run can be known by: its images, their modules,
 * the lives of threads and blocks, in CLOCK_MONOTONIC_RAW. One thread.
 */
#include "analyze/input/clock-bounds.h"
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

/* All zero is empty. */
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
	struct key_map deaths; /* (place, 0) -> time */
	bool has_too_many; /* blocks: none is kept */
	uint32_t n_sources; /* the highest source_id */
	char *source_names; /* each behind a newline, of those that ran */
	uint64_t start_ns;
	uint64_t end_ns;
};

/* Read a trace for it. 0, as trace_reader_open(), or -ENOMEM. */
int beside_trace_read(const char *path, struct beside_trace *trace);
void beside_trace_finish(struct beside_trace *trace);

/* Address and process as one number, for blocks; 0: none. */
uint64_t beside_place(const struct beside_trace *trace, uint32_t pid, uint64_t address);

/* The time of the first image of a pid; 0: the trace has none. */
uint64_t beside_trace_first(const struct beside_trace *trace, uint32_t pid);

/* Whether a source of that name ran. */
bool beside_trace_has_source(const struct beside_trace *trace, const char *name);
