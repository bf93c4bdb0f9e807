#include "runner/agent/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "runner/processes/image-proc.h"
#include "schemas/recording.h"
#include "schemas/ring.h"

#define FIRST_FD    3
#define PATIENCE_MS 1000
#define MAX_DEPTH   64

/* Nothing of the recorder's may stay open for our sake: its lock says that it lives. */
static void close_others(const int *kept, size_t n)
{
	int highest = 0;

	for (size_t i = 0; i < n; i++)
		highest = kept[i] > highest ? kept[i] : highest;
	for (int fd = FIRST_FD; fd < highest; fd++) {
		bool is_kept = false;

		for (size_t i = 0; i < n; i++)
			is_kept |= kept[i] == fd;
		if (!is_kept)
			close(fd);
	}
	syscall(SYS_close_range, highest + 1, UINT32_MAX, 0);
}

static ssize_t receive(int fd, void *to, size_t n_bytes)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	if (poll(&poll_fd, 1, PATIENCE_MS) <= 0)
		return -ETIMEDOUT;
	return recv(fd, to, n_bytes, MSG_DONTWAIT);
}

static void answer(int fd, int32_t word)
{
	(void)!send(fd, &word, sizeof(word), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Did the recorder start it, be it by others? So may one of another user be (su, setpriv). */
static bool is_below(pid_t pid, pid_t recorder)
{
	for (int depth = 0; pid > 1 && depth < MAX_DEPTH; depth++) {
		pid = image_parent_pid(pid);
		if (pid == recorder)
			return true;
	}
	return false;
}

/* Who is it, and is it what it says? */
static bool is_allowed(int fd, const struct recording_static *question, pid_t recorder)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t n_bytes = sizeof(peer);

	return question->magic == RECORDING_STATIC_MAGIC && question->version == RING_VERSION &&
	       getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_bytes) == 0 &&
	       question->pid == (uint32_t)peer.pid && peer.pid > 1 &&
	       (peer.uid == geteuid() || is_below(peer.pid, recorder));
}

/* One who asks. The number that it says must be that of a thread of it. */
static void serve(const struct inject_order *order, int fd, pid_t recorder)
{
	struct recording_static question = { 0 };
	struct inject inject = { .asks_fd = fd };
	char byte, unused[INJECT_MESSAGE_BYTES] = "";
	int r;

	if (receive(fd, &question, sizeof(question)) != sizeof(question) ||
	    !is_allowed(fd, &question, recorder) ||
	    syscall(SYS_tgkill, question.pid, question.tid, 0) < 0)
		return;
	answer(fd, (int32_t)getpid());
	if (receive(fd, &byte, 1) != 1 || byte != RECORDING_STATIC_IS_TRACED)
		return;
	inject.is_spawn = question.is_spawn;
	r = inject_begin(&inject, (pid_t)question.tid);
	answer(fd, r);
	if (r == 0)
		inject_end(&inject, order, unused);
}

static void accept_one(const struct inject_order *order, int listen_fd)
{
	pid_t recorder = getppid();
	auto_close int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0 && fork() == 0) {
		signal(SIGCHLD, SIG_DFL); /* or its own could not be waited for */
		close_others(&fd, 1);
		serve(order, fd, recorder);
		_exit(0);
	}
}

static _Noreturn void run(const struct inject_order *order, const int fds[3])
{
	struct pollfd polls[3];

	prctl(PR_SET_NAME, "memsight-agent");
	signal(SIGCHLD, SIG_IGN); /* children are not waited for */
	close_others(fds, 3);
	for (int i = 0; i < 3; i++)
		polls[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	while (poll(polls, 3, -1) > 0 || errno == EINTR) {
		if (polls[2].revents)
			break;
		for (int i = 0; i < 2; i++)
			if (polls[i].revents)
				accept_one(order, fds[i]);
	}
	_exit(0);
}

int helper_start(const struct inject_order *order, const int listen_fds[2],
		 struct helper *ret_helper)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	auto_close int theirs = ends[0], ours = ends[1];

	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		sigset_t all;

		/* Ctrl-C is for the recorder. */
		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, NULL);
		run(order, (const int[]){ listen_fds[0], listen_fds[1], theirs });
	}
	*ret_helper = (struct helper){ .pid = pid, .fd = steal_fd(&ours) };
	return 0;
}

void helper_finish(struct helper *helper)
{
	cleanup_close(&helper->fd);
	if (helper->pid > 0)
		while (waitpid(helper->pid, NULL, 0) < 0 && errno == EINTR)
			continue;
	*helper = HELPER_CLOSED;
}
