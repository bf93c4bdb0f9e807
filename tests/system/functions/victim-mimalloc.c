/* Heaps of mimalloc: as many blocks as the heaps say. Prints how many, and is killed. */
#include <mimalloc.h>
#include <signal.h>
#include <stdio.h>

static bool count(const mi_heap_t *heap, const mi_heap_area_t *area, void *block, size_t size,
		  void *sum)
{
	(void)heap, (void)area, (void)size;
	*(size_t *)sum += block != NULL;
	return true;
}

static void fill(mi_heap_t *heap, int n)
{
	void *blocks[100];

	for (int i = 0; i < n; i++) {
		void **block = &blocks[i % 100];

		*block = i % 3 ? mi_heap_malloc(heap, 16 + (size_t)i) : mi_heap_calloc(heap, 3, 20);
		if (i % 4 == 1)
			*block = mi_heap_realloc(heap, *block, 5000);
		if (i % 5 == 2)
			mi_free(*block);
		if (i % 7 == 3)
			(void)!mi_heap_malloc_aligned(heap, 300, 256);
	}
}

int main(void)
{
	mi_heap_t *kept = mi_heap_new(), *gone = mi_heap_new();
	size_t n = 0;

	fill(kept, 1000);
	fill(gone, 2000);
	mi_heap_destroy(gone);
	mi_heap_visit_blocks(kept, true, count, &n);
	printf("%zu\n", n);
	fflush(stdout);
	raise(SIGKILL);
}
