/* Programs that load and unload, and one that allocates before anything is set up. */
#include <dlfcn.h>
#include <pthread.h>

#include "victim.h"

typedef void *(*make_fn)(void);

/* The library is found by this program's own RUNPATH, and by nothing else. */
static int use_plugin(void)
{
	void *handle = dlopen("libta-plugin.so", RTLD_NOW);
	make_fn make;

	if (!handle)
		return 1;
	make = (make_fn)dlsym(handle, "plugin_make");
	if (!make)
		return 2;
	say("make", (uintptr_t)make);
	free(make());
	return dlclose(handle) ? 3 : 0;
}

static int once(void)
{
	return use_plugin();
}

static int thrice(void)
{
	for (int i = 0; i < 3; i++)
		if (use_plugin())
			return 1;
	return 0;
}

static void *load_often(void *unused)
{
	(void)unused;
	for (int i = 0; i < 300; i++) {
		void *handle = dlopen("libta-plugin.so", RTLD_NOW);

		free(((make_fn)dlsym(handle, "plugin_make"))());
		dlclose(handle);
	}
	return NULL;
}

/* Eight threads that load, call and unload at the same time. */
static int loading_threads(void)
{
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, load_often, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static void *first_block;

static void before_everything(void)
{
	first_block = malloc(808);
}

__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = before_everything;

static int preinit_block(void)
{
	say("block", (uintptr_t)first_block);
	free(first_block);
	return 0;
}

static const struct program programs[] = {
	{ "once", once },
	{ "thrice", thrice },
	{ "loading-threads", loading_threads },
	{ "preinit", preinit_block },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return run_program(programs, argc, argv);
}
