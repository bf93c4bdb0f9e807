/*
 * Functions of a program that runs already. It obeys words: what each does is known exactly, and
 * the answer says what came of it. `churn` lets threads call all the time, and count for
 * themselves; `hold` waits for the next words inside a function, and what has been called before.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define N_THREADS 3
#define MDWE	  65 /* PR_SET_MDWE, Linux 6.3 */
#if defined(__clang__)
#define F static __attribute__((noinline, optnone))
#else
#define F static __attribute__((noipa, noinline))
#endif

static _Atomic bool must_end;
static _Atomic long n_wrong;
static bool obey(void);

F long f_leaf(long n)
{
	return n + 1;
}

F long f_one(void)
{
	return 1;
}

F long f_deep(long n)
{
	return n > 0 ? f_deep(n - 1) + f_leaf(n) : f_one();
}

F void *f_take(size_t n)
{
	return malloc(n);
}

F void f_give(void *block)
{
	free(block);
}

F long f_hold(long n)
{
	bool goes_on = n > 0 ? f_hold(n - 1) : obey();

	return f_leaf(goes_on);
}

static ucontext_t outside, inside;

F void f_yield(void)
{
	swapcontext(&inside, &outside);
}

F long f_within(long n)
{
	f_yield();
	return f_leaf(n);
}

static void coroutine(void)
{
	n_wrong += f_within(41) != 42;
}

/* Nobody finds its stack while it waits. */
static bool wait_in_coroutine(void)
{
	size_t n_bytes = 256 << 10;
	char *stack = malloc(n_bytes);
	bool goes_on;

	getcontext(&inside);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = n_bytes;
	inside.uc_link = &outside;
	makecontext(&inside, coroutine, 0);
	swapcontext(&outside, &inside);
	goes_on = obey();
	swapcontext(&outside, &inside);
	free(stack);
	return goes_on;
}

static void *churn(void *unused)
{
	for (long i = 0; !must_end; i++) {
		void *block = f_take((size_t)(i % 99 + 1));

		n_wrong += f_deep(i % 8) < 1 || !block;
		f_give(block);
	}
	return unused;
}

static long work(void)
{
	long sum = 0;

	for (long i = 0; i < 1000; i++) {
		sum += f_deep(4);
		f_give(f_take(100));
	}
	return sum;
}

static long fork_and_work(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(work() != 15000);
	waitpid(pid, &status, 0);
	return status;
}

static void answer(long number)
{
	printf("%ld\n", number);
	fflush(stdout);
}

/* False: that was the last word. */
static bool obey(void)
{
	static pthread_t threads[N_THREADS];
	char word[64];

	while (fgets(word, sizeof(word), stdin)) {
		word[strcspn(word, "\n")] = '\0';
		if (strcmp(word, "work") == 0) {
			answer(work());
		} else if (strcmp(word, "fork") == 0) {
			answer(fork_and_work());
		} else if (strcmp(word, "deny") == 0) {
			answer(prctl(MDWE, 1, 0, 0, 0));
		} else if (strcmp(word, "churn") == 0) {
			for (int i = 0; i < N_THREADS; i++)
				pthread_create(&threads[i], NULL, churn, NULL);
			answer(N_THREADS);
		} else if (strcmp(word, "rest") == 0) {
			must_end = true;
			for (int i = 0; i < N_THREADS; i++)
				pthread_join(threads[i], NULL);
			answer(n_wrong);
		} else if (strcmp(word, "hold") == 0) {
			answer(0);
			f_hold(3);
		} else if (strcmp(word, "coroutine") == 0) {
			answer(0);
			wait_in_coroutine();
		} else if (strcmp(word, "return") == 0) {
			answer(n_wrong);
			return true;
		}
	}
	return false;
}

int main(void)
{
	answer(getpid());
	obey();
	answer(n_wrong);
	return n_wrong != 0;
}
