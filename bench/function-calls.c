/*
 * What a call of an empty function costs, in ns of CPU time: the least of 15 rounds. With "pair": a
 * block of an allocator, taken and given. With a number: a million calls of one that works for so
 * many ns, and what of that it saw itself, in ns a call. With "blocks" behind it a block is
 * allocated and freed in each, with "stacks" by another call stack each time.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N_CALLS 1000000
#define OWN	__attribute__((noinline, no_instrument_function))

/* As long as a jump. */
__attribute__((noipa)) long f_empty(long n)
{
	return n + 1;
}

static char chunk[1 << 16];

__attribute__((noipa)) void *pool_take(unsigned long at, unsigned long n_bytes)
{
	return &chunk[at * 64 % (sizeof(chunk) - n_bytes)];
}

__attribute__((noipa)) void pool_give(void *block)
{
	__asm__ volatile("" : : "r"(block) : "memory");
}

static OWN double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#ifdef COUNTED
/* What hooks of -finstrument-functions do at least; TIMED: with times, as timemory's. */
static volatile unsigned long n_entered, n_left;
static volatile double spent_ns;

OWN void __cyg_profile_func_enter(void *function, void *caller)
{
	(void)function;
	(void)caller;
	n_entered++;
#ifdef TIMED
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	spent_ns -= (double)now.tv_nsec;
#endif
}

OWN void __cyg_profile_func_exit(void *function, void *caller)
{
	(void)function;
	(void)caller;
	n_left++;
#ifdef TIMED
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	spent_ns += (double)now.tv_nsec;
#endif
}
#endif

static OWN void *take(int depth)
{
	void *block = depth > 0 ? take(depth - 1) : malloc(40);

	__asm__ volatile("" : : "r"(block) : "memory");
	return block;
}

/* depth < 0: no block. Returns how long it worked, also where it was interrupted; all in ticks. */
__attribute__((noipa)) unsigned long f_known(unsigned long ticks, int depth)
{
	void *block = depth >= 0 ? take(depth) : NULL;
	unsigned long begin = __builtin_ia32_rdtsc(), now;

	do {
		now = __builtin_ia32_rdtsc();
	} while (now - begin < ticks);
	free(block);
	return now - begin;
}

static OWN double wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static OWN void call_known(double ns, const char *blocks)
{
	int n_depths = strcmp(blocks, "stacks") == 0 ? 7 : 1;
	int none = *blocks ? 0 : 1;
	unsigned long first = __builtin_ia32_rdtsc(), sum = 0;
	double begin = wall_ns();

	while (wall_ns() - begin < 20e6)
		;
	double ticks_of_ns = (double)(__builtin_ia32_rdtsc() - first) / (wall_ns() - begin);
	for (int i = 0; i < N_CALLS; i++)
		sum += f_known((unsigned long)(ns * ticks_of_ns), i % n_depths - none);
	printf("%.2f\n", (double)sum / ticks_of_ns / N_CALLS);
}

OWN int main(int argc, char **argv)
{
	double least = 1e9;

	bool is_pair = argc > 1 && strcmp(argv[1], "pair") == 0;

	if (argc > 1 && !is_pair) {
		call_known(atof(argv[1]), argc > 2 ? argv[2] : "");
		return 0;
	}

	for (int round = 0; round < 15; round++) {
		double begin = cpu_ns();

		for (int i = 0; is_pair && i < N_CALLS; i++)
			pool_give(pool_take((unsigned long)i, 40));
		for (int i = 0; !is_pair && i < N_CALLS; i++)
			f_empty(i);
		double each = (cpu_ns() - begin) / N_CALLS;
		least = each < least ? each : least;
	}
	printf("%.2f\n", least);
	return 0;
}
