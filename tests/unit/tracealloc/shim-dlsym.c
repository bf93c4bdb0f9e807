/*
 * Stands below our library in LD_PRELOAD: a dlsym that allocates, as old C libraries' do. What is
 * looked up through it is found behind this library.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The version of the symbols that the C library had from the start. */
#if defined(__x86_64__)
#define FIRST_GLIBC "GLIBC_2.2.5"
#else
#define FIRST_GLIBC "GLIBC_2.17"
#endif

void *shim_early; /* what dlsym got from calloc */
void *shim_early_realloc;

void *dlsym(void *handle, const char *name)
{
	static void *(*real)(void *, const char *);

	if (!real)
		real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", FIRST_GLIBC);
	if (!shim_early) {
		for (int i = 0; i < 3; i++) {
			uint8_t *block = calloc(1024, 2);

			memset(block, 0x5a + i, 2048);
			shim_early = block;
		}
		shim_early_realloc = realloc(shim_early, 4096);
	}
	return real(handle, name);
}
