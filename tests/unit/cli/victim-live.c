/*
 * Blocks in an order that is known: block i of a thread has FIRST + i % SPAN bytes, and ends when
 * KEPT more have been allocated. Arguments: threads; blocks of each, 0: without end; and how many
 * of them in a row before a ms of sleep, 0: never. In the middle of the first thread's blocks
 * stands a mark, "middle". Prints a line when it begins.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "include/memsight.h"

#define FIRST 1000
#define SPAN  20000
#define KEPT  50

static uint64_t n_blocks;
static uint64_t n_in_row;

static void *churn(void *is_first)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	void *kept[KEPT] = { 0 };

	for (uint64_t i = 0; n_blocks == 0 || i < n_blocks; i++) {
		if (is_first && n_blocks && i == n_blocks / 2)
			memsight_mark("middle");
		free(kept[i % KEPT]);
		kept[i % KEPT] = malloc(FIRST + i % SPAN);
		if (n_in_row && i % n_in_row == 0)
			nanosleep(&moment, NULL);
	}
	for (size_t i = 0; i < KEPT; i++)
		free(kept[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned n_threads = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	pthread_t threads[64];

	n_blocks = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
	n_in_row = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	setvbuf(stdout, NULL, _IONBF, 0);
	puts("begun");
	for (unsigned i = 1; i < n_threads && i < 64; i++)
		pthread_create(&threads[i], NULL, churn, NULL);
	churn(threads);
	for (unsigned i = 1; i < n_threads && i < 64; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
