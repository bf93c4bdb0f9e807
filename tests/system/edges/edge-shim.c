/*
 * A trivial interposer, to stand in front of ours or behind: counts mallocs of 1931 bytes and says
 * at the end how many. SHIM_NAME tells two of them apart.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

static unsigned n_mallocs;
static void *(*next_malloc)(size_t);

void *malloc(size_t size);

void *malloc(size_t size)
{
	union {
		void *pointer;
		void *(*function)(size_t);
	} found;

	if (!next_malloc) {
		found.pointer = dlsym(RTLD_NEXT, "malloc");
		next_malloc = found.function;
	}
	if (size == 1931)
		__atomic_fetch_add(&n_mallocs, 1, __ATOMIC_RELAXED);
	return next_malloc(size);
}

__attribute__((destructor)) static void tell(void)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "%s: %u\n", SHIM_NAME, n_mallocs);

	if (write(STDERR_FILENO, line, (size_t)n) != n)
		return;
}
