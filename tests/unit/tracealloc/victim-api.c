/* Programs that tell their recorder things through memsight.h. Built with -fno-builtin. */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "include/memsight.h"
#include "victim.h"

/* Every function of memsight.h once. */
static int every_function(void)
{
	char *block = malloc(1001);
	char local[24] = { 0 };

	memsight_region_push("outer");
	memsight_region_push("inner");
	memsight_region_pop("inner");
	memsight_region_pop(NULL);
	memsight_mark("here");
	memsight_name_range(block, 100, "buffer");
	memsight_name(local, "local");
	memsight_name_range(block, 0, NULL);
	memsight_block(block + 16, 77, block + 8);
	memsight_block_end(block + 16);
	memsight_pool_reset(block + 8);
	memsight_collect_push("heap, faults");
	memsight_collect_pop();
	memsight_pause();
	memsight_resume();
	memsight_pause_thread();
	memsight_resume_thread();
	say("block", (uintptr_t)block);
	say("local", (uintptr_t)local);
	return local[0];
}

/* A thousand trips through a region, in two threads; names are told once in each. */
static void *trips(void *unused)
{
	for (int i = 0; i < 1000; i++) {
		memsight_region_push("trip");
		memsight_region_pop("trip");
	}
	return unused;
}

static int many_trips(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, trips, NULL);
	trips(NULL);
	pthread_join(thread, NULL);
	return 0;
}

/* Names of no bytes, of none at all, and of more than a name can have. */
static int odd_names(void)
{
	static char name[1000];

	memset(name, 'x', sizeof(name) - 1);
	memsight_mark("");
	memsight_mark(NULL);
	memsight_mark(name);
	name[255] = '\0';
	memsight_mark(name);
	return 0;
}

/* What is born in a pause is not recorded, what ends in it is. */
static int paused(void)
{
	void *before = malloc(1001);
	void *during;

	say("before", (uintptr_t)before);
	memsight_pause();
	free(before);
	during = malloc(1002);
	for (int i = 0; i < 1000; i++)
		free(malloc(1003));
	say("during", (uintptr_t)during);
	memsight_resume();
	free(during);
	free(malloc(1004));
	return 0;
}

/* realloc and mremap in a pause: the old one ends, the new one is not recorded. */
static int paused_moves(void)
{
	void *block = malloc(1001);
	void *other;
	char *map = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	say("block", (uintptr_t)block);
	say("map", (uintptr_t)map);
	memsight_pause();
	block = realloc(block, 500000);
	block = realloc(block, 600000);
	other = malloc(1002);
	other = realloc(other, 100000);
	map = mremap(map, 8192, 1 << 20, MREMAP_MAYMOVE);
	memsight_resume();
	say("moved", (uintptr_t)map);
	block = realloc(block, 700000);
	munmap(map, 1 << 20);
	free(block);
	free(other);
	return 0;
}

/* Pauses nest, and a resume too many does nothing. */
static int nested_pauses(void)
{
	memsight_resume();
	free(malloc(1001));
	memsight_pause();
	memsight_pause();
	memsight_resume();
	free(malloc(1002));
	memsight_resume();
	free(malloc(1003));
	memsight_resume();
	free(malloc(1004));
	return 0;
}

static pthread_barrier_t barrier;

static void *pause_alone(void *unused)
{
	void *block = malloc(2001);

	memsight_pause_thread();
	pthread_barrier_wait(&barrier);
	free(block);
	block = malloc(2002);
	pthread_barrier_wait(&barrier);
	memsight_resume_thread();
	free(block);
	free(malloc(2003));
	return unused;
}

/* One thread pauses itself, another goes on. */
static int paused_thread(void)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, pause_alone, NULL);
	pthread_barrier_wait(&barrier);
	free(malloc(2004));
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	return 0;
}

static void *pause_and_resume(void *unused)
{
	for (int i = 0; i < 20000; i++) {
		memsight_pause();
		free(malloc(3001));
		memsight_resume();
		memsight_collect_push("mmap");
		memsight_collect_pop();
	}
	return unused;
}

/* Four threads pause and resume at once: in the end nothing is paused. */
static int pause_storm(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, pause_and_resume, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 100; i++)
		free(malloc(3002));
	return 0;
}

/* A forked child goes on in the pause of the process, and not in that of the thread. */
static int forked_pause(void)
{
	void *before = malloc(1001);
	int status;

	memsight_pause();
	if (fork() == 0) {
		free(malloc(1002));
		free(before);
		memsight_resume();
		free(malloc(1003));
		_exit(0);
	}
	wait(&status);
	memsight_resume();
	memsight_pause_thread();
	if (fork() == 0) {
		free(malloc(1004));
		_exit(0);
	}
	wait(&status);
	return 0;
}

/* Only what is asked for is collected; frees are all the same. */
static int collected(void)
{
	void *before = malloc(1001);
	char *map;

	memsight_collect_push("mmap,samples");
	free(before);
	free(malloc(1002));
	map = mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memsight_collect_push("nonsense");
	munmap(map, 3 * 4096);
	map = mmap(NULL, 5 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memsight_collect_push("heap");
	free(malloc(1003));
	memsight_collect_pop();
	memsight_collect_pop();
	memsight_collect_pop();
	memsight_collect_pop();
	free(malloc(1004));
	return map == NULL;
}

/* The eighth push and those behind it change nothing; each still wants its pop. */
static int deep_collect(void)
{
	for (int i = 0; i < 7; i++)
		memsight_collect_push("mmap");
	for (int i = 0; i < 300; i++)
		memsight_collect_push("heap");
	free(malloc(1001));
	for (int i = 0; i < 255 - 1; i++)
		memsight_collect_pop();
	free(malloc(1002));
	memsight_collect_pop();
	free(malloc(1003));
	return 0;
}

static int keeps_errno(void)
{
	int changed = 0;

	for (int i = 0; i < 1000; i++) {
		errno = 1234;
		every_function();
		changed += errno != 1234;
	}
	say("changed", (uint64_t)changed);
	return 0;
}

static const struct program programs[] = {
	{ "every-function", every_function },
	{ "many-trips", many_trips },
	{ "odd-names", odd_names },
	{ "paused", paused },
	{ "paused-moves", paused_moves },
	{ "nested-pauses", nested_pauses },
	{ "paused-thread", paused_thread },
	{ "pause-storm", pause_storm },
	{ "forked-pause", forked_pause },
	{ "collected", collected },
	{ "deep-collect", deep_collect },
	{ "keeps-errno", keeps_errno },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return run_program(programs, argc, argv);
}
