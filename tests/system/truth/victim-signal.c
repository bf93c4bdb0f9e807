/*
 * What a program may do with signals, and threads that use CPU time without allocating.
 * 	victim-signal threads	two threads and a forked child: prints "NAME CPU-ns"
 * 	victim-signal own	has a handler of its own for SIGRTMAX-3, and sends itself three
 * 	victim-signal mask	blocks all signals, works, and waits for any: none may be there
 * 	victim-signal child     a child of vfork and one of fork set that signal back, as
 * 	  supervisors do
 * 	victim-signal held	a thread has it blocked when another one takes it for itself
 * 	victim-signal errno	works with errno set, on an alternate stack, and restores
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS 4096u

uint64_t first_words[WORDS], second_words[WORDS], child_words[WORDS], main_words[WORDS];
static volatile sig_atomic_t n_handled;

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Use CPU time on an array; returns how much. */
static int64_t work(uint64_t *words, int64_t ns)
{
	int64_t begin = cpu_ns(), now;

	do {
		for (unsigned k = 0; k < 50; k++) {
			for (unsigned i = 0; i < WORDS; i++)
				((volatile uint64_t *)words)[i] += i;
		}
		now = cpu_ns();
	} while (now - begin < ns);
	return now - begin;
}

struct job {
	uint64_t *words;
	int64_t ns;
};

static void *run(void *pointer)
{
	struct job *job = pointer;

	job->ns = work(job->words, job->ns);
	return NULL;
}

static int use_threads(void)
{
	struct job jobs[] = { { first_words, 600000000 }, { second_words, 300000000 } };
	pthread_t threads[2];
	pid_t child = fork();

	if (child == 0) {
		printf("child_words %lld\n", (long long)work(child_words, 400000000));
		fflush(stdout);
		_exit(0);
	}
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run, &jobs[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	waitpid(child, NULL, 0);
	printf("first_words %lld\nsecond_words %lld\n", (long long)jobs[0].ns,
	       (long long)jobs[1].ns);
	return 0;
}

static void count(int number)
{
	(void)number;
	n_handled++;
}

static int use_own_handler(void)
{
	struct sigaction action = { .sa_handler = count }, old;

	work(main_words, 50000000);
	if (sigaction(SIGRTMAX - 3, &action, &old) < 0)
		return 1;
	printf("before: %s\n", old.sa_handler == SIG_DFL ? "default" : "another");
	for (int i = 0; i < 3; i++)
		raise(SIGRTMAX - 3);
	work(main_words, 100000000);
	printf("handled %d\n", (int)n_handled);
	return 0;
}

static int use_mask(void)
{
	const struct timespec moment = { .tv_nsec = 10000000 };
	sigset_t all, old;
	int r;

	work(main_words, 50000000);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	work(main_words, 200000000);
	r = sigtimedwait(&all, NULL, &moment);
	printf("waited: %d %s\n", r, r < 0 ? strerror(errno) : "");
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	sigprocmask(SIG_BLOCK, NULL, &old);
	printf("blocked after: %d\n", sigismember(&old, SIGRTMAX - 3));
	work(main_words, 100000000);
	return 0;
}

static int use_children(void)
{
	struct sigaction none = { .sa_handler = SIG_DFL }, old;
	volatile bool was_default = false;
	int status = 0;
	pid_t child;

	work(main_words, 50000000);
	child = vfork();
	if (child == 0) {
		was_default =
			sigaction(SIGRTMAX - 3, &none, &old) == 0 && old.sa_handler == SIG_DFL;
		_exit(0);
	}
	waitpid(child, &status, 0);
	printf("child of vfork: %d %d\n", status, was_default);
	child = fork();
	if (child == 0)
		_exit(signal(SIGRTMAX - 3, SIG_IGN) == SIG_DFL ? 0 : 1);
	waitpid(child, &status, 0);
	printf("child of fork: %d\n", status);
	work(main_words, 300000000);
	return 0;
}

static void *hold(void *ready)
{
	sigset_t all;

	work(first_words, 200000000);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	work(first_words, 50000000);
	sem_post(ready);
	pause();
	return NULL;
}

static int use_held(void)
{
	struct sigaction action = { .sa_handler = count };
	pthread_t thread;
	sem_t ready;

	sem_init(&ready, 0, 0);
	pthread_create(&thread, NULL, hold, &ready);
	while (sem_wait(&ready) < 0)
		continue;
	printf("taken: %d\n", sigaction(SIGRTMAX - 3, &action, NULL));
	return 0;
}

static int use_errno(void)
{
	stack_t stack = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 }, now;
	struct sigaction query;

	sigaltstack(&stack, NULL);
	errno = 77;
	work(main_words, 200000000);
	printf("errno %d\n", errno);
	sigaltstack(NULL, &now);
	printf("stack kept: %d\n", now.ss_sp == stack.ss_sp && now.ss_size == stack.ss_size);
	sigaction(SIGRTMAX - 3, NULL, &query);
	printf("handler seen: %d\n", query.sa_handler != SIG_DFL);
	return 0;
}

#ifdef __clang__
#define PLAIN __attribute__((noinline, optnone))
#else
#define PLAIN __attribute__((noinline, optimize("O0")))
#endif

/* Without optimisation: all of its variables lie below the stack pointer. */
PLAIN static void multiply(const float *a, const float *b, float *c, int n)
{
	for (int i = 0; i < n; i++)
		for (int k = 0; k < n; k++)
			for (int j = 0; j < n; j++)
				c[i * n + j] += a[i * n + k] * b[k * n + j];
}

static int use_variables(void)
{
	enum { SIDE = 60 };
	const size_t n_bytes = SIDE * SIDE * sizeof(float);
	float *a = calloc(1, n_bytes), *b = calloc(1, n_bytes), *c = calloc(1, n_bytes);

	for (int i = 0; i < 500; i++)
		multiply(a, b, c, SIDE);
	printf("sum %g\n", (double)c[0]);
	free(a);
	free(b);
	free(c);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} parts[] = {
		{ "threads", use_threads },	{ "own", use_own_handler }, { "mask", use_mask },
		{ "child", use_children },	{ "held", use_held },	    { "errno", use_errno },
		{ "variables", use_variables },
	};

	for (size_t i = 0; argc > 1 && i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strcmp(argv[1], parts[i].name) == 0)
			return parts[i].run();
	}
	return 2;
}
