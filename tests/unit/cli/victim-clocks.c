/*
 * Uses CPU time in a child, then in a second thread, then in the main thread, with a mark behind
 * each: "child", "thread", "main". Arguments: how many ms in each; in which of them it goes on
 * until a file is there; that file. Allocates N_BLOCKS blocks of 1,000 bytes when it has seen it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "include/memsight.h"

#define N_BLOCKS 10

static double least_s;
static const char *longest;
static const char *file;

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *use_cpu(void *name)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	double begin = cpu_s();

	while (cpu_s() - begin < least_s)
		;
	if (strcmp(name, longest) != 0)
		return NULL;
	while (access(file, F_OK) != 0)
		nanosleep(&moment, NULL);
	for (int i = 0; i < N_BLOCKS; i++)
		free(malloc(1000));
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	pid_t child;

	if (argc < 4)
		return 2;
	least_s = atof(argv[1]) / 1000;
	longest = argv[2];
	file = argv[3];
	child = fork();
	if (child == 0) {
		use_cpu("child");
		_exit(0);
	}
	waitpid(child, NULL, 0);
	memsight_mark("child");
	if (pthread_create(&thread, NULL, use_cpu, "thread") != 0)
		return 1;
	pthread_join(thread, NULL);
	memsight_mark("thread");
	use_cpu("main");
	memsight_mark("main");
	return 0;
}
