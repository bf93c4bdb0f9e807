/*
 * What a picture of time x address must show: an array that is read and written from its first byte
 * to its last once (a diagonal), and one that nobody touches. Both are blocks of the heap, from
 * functions with telling names. Argument: how many ms of CPU time the sweep takes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SWEPT_BYTES	(16 << 20)
#define UNTOUCHED_BYTES (8 << 20)
#define STEP_BYTES	(64 << 10)

static uint64_t *allocate_swept(void)
{
	return malloc(SWEPT_BYTES);
}

static char *allocate_untouched(void)
{
	return malloc(UNTOUCHED_BYTES);
}

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Reads and writes all words of a part, again and again until its time is over. */
static uint64_t work_on(uint64_t *part, size_t n, int64_t until_ns)
{
	uint64_t sum = 0;

	do {
		for (size_t i = 0; i < n; i++) {
			sum += part[i];
			part[i] = sum;
		}
	} while (cpu_ns() < until_ns);
	return sum;
}

int main(int argc, char **argv)
{
	int64_t budget_ns = (argc > 1 ? atoll(argv[1]) : 1000) * 1000000LL;
	uint64_t *swept = allocate_swept();
	char *untouched = allocate_untouched();
	size_t n_parts = SWEPT_BYTES / STEP_BYTES;
	size_t words = STEP_BYTES / sizeof(*swept);
	int64_t start_ns = cpu_ns();
	uint64_t sum = 0;

	if (!swept || !untouched)
		return EXIT_FAILURE;
	for (size_t i = 0; i < n_parts; i++)
		sum += work_on(swept + i * words, words,
			       start_ns + budget_ns * (int64_t)(i + 1) / (int64_t)n_parts);
	printf("%p %p %d\n", (void *)swept, (void *)untouched, (int)(sum & 1));
	free(untouched);
	free(swept);
	return EXIT_SUCCESS;
}
