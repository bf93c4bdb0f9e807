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
#include "runner/launch/side-process.h"

/*
 * Start it, to accept at these sockets (-1: none). While nothing else runs in this process; the
 * order's texts must stay. Returns 0 or a negative errno. side_process_finish() ends it; who is
 * just being served is served to the end.
 */
int helper_start(const struct inject_order *order, const int listen_fds[2],
		 struct side_process *ret_helper);

/*
 * Start one that traces the command, which waits at its gate, and is told that it may. As above.
 */
int helper_trace(const struct inject_order *order, pid_t pid, struct side_process *ret_tracer);

/* Wait until it does. 0, or a negative errno: ptrace is refused. */
int helper_traces(const struct side_process *tracer);

/* The next news, if there are any; a tracer of the command is waited for. */
bool helper_hear(const struct side_process *helper, bool waits, struct inject_news *ret_news);
