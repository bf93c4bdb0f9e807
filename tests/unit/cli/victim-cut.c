/*
 * Memory of all kinds over 1.5 s, in several processes: blocks that a fork has inherited end in
 * one, in the other, or in both; parts of mappings are taken away, others are moved; threads come
 * and go and leave blocks behind.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "include/memsight.h"

#define N_BLOCKS 300
#define PAGE	 4096

static void *blocks[N_BLOCKS];
static void *left[16];

static void rest(long ms)
{
	const struct timespec moment = { .tv_nsec = ms * 1000000 };

	nanosleep(&moment, NULL);
}

static void end_blocks(int from, int to)
{
	for (int i = from; i < to; i++) {
		free(blocks[i]);
		blocks[i] = NULL;
	}
}

static char *map(size_t n_bytes)
{
	return mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void churn(void)
{
	for (size_t i = 0; i < 100; i++) {
		void *block = malloc(50 + i), *next = realloc(malloc(20), 5000 + i);

		munmap(map(2 * PAGE), 2 * PAGE);
		free(block);
		free(next);
	}
}

static void *leave_one(void *number)
{
	left[(size_t)number] = malloc(7000 + (size_t)number);
	churn();
	return NULL;
}

static void *be_short(void *number)
{
	free(malloc((size_t)number));
	return NULL;
}

/* Many short threads, on all CPUs: their births and ends come in no order. */
static void hurry(void)
{
	pthread_t threads[2];

	for (size_t i = 0; i < 15; i++) {
		for (int k = 0; k < 2; k++)
			pthread_create(&threads[k], NULL, be_short, (void *)(40 + i));
		for (int k = 0; k < 2; k++)
			pthread_join(threads[k], NULL);
		rest(1);
	}
}

static void run_child(char *large)
{
	end_blocks(100, 150);
	munmap(large, 5 * PAGE);
	for (int i = 0; i < 4; i++) {
		churn();
		rest(200);
	}
	end_blocks(200, 220);
	rest(100);
	_exit(0);
}

int main(void)
{
	char *large = map(256 * PAGE), *holed = map(64 * PAGE), *moved = map(16 * PAGE);
	pthread_t thread;
	pid_t child;

	memsight_region_push("all");
	for (int i = 0; i < N_BLOCKS; i++)
		blocks[i] = malloc((size_t)(100 + i));
	memsight_name_range(blocks[299], 399, "the last one");
	munmap(holed + 10 * PAGE, 3 * PAGE);
	moved = mremap(moved, 16 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
	end_blocks(0, 50);
	child = fork();
	if (child == 0)
		run_child(large);
	rest(150);
	end_blocks(120, 210);
	munmap(large, 256 * PAGE);
	for (size_t i = 0; i < 12; i++) {
		pthread_create(&thread, NULL, leave_one, (void *)i);
		pthread_join(thread, NULL);
		if (i % 4 == 0 && fork() == 0)
			_exit(0);
		if (i == 6)
			free(left[2]);
		hurry();
		rest(30);
	}
	waitpid(child, NULL, 0);
	blocks[250] = realloc(blocks[250], 9000);
	memset(moved, 1, PAGE);
	rest(300);
	return 0;
}
