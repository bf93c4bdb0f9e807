#pragma once
/*
 * A small collector for tests: it keeps to schemas/ring.h and schemas/recording.h, stores
 * everything in memory, checks every record, and knows nothing of the real one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "schemas/recording.h"
#include "schemas/ring.h"
#include "schemas/trace-format.h"

struct mini_options {
	uint32_t n_chunks; /* 0: 64 */
	uint32_t events; /* 0: heap and mmap */
	uint32_t flags; /* RING_FLAG_* */
	uint32_t stacks; /* enum ring_stacks */
	uint32_t max_frames; /* 0: RING_MAX_FRAMES */
	uint64_t min_bytes;
	bool is_stopped; /* says hello, then never drains and never moves */
	bool is_discarding; /* drains, keeps nothing */
	bool is_abstract; /* listens at the abstract name only */
	bool no_preload; /* runs the program as it is: nothing of ours in its environment */
	bool is_inert; /* preloads our library, without a recording to find */
	bool is_mute; /* accepts connections and never answers */
	unsigned answer_after_ms; /* how slow it is to answer a hello */
	unsigned late_ms; /* how long it only beats, and drains nothing */
	uint32_t verdict; /* enum recording_verdict to answer with */
	uid_t uid; /* run the program as this user; 0: as the test */
	uint64_t address_space; /* limit for the program; 0: none */
	const char *library; /* to preload instead of LIBTRACEALLOC */
	const char *preload; /* of the user, behind ours in LD_PRELOAD */
	const char *set; /* one more NAME=VALUE */
};

/* One record of a thread's chain, in the chain's order. */
struct mini_event {
	uint32_t slot;
	uint32_t thread;
	uint8_t op;
	uint8_t call;
	uint8_t flags; /* TRACE_EVENT_* */
	bool is_spawn;
	uint32_t stack_id;
	uint64_t ticks;
	uint64_t address; /* NODE: pc; MODULE: start */
	uint64_t size; /* NODE: parent; MODULE: end */
	uint64_t old_address;
	uint64_t begin_ticks;
	uint64_t old_size;
	uint64_t detail; /* TEXT: its id */
	const struct ring_thread_start *start; /* THREAD_START */
	const struct ring_thread_name *name; /* THREAD_NAME */
	const struct ring_module *module; /* MODULE, MODULE_UNLOAD */
	const char *path; /* MODULE, EXEC, TEXT; else "" */
};

struct mini_run {
	int status; /* of the program, as from wait() */
	char *output; /* its stdout, NUL-terminated */
	struct mini_event *events;
	size_t n_events;
	struct ring_process *processes; /* as they were at the end */
	uint32_t n_processes;
	size_t n_uncommitted; /* chains that end in a record that was never committed */
	size_t n_bad; /* records against the contract */
	size_t n_told; /* hellos with the command and maps of files that /proc had */
	size_t n_chunks_seen;
	size_t max_chunks_owned;
	struct ring_chunk **chunks; /* copies */
	uint32_t *node_index; /* hash: event number + 1 of the NODE events */
	size_t node_index_size;
	void *pool;
	size_t pool_bytes;
	uint64_t wall_ns;
};

/*
 * Run a program to its end (and that of its children). Aborts the test on any failure of its own.
 */
void mini_run(const struct mini_options *options, const char *const argv[], struct mini_run *run);

void mini_finish(struct mini_run *run);

/* How many events of a process have this op (and call, unless 0). slot UINT32_MAX: of all. */
size_t mini_count(const struct mini_run *run, uint32_t slot, enum trace_op op,
		  enum trace_call call);

/* The i-th event of the program with this op and size; NULL: there are not so many. */
const struct mini_event *mini_find(const struct mini_run *run, enum trace_op op, uint64_t size,
				   size_t i);

/*
 * The return addresses of an event's stack, innermost first, with the stop node's reason as the
 * last one. Returns how many; aborts on an id that was not defined before the event.
 */
size_t mini_stack(const struct mini_run *run, const struct mini_event *event, uint64_t *pcs,
		  size_t max);

/* A number that the program wrote as "NAME=0x..." or "NAME=..."; aborts when it did not. */
uint64_t mini_value(const struct mini_run *run, const char *name);
