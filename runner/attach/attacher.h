#pragma once
/*
 * A process of ours that enters another one and leaves it: the recorder must answer while the
 * other one says hello, and who traces should not be who collects. It lives as long as the
 * recording. When its recorder ends or is killed without a word, or closes its socket
 * (side_process_finish()), it takes everything back.
 */
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "runner/attach/attach.h"
#include "runner/launch/side-process.h"

#define ATTACHER_NAME "memsight-attach" /* as the kernel calls it */

struct attacher {
	struct side_process process; /* its fd is readable when it has something to say */
	bool is_asked; /* to leave */
	bool has_left; /* and has said what came of it, or was killed */
};

#define ATTACHER_CLOSED ((struct attacher){ .process = SIDE_PROCESS_CLOSED })

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
