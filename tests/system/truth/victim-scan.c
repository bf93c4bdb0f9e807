/*
 * String instructions that the data ends: repne scasb through one block, repe cmpsb through two
 * others that are alike, for the same CPU time. Prints the address and length of each block, and
 * the CPU time of both.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N_BYTES	  (1 << 18)
#define N_REPEATS 20
#define CPU_NS	  400000000

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static char *new_block(void)
{
	char *block = malloc(N_BYTES);

	if (!block)
		exit(EXIT_FAILURE);
	memset(block, 1, N_BYTES);
	return block;
}

static void scan(const char *block)
{
	size_t n = N_BYTES;

	__asm__ volatile("repne scasb" : "+D"(block), "+c"(n) : "a"(0) : "memory", "cc");
}

static void compare(const char *a, const char *b)
{
	size_t n = N_BYTES;

	__asm__ volatile("repe cmpsb" : "+S"(a), "+D"(b), "+c"(n) : : "memory", "cc");
}

int main(void)
{
	char *blocks[3] = { new_block(), new_block(), new_block() };
	int64_t ns[2] = { 0 };

	while (ns[1] < CPU_NS) {
		int64_t begin_ns = cpu_ns(), middle_ns;

		for (int i = 0; i < N_REPEATS; i++)
			scan(blocks[0]);
		middle_ns = cpu_ns();
		for (int i = 0; i < N_REPEATS; i++)
			compare(blocks[1], blocks[2]);
		ns[0] += middle_ns - begin_ns;
		ns[1] += cpu_ns() - middle_ns;
	}
	for (int i = 0; i < 3; i++)
		printf("%p %d\n", (void *)blocks[i], N_BYTES);
	printf("%lld %lld\n", (long long)ns[0], (long long)ns[1]);
	return EXIT_SUCCESS;
}
