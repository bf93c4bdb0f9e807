/*
 * A program to be attached to. Threads churn, others wait in the kernel. On the word "mark" on its
 * standard input it makes 1,000 blocks of 4,321 bytes, gives 400 of them back, and says so; on
 * "old" it gives 100 blocks back that it made at its start; on "load FILE" it opens a library; on
 * "end" it looks whether what the threads have waited for came as it should, and whether the churn
 * was undisturbed, and ends.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>

#define N_CHURNING 3
#define N_KEPT	   64
#define N_MARKED   1000
#define N_FREED	   400
#define MARK_BYTES 4321

static atomic_bool is_over;
static atomic_int n_wrong;
static int wake_fd, pipe_fds[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void check(bool is_right, const char *what)
{
	if (is_right)
		return;
	printf("wrong: %s (errno %d)\n", what, errno);
	fflush(stdout);
	atomic_fetch_add(&n_wrong, 1);
}

static void *churn(void *pointer)
{
	unsigned seed = (unsigned)(size_t)pointer;
	unsigned char *kept[N_KEPT] = { NULL };
	size_t bytes[N_KEPT] = { 0 };
	double sum = 0.5;

	while (!atomic_load(&is_over)) {
		size_t i = (size_t)rand_r(&seed) % N_KEPT;

		if (kept[i] && (kept[i][0] != (unsigned char)i ||
				kept[i][bytes[i] - 1] != (unsigned char)bytes[i]))
			check(false, "a block was changed");
		free(kept[i]);
		bytes[i] = 8 + (size_t)rand_r(&seed) % 3000;
		errno = 77;
		kept[i] = malloc(bytes[i]);
		if (errno != 77)
			check(false, "errno was changed");
		kept[i][0] = (unsigned char)i;
		kept[i][bytes[i] - 1] = (unsigned char)bytes[i];
		sum = sum * 1.0000001 + 1e-9; /* vector registers */
	}
	check(sum > 0.4, "a sum");
	for (size_t i = 0; i < N_KEPT; i++)
		free(kept[i]);
	return NULL;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A thousand naps of a millisecond and more: each is as long as asked for, and not cut short. */
static void *nap(void *unused)
{
	while (!atomic_load(&is_over)) {
		struct timespec length = { .tv_nsec = 30000000 };
		double begin = seconds();

		check(nanosleep(&length, NULL) == 0, "nanosleep");
		check(seconds() - begin >= 0.0299, "nanosleep was too short");
	}
	return unused;
}

static void *wait_for_event(void *unused)
{
	int epoll_fd = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN };

	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event);
	check(epoll_wait(epoll_fd, &event, 1, -1) == 1, "epoll_wait");
	close(epoll_fd);
	return unused;
}

static void *wait_for_signal(void *unused)
{
	struct timespec length = { .tv_nsec = 40000000 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	while (!atomic_load(&is_over))
		check(sigtimedwait(&set, NULL, &length) == -1 && errno == EAGAIN, "sigtimedwait");
	return unused;
}

static void *wait_for_semaphore(void *unused)
{
	int id = semget(IPC_PRIVATE, 1, 0600);
	struct sembuf take = { 0, -1, 0 };
	struct timespec length = { .tv_nsec = 50000000 };

	while (!atomic_load(&is_over))
		check(semtimedop(id, &take, 1, &length) == -1 && errno == EAGAIN, "semtimedop");
	semctl(id, 0, IPC_RMID);
	return unused;
}

static void *wait_for_condition(void *unused)
{
	while (!atomic_load(&is_over)) {
		struct timespec until;
		double begin = seconds();

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 50000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_mutex_lock(&lock);
		check(pthread_cond_timedwait(&never, &lock, &until) == ETIMEDOUT, "condition");
		pthread_mutex_unlock(&lock);
		check(seconds() - begin >= 0.0498, "the condition came too early");
	}
	return unused;
}

static void *read_pipe(void *unused)
{
	char text[8] = "";

	check(read(pipe_fds[0], text, sizeof(text)) == 3 && memcmp(text, "end", 3) == 0, "read");
	return unused;
}

static void mark(void)
{
	static void *blocks[N_MARKED];

	for (int i = 0; i < N_MARKED; i++)
		blocks[i] = malloc(MARK_BYTES);
	for (int i = 0; i < N_FREED; i++)
		free(blocks[i]);
	printf("marked\n");
}

static void open_library(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW);
	void (*make)(int) = NULL;
	void *found = handle ? dlsym(handle, "make_blocks") : NULL;

	memcpy(&make, &found, sizeof(found));
	check(make != NULL, "dlopen");
	if (make)
		make(N_MARKED);
	printf("loaded\n");
}

/* Blocks that were there before anybody attached. */
static void give_back(void *blocks[100])
{
	for (int i = 0; i < 100; i++)
		free(blocks[i]);
	printf("given back\n");
}

int main(void)
{
	static void *(*const runs[])(void *) = {
		nap,	  wait_for_event, wait_for_signal, wait_for_semaphore, wait_for_condition,
		read_pipe
	};
	enum { N_RUNS = sizeof(runs) / sizeof(*runs) };
	pthread_t threads[N_CHURNING + N_RUNS];
	void *old[100];
	sigset_t set;
	char line[4096];

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	wake_fd = eventfd(0, 0);
	if (pipe(pipe_fds) < 0)
		return 1;
	for (int i = 0; i < 100; i++)
		old[i] = malloc(777);
	for (size_t i = 0; i < N_CHURNING; i++)
		pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
	for (size_t i = 0; i < N_RUNS; i++)
		pthread_create(&threads[N_CHURNING + i], NULL, runs[i], NULL);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "mark") == 0)
			mark();
		else if (strncmp(line, "load ", 5) == 0)
			open_library(line + 5);
		else if (strcmp(line, "old") == 0)
			give_back(old);
		else if (strcmp(line, "end") == 0)
			break;
		fflush(stdout);
	}
	atomic_store(&is_over, true);
	eventfd_write(wake_fd, 1);
	check(write(pipe_fds[1], "end", 3) == 3, "write");
	for (size_t i = 0; i < N_CHURNING + N_RUNS; i++)
		pthread_join(threads[i], NULL);
	printf("%d wrong\n", atomic_load(&n_wrong));
	return atomic_load(&n_wrong) > 0;
}
