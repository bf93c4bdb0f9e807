/*
 * churn: what an allocation costs under a tracer. Each thread frees and allocates blocks of 16 to
 * 528 bytes in random slots of 1,000 live ones, through DEPTH nested calls.
 *
 *	churn [-t THREADS] [-n EVENTS of each thread] [-d DEPTH]
 *
 * Prints the events (calls of malloc and free) that it made in all, and the wall time of the loop.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 1000

struct worker {
	pthread_t thread;
	uint64_t n_events;
	uint64_t n_made;
	unsigned depth;
	uint64_t seed;
	void *slots[SLOTS];
};

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static __attribute__((noinline)) void replace(struct worker *worker)
{
	uint64_t random = next_random(&worker->seed);
	void **slot = &worker->slots[random % SLOTS];

	if (*slot) {
		free(*slot);
		worker->n_made++;
	}
	*slot = malloc(16 + (random >> 32) % 513);
	worker->n_made++;
	**(char **)slot = 1;
}

static __attribute__((noinline)) void descend(struct worker *worker, unsigned depth)
{
	if (depth > 1)
		descend(worker, depth - 1);
	else
		replace(worker);
	__asm__ volatile("" ::: "memory"); /* no tail call: each level is a frame */
}

static void *work(void *context)
{
	struct worker *worker = context;

	/* replace() is the innermost frame, work() the outermost of those that are counted. */
	while (worker->n_made < worker->n_events)
		descend(worker, worker->depth > 2 ? worker->depth - 2 : 1);
	for (size_t i = 0; i < SLOTS; i++) {
		if (worker->slots[i])
			worker->n_made++;
		free(worker->slots[i]);
	}
	return NULL;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	unsigned n_threads = 1, depth = 4;
	uint64_t n_events = 10000000, n_made = 0;
	int c;

	while ((c = getopt(argc, argv, "t:n:d:")) != -1) {
		if (c == 't')
			n_threads = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 'n')
			n_events = strtoull(optarg, NULL, 0);
		else if (c == 'd')
			depth = (unsigned)strtoul(optarg, NULL, 0);
		else
			return 2;
	}
	struct worker *workers = calloc(n_threads, sizeof(*workers));
	double start = now();
	for (unsigned i = 0; i < n_threads; i++) {
		workers[i].n_events = n_events;
		workers[i].depth = depth;
		workers[i].seed = 88172645463325252u + i;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			return 1;
	}
	for (unsigned i = 0; i < n_threads; i++) {
		pthread_join(workers[i].thread, NULL);
		n_made += workers[i].n_made;
	}
	double wall = now() - start;

	free(workers);
	printf("%llu events, %.6f s\n", (unsigned long long)n_made, wall);
	return 0;
}
