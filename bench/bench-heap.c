/*
 * What the heap of a kind costs, beside memkind itself: pairs of free and allocation in a window of
 * live blocks, by malloc and free (preloaded: the heap) and by memkind_malloc and memkind_free on a
 * kind of the program's own, in turns in one process. usage: bench-heap DIR
 *
 *	MEMSIGHT_PLACEMENT="pmem 1073741824 0 0 0 - /dev/shm" LD_PRELOAD=build/libtracealloc_heap.so
 *	\
 *		build/bench/bench-heap /dev/shm
 */
#include <memkind.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N_ROUNDS 9
#define N_PAIRS	 400000
#define N_LIVE	 256

struct allocator {
	const char *name;
	void *(*allocate)(size_t size);
	void (*release)(void *block);
};

static memkind_t own;

static void *own_malloc(size_t size)
{
	return memkind_malloc(own, size);
}

static void own_free(void *block)
{
	memkind_free(own, block);
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* ns a pair; sizes from 1 to max_bytes, the same for each allocator. */
static double measure(const struct allocator *allocator, size_t max_bytes)
{
	void *live[N_LIVE] = { NULL };
	uint32_t dice = 1;
	double begin = now_ns();

	for (int i = 0; i < N_PAIRS; i++) {
		dice = dice * 1103515245u + 12345u;
		unsigned slot = dice >> 16 & (N_LIVE - 1);

		allocator->release(live[slot]);
		live[slot] = allocator->allocate((dice >> 4) % max_bytes + 1);
	}
	double end = now_ns();

	for (unsigned i = 0; i < N_LIVE; i++)
		allocator->release(live[i]);
	return (end - begin) / N_PAIRS;
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return left < right ? -1 : left > right;
}

static void compare_at(const struct allocator *ours, const struct allocator *theirs,
		       size_t max_bytes)
{
	double our_ns[N_ROUNDS], their_ns[N_ROUNDS], ratio[N_ROUNDS];

	for (int i = 0; i < N_ROUNDS; i++) {
		our_ns[i] = measure(ours, max_bytes);
		their_ns[i] = measure(theirs, max_bytes);
		ratio[i] = our_ns[i] / their_ns[i];
	}
	qsort(our_ns, N_ROUNDS, sizeof(our_ns[0]), compare);
	qsort(their_ns, N_ROUNDS, sizeof(their_ns[0]), compare);
	qsort(ratio, N_ROUNDS, sizeof(ratio[0]), compare);
	printf("1-%zu bytes: %s %.0f ns, %s %.0f ns a pair; ratio "
	       "%.2f (median of %d, %.2f to %.2f)\n",
	       max_bytes, ours->name, our_ns[N_ROUNDS / 2], theirs->name, their_ns[N_ROUNDS / 2],
	       ratio[N_ROUNDS / 2], N_ROUNDS, ratio[0], ratio[N_ROUNDS - 1]);
}

int main(int argc, char **argv)
{
	static const struct allocator ours = { "malloc", malloc, free };
	static const struct allocator theirs = { "memkind_malloc", own_malloc, own_free };

	if (argc != 2 || memkind_create_pmem(argv[1], UINT64_C(1) << 30, &own) != 0) {
		fprintf(stderr, "usage: bench-heap DIR (of a pmem kind)\n");
		return 1;
	}
	compare_at(&ours, &theirs, 256);
	compare_at(&ours, &theirs, 4096);
	compare_at(&ours, &theirs, 65536);
	return 0;
}
