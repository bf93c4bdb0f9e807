/* An arena of jemalloc: as many bytes as it says itself are alive. Prints them, and is killed. */
#include <jemalloc/jemalloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>

static size_t ask(const char *name, unsigned arena)
{
	size_t value = 0, n = sizeof(value);
	char full[80];

	snprintf(full, sizeof(full), "stats.arenas.%u.%s.allocated", arena, name);
	return mallctl(full, &value, &n, NULL, 0) == 0 ? value : 0;
}

int main(void)
{
	uint64_t epoch = 1;
	unsigned arena;
	size_t n = sizeof(arena);

	if (mallctl("arenas.create", &arena, &n, NULL, 0) != 0)
		return 1;
	int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
	for (int i = 0; i < 3000; i++) {
		size_t size = i % 50 == 49 ? 20480 : (size_t)16 << i % 5; /* of its classes */
		void *block = mallocx(size, flags);

		if (i % 4 == 1)
			block = rallocx(block, 1024, flags);
		if (i % 3 == 2)
			dallocx(block, flags);
		else if (i % 5 == 4)
			sdallocx(block, sallocx(block, 0), flags);
	}
	mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
	printf("%zu\n", ask("small", arena) + ask("large", arena));
	fflush(stdout);
	raise(SIGKILL);
}
