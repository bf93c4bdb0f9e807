/*
 * How much stack an allocation needs: the deepest byte that it has changed. Say it for each call.
 */
#include <pthread.h>

#include "include/memsight.h"
#include "victim.h"

#define AREA 16384
#define FILL 0xa5

static __attribute__((noinline)) void fill(void)
{
	unsigned char area[AREA];

	for (size_t i = 0; i < AREA; i++)
		area[i] = FILL;
	__asm__ volatile("" : : "m"(area));
}

/* In a frame like that of fill(), so over the same bytes. */
static __attribute__((noinline)) size_t measure(void)
{
	volatile unsigned char area[AREA];
	size_t untouched = 64;

	/* Not written in here: what lies there is what the calls before have left. */
	__asm__ volatile("" : "=m"(area));
	while (untouched < AREA && area[untouched] == FILL)
		untouched++;
	return AREA - untouched;
}

static void *calls(void *unused)
{
	void *volatile block;

	(void)unused;
	fill();
	block = malloc(100);
	say("first", measure());
	fill();
	block = malloc(100);
	say("second", measure());
	fill();
	block = realloc(block, 300);
	say("realloc", measure());
	fill();
	free(block);
	say("free", measure());
	fill();
	memsight_region_push("region");
	say("push", measure());
	fill();
	memsight_pause();
	free(malloc(100));
	memsight_resume();
	say("paused", measure());
	return NULL;
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, calls, NULL);
	pthread_join(thread, NULL);
	return 0;
}
