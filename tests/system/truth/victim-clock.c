/*
 * Three loops over one array each, in slices of random length and order, that take about 3 : 2 : 1
 * of the time: one computes on a small array, one streams through memory, one chases pointers.
 * Measures the CPU time of each slice itself. Prints "FUNCTION NS" for each array (the function
 * that allocated it), then "total NS": all user time of the program but its start.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define SMALL_WORDS  2048u
#define STREAM_WORDS (UINT64_C(8) << 20) /* 64 MiB */
#define CHASE_WORDS  (UINT64_C(4) << 20) /* 32 MiB */
#define SLICES	     260

static int64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Fresh memory without page faults in user code: those would be time of the kernel. */
static uint64_t *populate(uint64_t *words, size_t n)
{
	uintptr_t start = ((uintptr_t)words + 4095) & ~(uintptr_t)4095;
	uintptr_t end = (uintptr_t)(words + n) & ~(uintptr_t)4095;

	if (!words)
		abort();
	if (end > start)
		madvise((void *)start, end - start, MADV_POPULATE_WRITE);
	return words;
}

__attribute__((noinline)) static uint64_t *make_small(void)
{
	return populate(malloc(SMALL_WORDS * sizeof(uint64_t)), SMALL_WORDS);
}

__attribute__((noinline)) static uint64_t *make_stream(void)
{
	return populate(malloc(STREAM_WORDS * sizeof(uint64_t)), STREAM_WORDS);
}

__attribute__((noinline)) static uint64_t *make_chase(void)
{
	return populate(malloc(CHASE_WORDS * sizeof(uint64_t)), CHASE_WORDS);
}

static uint64_t next_random(uint64_t *seed, uint64_t bound)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*seed >> 33) % bound;
}

/* The loops touch nothing but their array. */
__attribute__((noinline)) static uint64_t compute(const uint64_t *words, uint64_t n)
{
	uint64_t sum = 1;

	for (uint64_t i = 0; i < n; i++)
		sum = sum * 3 + words[i % SMALL_WORDS];
	return sum;
}

__attribute__((noinline)) static uint64_t stream(const uint64_t *words, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += words[i * 8 % STREAM_WORDS];
	return sum;
}

__attribute__((noinline)) static uint64_t chase(const uint64_t *words, uint64_t n)
{
	uint64_t at = 0;

	for (uint64_t i = 0; i < n; i++)
		at = words[at];
	return at;
}

/* One cycle through all words (Sattolo's shuffle). It too touches nothing but its array. */
__attribute__((noinline)) static void link_words(uint64_t *words)
{
	uint64_t seed = 1;

	for (uint64_t i = 0; i < CHASE_WORDS; i++)
		words[i] = i;
	for (uint64_t i = CHASE_WORDS - 1; i > 0; i--) {
		uint64_t other = next_random(&seed, i);
		uint64_t kept = words[i];

		words[i] = words[other];
		words[other] = kept;
	}
}

struct work {
	const char *name;
	uint64_t (*run)(const uint64_t *words, uint64_t n);
	uint64_t *words;
	int64_t slice_ns;
	uint64_t n_per_slice;
	int64_t spent_ns;
};

static uint64_t result;

/* How many steps take slice_ns; this counts as the array's time as well. */
static void calibrate(struct work *work)
{
	uint64_t n = 20000;
	int64_t start = cpu_ns();

	result += work->run(work->words, n);

	int64_t spent = cpu_ns() - start;
	work->spent_ns += spent;
	work->n_per_slice = n * (uint64_t)work->slice_ns / (uint64_t)(spent > 0 ? spent : 1);
}

static void run_slice(struct work *work, uint64_t *seed)
{
	uint64_t n = work->n_per_slice / 2 + next_random(seed, work->n_per_slice + 1);
	int64_t start = cpu_ns();

	result += work->run(work->words, n);
	work->spent_ns += cpu_ns() - start;
}

int main(void)
{
	struct work works[] = {
		{ "make_small", compute, make_small(), 6000000, 0, 0 },
		{ "make_stream", stream, make_stream(), 4000000, 0, 0 },
		{ "make_chase", chase, make_chase(), 2000000, 0, 0 },
	};
	uint64_t seed = (uint64_t)time(NULL);
	int64_t start = cpu_ns();

	link_words(works[2].words);
	works[2].spent_ns = cpu_ns() - start;
	for (int i = 0; i < 3; i++)
		calibrate(&works[i]);
	for (int i = 0; i < SLICES; i++)
		run_slice(&works[next_random(&seed, 3)], &seed);

	int64_t total = cpu_ns() - start;
	for (int i = 0; i < 3; i++)
		printf("%s %jd\n", works[i].name, (intmax_t)works[i].spent_ns);
	printf("total %jd\n", (intmax_t)total);
	fprintf(stderr, "%ju\n", (uintmax_t)result);
	return 0;
}
