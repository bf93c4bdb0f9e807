#pragma once
/*
 * One recorded run, from the command line to the finished trace. Says nothing itself: what a person
 * should read goes to the observer while it happens, and into the summary at the end.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/run-options.h"
#include "schemas/trace-format.h"

/* What is known when the command has started. */
struct run_start {
	pid_t pid;
	const char *program; /* its base name */
	size_t n_more; /* processes that were attached to beside it */
	const char *output; /* the name that the trace will have */
	const char *sources; /* "allocations + clock + faults" */
};

/* How far a recording is. */
struct run_progress {
	uint64_t wall_ns; /* since the program started, or was attached to */
	uint64_t end_ns; /* on the same axis: when it will be left; 0: not known */
	uint64_t n_events;
	uint64_t n_samples;
	uint64_t file_bytes;
	uint64_t n_new_bytes; /* of them, since this was said last */
	uint64_t new_ns; /* ... which is so long ago */
	uint64_t room_bytes; /* the trace may still grow by; UINT64_MAX: not known */
	const char *room_reason; /* why recording stops then */
};

/*
 * A file whose code a recorded process has mapped. path as the process sees it, not NUL-terminated.
 */
struct run_file {
	pid_t pid;
	const char *path;
	size_t path_bytes;
	const uint8_t *build_id;
	size_t build_id_bytes; /* 0: not known */
};

/* What of a trace is in its file for good; a file that is cut (--last) never is. */
struct run_growth {
	const char *path; /* its name now */
	const char *name; /* that at the end */
	uint64_t n_bytes; /* from its begin on */
};

struct run_observer {
	void *user;
	void (*started)(void *user, const struct run_start *start);
	/* Something a person should know now: one line without newline. */
	void (*warn)(void *user, const char *line);
	/* Every run_options.progress_ns. May be NULL. */
	void (*progress)(void *user, const struct run_progress *progress);
	/* Called while the process lives, as a rule; by the collector. May be NULL. */
	void (*loaded)(void *files, const struct run_file *file);
	void *files;
	/* Behind each segment, and the end. Called by the recorder's thread. May be NULL. */
	void (*grown)(void *follower, const struct run_growth *growth);
	void *follower;
};

struct run_summary {
	bool has_trace; /* a trace was written: its name is in output */
	int exit_status; /* for our own exit: the program's, 128 + signal, 127 or 126 */
	int wait_status; /* of the command, as from wait(); -1: it was not waited for */
	char output[PATH_MAX];
	char problem[PATH_MAX + 256]; /* one line when something failed; "" */
	uint64_t wall_ns; /* from the start of the command to its end */
	uint64_t n_events;
	uint64_t n_samples; /* of accesses (clock) */
	uint64_t n_faults;
	bool has_faults; /* ... were sampled: 0 then means that there was none */
	uint64_t n_losses; /* events and samples that are not in the trace */
	uint64_t n_cut_off; /* of n_events: those that --last has left out */
	uint64_t last_room_ns; /* of --last: for so much there was room; 0: for all */
	uint64_t n_below_min; /* blocks below min_bytes: not recorded, on request */
	uint64_t wait_ns; /* that threads of the program waited for the collector, added up */
	uint64_t file_bytes;
	uint64_t collector_cpu_ns;
	uint32_t n_processes;
	uint32_t n_traced; /* of them, by their last image */
	uint32_t n_threads;
	uint64_t n_why_not[TRACE_NOT_COUNT]; /* by enum trace_why_not */
	char why_not_example[TRACE_NOT_COUNT][64];
	uint64_t n_before; /* blocks that were found in a process that was attached to */
	bool has_left; /* the process that was attached to runs on, without us */
	bool was_let_go; /* by a second Ctrl-C: the program runs on */
};

/*
 * Are the options possible at all, whatever the machine? Returns 0, or -EINVAL with one line for a
 * person in message.
 */
int run_check(const struct run_options *options, char *message, size_t n_bytes);

/*
 * Run options->command and record it. Returns 0 when a trace was written (its end may be early:
 * problem says so), or a negative errno: then nothing is left behind, and problem says why in one
 * line. ret_summary is filled in either case. Changes the signal state of the process while it
 * runs.
 */
int run_record(const struct run_options *options, const struct run_observer *observer,
	       struct run_summary *ret_summary);
