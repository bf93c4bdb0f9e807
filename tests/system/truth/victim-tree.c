/*
 * A tree of processes: 60 children, one after the other, while the parent goes on allocating where
 * the child does. One in three ends, one becomes another program, one does nothing at all. In each
 * child a handler of fork allocates before any other.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_CHILDREN 60
#define N_BLOCKS   40

static void *kept[N_BLOCKS];

/* Blocks are given back and taken anew: the same addresses in parent and child. */
static void churn(size_t size)
{
	for (int i = 0; i < N_BLOCKS; i++) {
		free(kept[i]);
		kept[i] = malloc(size);
		memset(kept[i], i, size);
	}
}

/* As a library does whose handlers come before those of the recorder. */
static void allocate(void)
{
	free(malloc(100));
}

static void begin_early(void)
{
	pthread_atfork(NULL, NULL, allocate);
}

__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = begin_early;

static void be_child(int kind)
{
	if (kind == 0)
		_exit(0);
	churn(64);
	if (kind == 1)
		execl("/bin/true", "true", (char *)NULL);
	_exit(0);
}

int main(void)
{
	int n_good = 0, status;

	churn(48);
	for (int i = 0; i < N_CHILDREN; i++) {
		pid_t pid = fork();

		if (pid == 0)
			be_child(i % 3);
		churn(64);
	}
	while (wait(&status) > 0)
		n_good += status == 0;
	printf("%d\n", n_good);
	return 0;
}
