/*
 * A program whose blocks are known, and that asks the kernel where their pages lie: `victim-pages
 * [full|fork|map ...] ...`. It prints what must be the same whoever starts it with the same memory
 * policy.
 *
 *	cpus NODE			where it runs
 *	large NODE PAGES ...	4 blocks of 4 MiB, all pages, by move_pages(2)
 *	small NODE BLOCKS ...	512 blocks of 6000 bytes, the page of each one's middle
 *
 * fork: the same from a child that wrote to all blocks, and once more from the parent, whose bytes
 * must not have changed. full: blocks of 1 MiB until there is no more, on standard error.
 *
 * map WHAT: mappings that are read again and again until standard input ends. bound: `near_map' of
 * 4 MiB on node 0 and `far_map' of 2 MiB on node 1, and of `both_map' of 4 MiB on both the first
 * half. huge: `huge_map' of 4 huge pages of hugetlbfs, of which 3 are there. file PATH: `file_map'
 * of 8 MiB of that file, shared, of which half is there.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_LARGE	    4
#define LARGE_BYTES (4u << 20)
#define N_SMALL	    512
#define SMALL_BYTES 6000
#define CHILD_BYTES 300000
#define PAGE	    4096u
#define MAX_PAGES   (LARGE_BYTES / PAGE)
#define MAX_NODES   8
#define N_MIB	    200
#define MIB	    (1u << 20)
#define HUGE_BYTES  (2u << 20)

enum policy { /* set_mempolicy(2) */
	      BIND = 2,
	      INTERLEAVE = 3,
};

static unsigned char *large[N_LARGE], *small[N_SMALL];

/* Blocks are found by their sizes, and by the names of these. */
__attribute__((noinline)) static unsigned char *make_large(void)
{
	return malloc(LARGE_BYTES);
}

__attribute__((noinline)) static unsigned char *make_small(void)
{
	return malloc(SMALL_BYTES);
}

__attribute__((noinline)) static unsigned char *make_child(void)
{
	return malloc(CHILD_BYTES);
}

static void write_all(int value)
{
	for (int i = 0; i < N_LARGE; i++)
		memset(large[i], value, LARGE_BYTES);
	for (int i = 0; i < N_SMALL; i++)
		memset(small[i], value, SMALL_BYTES);
}

static int is_everywhere(int value)
{
	for (int i = 0; i < N_LARGE; i++) {
		if (large[i][0] != value || memcmp(large[i], large[i] + 1, LARGE_BYTES - 1) != 0)
			return 0;
	}
	for (int i = 0; i < N_SMALL; i++) {
		if (small[i][0] != value || memcmp(small[i], small[i] + 1, SMALL_BYTES - 1) != 0)
			return 0;
	}
	return 1;
}

/* Add to counts the node of each page; [MAX_NODES] are those that the kernel does not tell. */
static void ask(void **pages, size_t n, unsigned *counts)
{
	static int nodes[MAX_PAGES];

	memset(nodes, -1, sizeof(nodes));
	if (syscall(SYS_move_pages, 0, n, pages, NULL, nodes, 0) != 0)
		perror("move_pages");
	for (size_t i = 0; i < n; i++)
		counts[nodes[i] >= 0 && nodes[i] < MAX_NODES ? nodes[i] : MAX_NODES]++;
}

static void print_counts(const char *name, const unsigned *counts)
{
	printf("%s", name);
	for (int i = 0; i < MAX_NODES; i++) {
		if (counts[i])
			printf(" %d %u", i, counts[i]);
	}
	printf(counts[MAX_NODES] ? " unknown %u\n" : "\n", counts[MAX_NODES]);
}

static void print_nodes(void)
{
	unsigned in_large[MAX_NODES + 1] = { 0 }, in_small[MAX_NODES + 1] = { 0 };
	static void *pages[MAX_PAGES];

	for (int i = 0; i < N_LARGE; i++) {
		uintptr_t first = ((uintptr_t)large[i] + PAGE - 1) / PAGE * PAGE;

		/* Its last page may be half another block's. */
		for (unsigned page = 0; page < MAX_PAGES - 1; page++)
			pages[page] = (void *)(first + page * PAGE);
		ask(pages, MAX_PAGES - 1, in_large);
	}
	for (int i = 0; i < N_SMALL; i++)
		pages[i] = (void *)((uintptr_t)(small[i] + SMALL_BYTES / 2) / PAGE * PAGE);
	ask(pages, N_SMALL, in_small);
	print_counts("large", in_large);
	print_counts("small", in_small);
}

