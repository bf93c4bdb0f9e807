/* Programs that start others, in every way. The program that is started is this one again. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "victim.h"

static const char *self;

#define ARGUMENTS "victim", "child"
static char *const arguments[] = { ARGUMENTS, NULL };
static char *const clean[] = { NULL };
static char *const own_preload[] = { "LD_PRELOAD=" SHIM, "OTHER=1", NULL };

/* What the started program is: one block, and what it sees of its environment. */
static int child(void)
{
	const char *preload = getenv("LD_PRELOAD");
	const char *recording = getenv("MEMSIGHT_RECORDING");

	free(malloc(2222));
	say(preload ? preload : "no-preload", 1);
	say("recording", recording != NULL);
	say("other", getenv("OTHER") != NULL);
	return 0;
}

static int wait_for(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 90;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 91;
}

/* Parent: 2001 bytes, then 2003. Child: gives the inherited block back, and has one of 2002. */
static int fork_child(void)
{
	void *block = malloc(2001);
	pid_t pid = fork();

	if (pid == 0) {
		free(block);
		free(malloc(2002));
		_exit(0);
	}
	say("block", (uintptr_t)block);
	say("child", (uint64_t)pid);
	if (wait_for(pid))
		return 1;
	free(malloc(2003));
	return 0;
}

/* A child of a child of a child; each has one block. */
static int fork_chain(void)
{
	for (int i = 0; i < 3; i++) {
		free(malloc(2100 + (size_t)i));
		pid_t pid = fork();

		if (pid)
			return wait_for(pid);
	}
	free(malloc(2103));
	return 0;
}

static volatile int stop;

static void *churn(void *unused)
{
	const struct timespec pause = { .tv_nsec = 20000 };

	(void)unused;
	while (!stop) {
		for (int i = 0; i < 20; i++)
			free(malloc(100));
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* 200 forks while two threads allocate; each child has one block of 2004 and ends. */
static int fork_storm(void)
{
	pthread_t threads[2];
	int status = 0;

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, churn, NULL);
	for (int i = 0; i < 200 && !status; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			free(malloc(2004));
			_exit(0);
		}
		status = wait_for(pid);
	}
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return status;
}

static int with_execve(void)
{
	return execve(self, arguments, clean);
}

static int with_execv(void)
{
	clearenv();
	return execv(self, arguments);
}

static int with_execvp(void)
{
	clearenv();
	return execvp(self, arguments);
}

static int with_execvpe(void)
{
	return execvpe(self, arguments, clean);
}

static int with_execl(void)
{
	clearenv();
	return execl(self, ARGUMENTS, NULL);
}

static int with_execlp(void)
{
	clearenv();
	return execlp(self, ARGUMENTS, NULL);
}

static int with_execle(void)
{
	return execle(self, ARGUMENTS, NULL, clean);
}

static int with_fexecve(void)
{
	return fexecve(open(self, O_RDONLY | O_CLOEXEC), arguments, clean);
}

static int with_execveat(void)
{
	return execveat(AT_FDCWD, self, arguments, clean, 0);
}

static int with_posix_spawn(void)
{
	pid_t pid = -1;

	return posix_spawn(&pid, self, NULL, NULL, arguments, clean) ? 1 : wait_for(pid);
}

static int with_posix_spawnp(void)
{
	pid_t pid = -1;

	return posix_spawnp(&pid, self, NULL, NULL, arguments, clean) ? 1 : wait_for(pid);
}

/* The block of 2005 bytes is the parent's: a vfork child works in its memory. */
static int with_vfork(void)
{
	void *volatile block = NULL;
	pid_t pid = vfork();

	if (pid == 0) {
		block = malloc(2005);
		execve(self, arguments, clean);
		_exit(80);
	}
	free(block);
	return wait_for(pid);
}

/* An own LD_PRELOAD entry stays. */
static int with_preload(void)
{
	return execve(self, arguments, own_preload);
}

/* The environment of another recording. */
static int with_other_recording(void)
{
	static char *const other[] = { "MEMSIGHT_RECORDING=/nonexistent/socket",
				       "LD_PRELOAD=" LIBTRACEALLOC, NULL };

	return execve(self, arguments, other);
}

/* An environment of 2,000 variables is built in a map. */
static int with_large_environment(void)
{
	static char text[2000][16];
	static char *environment[2001];

	for (int i = 0; i < 2000; i++) {
		snprintf(text[i], sizeof(text[i]), "V%d=%d", i, i);
		environment[i] = text[i];
	}
	return execve(self, arguments, environment);
}

/* The environment as it is: nothing has to be changed. */
static int with_environment(void)
{
	setenv("OTHER", "1", 1);
	return execv(self, arguments);
}

/* Programs that are not there: errno is told, and the program goes on. */
static int failing(void)
{
	const char *volatile no_path = NULL;
	pid_t pid;
	int right = 0;

	errno = 0;
	right += execve("/proc/self/nonexistent-a", arguments, clean) == -1 && errno == ENOENT;
	errno = 0;
	right += execl("/proc/self/nonexistent-b", ARGUMENTS, NULL) == -1 && errno == ENOENT;
	errno = 0;
	right += execve(no_path, arguments, clean) == -1 && errno == EFAULT;
	right += posix_spawn(&pid, "/proc/self/nonexistent-c", NULL, NULL, arguments, clean) ==
		 ENOENT;
	say("right", (uint64_t)right);
	free(malloc(2006));
	return 0;
}

/* Two ways to go on at each level: 2^12 stacks. */
static __attribute__((noinline)) void descend(unsigned ways, unsigned depth)
{
	if (depth == 0) {
		free(malloc(2007));
	} else if (ways & 1) {
		descend(ways >> 1, depth - 1);
		__asm__ volatile("" : : "r"(ways) : "memory");
	} else {
		descend(ways >> 1, depth - 1);
		__asm__ volatile("nop" : : "r"(ways) : "memory");
	}
}

/* A program of many stacks forks, as a shell does: what the child has to touch for us alone. */
static int fork_late(void)
{
	struct rusage usage;
	int status;
	pid_t pid;

	for (unsigned ways = 0; ways < 1u << 12; ways++)
		descend(ways, 12);
	pid = fork();
	if (pid == 0) {
		getrusage(RUSAGE_SELF, &usage);
		_exit(usage.ru_minflt > 200 ? 201 : (int)usage.ru_minflt);
	}
	waitpid(pid, &status, 0);
	say("faults", (uint64_t)WEXITSTATUS(status));
	return 0;
}

static const struct program programs[] = {
	{ "child", child },
	{ "fork-child", fork_child },
	{ "fork-chain", fork_chain },
	{ "fork-storm", fork_storm },
	{ "fork-late", fork_late },
	{ "execve", with_execve },
	{ "execv", with_execv },
	{ "execvp", with_execvp },
	{ "execvpe", with_execvpe },
	{ "execl", with_execl },
	{ "execlp", with_execlp },
	{ "execle", with_execle },
	{ "fexecve", with_fexecve },
	{ "execveat", with_execveat },
	{ "posix_spawn", with_posix_spawn },
	{ "posix_spawnp", with_posix_spawnp },
	{ "vfork", with_vfork },
	{ "preload", with_preload },
	{ "other-recording", with_other_recording },
	{ "large-environment", with_large_environment },
	{ "environment", with_environment },
	{ "failing", failing },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	self = VICTIM_PROCESS;
	return run_program(programs, argc, argv);
}
