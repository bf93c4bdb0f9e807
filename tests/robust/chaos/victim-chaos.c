/*
 * Works until a time has passed, and says in a shared file how far each of its threads is, so that
 * after a kill of whatever it is known what a trace must hold:
 *
 * 	victim-chaos PROGRESS MILLISECONDS [REST]
 *
 * Each thread rests for some microseconds (1,000) behind every 100 blocks.
 * Block number i of thread t has STEP * (t + 1) + i % STEP bytes: the sizes of a thread's blocks in
 * the order of their births tell each one that is missing. PROGRESS is an array of 64-bit counts:
 * one per thread of blocks that malloc returned, then the number of forked children that ended;
 * each child makes CHILD_BLOCKS blocks as the last thread's successor. Ends with status 7, and
 * prints the sums.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEP	     4096
#define N_THREADS    3
#define N_KEPT	     64
#define CHILD_BLOCKS 500
#define N_COUNTS     (N_THREADS + 1)

struct worker {
	_Atomic uint64_t *n_made;
	uint64_t number;
	uint64_t end_ns;
	long rest_ns;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void rest(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static void make(const struct worker *worker, uint64_t i, char **kept)
{
	size_t size = STEP * (worker->number + 1) + i % STEP;

	free(kept[i % N_KEPT]);
	kept[i % N_KEPT] = malloc(size);
	kept[i % N_KEPT][size - 1] = (char)i;
	if (worker->n_made)
		atomic_store(worker->n_made, i + 1);
}

/* At most 100,000 blocks a second, so that a recorder on a busy machine keeps up. */
static void *work(void *argument)
{
	const struct worker *worker = argument;
	char *kept[N_KEPT] = { 0 };

	for (uint64_t i = 0; now_ns() < worker->end_ns; i++) {
		make(worker, i, kept);
		if (i % 100 == 99)
			rest(worker->rest_ns);
	}
	for (int i = 0; i < N_KEPT; i++)
		free(kept[i]);
	return NULL;
}

static void run_child(void)
{
	const struct worker worker = { .number = N_THREADS };
	char *kept[N_KEPT] = { 0 };

	for (uint64_t i = 0; i < CHILD_BLOCKS; i++)
		make(&worker, i, kept);
	_exit(0);
}

static void fork_children(_Atomic uint64_t *n_ended, uint64_t end_ns)
{
	while (now_ns() < end_ns) {
		pid_t child = fork();
		if (child == 0)
			run_child();
		if (child > 0 && waitpid(child, NULL, 0) == child)
			atomic_fetch_add(n_ended, 1);
		rest(100000000);
	}
}

static _Atomic uint64_t *map_counts(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, N_COUNTS * sizeof(uint64_t)) < 0)
		return NULL;
	void *counts =
		mmap(NULL, N_COUNTS * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return counts == MAP_FAILED ? NULL : counts;
}

/* Past stdio, which would allocate. */
static void say(uint64_t count)
{
	char line[32];
	int n = snprintf(line, sizeof(line), "%llu\n", (unsigned long long)count);

	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		abort();
}

int main(int argc, char **argv)
{
	_Atomic uint64_t *counts = argc == 3 || argc == 4 ? map_counts(argv[1]) : NULL;
	long rest_ns = argc == 4 ? strtol(argv[3], NULL, 10) * 1000 : 1000000;
	struct worker workers[N_THREADS];
	pthread_t threads[N_THREADS];

	if (!counts)
		return 2;
	uint64_t end_ns = now_ns() + strtoull(argv[2], NULL, 10) * 1000000;
	for (uint64_t i = 0; i < N_THREADS; i++) {
		workers[i] = (struct worker){ &counts[i], i, end_ns, rest_ns };
		if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
			return 3;
	}
	fork_children(&counts[N_THREADS], end_ns);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < N_COUNTS; i++)
		say(atomic_load(&counts[i]));
	return 7;
}
