#include "runner/attach/attacher.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"

enum wish {
	WISH_ENTER,
	WISH_LEAVE,
};

#define FIRST_FD 3

/* Nothing of the recorder's may stay open for our sake: its lock says that it lives. */
static void close_others(int fd)
{
	if (fd > FIRST_FD)
		syscall(SYS_close_range, FIRST_FD, fd - 1, 0);
	syscall(SYS_close_range, fd + 1, UINT32_MAX, 0);
}

static _Noreturn void serve(const struct attach_order *order, int fd)
{
	struct attach_outcome outcome;
	bool is_inside = false;
	enum wish wish;
	ssize_t n;

	close_others(fd);
	prctl(PR_SET_NAME, "memsight-attach");
	for (;;) {
		n = recv(fd, &wish, sizeof(wish), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(wish))
			break;
		if (wish == WISH_ENTER)
			is_inside = attach_enter(order, &outcome) == 0;
		else
			is_inside = attach_leave(order->pid, order->timeout_ns, &outcome) < 0 &&
				    is_inside;
		if (send(fd, &outcome, sizeof(outcome), MSG_NOSIGNAL) < 0)
			break;
	}
	if (is_inside)
		attach_leave(order->pid, order->timeout_ns, &outcome);
	_exit(0);
}

int attacher_start(const struct attach_order *order, struct attacher *ret_attacher)
{
	int fds[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	auto_close int ours = fds[0], theirs = fds[1];

	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		sigset_t all;

		/* Ctrl-C is for the recorder. */
		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, NULL);
		serve(order, theirs);
	}
	*ret_attacher = (struct attacher){ .pid = pid, .fd = steal_fd(&ours) };
	return 0;
}

static int wish_for(struct attacher *attacher, enum wish wish)
{
	return send(attacher->fd, &wish, sizeof(wish), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int attacher_enter(struct attacher *attacher)
{
	return wish_for(attacher, WISH_ENTER);
}

int attacher_leave(struct attacher *attacher)
{
	attacher->is_asked = true;
	return wish_for(attacher, WISH_LEAVE);
}

int attacher_take(struct attacher *attacher, struct attach_outcome *ret_outcome)
{
	ssize_t n;

	do {
		n = recv(attacher->fd, ret_outcome, sizeof(*ret_outcome), 0);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*ret_outcome) ? 0 : -EPIPE;
}

void attacher_finish(struct attacher *attacher)
{
	cleanup_close(&attacher->fd);
	if (attacher->pid > 0)
		while (waitpid(attacher->pid, NULL, 0) < 0 && errno == EINTR)
			continue;
	*attacher = ATTACHER_CLOSED;
}
