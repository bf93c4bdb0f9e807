/*
 * fixed-work THREADS ROUNDS: the same number of loads and stores in each thread, whatever it is
 * beside. Prints the CPU time of the process in ns: what sampling adds to it is what sampling
 * costs.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N_NUMBERS   4096
#define MAX_THREADS 64

static void *work(void *argument)
{
	static _Thread_local volatile uint64_t numbers[N_NUMBERS];

	for (long round = *(const long *)argument; round > 0; round--)
		for (int i = 0; i < N_NUMBERS; i++)
			numbers[i] += numbers[(i * 7) % N_NUMBERS];
	return NULL;
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[1]) : 1;
	long n_rounds = argc > 2 ? atol(argv[2]) : 1;
	pthread_t threads[MAX_THREADS];
	struct timespec cpu;

	if (n < 1 || n > MAX_THREADS)
		return 2;
	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, work, &n_rounds);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	printf("%lld\n", (long long)cpu.tv_sec * 1000000000 + cpu.tv_nsec);
	return 0;
}
