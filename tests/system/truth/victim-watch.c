/*
 * Called as `victim-watch`, `victim-watch plugin FILE` or `victim-watch often N`. Known numbers of
 * accesses, each by one instruction that the compiler neither merges nor drops. Says where things
 * are, so that the test can ask for them.
 *
 * 	counted		500 stores, then 1000 read-modify-writes (add to memory), then 250 loads
 * 	shared		two threads: 300 stores by the second, 400 loads by the first
 * 	named		memsight_name_range(): 120 stores, freed, and its block used again
 * 	make_block()	allocates two blocks: 70 stores to the first, 90 to the second
 * 	plugin		loads FILE and lets it store 200 times to its own variable
 * 	forked		a child stores 130 times to `counted`, its parent then 20 times
 * 	often		N stores to `counted`
 * 	hot		two threads update `shared` for N seconds
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "include/memsight.h"

uint64_t counted;
uint64_t shared;
uint32_t wide[8];
__thread uint64_t local;
static uint64_t sink;

__attribute__((noinline)) static void store(uint64_t *to, uint64_t value)
{
	__asm__ volatile("movq %1, %0" : "=m"(*to) : "r"(value));
}

__attribute__((noinline)) static uint64_t load(const uint64_t *from)
{
	uint64_t value;

	__asm__ volatile("movq %1, %0" : "=r"(value) : "m"(*from));
	return value;
}

__attribute__((noinline)) static void add(uint64_t *to)
{
	__asm__ volatile("addq $1, %0" : "+m"(*to));
}

/* The recorder learns of a name or a block some ms later. */
static void wait_for_recorder(void)
{
	struct timespec moment = { .tv_nsec = 400000000 };

	nanosleep(&moment, NULL);
}

static void *store_shared(void *unused)
{
	(void)unused;
	for (uint64_t i = 0; i < 300; i++)
		store(&shared, i);
	return NULL;
}

static void use_named(void)
{
	uint64_t *block = malloc(4000), *again;

	memsight_name_range(block, 64, "queue head");
	wait_for_recorder();
	for (uint64_t i = 0; i < 120; i++)
		store(block, i);
	free(block);
	again = malloc(4000);
	printf("reused %d\n", again == block);
	for (uint64_t i = 0; i < 55; i++)
		store(again, i);
	wait_for_recorder();
	for (uint64_t i = 0; i < 55; i++)
		store(again, i);
	free(again);
}

uint64_t *make_block(size_t size);

__attribute__((noinline)) uint64_t *make_block(size_t size)
{
	uint64_t *block = malloc(size);

	store(&sink, (uintptr_t)block); /* not a tail call: the caller is this function */
	return block;
}

static void use_blocks(void)
{
	uint64_t *first = make_block(100), *second = make_block(200);

	wait_for_recorder();
	for (uint64_t i = 0; i < 70; i++)
		store(first, i);
	for (uint64_t i = 0; i < 90; i++)
		store(second, i);
	free(first);
	free(second);
}

static void use_variables(void)
{
	pthread_t thread;

	for (uint64_t i = 0; i < 500; i++)
		store(&counted, i);
	for (uint64_t i = 0; i < 1000; i++)
		add(&counted);
	for (uint64_t i = 0; i < 250; i++)
		sink += load(&counted);
	pthread_create(&thread, NULL, store_shared, NULL);
	for (uint64_t i = 0; i < 400; i++)
		sink += load(&shared);
	pthread_join(thread, NULL);
	/* One access to the ranges of two registers is one access. */
	for (uint64_t i = 0; i < 40; i++)
		__asm__ volatile("movups %%xmm0, %0" : "=m"(*(uint64_t(*)[2])wide));
	/* Each adds two accesses to the range, by one instruction: a read and a write. */
	for (uint64_t i = 0; i < 30; i++)
		__asm__ volatile("lock xaddq %0, %1" : "+r"(sink), "+m"(*(uint64_t *)wide));
}

static int use_plugin(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW);
	void (*store_plugin)(unsigned n);
	void *found = plugin ? dlsym(plugin, "store_plugin") : NULL;

	if (!found)
		return 1;
	memcpy(&store_plugin, &found, sizeof(found));
	wait_for_recorder();
	store_plugin(200);
	return 0;
}

static int use_fork(void)
{
	pid_t child = fork();

	for (uint64_t i = 0; i < (child ? 0 : 130); i++)
		store(&counted, i);
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	for (uint64_t i = 0; i < 20; i++)
		store(&counted, i);
	return 0;
}

static void *update_shared(void *seconds)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (int i = 0; i < 100000; i++)
			add(&shared);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec < *(long *)seconds);
	return NULL;
}

static int use_hot_line(long seconds)
{
	pthread_t thread;

	pthread_create(&thread, NULL, update_shared, &seconds);
	update_shared(&seconds);
	pthread_join(thread, NULL);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[1], "hot") == 0)
		return use_hot_line(atol(argv[2]));
	if (argc > 2 && strcmp(argv[1], "plugin") == 0)
		return use_plugin(argv[2]);
	if (argc > 1 && strcmp(argv[1], "forked") == 0)
		return use_fork();
	for (long i = 0; argc > 2 && i < atol(argv[2]); i++)
		store(&counted, (uint64_t)i);
	if (argc > 1)
		return 0;
	use_variables();
	use_named();
	use_blocks();
	return 0;
}
