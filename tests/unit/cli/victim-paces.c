/*
 * Spins for so many ms of CPU time in each of its threads, twice: between the two it waits for a
 * file. Arguments: threads, ms, the file. Prints a line when it begins to wait, and at the end the
 * CPU time of all threads in both halves, in ns.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static uint64_t span_ns;
static _Atomic uint64_t spent_ns[2];
static pthread_barrier_t barrier;

static uint64_t own_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The clock is a system call: asked seldom, so that the time is user time. */
static void spin(int half)
{
	uint64_t begin = own_ns(), now = begin;

	while (now - begin < span_ns) {
		for (int i = 0; i < 200000; i++)
			__asm__ volatile("" : : "r"(i));
		now = own_ns();
	}
	spent_ns[half] += now - begin;
}

static void *run(void *unused)
{
	spin(0);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	spin(1);
	return unused;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 3 ? (unsigned)atoi(argv[1]) : 0;
	const struct timespec moment = { .tv_nsec = 5000000 };
	pthread_t threads[16];

	if (n == 0 || n > 16)
		return 2;
	span_ns = strtoull(argv[2], NULL, 10) * 1000000;
	pthread_barrier_init(&barrier, NULL, n + 1);
	for (unsigned i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	pthread_barrier_wait(&barrier);
	puts("waits");
	fflush(stdout);
	while (access(argv[3], F_OK) != 0)
		nanosleep(&moment, NULL);
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("%llu %llu\n", (unsigned long long)spent_ns[0], (unsigned long long)spent_ns[1]);
	return 0;
}
