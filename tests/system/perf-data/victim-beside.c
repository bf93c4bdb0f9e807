/*
 * Blocks of three functions, each page of which is touched once, by its own faults: `kept' stay,
 * those of `first' and `second' take turns at the same addresses, so that only time tells them
 * apart. Prints for each function its pages that lie wholly inside of its blocks: the others are
 * shared.
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define PAGE   4096u
#define BYTES  400000u
#define N      20
#define ROUNDS 10

__attribute__((noinline)) static char *kept(void)
{
	return malloc(BYTES);
}

__attribute__((noinline)) static char *first(void)
{
	return malloc(BYTES);
}

__attribute__((noinline)) static char *second(void)
{
	return malloc(BYTES);
}

static unsigned touch(volatile char *block)
{
	uintptr_t page = ((uintptr_t)block + PAGE - 1) / PAGE * PAGE;
	unsigned n = 0;

	for (; page + PAGE <= (uintptr_t)block + BYTES; page += PAGE, n++)
		((volatile char *)page)[0] = 1;
	return n;
}

static unsigned round_of(char *(*site)(void), int is_kept)
{
	char *blocks[N];
	unsigned n = 0;

	for (int i = 0; i < N; i++) {
		blocks[i] = site();
		if (!blocks[i])
			abort();
		n += touch(blocks[i]);
	}
	for (int i = 0; i < N && !is_kept; i++)
		free(blocks[i]);
	return n;
}

int main(void)
{
	unsigned n_kept, n_first = 0, n_second = 0;

	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* one fault for each page */
	mallopt(M_MMAP_THRESHOLD, 65536); /* and each block from the kernel, and back to it */
	n_kept = round_of(kept, 1);
	for (int i = 0; i < ROUNDS; i++) {
		n_first += round_of(first, 0);
		n_second += round_of(second, 0);
	}
	printf("kept %u\nfirst %u\nsecond %u\n", n_kept, n_first, n_second);
	return 0;
}
