/*
 * churn: what an allocation costs under a tracer. Each thread frees and allocates blocks of 16 to
 * 528 bytes in random slots of 1,000 live ones, through DEPTH nested calls, or each time by a
 * random one of STACKS distinct paths of 4 to 40 frames.
 *
 *	churn [-p] [-t THREADS] [-n EVENTS of each thread] [-d DEPTH | -s STACKS]
 *
 * -p: recording is paused meanwhile.
 *
 * Prints the events (calls of malloc and free) that it made in all, the wall time of the loop, and
 * the CPU time of the process.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "include/memsight.h"

#define SLOTS	   1000
#define MIN_FRAMES 4
#define MAX_FRAMES 40
#define OUTER	   2 /* replace() and work() are frames of each path */

/* A way to replace(): which of the functions calls which. */
struct path {
	uint32_t n;
	uint8_t turns[MAX_FRAMES];
};

struct worker {
	pthread_t thread;
	uint64_t n_events;
	uint64_t n_made;
	unsigned depth;
	uint64_t seed;
	const struct path *paths;
	uint64_t n_paths;
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

static void follow(struct worker *worker, const struct path *path, unsigned at);

/* A function of its own frame size that goes on from one of four places. */
#define TURN(i)                                                                                    \
	static __attribute__((noinline)) void turn##i(struct worker *worker,                       \
						      const struct path *path, unsigned at)        \
	{                                                                                          \
		volatile char bytes[8 + 16 * (i)];                                                 \
                                                                                                   \
		bytes[0] = 0;                                                                      \
		switch (path->turns[at] / 16) {                                                    \
		case 0:                                                                            \
			follow(worker, path, at + 1);                                              \
			__asm__ volatile("" ::: "memory");                                         \
			break;                                                                     \
		case 1:                                                                            \
			follow(worker, path, at + 1);                                              \
			__asm__ volatile("nop" ::: "memory");                                      \
			break;                                                                     \
		case 2:                                                                            \
			follow(worker, path, at + 1);                                              \
			__asm__ volatile("nop; nop" ::: "memory");                                 \
			break;                                                                     \
		default:                                                                           \
			follow(worker, path, at + 1);                                              \
			__asm__ volatile("nop; nop; nop" ::: "memory");                            \
			break;                                                                     \
		}                                                                                  \
		(void)bytes[0];                                                                    \
	}
TURN(0)
TURN(1)
TURN(2)
TURN(3)
TURN(4)
TURN(5)
TURN(6)
TURN(7)
TURN(8)
TURN(9)
TURN(10)
TURN(11)
TURN(12)
TURN(13)
TURN(14)
TURN(15)

/* No frame of its own: always part of its callers. */
static inline __attribute__((always_inline)) void follow(struct worker *worker,
							 const struct path *path, unsigned at)
{
	static void (*const turns[16])(struct worker *, const struct path *, unsigned) = {
		turn0, turn1, turn2,  turn3,  turn4,  turn5,  turn6,  turn7,
		turn8, turn9, turn10, turn11, turn12, turn13, turn14, turn15,
	};

	if (at == path->n)
		replace(worker);
	else
		turns[path->turns[at] % 16](worker, path, at);
}

/* Of 1,000 one or two of the shortest may be equal. */
static struct path *make_paths(uint64_t n)
{
	struct path *paths = calloc(n, sizeof(*paths));
	uint64_t seed = 88172645463325252u;

	for (uint64_t i = 0; paths && i < n; i++) {
		paths[i].n = (uint32_t)(MIN_FRAMES - OUTER +
					next_random(&seed) % (MAX_FRAMES - MIN_FRAMES + 1));
		for (uint32_t k = 0; k < paths[i].n; k++)
			paths[i].turns[k] = (uint8_t)(next_random(&seed) >> 32) % 64;
	}
	return paths;
}

static void *work(void *context)
{
	struct worker *worker = context;

	/* replace() is the innermost frame, work() the outermost of those that are counted. */
	while (worker->n_made < worker->n_events) {
		if (worker->n_paths)
			follow(worker, &worker->paths[next_random(&worker->seed) % worker->n_paths],
			       0);
		else
			descend(worker, worker->depth > 2 ? worker->depth - 2 : 1);
	}
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
	uint64_t n_events = 10000000, n_made = 0, n_paths = 0;
	int c;

	while ((c = getopt(argc, argv, "pt:n:d:s:")) != -1) {
		if (c == 't')
			n_threads = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 'n')
			n_events = strtoull(optarg, NULL, 0);
		else if (c == 'd')
			depth = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 'p')
			memsight_pause();
		else if (c == 's')
			n_paths = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	struct worker *workers = calloc(n_threads, sizeof(*workers));
	struct path *paths = n_paths ? make_paths(n_paths) : NULL;
	double start = now();
	for (unsigned i = 0; i < n_threads; i++) {
		workers[i].n_events = n_events;
		workers[i].depth = depth;
		workers[i].paths = paths;
		workers[i].n_paths = n_paths;
		workers[i].seed = 88172645463325252u + i;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			return 1;
	}
	for (unsigned i = 0; i < n_threads; i++) {
		pthread_join(workers[i].thread, NULL);
		n_made += workers[i].n_made;
	}
	double wall = now() - start;

	free(paths);
	free(workers);
	struct timespec cpu = { 0 };
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	printf("%llu events, %.6f s, %.6f s of CPU time\n", (unsigned long long)n_made, wall,
	       (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
	return 0;
}
