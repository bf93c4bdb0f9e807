/*
 * Programs whose pages are known: argv[1] says which, argv[2] how they end. MIB of blocks each, so
 * that the C library maps a block by itself. The number of bytes that each function's blocks have
 * resident are in pages.py.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB	(1u << 20)
#define N_SMALL 40000u

static char *small[N_SMALL];
char *volatile kept;

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static char *touched(char *block, size_t n_bytes, unsigned step)
{
	for (size_t i = 0; i < n_bytes; i += step * page_bytes())
		block[i] = 1;
	return block;
}

__attribute__((noinline)) static char *thirds(void)
{
	return kept = touched(malloc(64 * MIB), 64 * MIB, 3);
}

__attribute__((noinline)) static char *returned(void)
{
	char *block = kept = touched(aligned_alloc(page_bytes(), 32 * MIB), 32 * MIB, 1);

	madvise(block + 8 * MIB, 16 * MIB, MADV_DONTNEED);
	return block;
}

__attribute__((noinline)) static void smalls(void)
{
	for (unsigned i = 0; i < N_SMALL; i++)
		small[i] = memset(malloc(500), 1, 500);
	for (unsigned i = 0; i < N_SMALL; i += 2)
		free(small[i]);
}

__attribute__((noinline)) static char *mapped(void)
{
	return kept = touched(mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			      16 * MIB, 2);
}

static int run_blocks(void)
{
	thirds();
	returned();
	smalls();
	mapped();
	return 0;
}

/* Memory between closed pages: a mapping by itself for the kernel. */
static char *apart(size_t n_bytes)
{
	char *closed = mmap(NULL, n_bytes + 2 * page_bytes(), PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(closed + page_bytes(), n_bytes, PROT_READ | PROT_WRITE);
	madvise(closed + page_bytes(), n_bytes, MADV_NOHUGEPAGE);
	return touched(closed + page_bytes(), n_bytes, 1);
}

__attribute__((noinline)) static volatile char *busy(void)
{
	return kept = apart(16 * MIB);
}

__attribute__((noinline)) static void idle(void)
{
	kept = apart(8 * MIB);
}

__attribute__((noinline)) static char *copied(void)
{
	return kept = apart(4 * MIB);
}

/*
 * For 1.5 s, on a busy machine until it has had 0.5 s of CPU time: of `busy' every third page is
 * read, of `copied' the kernel writes to page 5, `idle' is left alone. 1,000 pages of 16 MiB, or
 * fewer of larger ones.
 */
static int run_touches(void)
{
	volatile char *read_from = busy();
	char *into = copied();
	size_t n = 16 * MIB / page_bytes() < 3000 ? 16 * MIB / page_bytes() / 3 : 1000;
	int zeros = open("/dev/zero", O_RDONLY);
	int64_t end_ns = now_ns() + 1500000000;

	idle();
	while (now_ns() < end_ns || clock_ns(CLOCK_PROCESS_CPUTIME_ID) < 500000000) {
		for (size_t i = 0; i < n; i++)
			(void)read_from[3 * i * page_bytes()];
		if (read(zeros, into + 5 * page_bytes(), 10) != 10)
			return 1;
	}
	printf("%zu\n", n);
	return 0;
}

/*
 * A child in the memory of its parent, as those of vfork and posix_spawn are, while the parent goes
 * on: what it reads is read in each interval.
 */
static int rest(void *unused)
{
	usleep(1200000);
	return unused != NULL;
}

static int run_lodger(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	volatile char *read_from = busy();
	pid_t pid = clone(rest, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);

	for (int64_t end_ns = now_ns() + 1000000000; now_ns() < end_ns;)
		for (size_t i = 0; i < 1000; i++)
			(void)read_from[3 * i * page_bytes() % (16 * MIB)];
	return waitpid(pid, NULL, 0) == pid ? 0 : 1;
}

/* The child writes half of what it has of its parent. */
static int run_fork(void)
{
	char *block = touched(malloc(32 * MIB), 32 * MIB, 1);
	pid_t pid = fork();

	if (pid == 0) {
		touched(block, 16 * MIB, 1);
		exit(0);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : 1;
}

static int run_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	char *memory;

	if (fd < 0 || ftruncate(fd, 16 * MIB) < 0)
		return 1;
	memory = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return 1;
	touched(memory, 16 * MIB, 1);
	kept = malloc(16 * MIB);
	return mlock(kept, 16 * MIB) < 0 && !touched(kept, 16 * MIB, 1);
}

static int end(const char *how)
{
	if (strcmp(how, "_exit") == 0)
		_exit(0);
	if (strcmp(how, "_Exit") == 0)
		_Exit(0);
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "sleep") == 0)
		usleep(1500000);
	if (strcmp(how, "system-call") == 0)
		syscall(SYS_exit_group, 0);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int status = 2;

	if (strcmp(what, "blocks") == 0)
		status = run_blocks();
	else if (strcmp(what, "fork") == 0)
		status = run_fork();
	else if (strcmp(what, "lodger") == 0)
		status = run_lodger();
	else if (strcmp(what, "touches") == 0)
		status = run_touches();
	else if (strcmp(what, "file") == 0 && argc > 3)
		status = run_file(argv[3]);
	return status == 0 ? end(argc > 2 ? argv[2] : "") : status;
}
