#pragma once
/* Processes of ours beside the recorder, which trace for it. They live on if it is killed. */
#include <stddef.h>
#include <sys/types.h>

struct side_process {
	pid_t pid;
	int fd; /* a socket of messages to it; its end is the process's */
};

#define SIDE_PROCESS_CLOSED ((struct side_process){ .pid = -1, .fd = -1 })

/*
 * Fork one, while nothing else runs in this process. Returns its pid, 0 in it, or a negative errno.
 * It has all signals blocked (Ctrl-C is for the recorder), its name, and of the recorder's files
 * but the first three only these: a lock of the recorder's says that it lives.
 */
pid_t side_process_fork(const char *name, const int *fds, size_t n);

/*
 * Likewise, with a socket between both: in the new process ret_process->fd is its own end of it. At
 * most two files.
 */
pid_t side_process_start(const char *name, const int *fds, size_t n,
			 struct side_process *ret_process);

/* How one that has nothing more to say has ended, as from wait(); waits. -1: that is not known. */
int side_process_status(struct side_process *process);

/* Close the socket, which ends it, and wait for that. Safe on SIDE_PROCESS_CLOSED. */
void side_process_finish(struct side_process *process);
