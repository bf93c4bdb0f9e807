#pragma once
/*
 * Makes a whole synthetic trace whose contents are known: processes, threads, call stacks, heap and
 * mapping events in time order, page-fault samples, and beside it the truth about all of it. The
 * same options give the same bytes. Memory grows with the live blocks and the stacks, not with the
 * number of events. Nothing in it exists: modules, pids and addresses are made up.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum make_trace_kind {
	MAKE_TRACE_HEAP, /* malloc, calloc, free */
	MAKE_TRACE_MMAP, /* mostly mmap, munmap, mremap */
	MAKE_TRACE_REALLOC, /* one event in three is a realloc */
	MAKE_TRACE_MIXED,
	MAKE_TRACE_KIND_COUNT
};

struct make_trace_options {
	uint64_t seed;
	uint64_t n_events; /* allocation events of all threads */
	uint64_t n_samples; /* spread evenly over the events: page faults, or ... */
	bool are_accesses; /* ... with level and latency, most of them in few blocks */
	uint32_t n_processes; /* at least 1 */
	uint32_t n_threads; /* of each process, at least 1 */
	uint32_t n_live; /* blocks alive in steady state, over all processes, at least 1 */
	uint32_t n_stacks; /* different call stacks, at least 1 */
	enum make_trace_kind kind;
};

/* What main.c and a test that does not care start from. */
#define MAKE_TRACE_DEFAULTS                                                                        \
	{                                                                                          \
		.seed = 1, .n_events = 100000, .n_samples = 1000, .n_processes = 1,                \
		.n_threads = 2, .n_live = 1000, .n_stacks = 16, .kind = MAKE_TRACE_MIXED           \
	}

#define MAKE_TRACE_MAX_DEPTH  4
#define MAKE_TRACE_MAX_OWNERS 16 /* numbers of schemas/owner.def */

/* Blocks of the heap, or mappings. A realloc and an mremap each end one and bear another. */
struct make_trace_total {
	uint64_t n_births;
	uint64_t n_deaths;
	uint64_t n_moves; /* reallocs or mremaps: each is one of the births and one of the deaths */
	uint64_t live_blocks; /* at the end */
	uint64_t live_bytes;
	uint64_t born_bytes;
	uint64_t peak_bytes; /* of all processes together */
	uint64_t peak_ns; /* when it was first reached, since the start of the run */
};

/* One call path, over all threads and processes. */
struct make_trace_stack {
	/*
	 * Return addresses as p_vaddr of their module, innermost first: the first two lie in
	 * libmaketrace.so, the others in maketrace. Each image is loaded elsewhere.
	 */
	uint64_t offsets[MAKE_TRACE_MAX_DEPTH];
	struct make_trace_total heap;
	uint64_t n_samples; /* in heap blocks that were born there */
};

struct make_trace_truth {
	uint64_t n_events;
	uint64_t n_samples;
	uint64_t n_cross_thread_frees; /* by another thread than the block's */
	uint64_t n_reused_addresses; /* births of the heap on an address used before */
	uint64_t end_ns; /* since the start of the run */
	struct make_trace_total heap;
	struct make_trace_total mapping;
	uint64_t n_samples_of_owner[MAKE_TRACE_MAX_OWNERS]; /* by number of owner.def */
	uint32_t n_stacks;
	struct make_trace_stack *stacks;
};

/*
 * Write a trace to an open empty file, which is closed in any case. *ret_truth (may be NULL) is
 * freed with make_trace_truth_free(). Returns 0, -EINVAL for options out of range, or another
 * negative errno.
 */
int make_trace(int fd, const struct make_trace_options *options,
	       struct make_trace_truth **ret_truth);

/* Accepts NULL, returns NULL. */
struct make_trace_truth *make_trace_truth_free(struct make_trace_truth *truth);

/* Write the truth as JSON. Returns 0 or -EIO. */
int make_trace_truth_write(const struct make_trace_truth *truth, FILE *file);
