/*
 * What the lists of the page must show: 2,000 blocks of 500 bytes that keep() never frees, and two
 * threads that write words of their own in one cache line.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { N_KEPT = 2000, KEPT_BYTES = 500, LINE = 64 };

static void *kept[N_KEPT];
static volatile uint64_t *words; /* a line of them */

static __attribute__((noinline)) void keep(int i)
{
	kept[i] = malloc(KEPT_BYTES);
	if (kept[i])
		memset(kept[i], i, KEPT_BYTES);
}

static void *count(void *word)
{
	volatile uint64_t *mine = word;

	for (uint64_t i = 0; i < 200000000; i++)
		++*mine;
	return NULL;
}

int main(void)
{
	pthread_t threads[2];

	words = aligned_alloc(LINE, LINE);
	if (!words)
		return 1;
	memset((void *)words, 0, LINE);
	for (int i = 0; i < N_KEPT; i++)
		keep(i);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, count, (void *)&words[2 * i]) != 0)
			return 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	free((void *)words);
	return 0;
}
