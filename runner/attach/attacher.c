#include "runner/attach/attacher.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"

enum wish {
	WISH_ENTER,
	WISH_LEAVE,
};

static int send_outcome(int fd, const struct attach_outcome *outcome)
{
	return io_send(fd,
		       &(struct io_message){ outcome,
					     sizeof(*outcome),
					     { outcome->blocks_fd },
					     outcome->blocks_fd >= 0 },
		       0);
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
	int r;

	for (;;) {
		if (io_receive(fd, &wish, sizeof(wish), 0, NULL) != sizeof(wish))
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
	struct attacher attacher = ATTACHER_CLOSED;
	pid_t pid = side_process_start(ATTACHER_NAME, NULL, 0, &attacher.process);

	if (pid < 0)
		return pid;
	if (pid == 0)
		serve(order, attacher.process.fd);
	*ret_attacher = attacher;
	return 0;
}

static int wish_for(struct attacher *attacher, enum wish wish)
{
	return send(attacher->process.fd, &wish, sizeof(wish), MSG_NOSIGNAL) < 0 ? -errno : 0;
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
	int blocks_fd;
	ssize_t n =
		io_receive(attacher->process.fd, ret_outcome, sizeof(*ret_outcome), 0, &blocks_fd);

	if (n != (ssize_t)sizeof(*ret_outcome))
		return -EPIPE;
	ret_outcome->blocks_fd = blocks_fd;
	return 0;
}
