/*
 * Two blocks of the same size: the first is touched page by page from its begin to its end, evenly
 * over a time; the second is never touched. Prints their addresses and sizes, and how many pages it
 * touched.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define PAGE	4096u
#define N_PAGES 2048u
#define TAKES	400000000 /* ns */

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

int main(void)
{
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	volatile char *swept = malloc((size_t)N_PAGES * PAGE);
	char *untouched = malloc((size_t)N_PAGES * PAGE);
	int64_t start = now();

	if (!swept || !untouched)
		return 1;
	/* The allocator's own words are in the first page. */
	for (unsigned i = 1; i < N_PAGES; i++) {
		while (now() < start + (int64_t)TAKES * i / N_PAGES)
			;
		swept[(size_t)i * PAGE] = 1;
	}
	printf("%#lx %#lx %u %u\n", (unsigned long)(uintptr_t)swept,
	       (unsigned long)(uintptr_t)untouched, N_PAGES * PAGE, N_PAGES - 1);
	return 0;
}
