#pragma once
/* Processes of ours beside the recorder, which trace for it. They live on if it is killed. */
#include <stddef.h>
#include <sys/types.h>

/*
 * Fork one, while nothing else runs in this process. Returns its pid, 0 in it, or a negative errno.
 * It has all signals blocked (Ctrl-C is for the recorder), its name, and of the recorder's files
 * but the first three only these: a lock of the recorder's says that it lives.
 */
pid_t side_process_fork(const char *name, const int *fds, size_t n);
