/*
 * Loads one library, lets it allocate, unloads it, and does the same with the other one, many
 * times. The second is most often mapped where the first was. Prints how often that was so.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_ROUNDS = 20 };

static uintptr_t allocate_in(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *symbol = library ? dlsym(library, "plugin_allocate") : NULL;
	void *(*allocate)(void);

	if (!symbol)
		exit(1);
	memcpy(&allocate, &symbol, sizeof(allocate));
	free(allocate());
	dlclose(library);
	return (uintptr_t)symbol;
}

int main(int n, char **arguments)
{
	unsigned n_same = 0;

	if (n != 3)
		return 2;
	for (int i = 0; i < N_ROUNDS; i++)
		n_same += allocate_in(arguments[1]) == allocate_in(arguments[2]);
	printf("%d %u\n", N_ROUNDS, n_same);
	return 0;
}
