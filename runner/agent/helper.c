#include "runner/agent/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "runner/processes/image-proc.h"
#include "schemas/recording.h"
#include "schemas/ring.h"

#define HELPER_NAME "memsight-agent"
#define PATIENCE_MS 1000

/*
 * However long it takes: who is asked has nothing else to do, and sees the end of who asks, which
 * may be stopped, and that of the recorder.
 */
static ssize_t receive(int fd, int news_fd, void *to, size_t n_bytes)
{
	struct pollfd polls[] = { { .fd = fd, .events = POLLIN },
				  { .fd = news_fd, .events = POLLIN } };

	while (poll(polls, 2, -1) < 0)
		if (errno != EINTR)
			return -errno;
	return polls[0].revents ? recv(fd, to, n_bytes, MSG_DONTWAIT) : -EPIPE;
}

static void answer(int fd, int32_t word)
{
	(void)!send(fd, &word, sizeof(word), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Who is it, and is it what it says? Whom the recorder started may be another user's (su). */
static bool is_allowed(int fd, const struct recording_static *question, pid_t recorder)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t n_bytes = sizeof(peer);

	return question->magic == RECORDING_STATIC_MAGIC && question->version == RING_VERSION &&
	       getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_bytes) == 0 &&
	       question->pid == (uint32_t)peer.pid && peer.pid > 1 &&
	       (peer.uid == geteuid() || image_descends_from(peer.pid, recorder));
}

/* Of who asks, or what that is by now. */
static void say_why(const struct inject *inject, pid_t pid, const char *why)
{
	struct inject_news news;

	snprintf(news.why, sizeof(news.why), "%s", why);
	inject_say(inject, pid, &news);
}

/* One who asks. The number that it says must be that of a thread of it. */
static void serve(const struct inject_order *order, int fd, pid_t recorder, int news_fd)
{
	struct recording_static question = { 0 };
	struct inject inject = { .news_fd = news_fd, .asks_fd = fd };
	char byte;

	if (receive(fd, news_fd, &question, sizeof(question)) != sizeof(question) ||
	    !is_allowed(fd, &question, recorder) ||
	    syscall(SYS_tgkill, question.pid, question.tid, 0) < 0)
		return;
	answer(fd, (int32_t)getpid());
	if (receive(fd, news_fd, &byte, 1) != 1 || byte != RECORDING_STATIC_IS_TRACED) {
		say_why(&inject, (pid_t)question.pid, "it was not answered in time");
		return;
	}
	inject.is_spawn = question.is_spawn;
	int r = inject_begin(&inject, (pid_t)question.tid);
	answer(fd, r);
	if (r == 0)
		inject_end(&inject, order);
	else
		say_why(&inject, (pid_t)question.pid, "ptrace is refused");
}

static void accept_one(const struct inject_order *order, int listen_fd, int news_fd)
{
	pid_t recorder = getppid();
	auto_close int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0 || side_process_fork(HELPER_NAME, (const int[]){ fd, news_fd }, 2) != 0)
		return;
	signal(SIGCHLD, SIG_DFL); /* or its own could not be waited for */
	serve(order, fd, recorder, news_fd);
	_exit(0);
}

static _Noreturn void run(const struct inject_order *order, const int listen_fds[2], int news_fd)
{
	struct pollfd polls[3];

	signal(SIGCHLD, SIG_IGN); /* children are not waited for */
	for (int i = 0; i < 2; i++)
		polls[i] = (struct pollfd){ .fd = listen_fds[i], .events = POLLIN };
	polls[2] = (struct pollfd){ .fd = news_fd, .events = POLLIN }; /* its end is ours */
	while (poll(polls, 3, -1) > 0 || errno == EINTR) {
		if (polls[2].revents)
			break;
		for (int i = 0; i < 2; i++)
			if (polls[i].revents)
				accept_one(order, listen_fds[i], news_fd);
	}
	_exit(0);
}

int helper_start(const struct inject_order *order, const int listen_fds[2],
		 struct side_process *ret_helper)
{
	pid_t pid = side_process_start(HELPER_NAME, listen_fds, 2, ret_helper);

	if (pid == 0)
		run(order, listen_fds, ret_helper->fd);
	return pid < 0 ? pid : 0;
}

/* Yama may let us trace the command once it has said so, which it does at its gate. */
static int seize(struct inject *inject, pid_t pid)
{
	int patience = image_ptrace_scope() == 1 ? PATIENCE_MS : 0, r = inject_begin(inject, pid);

	for (; r == -EPERM && patience > 0 && getppid() != 1; patience--) {
		usleep(1000);
		r = inject_begin(inject, pid);
	}
	return r;
}

static _Noreturn void put_into_command(const struct inject_order *order, pid_t pid, int fd)
{
	struct inject inject = { .news_fd = fd, .asks_fd = -1 };
	int32_t r = seize(&inject, pid);

	answer(fd, r);
	if (r == 0)
		inject_end(&inject, order);
	_exit(0);
}

int helper_trace(const struct inject_order *order, pid_t pid, struct side_process *ret_tracer)
{
	pid_t tracer = side_process_start(HELPER_NAME, NULL, 0, ret_tracer);

	if (tracer == 0)
		put_into_command(order, pid, ret_tracer->fd);
	return tracer < 0 ? tracer : 0;
}

int helper_traces(const struct side_process *tracer)
{
	int32_t word = -ESRCH;

	return io_receive(tracer->fd, &word, sizeof(word), 0, NULL) == sizeof(word) ? word : -ESRCH;
}

bool helper_hear(const struct side_process *helper, bool waits, struct inject_news *ret_news)
{
	return io_receive(helper->fd, ret_news, sizeof(*ret_news), waits ? 0 : MSG_DONTWAIT,
			  NULL) == sizeof(*ret_news);
}
