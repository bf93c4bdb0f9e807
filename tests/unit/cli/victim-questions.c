/*
 * A program about which every query of docs/database.md has something to say: two threads that
 * write to different bytes of one line, blocks that another thread frees, one that grows by
 * realloc, blocks that are freed at once or never, one that is read after it was freed, madvise,
 * and regions. Runs for about the seconds of CPU time that it is given.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "memsight.h"

#define N_KEPT	  200u
#define N_BYTES	  4000u
#define MAP_BYTES (1u << 20)

struct shared {
	volatile uint64_t counts[8]; /* one line; each thread has a word */
};

static struct shared *shared;
static void *kept[N_KEPT];
static double seconds;

static double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *count(void *number)
{
	volatile uint64_t *mine = &shared->counts[(uintptr_t)number];

	memsight_region_push("count");
	while (cpu_seconds() < seconds) {
		for (unsigned i = 0; i < 100000; i++)
			*mine += i;
	}
	memsight_region_pop("count");
	return NULL;
}

static void *free_all(void *unused)
{
	for (unsigned i = 0; i < N_KEPT; i += 2)
		free(kept[i]);
	return unused;
}

/* What no program should do: its block is no longer its own. */
static void read_freed(const volatile uint64_t *block)
{
	double end = cpu_seconds() + seconds / 4;

	while (cpu_seconds() < end) {
		for (unsigned i = 0; i < 100000; i++)
			shared->counts[0] += block[8];
	}
}

static void grow(void)
{
	char *text = NULL;

	for (size_t n = 1; n < 10; n++) {
		text = realloc(text, n * n * N_BYTES);
		text[n * n * N_BYTES - 1] = 'x';
	}
	free(text);
}

static void come_and_go(void)
{
	for (unsigned i = 0; i < 100; i++) {
		volatile char *block = malloc(N_BYTES);
		block[0] = 1;
		free((void *)block);
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[2], other;

	seconds = argc > 1 ? strtod(argv[1], NULL) : 0.1;
	shared = aligned_alloc(64, 64);
	memset(shared, 0, 64);
	for (unsigned i = 0; i < N_KEPT; i++) {
		kept[i] = malloc(N_BYTES);
		memset(kept[i], 1, N_BYTES);
	}
	grow();
	come_and_go();
	void *map =
		mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(map, 1, MAP_BYTES);
	madvise(map, MAP_BYTES, MADV_DONTNEED);
	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, count, (void *)i);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	pthread_create(&other, NULL, free_all, NULL);
	pthread_join(other, NULL);
	read_freed(kept[0]);
	printf("%llu\n", (unsigned long long)(shared->counts[0] & 1));
	return 0;
}
