#pragma once
/*
 * A process of ours that puts the agent into static programs which recorded ones start: they ask
 * it, see schemas/recording.h. It lives as long as the recorder; each question is answered by a
 * child of its own, which traces who asks until its exec.
 */
#include <sys/types.h>

#include "runner/agent/inject.h"

struct helper {
	pid_t pid;
	int fd; /* its end is the helper's */
};

#define HELPER_CLOSED ((struct helper){ .pid = -1, .fd = -1 })

/*
 * Start it, to accept at these sockets (-1: none). While nothing else runs in this process; the
 * order's texts must stay. Returns 0 or a negative errno.
 */
int helper_start(const struct inject_order *order, const int listen_fds[2],
		 struct helper *ret_helper);

/* End it; who is just being served is served to the end. Safe on HELPER_CLOSED. */
void helper_finish(struct helper *helper);
