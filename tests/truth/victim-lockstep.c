/*
 * Works in frames of one millisecond of its CPU time: the first 3/10 of each on one array, the rest on
 * another. A sampler that fires each millisecond of CPU time sees one of them only.
 *
 *	victim-lockstep SECONDS
 *
 * Prints the share of the first array, by the same clock.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FRAME_NS   1000000
#define FIRST_NS   300000
#define N_NUMBERS  1024
#define NS_PER_SEC 1000000000

static uint64_t first[N_NUMBERS];
static uint64_t second[N_NUMBERS];

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (int64_t)now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

/* Some microseconds, all of it loads and stores of one array. */
__attribute__((noinline)) static void work(volatile uint64_t *numbers)
{
	for (int round = 0; round < 8; round++)
		for (int i = 0; i < N_NUMBERS; i++)
			numbers[i]++;
}

int main(int argc, char **argv)
{
	int64_t begin_ns = cpu_ns();
	int64_t end_ns = begin_ns + (argc > 1 ? atoi(argv[1]) : 1) * (int64_t)NS_PER_SEC;
	int64_t now_ns = begin_ns, first_ns = 0;

	while (now_ns < end_ns) {
		int is_first = (now_ns - begin_ns) % FRAME_NS < FIRST_NS;
		int64_t before_ns = now_ns;

		work(is_first ? first : second);
		now_ns = cpu_ns();
		first_ns += is_first ? now_ns - before_ns : 0;
	}
	printf("%.6f\n", (double)first_ns / (double)(now_ns - begin_ns));
	return 0;
}
