#pragma once
/*
 * Shared by run*.c: one recorded run from its preparation to its end. Functions that can fail
 * return 0 or a negative errno, and have said why by run_fail() then. One thread.
 */
#include "runner/agent/helper.h"
#include "runner/attach/attacher.h"
#include "runner/collector.h"
#include "runner/launch/environment.h"
#include "runner/launch/launch.h"
#include "runner/placement/placement.h"
#include "runner/run.h"

/* Everything that a run holds, so that one destructor ends it from any state. */
struct run {
	struct run_options options_now; /* as they can be followed here */
	const struct run_options *options;
	const struct run_observer *observer;
	struct run_summary *summary;
	struct recording recording;
	struct pool pool;
	struct launch launch;
	struct launch_state state;
	bool has_state;
	struct output output;
	struct collector collector;
	struct trace_writer *writer;
	char **envp;
	int signal_fd;
	struct clock_pair first_pair;
	uint64_t ticks_per_second;
	char program[PATH_MAX]; /* where PATH leads to */
	char library[2 * PATH_MAX]; /* for LD_PRELOAD: with the heap's two, parted by ':' */
	char agent[PATH_MAX]; /* for static programs; "": they are not recorded */
	bool is_static; /* the command is one */
	struct inject_order agent_order;
	struct side_process helper;
	struct placement placement;
	char load[RING_LOAD_BYTES]; /* for ring_control.load */
	char at_samples[128]; /* names of components that ask for samples; "" */
	bool keeps_partial;
	struct attached *attached; /* options.attach_pids */
	size_t n_attached;
	pid_t watched_pid; /* while its files are looked through for --watch */
	char *attached_command[2]; /* the first one's program */
};

/* ---- run.c ---- */

/* Put the one line for a person together, with what err < 0 means behind it; returns err. */
__attribute__((format(printf, 3, 4))) int run_fail(struct run *run, int err, const char *format,
						   ...);

/* The command cannot be started: what run_command_find() or exec said. Returns err. */
int run_fail_command(struct run *run, int err);

/* Something a person should know now: one line, told to the observer if there is one. */
void run_say(const struct run *run, const char *line);

/* ---- run-pool.c ---- */

/*
 * The folder of the recording, the clock's rate and the pool in shared memory. A limit of memory or
 * of file size makes the pool smaller than asked for, or no_alloc of options_now true: that is
 * said.
 */
int run_pool_make(struct run *run);

/* ---- run-preload.c ---- */

/* Put into run->library what a program gets preloaded; nothing under no_alloc. */
int run_libraries_find(struct run *run);

/* Fill in run->agent and its order: where static programs can be recorded. */
void run_agent_find(struct run *run);

/*
 * Begin to put the agent into static programs that recorded ones start, where that can be done.
 * Behind the command, so that this stays our first child, while it waits at its gate and nothing
 * else runs in this process.
 */
void run_agent_start(struct run *run);

/* Make run->envp, the command's environment. Says what of the command will not be recorded. */
int run_environment_make(struct run *run);

/* Say what else is not done in a program that has no code of ours. */
void run_say_without_code(const struct run *run);

/* ---- run-output.c ---- */

/* Open the output (the command's pid may be part of its name) and begin the trace in it. */
int run_output_open(struct run *run);

/* -ENOSPC: less than a twentieth of its disk is free. */
int run_output_check(struct run *run);

/* End the writer and give the file its name; if that fails, the summary says where the trace is. */
void run_output_name(struct run *run);

/* ---- run-attach.c ---- */

/* Can the processes be attached to, and what do they run? Instead of finding a command. */
int run_attach_find(struct run *run);

/* Have a process for each that will enter it. Before anything else runs in this one. */
int run_attach_prepare(struct run *run);

/*
 * Enter one after the other; from then on they record. When one cannot be entered, nothing is
 * changed in it, and the others are left again.
 */
int run_attach_start(struct run *run);

/* Leave those that were not left yet, and forget them. */
void run_attach_finish(struct run *run);

/* ---- run-start.c ---- */

/* Begin to collect, with the sources open on the command that still waits. */
int run_collector_start(struct run *run);

/* Let the command go, and tell the observer that it has started. */
int run_command_start(struct run *run);
