/*
 * A program with an allocator inside: nothing of it is to be seen but its one map. It maps while it
 * holds its lock, so that whoever allocated in there would wait for ever.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define POOL_BYTES (16u << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *pool;
static size_t used;

void *malloc(size_t size)
{
	size_t *block;

	pthread_mutex_lock(&lock);
	if (!pool)
		pool = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	block = (size_t *)(pool + used);
	used += (size + 31) / 16 * 16;
	pthread_mutex_unlock(&lock);
	block[1] = size;
	return block + 2;
}

void free(void *block)
{
	(void)block;
}

void *calloc(size_t count, size_t size)
{
	return malloc(count * size); /* fresh pages */
}

void *realloc(void *block, size_t size)
{
	void *copy = malloc(size);
	size_t old = block ? ((size_t *)block)[-1] : 0;

	return block ? memcpy(copy, block, old < size ? old : size) : copy;
}

int main(void)
{
	for (int i = 0; i < 1000; i++) {
		char *block = malloc(100);

		snprintf(block, 100, "block %d", i);
		block = realloc(block, 200);
		if (i == 999)
			puts(block);
		free(block);
	}
	return 4;
}
