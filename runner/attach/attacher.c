#include "runner/attach/attacher.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "runner/launch/side-process.h"

enum wish {
	WISH_ENTER,
	WISH_LEAVE,
};

/* A file descriptor beside a message. */
union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static int send_outcome(int fd, struct attach_outcome *outcome)
{
	struct iovec part = { outcome, sizeof(*outcome) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	union control control = { .head = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };

	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.head), &outcome->blocks_fd, sizeof(int));
	if (outcome->blocks_fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

#define LEAVE_TRIES 5

/*
 * A program that is not entered runs on as before; one that is not left has our library at work.
 * So more time is given to that: on a busy machine a thread may get no CPU for seconds.
 */
static int leave(const struct attach_order *order, struct attach_outcome *ret_outcome)
{
	int r = -ETIMEDOUT;

	for (int i = 0; i < LEAVE_TRIES && r == -ETIMEDOUT; i++)
		r = attach_leave(order, ret_outcome);
	return r;
}

static _Noreturn void serve(const struct attach_order *order, int fd)
{
	struct attach_outcome outcome;
	struct family family = { .root = 0 };
	bool is_inside = false;
	size_t n_left;
	enum wish wish;
	ssize_t n;
	int r;

	for (;;) {
		n = recv(fd, &wish, sizeof(wish), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(wish))
			break;
		if (wish == WISH_ENTER) {
			is_inside = attach_enter(order, &outcome) == 0;
			family = outcome.family;
		} else {
			is_inside = leave(order, &outcome) < 0 && is_inside;
		}
		r = send_outcome(fd, &outcome);
		cleanup_close(&outcome.blocks_fd);
		if (r < 0)
			break;
	}
	if (is_inside)
		leave(order, &outcome);
	/* It may be gone, or have been left by others: they live on. */
	attach_leave_family(&family, order->timeout_ns, &n_left);
	_exit(0);
}

int attacher_start(const struct attach_order *order, struct attacher *ret_attacher)
{
	int fds[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	auto_close int ours = fds[0], theirs = fds[1];

	pid = side_process_fork(ATTACHER_NAME, &theirs, 1);
	if (pid < 0)
		return pid;
	if (pid == 0)
		serve(order, theirs);
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
	union control control = { .head = { .cmsg_len = 0 } };
	struct iovec part = { ret_outcome, sizeof(*ret_outcome) };
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;

	do {
		n = recvmsg(attacher->fd, &message, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(*ret_outcome))
		return -EPIPE;
	ret_outcome->blocks_fd = -1;
	if (message.msg_controllen >= CMSG_LEN(sizeof(int)))
		memcpy(&ret_outcome->blocks_fd, CMSG_DATA(&control.head), sizeof(int));
	return 0;
}

int attacher_status(struct attacher *attacher)
{
	int status = -1;
	pid_t pid;

	do {
		pid = attacher->pid > 0 ? waitpid(attacher->pid, &status, 0) : -1;
	} while (attacher->pid > 0 && pid < 0 && errno == EINTR);
	attacher->pid = -1;
	return pid > 0 ? status : -1;
}

void attacher_finish(struct attacher *attacher)
{
	cleanup_close(&attacher->fd);
	attacher_status(attacher);
	*attacher = ATTACHER_CLOSED;
}
