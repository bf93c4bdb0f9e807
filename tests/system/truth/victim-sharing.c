/*
 * Two threads that write to lines of 64 bytes for half a second of CPU time each: to different
 * bytes of one line, to the same bytes of another, each to a line of its own, and both read one.
 * Before, the main thread writes to all bytes of all lines, through a block that lay there before
 * and through this one; and one thread after the other writes to a last line. Prints the addresses
 * of the lines: apart, same, own of the first, own of the second, read, turns.
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
	char read[LINE_BYTES];
	char turns[LINE_BYTES];
};

static struct lines *lines;

static _Alignas(LINE_BYTES) volatile uint64_t sink_of[2][LINE_BYTES / sizeof(uint64_t)];

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
	volatile uint64_t *read = (volatile uint64_t *)lines->read;

	while (cpu_ns() < CPU_NS) {
		for (int i = 0; i < 100000; i++)
			*apart += 1;
		for (int i = 0; i < 100000; i++)
			*same += 1;
		for (int i = 0; i < 100000; i++)
			*own += 1;
		for (int i = 0; i < 100000; i++)
			sink_of[number][0] += *read;
	}
	return NULL;
}

static void *take_turn(void *argument)
{
	int number = *(const int *)argument;
	volatile uint64_t *turns = (volatile uint64_t *)(lines->turns + 8 * number);

	for (int i = 0; i < 20000000; i++)
		*turns += 1;
	return NULL;
}

/* For some hundredths of a second. */
__attribute__((noinline)) static void fill(volatile struct lines *all)
{
	volatile char *bytes = (volatile char *)all;

	for (int k = 0; k < 40000; k++)
		for (size_t i = 0; i < sizeof(*all); i++)
			bytes[i] = (char)k;
}

static int run_threads(void *(*function)(void *), int n_at_once)
{
	static const int numbers[2] = { 0, 1 };
	pthread_t threads[2];

	for (int i = 0; i < 2; i++) {
		if (pthread_create(&threads[i], NULL, function, (void *)&numbers[i]) != 0)
			return -1;
		if (n_at_once == 1)
			pthread_join(threads[i], NULL);
	}
	for (int i = 0; i < 2 && n_at_once == 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

int main(void)
{
	struct lines *before = aligned_alloc(LINE_BYTES, sizeof(*before));

	if (!before)
		return EXIT_FAILURE;
	fill(before);
	free(before);
	lines = aligned_alloc(LINE_BYTES, sizeof(*lines));
	if (!lines)
		return EXIT_FAILURE;
	fill(lines);
	if (run_threads(work, 2) < 0 || run_threads(take_turn, 1) < 0)
		return EXIT_FAILURE;
	fill(lines);
	printf("%p %p %p %p %p %p\n", (void *)lines->apart, (void *)lines->same,
	       (void *)lines->own[0], (void *)lines->own[1], (void *)lines->read,
	       (void *)lines->turns);
	free(lines);
	return EXIT_SUCCESS;
}
