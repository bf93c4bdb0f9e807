#pragma once
/* The made-up machine of a synthetic trace: its time, processes, threads and address spaces. */
#include <stdint.h>

#include "tests/unit/common/trace-random.h"
#include "tests/support/make-trace/call-tree.h"
#include "tests/support/make-trace/make-trace.h"
#include "tests/support/make-trace/space.h"

/*
 * 2.5 ticks are 1 ns, exactly; the header says 10 ppm more, so that a reader which converts by the
 * nominal rate instead of the CLOCK records is wrong by more than the gaps around samples.
 */
#define WORLD_TICKS_PER_SECOND UINT64_C(2500000000)
#define WORLD_NOMINAL_TICKS    UINT64_C(2500025000)
#define WORLD_START_TICKS      UINT64_C(7000000000000)
#define WORLD_START_RAW_NS     UINT64_C(3600000000000)
#define WORLD_PROGRAM_BYTES    UINT64_C(0x200000) /* of address space; data in the last eighth */
#define WORLD_LIBRARY_BYTES    UINT64_C(0x4000000)
#define WORLD_STACK_BYTES      UINT64_C(0x800000)
#define WORLD_OLD_MAP_START    UINT64_C(0x7e0000000000) /* there before the trace */
#define WORLD_OLD_MAP_BYTES    UINT64_C(0x100000)
#define WORLD_UNKNOWN_ADDRESS  UINT64_C(0x100000000000) /* 1 MiB that nobody owns */
#define WORLD_PROGRAM_PATH     "/usr/bin/maketrace"
#define WORLD_LIBRARY_PATH     "/usr/lib/libmaketrace.so"

struct world_thread {
	uint32_t thread_id;
	uint32_t tid;
	uint64_t stack_start;
	struct call_tree_told told;
};

struct world_process {
	uint32_t process_id;
	uint32_t pid;
	struct call_tree_image image;
	struct space heap;
	struct space maps;
	struct world_thread *threads; /* options.n_threads, the first is main */
};

struct world {
	struct make_trace_options options;
	struct trace_random random;
	uint64_t ticks; /* now */
	uint64_t next_clock_ticks; /* when a CLOCK record and a commit are due */
	struct trace_writer *writer;
	struct world_process *processes;
	struct make_trace_truth *truth;
};

/* CLOCK_MONOTONIC_RAW of a tick stamp. */
static inline uint64_t world_raw_ns(uint64_t ticks)
{
	return WORLD_START_RAW_NS + (ticks - WORLD_START_TICKS) * 2 / 5;
}

/* Time of a tick stamp since the start of the run. */
static inline uint64_t world_run_ns(uint64_t ticks)
{
	return world_raw_ns(ticks) - WORLD_START_RAW_NS;
}

/* Build processes and threads. The writer is set by the caller. Returns 0 or -ENOMEM. */
int world_init(struct world *world, const struct make_trace_options *options);

/* Free everything but the writer; the truth too. */
void world_finish(struct world *world);

/* Write what a run starts and ends with. Return 0 or a negative errno. */
int world_write_start(struct world *world);
int world_write_end(struct world *world);

/* Write a CLOCK record for now. Returns 0 or a negative errno. */
int world_write_clock(struct world *world);

/* One step of one thread: it makes one allocation event. Returns 0 or a negative errno. */
int world_step(struct world *world);

/* One page fault of one thread. Returns 0 or a negative errno. */
int world_sample(struct world *world);

#define WORLD_SOURCE_ID 1u
