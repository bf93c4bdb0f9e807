#pragma once
/* The recording that `memsight top' looks at: one that is under way, or one that it begins. */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/options/option.h"
#include "runner/control/client.h"

#define SESSION_SAID_BYTES 8192u

struct top_session {
	struct control_recording recording;
	pid_t recorder; /* that we have begun; 0: it is somebody else's */
	int recorder_fd; /* a pidfd of it; -1: there is none */
	pid_t guard; /* ends what we have begun, should we be killed; 0: there is none */
	int guard_fd; /* what it waits on; -1: there is none */
	bool is_own_program; /* we have started it, not attached to it */
	bool has_ended;
	int exit_status; /* of our recorder, when it has ended */
	int totals_fd;
	int said_fd; /* standard error of both where the screen is ours; -1: it is as top's */
	char said[SESSION_SAID_BYTES]; /* the end of what came from there */
	size_t n_said;
	uint64_t began_ns; /* CLOCK_MONOTONIC: the program's start */
	char folder[PATH_MAX]; /* of a trace that nobody asked for; "": none */
	char trace[PATH_MAX];
};

/*
 * Find the recording of the first operand, attach to its process, or start its command. What the
 * program says goes to standard error, or is kept where has_screen. Says what is wrong and returns
 * an exit status; end with session_end() in any case.
 */
int session_begin(struct top_session *session, const struct option_set *options, bool has_screen);

/* Whether it has ended. Reads said_fd, which must not fill up: the program would wait. */
bool session_has_ended(struct top_session *session);

/*
 * Save what is recorded so far as a trace in the working folder. Writes its path, or why there is
 * none.
 */
void session_save(struct top_session *session, char *message, size_t n_bytes);

/*
 * However top ends, also by SIGKILL:
 * A program that we have started is ended (SIGTERM, after 3 s SIGKILL), one that we have attached
 * to is left; the trace goes unless it was asked for. What was kept is printed. Returns the exit
 * status of top.
 */
int session_end(struct top_session *session);