static void print_place(void)
{
	unsigned cpu = 0, node = 0;

	syscall(SYS_getcpu, &cpu, &node, NULL);
	printf("cpus %u\n", node);
}

/* The child's pages are its own: what it writes is not seen here. */
static int try_fork(void)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		printf("child %s\n", is_everywhere(1) ? "sees its parent's bytes" : "FAILED");
		write_all(2);
		memset(make_child(), 2, CHILD_BYTES);
		print_nodes();
		exit(is_everywhere(2) ? 0 : 3);
	}
	waitpid(pid, &status, 0);
	printf("parent %s\n", is_everywhere(1) ? "keeps its bytes" : "FAILED");
	print_nodes();
	return status == 0 ? 0 : 1;
}

static int fill_up(void)
{
	int n = 0;

	errno = 0;
	for (unsigned char *block; n < N_MIB && (block = malloc(1u << 20)); n++)
		memset(block, 5, 1u << 20);
	fprintf(stderr, "%d MiB, %s\n", n, errno == ENOMEM ? "ENOMEM" : "no end");
	return 0;
}

static void give_up(const char *what)
{
	perror(what);
	exit(77);
}

static char *fill(char *memory, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i += PAGE)
		memory[i] = 1;
	return memory;
}

/* A mapping by itself, with a policy for its pages. */
static char *apart(size_t n_bytes, enum policy policy, unsigned long nodes)
{
	char *closed =
		mmap(NULL, n_bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (closed == MAP_FAILED || mprotect(closed + PAGE, n_bytes, PROT_READ | PROT_WRITE) < 0 ||
	    syscall(SYS_mbind, closed + PAGE, n_bytes, policy, &nodes, 8 * sizeof(nodes), 0) < 0)
		give_up("mbind");
	madvise(closed + PAGE, n_bytes, MADV_NOHUGEPAGE);
	return fill(closed + PAGE, n_bytes);
}

__attribute__((noinline)) static char *near_map(void)
{
	char *volatile memory = apart(4 * MIB, BIND, 1);

	return memory;
}

__attribute__((noinline)) static char *far_map(void)
{
	char *volatile memory = apart(2 * MIB, BIND, 2);

	return memory;
}

__attribute__((noinline)) static char *both_map(void)
{
	char *volatile memory = apart(4 * MIB, INTERLEAVE, 3);

	return memory;
}

__attribute__((noinline)) static char *huge_map(void)
{
	char *volatile memory = mmap(NULL, 4 * HUGE_BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (memory == MAP_FAILED)
		give_up("hugetlb");
	return fill(memory, 3 * HUGE_BYTES);
}

__attribute__((noinline)) static char *file_map(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	char *volatile memory =
		fd < 0 || posix_fallocate(fd, 0, 8 * MIB) != 0
			? MAP_FAILED
			: mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		give_up(path);
	return fill(memory, 4 * MIB);
}

/* Up to 3 of them, and how many bytes of each. */
struct reading {
	volatile char *memory;
	size_t n_bytes;
};

static int read_until_the_end(const struct reading *readings)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	char byte;

	puts("ready");
	fflush(stdout);
	while (poll(&input, 1, 0) == 0 || read(0, &byte, 1) > 0)
		for (int i = 0; i < 3; i++)
			for (size_t at = 0; at < readings[i].n_bytes; at += PAGE)
				(void)readings[i].memory[at];
	return 0;
}

static int run_maps(const char *what, const char *path)
{
	struct reading readings[3] = { 0 };

	if (strcmp(what, "bound") == 0) {
		readings[0] = (struct reading){ near_map(), 4 * MIB };
		readings[1] = (struct reading){ far_map(), 2 * MIB };
		readings[2] = (struct reading){ both_map(), 2 * MIB };
	} else if (strcmp(what, "huge") == 0) {
		readings[0] = (struct reading){ huge_map(), 3 * HUGE_BYTES };
	} else {
		readings[0] = (struct reading){ file_map(path), 4 * MIB };
	}
	return read_until_the_end(readings);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "full") == 0)
		return fill_up();
	if (argc > 2 && strcmp(argv[1], "map") == 0)
		return run_maps(argv[2], argc > 3 ? argv[3] : "");
	for (int i = 0; i < N_LARGE; i++)
		large[i] = make_large();
	for (int i = 0; i < N_SMALL; i++)
		small[i] = make_small();
	write_all(1);
	print_place();
	print_nodes();
	if (argc > 1 && strcmp(argv[1], "fork") == 0)
		return try_fork();
	for (int i = 0; i < N_SMALL; i++)
		free(small[i]);
	usleep(argc > 1 ? (unsigned)atoi(argv[1]) * 1000 : 0);
	return 0;
}
