/*
 * Loops over memory of every kind, in slices of random order, each kind for a known part of the
 * time: it measures the CPU time of each slice itself. Prints "KIND NS" for each, then "total NS".
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "include/memsight.h"

#define WORDS  1024u /* 8 KiB: no matter of caches */
#define SLICES 400

static uint64_t in_global[WORDS];
static _Thread_local uint64_t in_tls[WORDS];
static uint64_t result;

static int64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Touches nothing but its words: the loop's own variables are in registers. */
__attribute__((noinline)) static uint64_t walk(const volatile uint64_t *words, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += words[i % WORDS];
	return sum;
}

/* No memory at all. */
__attribute__((noinline)) static uint64_t spin(const volatile uint64_t *words, uint64_t n)
{
	uint64_t sum = (uintptr_t)words;

	for (uint64_t i = 0; i < n; i++) {
		sum = sum * 3 + i;
		__asm__ volatile("" : "+r"(sum));
	}
	return sum;
}

struct kind {
	const char *name;
	const volatile uint64_t *words;
	uint64_t (*run)(const volatile uint64_t *words, uint64_t n);
	unsigned weight; /* slices in all: of SLICES */
	int64_t spent_ns;
};

static uint64_t *filled(uint64_t *words)
{
	if (!words || words == MAP_FAILED)
		abort();
	for (uint64_t i = 0; i < WORDS; i++)
		words[i] = i;
	return words;
}

static uint64_t next_random(uint64_t *seed, uint64_t bound)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*seed >> 33) % bound;
}

/* A block in the middle of others: libc keeps the memory when it is freed. */
static uint64_t *make_freed(void)
{
	static void *neighbours[2];
	uint64_t *block;

	neighbours[0] = malloc(64);
	block = filled(malloc(WORDS * sizeof(*block)));
	neighbours[1] = malloc(64);
	free(block);
	return neighbours[0] && neighbours[1] ? block : NULL;
}

static void run_slice(struct kind *kind, uint64_t n)
{
	int64_t start = cpu_ns();

	result += kind->run(kind->words, n);
	kind->spent_ns += cpu_ns() - start;
}

int main(void)
{
	uint64_t in_stack[WORDS];
	uint64_t *named = filled(malloc(WORDS * sizeof(*named)));
	uint64_t *heap = filled(malloc(WORDS * sizeof(*heap)));
	uint64_t *mapping = filled(mmap(NULL, WORDS * sizeof(*mapping), PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	struct kind kinds[] = {
		{ "heap", heap, walk, 80, 0 },
		{ "named", named, walk, 60, 0 },
		{ "mapping", mapping, walk, 60, 0 },
		{ "global", filled(in_global), walk, 50, 0 },
		{ "stack", filled(in_stack), walk, 50, 0 },
		{ "tls", filled(in_tls), walk, 40, 0 },
		{ "freed", make_freed(), walk, 30, 0 },
		{ "code", NULL, spin, 30, 0 },
	};
	uint64_t seed = (uint64_t)time(NULL);
	int64_t start;

	memsight_name_range(named, WORDS * sizeof(*named), "the named one");
	start = cpu_ns();
	for (unsigned i = 0; i < SLICES; i++) {
		uint64_t pick = next_random(&seed, SLICES);
		unsigned k = 0;

		while (pick >= kinds[k].weight)
			pick -= kinds[k++].weight;
		run_slice(&kinds[k], 6000000 + next_random(&seed, 12000000));
	}
	int64_t total = cpu_ns() - start;
	for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		printf("%s %jd\n", kinds[k].name, (intmax_t)kinds[k].spent_ns);
	printf("total %jd\n", (intmax_t)total);
	fprintf(stderr, "%ju\n", (uintmax_t)result);
	return 0;
}
