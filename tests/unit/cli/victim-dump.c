/*
 * A program that is sent a signal. Argument 1 is the signal's number, argument 2 what it does:
 *	raise     N times: 100 blocks of 1000 + i bytes in round i, the signal to itself, and a wait
 *	          until as many snapshots are there (argument 4 is the name of the first, with %d)
 *	own       sets a handler of its own, gets the signal, sets the default and gets it again
 *	ignore    ignores it, and gets it
 *	block     blocks it and waits for argument 4, a file; then it lets the signal through
 *	fork      its child gets it
 *	exec      calls itself with `raise'
 * Argument 3 is N. Prints what it has seen of signals; what it prints is the same without memsight
 * where the signal does not end it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_BLOCKS 100

static volatile sig_atomic_t n_own;

static void own(int number)
{
	(void)number;
	n_own++;
}

static void wait_for(const char *path)
{
	const struct timespec moment = { .tv_nsec = 5000000 };

	while (access(path, F_OK) != 0)
		nanosleep(&moment, NULL);
}

/* Of a shell: "DFL", "IGN" or "own". */
static const char *name_of(int number)
{
	struct sigaction now;

	sigaction(number, NULL, &now);
	return now.sa_handler == SIG_DFL ? "DFL" : now.sa_handler == SIG_IGN ? "IGN" : "own";
}

static void raise_all(int number, int n, const char *pattern)
{
	void *blocks[N_BLOCKS];
	char path[4096];

	for (int i = 1; i <= n; i++) {
		for (int k = 0; k < N_BLOCKS; k++)
			blocks[k] = malloc(1000 + (size_t)i);
		for (int k = 0; k < N_BLOCKS; k++)
			free(blocks[k]);
		errno = 77;
		kill(getpid(), number);
		printf("errno %d\n", errno);
		snprintf(path, sizeof(path), pattern, i);
		wait_for(path);
	}
	for (int k = 0; k < N_BLOCKS; k++)
		free(malloc(1000));
}

static void set_and_reset(int number)
{
	struct sigaction old;
	const struct sigaction none = { .sa_handler = SIG_DFL };

	printf("%s\n", signal(number, own) == SIG_DFL ? "was DFL" : "was another");
	raise(number);
	printf("%s, %d calls\n", name_of(number), (int)n_own);
	sigaction(number, &none, &old);
	printf("%s, %s\n", old.sa_handler == own ? "was own" : "was another", name_of(number));
}

static void block(int number, const char *path)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(number);
	wait_for(path);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
	int number = argc > 2 ? atoi(argv[1]) : 0;
	const char *what = argc > 2 ? argv[2] : "";
	int n = argc > 3 ? atoi(argv[3]) : 0;
	const char *path = argc > 4 ? argv[4] : "";

	setvbuf(stdout, NULL, _IONBF, 0);
	printf("%s\n", name_of(number));
	if (strcmp(what, "raise") == 0)
		raise_all(number, n, path);
	if (strcmp(what, "own") == 0) {
		set_and_reset(number);
		raise_all(number, n, path);
	}
	if (strcmp(what, "ignore") == 0) {
		signal(number, SIG_IGN);
		raise(number);
		printf("%s\n", name_of(number));
		wait_for(path);
	}
	if (strcmp(what, "block") == 0)
		block(number, path);
	if (strcmp(what, "fork") == 0) {
		if (fork() == 0) {
			raise_all(number, n, path);
			_exit(0);
		}
		wait(NULL);
	}
	if (strcmp(what, "exec") == 0)
		execl("/proc/self/exe", argv[0], argv[1], "raise", argv[3], argv[4], NULL);
	return 0;
}
