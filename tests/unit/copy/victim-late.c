/* Loads the library that its first word names, and calls it. */
#include <dlfcn.h>
#include <stddef.h>

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void (*call)(void) = library ? (void (*)(void))dlsym(library, "from_library") : NULL;

	if (!call)
		return 1;
	call();
	return 0;
}
