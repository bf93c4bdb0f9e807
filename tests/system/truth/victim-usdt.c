/*
 * Waits until a debugger sets `go`, which each process may attach. Then allocates and frees by all
 * functions of malloc's family, and says each block that is born and each that ends, in that order.
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define ROUNDS	  12
#define TIMEOUT_S 600

volatile int go;

static struct {
	const void *block;
	size_t size;
	int is_end;
} told[ROUNDS * 12];
static unsigned n_told;

static void *born(void *block, size_t size)
{
	told[n_told].block = block;
	told[n_told++].size = size;
	return block;
}

static void *ends(void *block)
{
	told[n_told].block = block;
	told[n_told++].is_end = 1;
	return block;
}

static void allocate(size_t size)
{
	void *block = born(malloc(size), size), *other;

	ends(block);
	block = born(realloc(block, 3 * size), 3 * size);
	other = born(calloc(2, size), 2 * size);
	free(ends(block));
	born(memalign(256, size + 1), size + 1);
	if (posix_memalign(&block, 64, size + 2) != 0)
		abort();
	free(ends(born(block, size + 2)));
	free(ends(other));
	born(reallocarray(NULL, 3, size + 3), 3 * (size + 3));
}

int main(void)
{
	static char buffer[65536];

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	for (int i = 0; !go && i < TIMEOUT_S * 100; i++)
		usleep(10000);
	for (unsigned i = 0; i < ROUNDS; i++)
		allocate(16 + 400 * i);
	for (unsigned i = 0; i < n_told; i++)
		printf(told[i].is_end ? "free %#jx\n" : "alloc %#jx %zu\n",
		       (uintmax_t)(uintptr_t)told[i].block, told[i].size);
	return 0;
}
