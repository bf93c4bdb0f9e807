/*
 * Programs that end in every way, and that do to themselves what breaks tracers: expect as many
 * blocks of BLOCK bytes as they print. Everything that depends on the machine stays unprinted.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../../unit/tracealloc/victim.h"

#define BLOCK 4801
#define FEW   2000

/* n blocks that are freed, and one that stays. */
static void make(int n)
{
	void *volatile kept = NULL;

	for (int i = 0; i < n; i++) {
		void *block = malloc(BLOCK);

		if (i + 1 < n)
			free(block);
		else
			kept = block;
	}
	(void)kept;
}

static void make_and_say(int n)
{
	make(n);
	say("blocks", (uint64_t)n);
}

static int end_return(void)
{
	make_and_say(FEW);
	return 3;
}

static int end_exit_now(void)
{
	make_and_say(FEW);
	_exit(4);
}

static int end_quick(void)
{
	make_and_say(FEW);
	quick_exit(5);
}

static int end_abort(void)
{
	make_and_say(FEW);
	abort();
}

static int end_fault(void)
{
	make_and_say(FEW);
	*(volatile int *)8 = 1;
	return 0;
}

static int end_kill(void)
{
	make_and_say(FEW);
	kill(getpid(), SIGKILL);
	return 0;
}

static pthread_t main_thread;

/* Goes on when the first thread has ended, and ends the process. */
static void *outlive(void *unused)
{
	(void)unused;
	pthread_join(main_thread, NULL);
	make(FEW);
	say("blocks", 2 * FEW);
	exit(6);
}

static int end_main_thread(void)
{
	pthread_t thread;

	make(FEW);
	main_thread = pthread_self();
	if (pthread_create(&thread, NULL, outlive, NULL))
		return 90;
	pthread_exit(NULL);
}

static volatile int is_over;

static void *churn(void *unused)
{
	(void)unused;
	while (!is_over)
		free(malloc(100));
	return NULL;
}

/* Ends while four threads allocate. */
static int end_busy(void)
{
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		if (pthread_create(&thread, NULL, churn, NULL))
			return 90;
	make_and_say(FEW);
	exit(7);
}

static void wait_for(const char *name)
{
	while (access(name, F_OK) < 0)
		usleep(1000);
}

static void tell(const char *name)
{
	close(open(name, O_WRONLY | O_CREAT, 0666));
}

/* Makes blocks, waits for the file "go" in the folder, makes more. */
static int two_parts(void)
{
	make(FEW);
	say("first", FEW);
	tell("ready");
	wait_for("go");
	make(FEW);
	say("second", FEW);
	return 8;
}

static const char *self;

/* Starts itself anew when it is told to. */
static int start_late(void)
{
	char *arguments[] = { (char *)self, "return", NULL };

	free(malloc(1));
	tell("ready");
	wait_for("go");
	execv(self, arguments);
	return 90;
}

/* Ten million blocks in the second part: more than a pool holds. */
static int ten_million(void)
{
	free(malloc(1));
	tell("ready");
	wait_for("go");
	for (int i = 0; i < 10000000; i++)
		free(malloc(64));
	say("made", 10000000);
	return 9;
}

static int three_million(void)
{
	for (int i = 0; i < 3000000; i++)
		free(malloc((size_t)(i * 7 % 5000)));
	say("made", 3000000);
	return 10;
}

/* Takes all that the disk has. */
/* Until a quarter of a megabyte is on the disk: more than is taken ahead there, so events. */
static void wait_for_a_trace(void)
{
	struct statvfs disk;

	for (int i = 0; i < 2000 && statvfs("disk", &disk) == 0 &&
			(disk.f_blocks - disk.f_bfree) * disk.f_frsize < 256 << 10;
	     i++)
		usleep(5000);
}

static void fill_disk(void)
{
	static char page[4096];
	int fd = open("disk/fill", O_WRONLY | O_CREAT, 0600);

	wait_for_a_trace();
	while (write(fd, page, sizeof(page)) > 0)
		;
	close(fd);
}

