#pragma once
/*
 * What `memsight record` is asked to do, as a plain struct: cli/ fills it in from the option table,
 * and a series fills it in from its plan. Strings stay the caller's and must outlive the run.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "schemas/ring.h"

/* The call stack of each sample. */
enum run_sample_stacks {
	RUN_SAMPLE_STACKS_NONE,
	RUN_SAMPLE_STACKS_FP, /* as the kernel follows it */
	/* bytes of the stack, for the analysis; faults: as the kernel does */
	RUN_SAMPLE_STACKS_DWARF,
};

/* Whose accesses and time are sampled. */
enum run_count {
	RUN_COUNT_USER,
	RUN_COUNT_KERNEL,
	RUN_COUNT_BOTH,
};

#define RUN_DEFAULT_BUFFER_BYTES (UINT64_C(64) << 20)

struct allocator_entries; /* schemas/allocator-entries.h */
struct plan_uprobe; /* schemas/functions-plan.h */

struct run_fact {
	const char *key;
	const char *value;
};

/* The functions that are recorded as regions. */
struct run_functions {
	int plan_fd; /* schemas/functions-plan.h, sealed */
	size_t plan_bytes;
	const char *const *names; /* of its functions */
	size_t n;
	bool trips_only; /* their calls are counted, and nothing else */
	bool are_steered; /* by pauses, and what the program collects */
	const struct plan_uprobe *uprobes; /* of those that the kernel tells of; file by file */
	size_t n_uprobes;
	const char *const *probed; /* names of these */
	size_t n_probed;
};

struct run_options {
	char *const *command; /* argv of the program, NULL at the end */
	const char *argv0; /* what the program sees as argv[0]; NULL: command[0] */
	const char *output; /* pattern with %e %p %r %n; NULL: memsight.%e.%p.mst */
	const char *dir; /* of an output without '/', made when missing; NULL: the cwd */
	/* a file of the output's name and this suffix is made at the end; NULL: none */
	const char *beside;
	bool no_guess; /* who made blocks from before an attach is not guessed */
	bool attach_children; /* programs that the process starts are recorded, too */
	const char *library; /* libtracealloc.so; NULL: beside the binary, or installed */
	const char *program; /* name of the run's program; NULL: that of the command's file */
	const char *mode; /* name of the run's mode; NULL: "default" */
	uint32_t repetition; /* from 1; 0: 1 */
	const char *source; /* as pmu/choice.h takes it; NULL: "auto" */
	uint32_t frequency_hz; /* of access sources; 0: as each does by itself, the clock 997 */
	uint64_t period; /* of access sources, in their unit; 0: by frequency_hz */
	bool has_period; /* it was given: 0 is refused */
	const char *load_event; /* of hardware sources; NULL: the best that is known */
	const char *store_event;
	uint32_t min_latency; /* cycles: sample no faster loads; 0: the least that the source can */
	enum run_count count;
	enum run_sample_stacks sample_stacks;
	const char *budget; /* "2%" of the program's CPU time for sampling; NULL: no bound */
	const char *counters; /* events to count over the run, with commas between; NULL: none */
	bool is_strict; /* whatever is refused ends the run before the program starts */
	enum ring_stacks stacks;
	uint64_t buffer_bytes; /* of the pool; 0: RUN_DEFAULT_BUFFER_BYTES */
	unsigned recorder_threads; /* that read the pool; 0: as CPUs are idle */
	uint64_t max_bytes; /* of the trace file; 0: as much as the disk takes */
	uint32_t events; /* RING_EVENTS_*; 0: all */
	uint64_t min_bytes; /* blocks below it are counted only; 0: record all */
	uint64_t sample_bytes; /* one block in so many bytes is picked; 0: record all */
	bool usdt; /* tracealloc/pick/usdt.h: probes fire for each block, or for picked ones */
	const char *heap; /* KIND[:DIR][,SIZE], where blocks go; NULL: where libc puts them */
	uint64_t heap_min_bytes; /* smaller blocks stay in libc */
	bool spill; /* what does not fit into the heap goes to libc, and is counted */
	const char *buffers; /* KIND or node:LIST for the pool, pmem:DIR,SIZE; NULL: any memory */
	const char *cpunodebind; /* lists as numactl takes them; NULL: as we are bound ourselves */
	const char *physcpubind;
	const char *membind;
	const char *interleave;
	const char *preferred;
	uint32_t max_frames; /* of a call stack; 0: RING_MAX_FRAMES */
	bool null_sink; /* hooks run, nothing of them is stored */
	bool api_marks; /* the program's own pause, resume and collect are ignored */
	bool force; /* overwrite an existing output */
	bool no_alloc; /* sample only: preload nothing */
	bool no_follow; /* trace only the command's first image and its forks */
	bool wait_child; /* end with the command, not with all that it started */
	const char *const *watches; /* texts of --watch, NULL at the end; may be NULL */
	bool watch_hot; /* free debug registers go round over the hottest lines */
	uint32_t watch_rate; /* accesses a second that each may sample; 0: any number */
	/* pages are also looked at so often: a duration, or "off": never; NULL: peaks and ends */
	const char *pages;
	bool private_samples; /* decode at once; store no registers, stacks or code */
	const char *const *windows; /* texts of --windows, NULL at the end; may be NULL */
	const char *start_after; /* name of the mark or region that they count from; NULL: none */
	const char *dump_signal; /* sent to a program it makes a snapshot: "USR2"; NULL: none */
	bool dump_reset; /* and begins a window */
	const char *last; /* only the end of the trace is kept: "30s", "200M"; NULL: all of it */
	bool live_totals; /* for `memsight top' */
	const char *old_after; /* blocks that live for longer are "leaked" in them; NULL: 60s */
	const char *const *triggers; /* texts of --trigger, NULL at the end; may be NULL */
	const char *const *trigger_actions; /* of --on-trigger, likewise; NULL: a snapshot */
	const char *cooldown; /* the least time between two that one condition causes; NULL: 60s */
	const char *const *load; /* files of --load, NULL at the end; NULL: none */
	const char *components; /* of them, with commas and | between; NULL: all that there are */
	const char *init_functions; /* of the first file of load, with commas between; NULL: none */
	const char *fini_functions;
	/* processes that are there already, instead of command */
	const pid_t *attach_pids;
	size_t n_attach;
	uint64_t attach_timeout_ns; /* that its threads may take to leave malloc; 0: 2 s */
	/* run_observer.progress is called that often, 1 s at least; 0: never */
	uint64_t progress_ns;
	pid_t follower; /* a process that runs on idle CPUs only: its threads take none; 0: none */
	uint64_t duration_ns; /* of attached ones: then they are left; 0: until somebody says so */
	bool is_natural; /* leave the program alone: with no_alloc and source "none", to time it */
	const struct run_functions *functions; /* NULL: none */
	/*
	 * What allocates in a file that is linked statically (analyze/functions/), and the end of
	 * that; NULL: such programs are not recorded.
	 */
	int (*find_entries)(const char *path, struct allocator_entries *ret_entries);
	void (*forget_entries)(struct allocator_entries *entries);
	const struct run_fact *facts; /* what else the trace is to say of the run */
	size_t n_facts;
};
