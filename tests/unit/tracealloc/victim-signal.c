/* Programs whose signal handlers call hooks, or jump out of them. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "victim.h"

static volatile uint64_t n_handled;
static sigjmp_buf back;

static void map_in_handler(int signal)
{
	(void)signal;
	munmap(mmap(NULL, 12345, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 12345);
	n_handled++;
}

static void malloc_in_handler(int signal)
{
	(void)signal;
	free(malloc(54321));
	n_handled++;
}

static void start_timer(void (*handler)(int))
{
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

static void stop_timer(void)
{
	const struct itimerval never = { 0 };

	setitimer(ITIMER_REAL, &never, NULL);
	signal(SIGALRM, SIG_IGN);
	say("handled", n_handled);
}

static __attribute__((noinline)) void churn_deep(unsigned depth, size_t size)
{
	if (depth)
		churn_deep(depth - 1, size);
	else
		free(malloc(size));
	__asm__ volatile("" : : : "memory");
}

/*
 * 300,000 blocks of 100 to 107 bytes from changing depths, until the handler ran 100 times at
 * least. mmap and munmap are safe in handlers.
 */
static uint64_t churn_until_handled(void)
{
	uint64_t n = 0;

	for (; n < 300000 || n_handled < 100; n++)
		churn_deep(n % 13, 100 + n % 8);
	return n;
}

static int maps(void)
{
	start_timer(map_in_handler);
	say("made", churn_until_handled());
	stop_timer();
	return 0;
}

/* With an allocator that is safe in handlers (shim.c). */
static int mallocs(void)
{
	start_timer(malloc_in_handler);
	say("made", churn_until_handled());
	stop_timer();
	return 0;
}

static void jump(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

/* The allocator raises a signal inside malloc and realloc, whose handler jumps out (shim.c). */
static int jumps(void)
{
	struct sigaction action = { .sa_handler = jump, .sa_flags = SA_NODEFER };
	void *volatile block = malloc(3100);

	sigaction(SIGUSR1, &action, NULL);
	for (volatile int i = 0; i < 10; i++) {
		if (!sigsetjmp(back, 1))
			free(malloc(9999));
		free(malloc(3101));
		if (!sigsetjmp(back, 1))
			block = realloc(block, 9998);
		free(malloc(3102));
	}
	free(block);
	return 0;
}

static __attribute__((noinline)) void deeper(unsigned depth)
{
	volatile char area[256];

	memset((char *)area, 0x11, sizeof(area));
	if (depth)
		deeper(depth - 1);
	else
		free(malloc(3103));
	__asm__ volatile("" : : : "memory");
}

/* After a jump out of malloc every other call comes from further down than that one. */
static int jumps_then_deeper(void)
{
	struct sigaction action = { .sa_handler = jump, .sa_flags = SA_NODEFER };

	sigaction(SIGUSR1, &action, NULL);
	if (!sigsetjmp(back, 1))
		free(malloc(9999));
	for (int i = 0; i < 5000; i++)
		deeper(20);
	return 0;
}

static void clean_up(void *unused)
{
	(void)unused;
	free(malloc(3104));
}

static void *be_cancelled(void *unused)
{
	pthread_cleanup_push(clean_up, NULL);
	pthread_cancel(pthread_self());
	free(malloc(9997));
	pthread_cleanup_pop(0);
	return unused;
}

/* A thread that is cancelled inside malloc: unwinding goes through the hook (shim.c). */
static int cancelled(void)
{
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, be_cancelled, NULL);
	pthread_join(thread, &result);
	say("cancelled", result == PTHREAD_CANCELED);
	return 0;
}

extern void *shim_early __attribute__((weak));
extern void *shim_early_realloc __attribute__((weak));

/* Blocks that the allocation inside dlsym got, used and given back by the program. */
static int early(void)
{
	const uint8_t *bytes = shim_early;
	const uint8_t *moved;
	int wrong = 0;

	for (int i = 0; i < 2048; i++)
		wrong += bytes[i] != 0x5c || ((uint8_t *)shim_early_realloc)[i] != 0x5c;
	moved = realloc(shim_early, 3200);
	for (int i = 0; i < 2048; i++)
		wrong += moved[i] != 0x5c;
	free(shim_early_realloc);
	free((void *)moved);
	say("wrong", (uint64_t)wrong);
	say("aligned", (uintptr_t)bytes % 16 == 0);
	free(malloc(3201));
	return 0;
}

static const struct program programs[] = {
	{ "maps", maps },
	{ "mallocs", mallocs },
	{ "jumps", jumps },
	{ "jumps-then-deeper", jumps_then_deeper },
	{ "cancelled", cancelled },
	{ "early", early },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return run_program(programs, argc, argv);
}
