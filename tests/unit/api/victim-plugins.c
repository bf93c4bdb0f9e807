/*
 * Regions whose trips are known, in two threads, and a fault of the program's own that it survives
 * by its handler: between regions, with and without plug-ins. `victim-plugins die': of a fault.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/memsight.h"

static volatile int *volatile nowhere;
static sigjmp_buf back;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

static void *work(void *unused)
{
	for (int i = 0; i < 2; i++) {
		memsight_region_push("outer");
		for (int k = 0; k < 3; k++) {
			memsight_region_push("inner");
			free(malloc(1000));
			memsight_region_pop("inner");
		}
		memsight_region_pop("outer");
	}
	memsight_region_push("around");
	memsight_region_push("left open");
	memsight_region_pop("around"); /* ends both */
	return unused;
}

int main(int argc, char *argv[])
{
	struct sigaction action = { .sa_handler = on_fault };
	pthread_t thread;

	work(NULL);
	if (argc > 1 && strcmp(argv[1], "die") == 0)
		*nowhere = 1;
	sigaction(SIGSEGV, &action, NULL);
	work(NULL);
	if (sigsetjmp(back, 1) == 0)
		*nowhere = 1;
	if (pthread_create(&thread, NULL, work, NULL) != 0)
		return 1;
	pthread_join(thread, NULL);
	puts("survived");
	if (argc > 1 && strcmp(argv[1], "raise") == 0)
		raise(SIGABRT);
	return 3;
}
