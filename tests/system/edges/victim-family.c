/*
 * Programs that start others, and share what processes seldom share. Expect as many blocks of BLOCK
 * bytes as they print; "one" makes one.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "../../unit/tracealloc/victim.h"

#define BLOCK	    4801
#define STACK_BYTES 65536

static const char *self;
static int count;

static int one(void)
{
	free(malloc(BLOCK));
	return 0;
}

static int wait_for(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 91;
}

static int shared_memory_child(void *kept)
{
	for (int i = 0; i < 10; i++)
		((void **)kept)[i] = malloc(BLOCK);
	free(((void **)kept)[0]);
	_exit(0);
}

/* A child in our memory, which is no thread: ten blocks, of which we give back nine. */
static int clone_memory(void)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	static void *kept[10];
	pid_t pid = clone(shared_memory_child, stack + sizeof(stack), CLONE_VM | SIGCHLD, kept);

	if (wait_for(pid))
		return 90;
	for (int i = 1; i < 10; i++)
		free(kept[i]);
	one();
	say("blocks", 11);
	return 0;
}

/* A child of vfork: its block is ours, since the memory is. */
static int with_vfork(void)
{
	char *arguments[] = { (char *)self, "one", NULL };
	void *volatile block = NULL;
	pid_t pid = vfork();

	if (pid == 0) {
		block = malloc(BLOCK);
		execv(self, arguments);
		_exit(80);
	}
	free(block);
	say("blocks", 2);
	return wait_for(pid);
}

/* Starts "one" in each way that passes through libc, with and without an environment. */
static int start_all(void)
{
	char *arguments[] = { (char *)self, "one", NULL };
	char command[600];
	FILE *file;
	pid_t pid;

	snprintf(command, sizeof(command), "'%s' one && exit 3", self);
	for (int i = 0; i < 2; i++) {
		if (posix_spawn(&pid, self, NULL, NULL, arguments, environ) || wait_for(pid))
			return 90;
		if (WEXITSTATUS(system(command)) != 3)
			return 91;
		file = popen(command, "r");
		if (!file || WEXITSTATUS(pclose(file)) != 3)
			return 92;
		clearenv();
	}
	say("blocks", 6);
	say("no shell", WEXITSTATUS(system("no-such-command-anywhere")));
	return system(NULL) ? 0 : 93;
}

static volatile int stop;

static void *churn(void *unused)
{
	(void)unused;
	while (!stop)
		free(malloc(100));
	return NULL;
}

/* Forks while three threads allocate without a pause; each child makes one block. */
static int storm(void)
{
	pthread_t threads[3];
	int status = 0;

	for (int i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, churn, NULL))
			return 90;
	for (int i = 0; i < count && !status; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			one();
			_exit(0);
		}
		status = wait_for(pid);
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	say("blocks", (uint64_t)count);
	return status;
}

/* Children that all get the same process id; in a namespace of ours, where we may say which. */
static int same_id(void)
{
	for (int i = 0; i < count; i++) {
		int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
		pid_t pid;

		if (fd < 0 || write(fd, "300", 3) != 3)
			return 77;
		close(fd);
		pid = fork();
		if (pid == 0) {
			one();
			_exit(getpid() == 301 ? 0 : 94);
		}
		if (wait_for(pid))
			return 90;
	}
	say("blocks", (uint64_t)count);
	return 0;
}

static const struct program programs[] = {
	{ "one", one },		 { "clone-memory", clone_memory },
	{ "vfork", with_vfork }, { "start-all", start_all },
	{ "storm", storm },	 { "same-id", same_id },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	self = argv[0];
	count = argc > 2 ? atoi(argv[2]) : 1;
	return run_program(programs, argc, argv);
}
