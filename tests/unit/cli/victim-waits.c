/*
 * A program whose threads wait for SECONDS (its argument), each in another system call with a
 * timeout, or without one until the first thread ends the wait. Prints a line for each: its name,
 * what came of it ("right", or an errno), and how many seconds it took.
 */
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

static struct timespec span;
static int queue, watch_fd, semaphore, sockets[2];
static char folder[] = "/tmp/victim-waits.XXXXXX";

static int wait_ms(void)
{
	return (int)(span.tv_sec * 1000);
}

static bool by_epoll(void)
{
	struct epoll_event event;

	return epoll_wait(epoll_create1(0), &event, 1, wait_ms()) == 0;
}

static bool by_epoll_pwait(void)
{
	struct epoll_event event;
	sigset_t none;

	sigemptyset(&none);
	return epoll_pwait(epoll_create1(0), &event, 1, wait_ms(), &none) == 0;
}

static bool by_epoll_pwait2(void)
{
	struct epoll_event event;

	return syscall(SYS_epoll_pwait2, epoll_create1(0), &event, 1, &span, NULL, 0) == 0 ||
	       errno == ENOSYS;
}

static bool by_semaphore(void)
{
	struct sembuf take = { 0, -1, 0 };

	return semtimedop(semaphore, &take, 1, &span) == -1 && errno == EAGAIN;
}

static bool by_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &span) == -1 && errno == EAGAIN;
}

static bool by_io(void)
{
	aio_context_t context = 0;
	struct io_event event;
	struct timespec copy = span;

	if (syscall(SYS_io_setup, 1, &context) < 0)
		return errno == ENOSYS || errno == EAGAIN;
	return syscall(SYS_io_getevents, context, 1, 1, &event, &copy) == 0 &&
	       copy.tv_sec == span.tv_sec;
}

static bool by_sleep(void)
{
	return nanosleep(&span, NULL) == 0;
}

static bool by_clock(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += span.tv_sec;
	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0;
}

static bool by_futex(void)
{
	uint32_t word = 1;

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &span, NULL, 0) == -1 &&
	       errno == ETIMEDOUT;
}

static bool by_poll(void)
{
	return poll(NULL, 0, wait_ms()) == 0;
}

static bool by_select(void)
{
	struct timeval time = { .tv_sec = span.tv_sec };

	return select(0, NULL, NULL, NULL, &time) == 0;
}

static bool by_socket(void)
{
	struct timeval time = { .tv_sec = span.tv_sec };
	char byte;

	setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
	return recv(sockets[0], &byte, 1, 0) == -1 && errno == EAGAIN;
}

static bool by_message(void)
{
	struct {
		long type;
		char text[8];
	} message;

	return msgrcv(queue, &message, sizeof(message.text), 0, 0) == 4;
}

static bool by_inotify(void)
{
	char events[4096];

	return read(watch_fd, events, sizeof(events)) > 0;
}

static const struct way {
	const char *name;
	bool (*wait)(void);
} ways[] = {
	{ "epoll_wait", by_epoll },
	{ "epoll_pwait", by_epoll_pwait },
	{ "epoll_pwait2", by_epoll_pwait2 },
	{ "semtimedop", by_semaphore },
	{ "sigtimedwait", by_signal },
	{ "io_getevents", by_io },
	{ "nanosleep", by_sleep },
	{ "clock_nanosleep", by_clock },
	{ "futex", by_futex },
	{ "poll", by_poll },
	{ "select", by_select },
	{ "recv", by_socket },
	{ "msgrcv", by_message },
	{ "inotify", by_inotify },
};

#define N_WAYS (sizeof(ways) / sizeof(*ways))

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *wait_so(void *pointer)
{
	const struct way *way = pointer;
	double begin = seconds();
	bool is_right = way->wait();
	int error = errno;

	printf("%s %s %.3f\n", way->name, is_right ? "right" : strerror(error), seconds() - begin);
	return NULL;
}

static void end_waits(void)
{
	struct {
		long type;
		char text[8];
	} message = { 1, "end" };
	char path[64];

	nanosleep(&span, NULL);
	msgsnd(queue, &message, 4, 0);
	snprintf(path, sizeof(path), "%s/made", folder);
	fclose(fopen(path, "w"));
	unlink(path);
}

int main(int argc, char **argv)
{
	pthread_t threads[N_WAYS];
	sigset_t set;

	span.tv_sec = argc > 1 ? atoi(argv[1]) : 1;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	queue = msgget(IPC_PRIVATE, 0600);
	semaphore = semget(IPC_PRIVATE, 1, 0600);
	watch_fd = inotify_init1(IN_CLOEXEC);
	if (!mkdtemp(folder) || inotify_add_watch(watch_fd, folder, IN_CREATE) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) < 0)
		return 1;
	for (size_t i = 0; i < N_WAYS; i++)
		pthread_create(&threads[i], NULL, wait_so, (void *)&ways[i]);
	puts("they wait");
	fflush(stdout);
	end_waits();
	for (size_t i = 0; i < N_WAYS; i++)
		pthread_join(threads[i], NULL);
	msgctl(queue, IPC_RMID, NULL);
	semctl(semaphore, 0, IPC_RMID);
	rmdir(folder);
	return 0;
}
