#include "runner/launch/side-process.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"

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

pid_t side_process_start(const char *name, const int *fds, size_t n,
			 struct side_process *ret_process)
{
	int ends[2], kept[3] = { -1, -1, -1 };

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	auto_close int theirs = ends[0], ours = ends[1];

	for (size_t i = 0; i < n; i++)
		kept[i] = fds[i];
	kept[n] = theirs;
	pid_t pid = side_process_fork(name, kept, n + 1);
	if (pid >= 0)
		*ret_process = (struct side_process){ pid, steal_fd(pid ? &ours : &theirs) };
	if (pid == 0)
		ours = -1; /* closed already */
	return pid;
}

int side_process_status(struct side_process *process)
{
	int status = -1;
	pid_t pid = process->pid > 0 ? TEMP_FAILURE_RETRY(waitpid(process->pid, &status, 0)) : -1;

	process->pid = -1;
	return pid > 0 ? status : -1;
}

void side_process_finish(struct side_process *process)
{
	cleanup_close(&process->fd);
	side_process_status(process);
	*process = SIDE_PROCESS_CLOSED;
}
