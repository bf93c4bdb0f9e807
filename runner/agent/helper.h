#pragma once
/*
 * Processes of ours that put the agent into static programs. The command has one of its own. Those
 * that recorded programs start ask another one, see schemas/recording.h, which lives as long as the
 * recorder; each question is answered by a child of it, which traces who asks until its exec. If
 * the recorder is killed meanwhile they bring what they do to its end, and the program lives.
 */
#include <stdbool.h>
#include <sys/types.h>

#include "runner/agent/inject.h"

struct helper {
	pid_t pid;
	int fd; /* its end is the helper's; news come from there */
};

#define HELPER_CLOSED ((struct helper){ .pid = -1, .fd = -1 })

/*
 * Start it, to accept at these sockets (-1: none). While nothing else runs in this process; the
 * order's texts must stay. Returns 0 or a negative errno.
 */
int helper_start(const struct inject_order *order, const int listen_fds[2],
		 struct helper *ret_helper);

/*
 * Start one that traces the command, which waits at its gate, and is told that it may. As above.
 */
int helper_trace(const struct inject_order *order, pid_t pid, struct helper *ret_tracer);

/* Wait until it does. 0, or a negative errno: ptrace is refused. */
int helper_traces(const struct helper *tracer);

/* The next news, if there are any; a tracer of the command is waited for. */
bool helper_hear(const struct helper *helper, bool waits, struct inject_news *ret_news);

/* End it; who is just being served is served to the end. Safe on HELPER_CLOSED. */
void helper_finish(struct helper *helper);
