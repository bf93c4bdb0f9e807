/*
 * Programs whose written pages are known. Each prints its address first: of 16 MiB between closed
 * pages. argv[1] says what it does for 1.5 s; writes.py knows which pages are written.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "include/memsight.h"

#define N_PAGES	       4096u /* of 4 KiB */
#define USER_MODE_ONLY 1

static volatile char *memory;
static size_t page_bytes;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static char *apart(int flags, int fd)
{
	size_t n_bytes = N_PAGES * page_bytes;
	char *closed =
		mmap(NULL, n_bytes + 2 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *at = mmap(closed + page_bytes, n_bytes, PROT_READ | PROT_WRITE, MAP_FIXED | flags, fd,
			0);

	if (at == MAP_FAILED)
		exit(77);
	madvise(at, n_bytes, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < N_PAGES; i++)
		at[i * page_bytes] = 1;
	return at;
}

/*
 * Every page that is a multiple of 5 is written, by the kernel page 7, all others are read: for so
 * long, and so many rounds for each second of it as a busy machine takes longer for.
 */
static void work(unsigned step, int64_t ns)
{
	int zeros = open("/dev/zero", O_RDONLY);
	int64_t end_ns = now_ns() + ns, n_rounds = ns / 1000000;

	for (int64_t n = 0; n < n_rounds || now_ns() < end_ns; n++, usleep(500)) {
		for (size_t i = 0; i < N_PAGES; i++)
			if (i % step == 0)
				memory[i * page_bytes] = (char)i;
			else
				(void)memory[i * page_bytes];
		if (read(zeros, (char *)memory + 7 * page_bytes + 1, 10) != 10)
			exit(1);
	}
	close(zeros);
}

static void run_fork(void)
{
	pid_t pid = fork();

	work(pid ? 5 : 8, 1500000000);
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
}

/* Its own memory, that it has had for long: no other userfaultfd may stand in the way. */
static void run_own(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register request = {
		.range = { (uintptr_t)memory, N_PAGES * page_bytes },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd;

	work(5, 2500000000);
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY);
	printf("own %d", fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0);
	printf(" %d", fd < 0 || ioctl(fd, UFFDIO_REGISTER, &request) < 0);
	work(5, 500000000);
}

static void run_freed(void)
{
	madvise((char *)memory + 2048 * page_bytes, 1024 * page_bytes, MADV_FREE);
	work(5, 1500000000);
}

/* Every other page of a reservation may be written: mappings up to the kernel's limit. */
static void run_split(void)
{
	size_t n = 140000;
	char *many = mmap(NULL, n * page_bytes, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned n_done = 0;

	for (size_t i = 0; i < n; i += 2) {
		if (mprotect(many + i * page_bytes, page_bytes, PROT_READ | PROT_WRITE) < 0)
			break;
		many[i * page_bytes] = 1;
		n_done++;
	}
	printf("split %d", n_done > 20000);
	work(5, 2000000000);
	for (size_t i = 0; i < 2 * (size_t)n_done; i += 2)
		if (many[i * page_bytes] != 1)
			exit(1);
}

/* What is open, and which descriptor comes next. */
static void print_descriptors(void)
{
	int next = open("/dev/null", O_RDONLY);

	for (int fd = 0; fd < 64; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("%d ", fd);
	printf("next %d", next);
	close(next);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, fd = -1;

	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	if (strcmp(what, "shared") == 0) {
		fd = memfd_create("shared", 0);
		flags = MAP_SHARED;
		if (ftruncate(fd, (off_t)(N_PAGES * page_bytes)) < 0)
			return 1;
	}
	memory = apart(flags, fd);
	fprintf(stderr, "memsight: %p\n", (void *)memory); /* no two runs have the same */
	if (strcmp(what, "locked") == 0)
		mlock((char *)memory, N_PAGES * page_bytes / 2); /* as if it wrote */
	memsight_mark("made");
	if (strcmp(what, "fork") == 0)
		run_fork();
	else if (strcmp(what, "own") == 0)
		run_own();
	else if (strcmp(what, "freed") == 0)
		run_freed();
	else if (strcmp(what, "split") == 0)
		run_split();
	else if (strcmp(what, "descriptors") == 0)
		print_descriptors();
	else
		work(5, 1500000000);
	return 0;
}
