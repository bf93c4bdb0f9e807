#pragma once
/*
 * A process of ours that enters another one and leaves it: the recorder must answer while the
 * other one says hello, and who traces should not be who collects. It lives as long as the
 * recording. When the recorder ends without a word, or is killed, it takes everything back.
 */
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "runner/attach/attach.h"

#define ATTACHER_NAME "memsight-attach" /* as the kernel calls it */

struct attacher {
	pid_t pid;
	int fd; /* readable when it has something to say */
	bool is_asked; /* to leave */
	bool has_left; /* and has said what came of it, or was killed */
};

#define ATTACHER_CLOSED ((struct attacher){ .pid = -1, .fd = -1 })

/* A process that is recorded since it was attached to. */
struct attached {
	struct attach_order order;
	struct attacher attacher;
	char program[PATH_MAX]; /* that it ran then */
	bool is_in;
	bool has_ended; /* be it that it has been left */
	bool has_execed; /* and nobody asked for what it runs since */
};

/*
 * Fork it. While nothing else runs in this process. The order and its texts must stay. Returns 0 or
 * a negative errno.
 */
int attacher_start(const struct attach_order *order, struct attacher *ret_attacher);

/* Let it enter, or leave. Returns at once: 0 or a negative errno (it was killed). */
int attacher_enter(struct attacher *attacher);
int attacher_leave(struct attacher *attacher);

/* What came of it; waits. Its blocks_fd is the caller's to close. -EPIPE: it was killed. */
int attacher_take(struct attacher *attacher, struct attach_outcome *ret_outcome);

/* How one that has nothing more to say has ended, as from wait(); waits. -1: that is not known. */
int attacher_status(struct attacher *attacher);

/* End it; what it has not taken back yet it takes back now. Safe on ATTACHER_CLOSED. */
void attacher_finish(struct attacher *attacher);
