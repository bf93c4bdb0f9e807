/*
 * Programs that start in unusual ways, and load in unusual ways. Sizes say which case a block
 * belongs to.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include "../../unit/tracealloc/victim.h"

typedef void *(*allocate_fn)(void);
typedef void (*free_fn)(void *);

static const char *argument;

/* Blocks from before the constructors and from within them. */
static void *blocks[4];

static void before_constructors(void)
{
	blocks[0] = calloc(1, 1901);
}

__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = before_constructors;

__attribute__((constructor)) static void construct(void)
{
	blocks[1] = malloc(1902);
}

static void at_exit(void)
{
	free(blocks[2]);
	free(malloc(1904));
}

__attribute__((destructor)) static void destruct(void)
{
	free(blocks[3]);
}

static int phases(void)
{
	blocks[2] = malloc(1903);
	blocks[3] = malloc(1905);
	for (int i = 0; i < 1901; i++)
		if (((char *)blocks[0])[i])
			return 1;
	free(blocks[0]);
	free(blocks[1]);
	return atexit(at_exit);
}

/* The bare name of a library that lies beside the program. */
static int runpath(void)
{
	void *library = dlopen("libedge-plugin.so", RTLD_NOW);

	if (!library)
		return 1;
	free(((allocate_fn)dlsym(library, "allocate_in_plugin"))());
	return dlclose(library);
}

/*
 * A library that looks for malloc in its own dependencies first frees our block, and the reverse.
 */
static int deepbind(void)
{
	void *library = dlopen("libedge-plugin.so", RTLD_NOW | RTLD_DEEPBIND);
	void *ours;
	void *theirs;

	if (!library)
		return 1;
	for (int i = 0; i < 100; i++) {
		ours = malloc(1907);
		theirs = ((allocate_fn)dlsym(library, "allocate_in_plugin"))();
		((free_fn)dlsym(library, "free_in_plugin"))(ours);
		free(theirs);
	}
	return dlclose(library);
}

/* A library with a C library of its own. */
static int namespace(void)
{
	void *library = dlmopen(LM_ID_NEWLM, argument, RTLD_NOW);
	void *block;

	if (!library)
		return 1;
	for (int i = 0; i < 100; i++) {
		block = ((allocate_fn)dlsym(library, "allocate_in_plugin"))();
		memset(block, 1, 1906);
		((free_fn)dlsym(library, "free_in_plugin"))(block);
		free(malloc(1908));
	}
	return dlclose(library);
}

/*
 * As many libraries with static TLS as there is room for; argument is the folder with 0.so, 1.so
 * ...
 */
static int static_tls(void)
{
	char path[4096];
	unsigned n = 0;

	for (; n < 60; n++) {
		snprintf(path, sizeof(path), "%s/%u.so", argument, n);
		if (!dlopen(path, RTLD_NOW))
			break;
		free(malloc(1909));
	}
	say("loaded", n);
	return 0;
}

/* A library that nobody preloaded: argument is our own. */
static int late(void)
{
	void *library = dlopen(argument, RTLD_NOW);

	say("loaded", library != NULL);
	free(malloc(1910));
	return 0;
}

static _Atomic int is_over;

static void *load_often(void *ret_rounds)
{
	/* For long: some 10,000 times in all. */
	const struct timespec pause = { .tv_nsec = atoi(argument) ? 5000000 : 50000 };
	unsigned *n = ret_rounds;

	while (!is_over) {
		void *library = dlopen("libedge-plugin.so", RTLD_NOW);

		if (!library)
			abort();
		free(((allocate_fn)dlsym(library, "allocate_in_plugin"))());
		dlclose(library);
		(*n)++;
		nanosleep(&pause, NULL); /* or somebody always has it, and it is never unloaded */
	}
	return NULL;
}

/* Eight threads that load, call and unload for so many seconds. */
static int loading(void)
{
	struct timespec span = { .tv_sec = atoi(argument), .tv_nsec = 300000000 };
	unsigned rounds[8] = { 0 };
	pthread_t threads[8];
	unsigned n = 0;

	for (int i = 0; i < 8; i++)
		if (pthread_create(&threads[i], NULL, load_often, &rounds[i]))
			return 1;
	nanosleep(&span, NULL);
	is_over = 1;
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], NULL);
		n += rounds[i];
	}
	say("rounds", n);
	return 0;
}

static const struct program programs[] = {
	{ "phases", phases },	      { "runpath", runpath },
	{ "deepbind", deepbind },     { "namespace", namespace },
	{ "static-tls", static_tls }, { "late", late },
	{ "loading", loading },	      { NULL, NULL },
};

int main(int argc, char **argv)
{
	argument = argc > 2 ? argv[2] : "";
	return run_program(programs, argc, argv);
}
