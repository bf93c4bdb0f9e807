/*
 * A program whose pages valgrind's lackey can tell: it works on ARENAS mappings by phases, each of
 * which touches what its number says. `page-phases MS' repeats each phase for MS ms (0: once), so
 * that intervals lie within it. `page-phases hot|huge MIB MS' reads and writes a tenth of its
 * pages, small or huge ones, for MS ms of CPU time, and prints how often: other load hardly changes
 * that. Prints "arena ADDRESS BYTES" first.
 *
 * A phase is announced by a mark (memsight.h), and in a trace of accesses by a write to `beacon`,
 * which is printed as well.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "include/memsight.h"

#define N_ARENAS    6u
#define ARENA_BYTES (8u << 20)
#define N_PHASES    18u

static volatile char *arenas[N_ARENAS];
static volatile uint64_t beacon;
static volatile uint64_t used; /* valgrind leaves loads out whose values nobody takes */
static size_t page_bytes;

static uint64_t clock_now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_now_ns(CLOCK_MONOTONIC);
}

/* Between closed pages, with huge ones or without, all written. */
static volatile char *make_arena(size_t n_bytes, int advice)
{
	char *closed =
		mmap(NULL, n_bytes + 2 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (closed == MAP_FAILED ||
	    mprotect(closed + page_bytes, n_bytes, PROT_READ | PROT_WRITE) < 0)
		exit(1);
	madvise(closed + page_bytes, n_bytes, advice);
	for (size_t i = 0; i < n_bytes; i += page_bytes)
		closed[page_bytes + i] = 1;
	return closed + page_bytes;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Reads, writes, both by blocks, a few hot pages, a walk from page to page, or nothing. */
static void touch(unsigned phase, unsigned number)
{
	volatile char *arena = arenas[number];
	uint64_t random = 88172645463325252u + 7919 * phase + number;
	size_t n = (size_t)1 << (1 + (phase * 5 + number * 3) % 12);

	switch ((phase + number) % 6) {
	case 0:
		for (size_t i = 0; i < n; i++)
			used += (uint64_t)arena[next_random(&random) % ARENA_BYTES];
		break;
	case 1:
		for (size_t i = 0; i < n; i++)
			arena[next_random(&random) % ARENA_BYTES] = 1;
		break;
	case 2:
		memcpy((char *)arena + ARENA_BYTES / 2, (const char *)arena + 100, n * 64);
		break;
	case 3:
		for (size_t i = 0; i < 1000; i++)
			used += (uint64_t)arena[i % 8 * 17 * page_bytes];
		break;
	case 4:
		for (size_t i = 0; i < ARENA_BYTES; i += (1 + n % 7) * page_bytes)
			used += *(volatile uint64_t *)(arena + i + 16);
		break;
	default:
		break;
	}
}

static void run_phase(unsigned phase, uint64_t ms)
{
	uint64_t end_ns = now_ns() + ms * 1000000, next_ns = 0;

	do {
		/* Between two of these lies a whole round. */
		if (now_ns() >= next_ns) {
			memsight_mark("round");
			next_ns = now_ns() + 2000000;
		}
		for (unsigned i = 0; i < N_ARENAS; i++)
			touch(phase, i);
	} while (now_ns() < end_ns);
}

static int run_phases(uint64_t ms)
{
	char name[32];

	for (unsigned i = 0; i < N_ARENAS; i++) {
		arenas[i] = make_arena(ARENA_BYTES, MADV_NOHUGEPAGE);
		printf("arena %p %u\n", (void *)arenas[i], ARENA_BYTES);
	}
	printf("beacon %p\n", (void *)&beacon);
	fflush(stdout);
	for (unsigned i = 0; i < N_PHASES; i++) {
		snprintf(name, sizeof(name), "phase %u", i);
		memsight_mark(name);
		beacon = i;
		run_phase(i, ms);
	}
	memsight_mark("end");
	beacon = N_PHASES;
	return 0;
}

static int run_hot(size_t n_bytes, uint64_t ms, int advice)
{
	volatile char *memory = make_arena(n_bytes, advice);
	uint64_t end_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000;
	uint64_t n_rounds = 0, random = 1;
	size_t n_hot = n_bytes / 10;

	for (; clock_now_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns; n_rounds++)
		for (unsigned i = 0; i < 10000; i++) {
			volatile char *at = memory + next_random(&random) % n_hot;

			if (i % 8 == 0)
				*at = (char)i;
			else
				used += (uint64_t)*at;
		}
	printf("%llu\n", (unsigned long long)n_rounds);
	return 0;
}

int main(int argc, char **argv)
{
	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	if (argc == 4)
		return run_hot(strtoull(argv[2], NULL, 10) << 20, strtoull(argv[3], NULL, 10),
			       strcmp(argv[1], "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return argc == 2 ? run_phases(strtoull(argv[1], NULL, 10)) : 2;
}
