/*
 * Two threads that write to lines of 64 bytes for half a second of CPU time each: to different bytes of
 * one line, to the same bytes of another, and each to a line of its own. Prints the addresses of the
 * lines: apart, same, own of the first, own of the second.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LINE_BYTES 64
#define CPU_NS	   500000000

struct lines {
	char apart[LINE_BYTES];
	char same[LINE_BYTES];
	char own[2][LINE_BYTES];
};

static struct lines *lines;

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void *work(void *argument)
{
	int number = *(const int *)argument;
	volatile uint64_t *apart = (volatile uint64_t *)(lines->apart + 32 * number);
	volatile uint64_t *same = (volatile uint64_t *)lines->same;
	volatile uint64_t *own = (volatile uint64_t *)lines->own[number];

	while (cpu_ns() < CPU_NS) {
		for (int i = 0; i < 100000; i++)
			*apart += 1;
		for (int i = 0; i < 100000; i++)
			*same += 1;
		for (int i = 0; i < 100000; i++)
			*own += 1;
	}
	return NULL;
}

int main(void)
{
	static const int numbers[2] = { 0, 1 };
	pthread_t threads[2];

	lines = aligned_alloc(LINE_BYTES, sizeof(*lines));
	if (!lines)
		return EXIT_FAILURE;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)&numbers[i]) != 0)
			return EXIT_FAILURE;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%p %p %p %p\n", (void *)lines->apart, (void *)lines->same, (void *)lines->own[0],
	       (void *)lines->own[1]);
	free(lines);
	return EXIT_SUCCESS;
}
