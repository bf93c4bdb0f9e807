#pragma once
/*
 * Starting the command. The child is forked first and waits at a gate, so that perf events can be
 * opened on it; it then runs exactly as without us: signal mask and dispositions, open files,
 * limits, folder, process group and terminal are those that we were started with.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "runner/placement/placement.h"

/* What the collector changes for itself and the child gets back. */
struct launch_state {
	sigset_t mask;
	struct sigaction xfsz;
	struct sigaction pipe;
	struct sigaction chld;
	struct rlimit n_files;
	struct rlimit file_bytes;
	const struct placement_binding *binding; /* of the child; NULL: as we are bound */
};

/*
 * Prepare the calling process for collecting: take up missing file descriptors 0-2 (the trace must
 * never land on somebody's stderr), ignore SIGXFSZ and SIGPIPE, let children be waited for, block
 * the signals in `blocked`, allow as many open files and as large ones as possible. Returns 0 or a
 * negative errno.
 */
int launch_prepare(const sigset_t *blocked, struct launch_state *ret_state);

/* Put all but the file descriptors back, for a caller that goes on after the run. */
void launch_restore(const struct launch_state *state);

struct launch {
	pid_t pid;
	int pidfd;
	int gate_fd; /* our end; the child waits for a word or the end */
	int error_fd; /* the child's report of a failed exec */
};

#define LAUNCH_CLOSED ((struct launch){ .pid = -1, .pidfd = -1, .gate_fd = -1, .error_fd = -1 })

/*
 * Fork a child that waits at the gate, to exec program (searched in PATH) with argv and envp (NULL
 * at the end). All must stay until launch_fork() has returned. Returns 0 or a negative errno.
 */
int launch_fork(const char *program, char *const *argv, char *const *envp,
		const struct launch_state *state, struct launch *ret_launch);

/* Let the child, at its gate, allow a process to trace it (Yama). 0 or a negative errno. */
int launch_allow(const struct launch *launch, pid_t tracer);

/* Open the gate. Returns 0, or a negative errno: the child has gone. */
int launch_open(struct launch *launch);

/*
 * Wait until the child has exec'd. Returns 0, or the negative errno of exec: the child then exits
 * by itself (launch_exit_status() says with what).
 */
int launch_wait(struct launch *launch);

/* The shell's status for a failed exec: 127 not found, 126 otherwise. */
int launch_exit_status(int exec_error);

/* End a child that still waits at the gate and reap it; close everything. Safe on LAUNCH_CLOSED. */
void launch_finish(struct launch *launch);
