/*
 * Regions whose trips are known, in two threads, and a fault of the program's own that it survives
 * by its handler: between regions, with and without plug-ins. `victim-plugins die': of a fault.
 * `victim-plugins samples': two threads that do nothing but to spin, in a region.
 * `victim-plugins functions': calls that are known, of functions without regions.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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

#if defined(__clang__)
#define CALL __attribute__((noinline, optnone))
#else
#define CALL __attribute__((noipa))
#endif

static CALL int leaf(int n)
{
	return n + 1;
}

static CALL int tail(int n)
{
	return leaf(n);
}

static CALL int again(int n)
{
	return n > 1 ? again(n - 1) + leaf(n) : leaf(n);
}

static CALL void jump_out(void)
{
	leaf(1);
	siglongjmp(back, 1);
}

static CALL void *calls(void *unused)
{
	again(5);
	tail(1);
	if (sigsetjmp(back, 1) == 0)
		jump_out();
	return unused;
}

static CALL void on_other_stack(int signal)
{
	leaf(signal);
}

/* Three times calls(), of which one in a thread; twice `other', on a stack of its own. */
static int call_functions(void)
{
	static _Alignas(16) char other[64 << 10];
	stack_t stack = { .ss_sp = other, .ss_size = sizeof(other) };
	struct sigaction action = { .sa_handler = on_other_stack, .sa_flags = SA_ONSTACK };
	pthread_t thread;

	calls(NULL);
	if (pthread_create(&thread, NULL, calls, NULL) != 0 || pthread_join(thread, NULL) != 0 ||
	    sigaltstack(&stack, NULL) < 0 || sigaction(SIGUSR1, &action, NULL) < 0)
		return 1;
	raise(SIGUSR1);
	raise(SIGUSR1);
	calls(NULL);
	puts("called");
	return 3;
}

/* For each byte that comes: the answer says that it is done. */
static int allocate(void)
{
	char word;

	while (read(0, &word, 1) == 1) {
		for (int i = 0; i < 100; i++)
			free(malloc(1000));
		if (write(1, &word, 1) != 1)
			return 1;
	}
	puts("allocated");
	return 3;
}

/* So much CPU time of the thread in nothing but this. */
static CALL void spin(void)
{
	volatile unsigned n = 0;
	struct timespec now = { 0 };

	while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < 350) {
		for (unsigned i = 0; i < 10000000; i++)
			n++;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	}
}

static void *spins(void *unused)
{
	memsight_region_push("spinning");
	spin();
	memsight_region_pop("spinning");
	return unused;
}

static int spin_twice(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, spins, NULL) != 0)
		return 1;
	spins(NULL);
	pthread_join(thread, NULL);
	puts("spun");
	return 3;
}

int main(int argc, char *argv[])
{
	struct sigaction action = { .sa_handler = on_fault };
	pthread_t thread;

	if (argc > 1 && strcmp(argv[1], "functions") == 0)
		return call_functions();
	if (argc > 1 && strcmp(argv[1], "samples") == 0)
		return spin_twice();
	if (argc > 1 && strcmp(argv[1], "windows") == 0)
		return allocate();
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
