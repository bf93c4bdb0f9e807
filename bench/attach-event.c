/*
 * CPU time of an allocation event, as a program sees it: a line of ns an event, of malloc and free
 * of 16 blocks, the least of 20 turns; as many lines as told. It sleeps between turns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define N_BLOCKS   16
#define N_ROUNDS   6250
#define N_EVENTS   (2.0 * N_BLOCKS * N_ROUNDS)
#define N_TURNS	   20
#define BREATHE_US 20000

static double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void turn(void)
{
	void *blocks[N_BLOCKS];

	for (int i = 0; i < N_ROUNDS; i++) {
		for (size_t k = 0; k < N_BLOCKS; k++)
			blocks[k] = malloc(40 + 16 * k);
		for (size_t k = 0; k < N_BLOCKS; k++)
			free(blocks[k]);
	}
}

int main(int argc, char **argv)
{
	for (int n = argc > 1 ? atoi(argv[1]) : 1; n > 0; n--) {
		double least_ns = 1e9;

		for (int i = 0; i < N_TURNS; i++) {
			double begin_ns = cpu_ns(), ns;

			turn();
			ns = (cpu_ns() - begin_ns) / N_EVENTS;
			least_ns = ns < least_ns ? ns : least_ns;
			usleep(BREATHE_US);
		}
		printf("%.1f\n", least_ns);
		fflush(stdout);
	}
}
