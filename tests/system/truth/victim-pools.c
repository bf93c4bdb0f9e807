/*
 * An allocator of its own over memory of malloc and of mmap, that says so by memsight.h: every
 * number is known. Prints the address of one block that is still there in the end.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/memsight.h"

#define CHUNK_BYTES 100000
#define PART_BYTES  1000

/* A pool is known by its chunk. */
static __attribute__((noinline)) char *make_chunk(void)
{
	char *chunk = malloc(CHUNK_BYTES);

	memset(chunk, 1, CHUNK_BYTES);
	return chunk;
}

static __attribute__((noinline)) char *take_small(char *chunk, int i)
{
	memsight_block(chunk + 48 * i, 40, chunk);
	return chunk + 48 * i;
}

static __attribute__((noinline)) char *take_part(char *chunk)
{
	memsight_block(chunk + 50000, PART_BYTES, chunk);
	return chunk + 50000;
}

static __attribute__((noinline)) void take_in_part(char *part)
{
	for (int i = 0; i < 10; i++)
		memsight_block(part + 100 * i, 100, part);
}

static __attribute__((noinline)) void take_mapped(char *map, int n)
{
	for (int i = 0; i < n; i++)
		memsight_block(map + 4096 * i, 4000, NULL);
}

/* 300 blocks of 40 bytes, 100 given back one by one, the rest at once; three times. */
static void many_lives(char *chunk)
{
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 300; i++)
			take_small(chunk, i);
		for (int i = 0; i < 100; i++)
			memsight_block_end(chunk + 48 * i);
		memsight_pool_reset(chunk);
	}
}

/* What memsight.h is told twice, and what ends with the memory below. */
static void odd_lives(void)
{
	char *chunk = make_chunk();

	for (int i = 0; i < 20; i++)
		take_small(chunk, i);
	take_in_part(take_part(chunk)); /* 10 of 100 bytes in one of 1000 */
	memsight_block(NULL, 10, chunk);
	memsight_block(chunk, 0, chunk);
	memsight_block_end(NULL);
	memsight_block_end(chunk + 7); /* no block begins there */
	memsight_pool_reset(chunk + 7); /* a pool that had none */
	free(chunk); /* ends all 31 */
}

static void *in_thread(void *chunk)
{
	for (int i = 0; i < 50; i++)
		take_small(chunk, 900 + i);
	return NULL;
}

/* The child gives its copies back, and has blocks of its own. */
static void fork_child(char *chunk)
{
	pid_t child = fork();

	if (child == 0) {
		memsight_block_end(chunk + 48 * 900);
		memsight_block(chunk + 48 * 900, 33, chunk);
		memsight_pool_reset(chunk);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

int main(void)
{
	char *chunk = make_chunk(), *map;
	pthread_t thread;

	many_lives(chunk);
	odd_lives();
	map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	take_mapped(map, 8);
	munmap(map, 1 << 20); /* ends all 8 */
	pthread_create(&thread, NULL, in_thread, chunk);
	pthread_join(thread, NULL);
	fork_child(chunk);
	take_in_part(take_part(chunk));
	printf("%ju\n", (uintmax_t)(uintptr_t)(chunk + 50000));
	return 0;
}
