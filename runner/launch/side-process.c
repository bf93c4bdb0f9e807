#include "runner/launch/side-process.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_FD 3

static void close_others(const int *fds, size_t n)
{
	int highest = FIRST_FD - 1;

	for (size_t i = 0; i < n; i++)
		highest = fds[i] > highest ? fds[i] : highest;
	for (int fd = FIRST_FD; fd < highest; fd++) {
		bool is_kept = false;

		for (size_t i = 0; i < n; i++)
			is_kept |= fds[i] == fd;
		if (!is_kept)
			close(fd);
	}
	syscall(SYS_close_range, highest + 1, UINT32_MAX, 0);
}

pid_t side_process_fork(const char *name, const int *fds, size_t n)
{
	pid_t pid = fork();
	sigset_t all;

	if (pid != 0)
		return pid < 0 ? -errno : pid;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, name);
	close_others(fds, n);
	return 0;
}
