/*
 * Blocks of ten functions, each as many and as large as ways[] says, and given back in another way
 * each: by free, by another thread, by realloc, by a forked child as well, by nobody. Prints for
 * each its name, what it allocated in blocks and bytes, and what of that is not freed at the end.
 *
 *	victim-picks [TIMES]: so many times as many blocks
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT 4096 /* of the blocks that live for long */
#define MAKE(name, call)                                                                           \
	__attribute__((noinline)) static void *name(size_t size)                                   \
	{                                                                                          \
		void *block = call;                                                                \
		__asm__ volatile("" : "+r"(block)); /* no jump */                                  \
		return block;                                                                      \
	}

MAKE(by_malloc, malloc(size))
MAKE(by_malloc_small, malloc(size))
MAKE(by_malloc_large, malloc(size))
MAKE(by_calloc, calloc(4, size / 4))
MAKE(by_memalign, memalign(256, size))
MAKE(by_aligned_alloc, aligned_alloc(64, size))
MAKE(for_another_thread, malloc(size))
MAKE(for_a_child, malloc(size))
MAKE(for_nobody, malloc(size))

static void *by_posix_memalign(size_t size)
{
	void *block;

	return posix_memalign(&block, 128, size) == 0 ? block : NULL;
}

static void *queue[KEPT];
static pthread_barrier_t barrier;

/* Frees what the first thread has put into the queue. */
static void *free_all(void *unused)
{
	for (;;) {
		pthread_barrier_wait(&barrier);
		if (!queue[0])
			return unused;
		for (unsigned i = 0; i < KEPT; i++)
			free(queue[i]);
		pthread_barrier_wait(&barrier);
	}
}

/* free, but a tenth of them go on as blocks of realloc, of which only the last one is freed. */
__attribute__((noinline)) static void grow(void *block, size_t size)
{
	for (unsigned i = 0; i < 3; i++)
		block = realloc(block, size *= 2);
	free(block);
}

static void tell(const char *name, unsigned long n, size_t size, unsigned long n_left)
{
	printf("%s %lu %lu %lu %lu\n", name, n, n * size, n_left, n_left * size);
}

static void give_away(unsigned long n)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	if (pthread_create(&thread, NULL, free_all, NULL) != 0)
		exit(1);
	for (unsigned long i = 0; i < n; i += KEPT) {
		for (unsigned k = 0; k < KEPT; k++)
			queue[k] = for_another_thread(600);
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
	}
	queue[0] = NULL;
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	tell("for_another_thread", n, 600, 0);
}

/* The child gives its copies back, and the parent its own. */
static void fork_once(void)
{
	for (unsigned i = 0; i < KEPT; i++)
		queue[i] = for_a_child(900);
	pid_t child = fork();
	for (unsigned i = 0; i < KEPT; i++)
		free(queue[i]);
	if (child == 0)
		exit(0);
	if (child < 0 || waitpid(child, NULL, 0) != child)
		exit(1);
	tell("for_a_child", KEPT, 900, 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void *(*make)(size_t size);
		size_t size;
		unsigned n;
	} ways[] = {
		{ "by_malloc", by_malloc, 1000, 6000 },
		{ "by_malloc_small", by_malloc_small, 40, 40000 },
		{ "by_malloc_large", by_malloc_large, 300000, 50 },
		{ "by_calloc", by_calloc, 2000, 3000 },
		{ "by_memalign", by_memalign, 500, 8000 },
		{ "by_aligned_alloc", by_aligned_alloc, 6400, 1000 },
		{ "by_posix_memalign", by_posix_memalign, 3000, 2000 },
	};
	unsigned long times = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;

	for (size_t k = 0; k < sizeof(ways) / sizeof(ways[0]); k++) {
		for (unsigned long i = 0; i < ways[k].n * times; i++)
			free(ways[k].make(ways[k].size));
		tell(ways[k].name, ways[k].n * times, ways[k].size, 0);
	}
	for (unsigned i = 0; i < 2000; i++)
		grow(NULL, 500);
	printf("grow %u %u 0 0\n", 3 * 2000, 2000 * (1000 + 2000 + 4000));
	give_away(2 * KEPT);
	fork_once();
	for (unsigned i = 0; i < 5000; i++)
		if (!for_nobody(700))
			return 1;
	tell("for_nobody", 5000, 700, 5000);
	return 0;
}