/* Blocks of many sizes and places, which do not compress away. */
static int make_many_live(bool fills_disk)
{
	static void *blocks[4096];
	uint32_t random = 1;

	for (int i = 0; i < 1500000; i++) {
		if (i == 300000 && fills_disk)
			fill_disk();
		random = random * 1664525 + 1013904223;
		free(blocks[random >> 20]);
		blocks[random >> 20] = malloc(random % 9973 + 16);
	}
	say("made", 1500000);
	return 11;
}

static int many_live(void)
{
	return make_many_live(false);
}

static int fill_and_go_on(void)
{
	return make_many_live(true);
}

/* Address space of 512 MiB: blocks until there is no room for 64 MiB more. */
static int address_space(void)
{
	struct rlimit limit = { 512u << 20, 512u << 20 };
	int n = 0;

	if (setrlimit(RLIMIT_AS, &limit))
		return 90;
	make_and_say(FEW);
	while (n < 64 && malloc(64u << 20))
		n++;
	say("some", n > 0);
	say("bounded", n < 64);
	return 12;
}

/* All the files it may have: which numbers are free is what it prints. */
static int few_files(void)
{
	struct rlimit limit = { 8, 8 };
	int fd;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		return 90;
	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		say("file", (uint64_t)fd);
	say("errno", (uint64_t)errno);
	make(FEW);
	pid_t pid = fork();

	if (pid == 0) {
		make(FEW);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	say("blocks", 2 * FEW);
	return 13;
}

/* Closes all files, ours and whoever's, opens its own, and looks that nobody else wrote there. */
static int own_file(void)
{
	struct stat status;
	int fd = open("own", O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (write(fd, "mine", 4) != 4)
		return 90;
	make(300000);
	if (fstat(fd, &status) || status.st_size != 4)
		return 91;
	return 14 + fd;
}

static int close_all(void)
{
	make(FEW);
	closefrom(0);
	return own_file();
}

static int close_own_range(void)
{
	make(FEW);
	if (close_range(3, ~0u, 0))
		return 92;
	return own_file();
}

static int daemonise(void)
{
	pid_t pid = fork();

	if (pid)
		return 15;
	setsid();
	if (chdir("/"))
		_exit(90);
	closefrom(0);
	pid = fork();
	if (pid)
		_exit(0);
	make(FEW);
	_exit(0);
}

/* Another root without anything in it: no /proc, no library, no socket. */
static int change_root(void)
{
	pid_t pid;

	make(FEW);
	if (mkdir("empty", 0700) && errno != EEXIST)
		return 90;
	if (chroot("empty") || chdir("/"))
		return 91;
	make(FEW);
	pid = fork();
	if (pid == 0) {
		make(FEW);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	say("blocks", 3 * FEW);
	return 16;
}

static int drop_user(void)
{
	pid_t pid;

	make(FEW);
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return 91;
	make(FEW);
	pid = fork();
	if (pid == 0) {
		make(FEW);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	say("blocks", 3 * FEW);
	return 17;
}

#define ALLOW(name)                                                                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                     \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* Any other system call kills the process. */
static int filter_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(read),
		ALLOW(write),
		ALLOW(exit),
		ALLOW(exit_group),
		ALLOW(brk),
		ALLOW(mmap),
		ALLOW(munmap),
		ALLOW(futex),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	free(malloc(1)); /* libc asks for a random number */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 91;
	make_and_say(300000);
	free(malloc(64u << 20));
	_exit(18);
}

static const struct program programs[] = {
	{ "return", end_return },
	{ "_exit", end_exit_now },
	{ "quick_exit", end_quick },
	{ "abort", end_abort },
	{ "fault", end_fault },
	{ "kill", end_kill },
	{ "main-thread", end_main_thread },
	{ "busy", end_busy },
	{ "two-parts", two_parts },
	{ "start-late", start_late },
	{ "ten-million", ten_million },
	{ "three-million", three_million },
	{ "many-live", many_live },
	{ "fill-disk", fill_and_go_on },
	{ "address-space", address_space },
	{ "few-files", few_files },
	{ "close-all", close_all },
	{ "close-range", close_own_range },
	{ "daemonise", daemonise },
	{ "chroot", change_root },
	{ "setuid", drop_user },
	{ "seccomp", filter_calls },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	self = argv[0];
	return run_program(programs, argc, argv);
}
