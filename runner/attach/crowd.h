#pragma once
/* All threads of a process, which stand together. */
#include <stddef.h>
#include <stdint.h>

#include "runner/attach/remote.h"
#include "runner/attach/safety.h"

struct crowd {
	pid_t pid;
	struct remote_thread *threads;
	size_t n;
	bool may_trap; /* set by the caller of crowd_stop(): a stray SIGTRAP does no harm */
	bool takes_no_timed; /* set by the caller of crowd_find_guest(): see remote_is_timed() */
	uint64_t stopped_ns; /* CLOCK_MONOTONIC: since then none runs */
	enum safety_verdict verdict; /* of a thread that did not come to a good place in time */
	pid_t culprit; /* that thread; 0: none */
};

/*
 * Stop all threads, new ones included, at places that are good for all of them; kept (NULL: none)
 * is a thread that is ours already, and stands. 0, -ETIMEDOUT (verdict and culprit say why) or
 * another negative errno; then all but kept run on.
 */
int crowd_stop(struct crowd *crowd, pid_t pid, struct safety *safety,
	       const struct remote_thread *kept, uint64_t deadline_ns);

/* Let all run, untraced, and forget them. */
void crowd_release(struct crowd *crowd);

/*
 * A thread of a process that stands at a good place, one that waits in a system call if there is
 * any; the others run. 0 or as crowd_stop().
 */
int crowd_find_guest(struct crowd *crowd, pid_t pid, struct safety *safety, uint64_t deadline_ns,
		     struct remote_thread *ret_guest);
