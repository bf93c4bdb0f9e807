/*
 * A library to open with RTLD_DEEPBIND: n blocks of 4907 bytes in each way, all freed; and one each
 * way across.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES 4907

void *deep_exchange(void *block, int n);

static void *of_constructor;
static void (*volatile give_back)(void *) = free; /* bound as data */

__attribute__((constructor)) static void begin(void)
{
	of_constructor = malloc(BYTES);
}

void *deep_exchange(void *block, int n)
{
	free(of_constructor);
	for (int i = 0; i < n; i++) {
		void *aligned = NULL;

		free(malloc(BYTES));
		give_back(calloc(1, BYTES));
		give_back(realloc(malloc(16), BYTES));
		if (posix_memalign(&aligned, 64, BYTES) == 0)
			free(aligned);
		free(memalign(64, BYTES));
	}
	munmap(mmap(NULL, 4907 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4907 * 4096);
	free(block);
	return malloc(BYTES);
}
