/*
 * Allocates, touches and frees in a known order: every touch of touch_block() lies inside the life
 * of a block. Four threads, blocks of fresh pages (mapped by malloc for itself). The first page of
 * each was touched by malloc, which writes its header. Prints how many pages were touched, and how
 * many blocks there were.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE 4096u

enum { N_THREADS = 4, N_ROUNDS = 60, N_PAGES = 80 };

static __attribute__((noinline)) void touch_block(volatile char *block)
{
	for (unsigned i = 0; i < N_PAGES; i++)
		block[(size_t)(i + 1) * PAGE] = 1;
}

static void *thread_main(void *unused)
{
	for (int round = 0; round < N_ROUNDS; round++) {
		char *block = malloc((N_PAGES + 1) * PAGE);

		if (!block)
			abort();
		touch_block(block);
		free(block);
	}
	return unused;
}

int main(void)
{
	pthread_t threads[N_THREADS];

	mallopt(M_MMAP_THRESHOLD, 64 * 1024); /* also keeps it from growing */
	for (int i = 0; i < N_THREADS; i++) {
		if (pthread_create(&threads[i], NULL, thread_main, NULL) != 0)
			return 1;
	}
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%u %u\n", N_THREADS * N_ROUNDS * N_PAGES, N_THREADS * N_ROUNDS);
	return 0;
}
