/*
 * One block of four equal parts of 256 KiB, each of which has a fourth of a loop's accesses, and
 * one block of structures of 64 bytes, of which a loop reads the first word and the fifth, and
 * writes to the third. Each loop has half of the CPU time. Prints the addresses of the blocks.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N_WORDS 32768
#define CPU_NS	1200000000

struct item {
	uint64_t words[8];
};

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

__attribute__((noinline)) static void add_parts(uint64_t *parts)
{
	for (size_t i = 0; i < N_WORDS; i++)
		parts[i + 3 * N_WORDS] = parts[i] + parts[i + N_WORDS] + parts[i + 2 * N_WORDS];
}

__attribute__((noinline)) static void add_fields(struct item *items)
{
	for (size_t i = 0; i < N_WORDS; i++)
		items[i].words[2] = items[i].words[0] ^ items[i].words[4];
}

int main(void)
{
	uint64_t *parts = aligned_alloc(64, 4 * N_WORDS * sizeof(*parts));
	struct item *items = aligned_alloc(64, N_WORDS * sizeof(*items));
	int64_t end_ns = cpu_ns() + CPU_NS / 2;

	if (!parts || !items)
		return EXIT_FAILURE;
	for (size_t i = 0; i < 4 * N_WORDS; i++)
		parts[i] = i;
	for (size_t i = 0; i < N_WORDS; i++)
		items[i] = (struct item){ { i } };
	while (cpu_ns() < end_ns)
		add_parts(parts);
	for (end_ns = cpu_ns() + CPU_NS / 2; cpu_ns() < end_ns;)
		add_fields(items);
	printf("%p %p\n", (void *)parts, (void *)items);
	free(items);
	free(parts);
	return EXIT_SUCCESS;
}
