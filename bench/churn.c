/*
 * churn: what an allocation costs under a tracer. Each thread frees and allocates blocks of 16 to
 * 528 bytes in random slots of 1,000 live ones, through DEPTH nested calls, or each time by a
 * random one of STACKS distinct paths of 4 to 40 frames.
 *
 *	churn [-p] [-t THREADS] [-n EVENTS of each thread] [-d DEPTH | -s STACKS] [-b BYTES]
 *	      [-r MIB] [-w SECONDS]
 *
 * -p: recording is paused meanwhile. -b: blocks of 16 to BYTES + 15. -r: no faster than so many
 * MiB a second, all threads together. -w: again and again with new threads until then.
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
	uint64_t n_sizes;
	uint64_t n_bytes;
	double bytes_per_second; /* 0: as fast as it can */
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
	size_t n_bytes = 16 + (random >> 32) % worker->n_sizes;
	*slot = malloc(n_bytes);
	worker->n_bytes += n_bytes;
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

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Sleep until so many bytes are due. */
static void pace(const struct worker *worker, double start)
{
	double left = start + (double)worker->n_bytes / worker->bytes_per_second - now();
	struct timespec t = { .tv_sec = (time_t)left };

	if (left < 0.001)
		return;
	t.tv_nsec = (long)((left - (double)t.tv_sec) * 1e9);
	nanosleep(&t, NULL);
}

static void *work(void *context)
{
	struct worker *worker = context;
	double start = now();

	/* replace() is the innermost frame, work() the outermost of those that are counted. */
	while (worker->n_made < worker->n_events) {
		if (worker->n_paths)
			follow(worker, &worker->paths[next_random(&worker->seed) % worker->n_paths],
			       0);
		else
			descend(worker, worker->depth > 2 ? worker->depth - 2 : 1);
		if (worker->bytes_per_second > 0 && worker->n_made % 64 < 2)
			pace(worker, start);
	}
	for (size_t i = 0; i < SLOTS; i++) {
		if (worker->slots[i])
			worker->n_made++;
		free(worker->slots[i]);
	}
	return NULL;
}

/* All threads once; returns the events that they made. */
static uint64_t work_once(struct worker *workers, unsigned n_threads)
{
	uint64_t n_made = 0;

	for (unsigned i = 0; i < n_threads; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			exit(1);
	for (unsigned i = 0; i < n_threads; i++) {
		pthread_join(workers[i].thread, NULL);
		n_made += workers[i].n_made;
	}
	return n_made;
}

int main(int argc, char **argv)
{
	struct worker usual = { .n_events = 10000000, .n_sizes = 513, .depth = 4 };
	unsigned n_threads = 1;
	uint64_t n_made = 0;
	double seconds = 0;
	int c;

	while ((c = getopt(argc, argv, "pt:n:d:s:b:r:w:")) != -1) {
		if (c == 't')
			n_threads = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 'n')
			usual.n_events = strtoull(optarg, NULL, 0);
		else if (c == 'd')
			usual.depth = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 'p')
			memsight_pause();
		else if (c == 's')
			usual.n_paths = strtoull(optarg, NULL, 0);
		else if (c == 'b')
			usual.n_sizes = strtoull(optarg, NULL, 0);
		else if (c == 'r')
			usual.bytes_per_second = strtod(optarg, NULL) * 1048576;
		else if (c == 'w')
			seconds = strtod(optarg, NULL);
		else
			return 2;
	}
	if (n_threads == 0 || usual.n_sizes == 0)
		return 2;
	struct worker *workers = calloc(n_threads, sizeof(*workers));
	struct path *paths = usual.n_paths ? make_paths(usual.n_paths) : NULL;
	double start = now();
	usual.paths = paths;
	usual.bytes_per_second /= n_threads;
	do {
		for (unsigned i = 0; i < n_threads; i++) {
			workers[i] = usual;
			workers[i].seed = 88172645463325252u + n_made + i;
		}
		n_made += work_once(workers, n_threads);
	} while (now() - start < seconds);
	double wall = now() - start;

	free(paths);
	free(workers);
	struct timespec cpu = { 0 };
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	printf("%llu events, %.6f s, %.6f s of CPU time\n", (unsigned long long)n_made, wall,
	       (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
	return 0;
}
