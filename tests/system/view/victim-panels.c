/*
 * What the panels beside the picture must show: known numbers of blocks and bytes by functions with
 * telling names, in phases that regions and a mark tell of.
 *
 *   load:   allocate_small, 1,000 blocks of 100 bytes, all freed before the next phase
 *   middle: a mark, and 70 blocks of 64 bytes from as many depths of nest(), all freed
 *   solve:  allocate_big, 3 blocks of 1 MiB, written and read; the last one is never freed
 *
 * Arguments: ms that each of load and solve takes; how many small blocks, where not 1,000.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "include/memsight.h"

enum {
	N_SMALL = 1000,
	SMALL_BYTES = 100,
	N_NESTED = 70,
	NESTED_BYTES = 64,
	N_BIG = 3,
	BIG_BYTES = 1 << 20
};

static char *small_blocks[8 * N_SMALL];
static void *nested_blocks[N_NESTED];

static __attribute__((noinline)) char *allocate_small(void)
{
	return malloc(SMALL_BYTES);
}

static __attribute__((noinline)) uint64_t *allocate_big(void)
{
	return malloc(BIG_BYTES);
}

/* Each depth is a call stack of its own. */
static __attribute__((noinline)) int nest(int depth)
{
	nested_blocks[depth] = malloc(NESTED_BYTES);
	int more = depth + 1 < N_NESTED ? nest(depth + 1) : 0;

	return more + 1; /* after the call, so that it is none at the end */
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static uint64_t work_on(uint64_t *words, size_t n, int64_t until_ns)
{
	uint64_t sum = 0;

	do {
		for (size_t i = 0; i < n; i++) {
			sum += words[i];
			words[i] = sum;
		}
	} while (now_ns() < until_ns);
	return sum;
}

static void load(int n_blocks, int64_t ns)
{
	int64_t until = now_ns() + ns;

	memsight_region_push("load");
	for (int i = 0; i < n_blocks; i++)
		small_blocks[i] = allocate_small();
	while (now_ns() < until)
		memset(small_blocks[0], 1, SMALL_BYTES);
	for (int i = 0; i < n_blocks; i++)
		free(small_blocks[i]);
	memsight_region_pop("load");
}

static uint64_t solve(int64_t ns)
{
	int64_t until = now_ns() + ns;
	uint64_t *blocks[N_BIG];
	uint64_t sum = 0;

	memsight_region_push("solve");
	for (int i = 0; i < N_BIG; i++)
		blocks[i] = memset(allocate_big(), i, BIG_BYTES);
	sum = work_on(blocks[0], BIG_BYTES / sizeof(**blocks), until);
	for (int i = 0; i < N_BIG - 1; i++)
		free(blocks[i]);
	memsight_region_pop("solve");
	return sum;
}

int main(int argc, char **argv)
{
	int64_t ns = (argc > 1 ? atoll(argv[1]) : 300) * 1000000LL;
	int n_blocks = argc > 2 ? atoi(argv[2]) : N_SMALL;

	if (n_blocks < 1 || n_blocks > 8 * N_SMALL)
		return EXIT_FAILURE;
	load(n_blocks, ns);
	memsight_mark("middle");
	int depth = nest(0);
	for (int i = 0; i < N_NESTED; i++)
		free(nested_blocks[i]);
	printf("%d %d\n", depth, (int)(solve(ns) & 1));
	return EXIT_SUCCESS;
}
