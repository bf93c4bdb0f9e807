/* Programs that start in unusual ways. Sizes say which case a block belongs to. */
#include <dlfcn.h>

#include "../tracealloc/victim.h"

static void *call(void *library, const char *name)
{
	union {
		void *pointer;
		void *(*function)(void);
	} found = { .pointer = dlsym(library, name) };

	return found.function ? found.function() : NULL;
}

/* The bare name of a library that lies beside the program. */
static int runpath(void)
{
	void *library = dlopen("libedge-plugin.so", RTLD_NOW);

	if (!library)
		return 1;
	free(call(library, "allocate_in_plugin"));
	return dlclose(library);
}

static const struct program programs[] = {
	{ "runpath", runpath },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return run_program(programs, argc, argv);
}
