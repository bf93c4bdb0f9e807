/*
 * One block of each kind, in two threads, in a forked child and in one that was started anew; built
 * in many ways by linkage.py. 100 blocks of 1931 bytes in each thread; 1934 and 1935 by functions
 * that a C library may make of others.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *allocate(void *unused)
{
	for (int i = 0; i < 100; i++) {
		void *volatile block = malloc(1931);

		free(block);
	}
	return unused;
}

static int wait_for(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 90;
}

static pid_t run_child(const char *self)
{
	pid_t pid = fork();
	void *volatile block;

	if (pid != 0)
		return pid;
	block = malloc(1932);
	free(block);
	if (self)
		execl(self, self, "child", (char *)NULL);
	_exit(6);
}

int main(int argc, char **argv)
{
	void *volatile block = malloc(1933);
	void *aligned = NULL;
	pthread_t thread;
	int sum = 0;

	free(block);
	block = calloc(2, 967);
	free(block);
	if (posix_memalign(&aligned, 64, 1935))
		return 2;
	free(aligned);
	if (argc > 1)
		return 7;
	if (pthread_create(&thread, NULL, allocate, NULL))
		return 1;
	allocate(NULL);
	pthread_join(thread, NULL);
	sum = wait_for(run_child(NULL)) + wait_for(run_child(argv[0]));
	printf("hello %d\n", sum);
	return 3;
}
