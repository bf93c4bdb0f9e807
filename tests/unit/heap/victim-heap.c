/*
 * Everything that a heap of a memory kind can get wrong, by name: `victim-heap fork`. Prints what
 * must be the same with any heap, or with none, and a line "FAILED: ..." for what is wrong in
 * itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) check(condition, #condition)
#define KIB		 1024u
#define MIB		 (1024u * 1024u)

void *__libc_malloc(size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static int n_failed;
static int n_rounds = 25; /* of storm and exit */
static volatile size_t huge = SIZE_MAX - 5000; /* the compiler must not see it coming */
static volatile size_t odd = 48; /* no power of 2 */

static void check(int is_true, const char *what)
{
	if (!is_true) {
		printf("FAILED: %s\n", what);
		n_failed++;
	}
}

/* A block with a pattern that depends on where in the block a byte is. */
static unsigned char *filled(unsigned char *block, size_t size, unsigned seed)
{
	for (size_t i = 0; block && i < size; i++)
		block[i] = (unsigned char)(i * 7 + seed);
	return block;
}

static int is_filled(const unsigned char *block, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++) {
		if (block[i] != (unsigned char)(i * 7 + seed))
			return 0;
	}
	return 1;
}

static const size_t sizes[] = { 1,    7,    8,	  9,	 16,	 24,	  100,
				1000, 4096, 5000, 65536, 100000, 1 * MIB, 3 * MIB };
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* ---- Blocks of somebody else ---- */

static void foreign(void)
{
	for (size_t i = 0; i < N_SIZES; i++) {
		unsigned char *block = filled(__libc_malloc(sizes[i]), sizes[i], 3);

		CHECK(malloc_usable_size(block) >= sizes[i]);
		free(block);
		block = filled(__libc_malloc(sizes[i]), sizes[i], 3);
		block = realloc(block, 2 * sizes[i]);
		CHECK(is_filled(block, sizes[i], 3));
		free(block);
		free(__libc_memalign(4096, sizes[i]));
		block = reallocarray(filled(__libc_malloc(sizes[i]), sizes[i], 9), 3, sizes[i]);
		CHECK(is_filled(block, sizes[i], 9));
		free(block);
	}
	free(NULL);
}

/* ---- Forks ---- */

static int status_of(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return status;
}

static int change_and_check(unsigned char **blocks)
{
	int failed = 0;

	for (size_t i = 0; i < N_SIZES; i++) {
		failed += !is_filled(blocks[i], sizes[i], 1);
		filled(blocks[i], sizes[i], 2);
		blocks[i] = realloc(blocks[i], sizes[i] + 5000);
		failed += !is_filled(blocks[i], sizes[i], 2);
		free(blocks[i]);
		failed += !filled(malloc(sizes[i]), sizes[i], 4);
	}
	return failed;
}

static void forks(void)
{
	unsigned char *blocks[N_SIZES];

	for (size_t i = 0; i < N_SIZES; i++)
		blocks[i] = filled(malloc(sizes[i]), sizes[i], 1);
	for (int round = 0; round < 3; round++) {
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (pid == 0) {
			/* A child of the child has a copy of the copy. */
			pid_t grandchild = fork();

			if (grandchild == 0)
				_exit(change_and_check(blocks));
			_exit(status_of(grandchild) + change_and_check(blocks));
		}
		CHECK(status_of(pid) == 0);
		for (size_t i = 0; i < N_SIZES; i++)
			CHECK(is_filled(blocks[i], sizes[i], 1));
	}
	printf("forked\n");
}

static _Atomic int is_over;

static void *churn(void *seed_pointer)
{
	unsigned seed = (unsigned)(uintptr_t)seed_pointer;
	unsigned char *blocks[64] = { NULL };

	while (!is_over) {
		unsigned i = (unsigned)rand_r(&seed) % 64;
		size_t size = (unsigned)rand_r(&seed) % 5000;

		free(blocks[i]);
		blocks[i] = malloc(size);
		if (blocks[i])
			memset(blocks[i], (int)i, size);
	}
	for (unsigned i = 0; i < 64; i++)
		free(blocks[i]);
	return NULL;
}

/* The other threads are anywhere in the heap while one forks. */
static void storm(void)
{
	pthread_t threads[3];
	char *kept = strdup("the parent's");

	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
	for (int i = 0; i < n_rounds; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			unsigned char *blocks[N_SIZES];
			int failed = 0;

			strcpy(kept, "the child's!");
			for (size_t j = 0; j < N_SIZES; j++)
				blocks[j] = filled(malloc(sizes[j]), sizes[j], (unsigned)j);
			for (size_t j = 0; j < N_SIZES; j++)
				failed += !is_filled(blocks[j], sizes[j], (unsigned)j);
			_exit(failed);
		}
		CHECK(status_of(pid) == 0);
		CHECK(strcmp(kept, "the parent's") == 0);
	}
	is_over = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

/* ---- Forks while others are inside stdio, and in a signal's handler ---- */

/* fflush(NULL) calls it under the lock of all files. */
static ssize_t allocate_and_drop(void *unused, const char *bytes, size_t n_bytes)
{
	(void)unused;
	(void)bytes;
	for (size_t i = 0; i < 200; i++)
		free(malloc(i * 50));
	return (ssize_t)n_bytes;
}

static void *flush_all(void *unused)
{
	const cookie_io_functions_t calls = { .write = allocate_and_drop };
	FILE *file = fopencookie(NULL, "w", calls);

	(void)unused;
	while (!is_over) {
		fputc('x', file);
		fflush(NULL);
		usleep(20); /* or nobody else gets the lock */
	}
	fclose(file);
	return NULL;
}

static void beside_stdio(void)
{
	pthread_t threads[2];

	alarm(60); /* instead of waiting for each other for ever */
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, flush_all, NULL);
	for (int i = 0; i < 4 * n_rounds; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			char *block = malloc(100);

			fflush(NULL);
			_exit(!block);
		}
		CHECK(status_of(pid) == 0);
	}
	is_over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static volatile sig_atomic_t n_forks;

static void fork_here(int number)
{
	int saved = errno, status = 0;
	pid_t pid = fork();

	(void)number;
	if (pid == 0)
		_exit(7);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	n_forks += pid > 0 && WEXITSTATUS(status) == 7;
	errno = saved;
}

static void in_handler(void)
{
	const struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { { 0, 0 }, { 0, 0 } };
	unsigned char *blocks[64] = { NULL };

	alarm(60);
	signal(SIGPROF, fork_here);
	setitimer(ITIMER_PROF, &often, NULL);
	for (unsigned i = 0; n_forks < n_rounds; i++) {
		free(blocks[i % 64]);
		blocks[i % 64] = malloc(i * 37 % 20000);
	}
	setitimer(ITIMER_PROF, &never, NULL);
	for (unsigned i = 0; i < 64; i++)
		free(blocks[i]);
}

/* ---- The end ---- */

static char *text_of_end;

static void say_more(void)
{
	text_of_end = realloc(text_of_end, 20000);
	printf("at exit: %s\n", text_of_end);
	free(text_of_end);
}

/* Nothing is flushed before libc does it, in its very last step. */
static void output(void)
{
	setvbuf(stdout, malloc(MIB), _IOFBF, MIB);
	text_of_end = strdup("a text in the heap");
	atexit(say_more);
	for (int i = 0; i < 20000; i++)
		printf("line %d\n", i);
}

/* Ends while others allocate: nothing may hang, crash or be lost. */
static void exiting(void)
{
	for (int i = 0; i < n_rounds; i++) {
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (pid == 0) {
			pthread_t thread;

			for (uintptr_t j = 0; j < 3; j++)
				pthread_create(&thread, NULL, churn, (void *)(j + 1));
			usleep(1000);
			exit(5);
		}
		CHECK(WEXITSTATUS(status_of(pid)) == 5);
	}
}

/* ---- Calls ---- */

static void nothing(void)
{
	void *first = malloc(0), *second = malloc(0), *third = calloc(0, 100);

	CHECK(first && second && third && first != second && second != third);
	CHECK(realloc(first, 0) == NULL);
	free(second);
	free(third);
	CHECK((first = realloc(NULL, 0)) != NULL);
	free(first);
	CHECK(malloc_usable_size(NULL) == 0);
	CHECK((first = memalign(64, 0)) != NULL);
	free(first);
}

static void zeros(void)
{
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < N_SIZES; i++) {
			unsigned char *dirty = malloc(sizes[i]);
			unsigned char *clean;
			size_t sum = 0;

			memset(dirty, 0xff, sizes[i]);
			free(dirty);
			clean = calloc(1, sizes[i]);
			for (size_t j = 0; j < sizes[i]; j++)
				sum += clean[j];
			CHECK(sum == 0);
			memset(clean, 0xff, sizes[i]);
			free(clean);
		}
	}
	CHECK(calloc(huge / 2, 4) == NULL && errno == ENOMEM);
	CHECK(reallocarray(NULL, huge / 2, 4) == NULL && errno == ENOMEM);
	CHECK(malloc(huge) == NULL && errno == ENOMEM);
}

/* Up and down, across the size from which on blocks are placed. */
static void reallocs(void)
{
	for (size_t i = 0; i < N_SIZES; i++) {
		unsigned char *block = filled(malloc(sizes[i]), sizes[i], 5);
		size_t had = sizes[i];

		for (size_t j = 0; j < N_SIZES; j++) {
			size_t kept = had < sizes[j] ? had : sizes[j];

			block = realloc(block, sizes[j]);
			CHECK(is_filled(block, kept, 5));
			CHECK(malloc_usable_size(block) >= sizes[j]);
			filled(block, sizes[j], 5);
			had = sizes[j];
		}
		free(block);
	}
	for (size_t i = 0; i < N_SIZES; i++) {
		unsigned char *block = filled(malloc(sizes[i]), sizes[i], 7);

		block = reallocarray(block, 3, sizes[i]);
		CHECK(is_filled(block, sizes[i], 7));
		free(block);
	}
	CHECK(realloc(NULL, 10) != NULL);
	/* A failed one leaves the block. */
	unsigned char *block = filled(malloc(3000), 3000, 6);
	CHECK(realloc(block, huge) == NULL && errno == ENOMEM);
	CHECK(is_filled(block, 3000, 6));
	free(block);
}

static int is_aligned(const void *block, size_t alignment)
{
	return block && (uintptr_t)block % alignment == 0;
}

static void check_alignment(size_t alignment, size_t size)
{
	void *block = (void *)1;

	CHECK(posix_memalign(&block, alignment, size) == 0 && is_aligned(block, alignment));
	filled(block, malloc_usable_size(block), 1);
	free(block);
	CHECK(is_aligned(block = aligned_alloc(alignment, size), alignment));
	filled(block, size, 1);
	free(block);
	CHECK(is_aligned(block = memalign(alignment, size), alignment));
	block = realloc(filled(block, size, 1), size + 100);
	CHECK(is_filled(block, size, 1));
	free(block);
}

static void alignments(void)
{
	void *block = (void *)1;

	for (size_t size = 1; size < 300; size++) {
		void *several[5];

		for (int i = 0; i < 5; i++)
			CHECK(is_aligned(several[i] = malloc(size), 16));
		for (int i = 0; i < 5; i++)
			free(several[i]);
		CHECK(is_aligned(block = realloc(calloc(1, size), size / 2 + 1), 16));
		free(block);
	}
	for (size_t alignment = 8; alignment <= 4 * MIB; alignment *= 2) {
		for (size_t i = 0; i < N_SIZES; i++)
			check_alignment(alignment, sizes[i]);
	}
	CHECK(is_aligned(block = valloc(10), 4096));
	free(block);
	CHECK(is_aligned(block = pvalloc(10), 4096) && malloc_usable_size(block) >= 4096);
	free(block);
	CHECK(is_aligned(block = memalign(odd, 10), 16));
	free(block);
	block = (void *)1;
	CHECK(posix_memalign(&block, 24, 10) == EINVAL && block == (void *)1);
	CHECK(posix_memalign(&block, 4, 10) == EINVAL && block == (void *)1);
	CHECK(posix_memalign(&block, 4096, huge) == ENOMEM && block == (void *)1);
}

static void errors(void)
{
	for (size_t i = 0; i < N_SIZES; i++) {
		void *block;

		errno = 1234;
		block = malloc(sizes[i]);
		CHECK(errno == 1234);
		block = realloc(block, sizes[i] + 1000);
		CHECK(errno == 1234);
		free(block);
		free(calloc(1, sizes[i]));
		CHECK(posix_memalign(&block, 64, sizes[i]) == 0);
		free(block);
		CHECK(errno == 1234);
	}
}

/* ---- Full ---- */

/* Prints only what is the same with any heap that has room. */
static void full(void)
{
	unsigned char *blocks[200];
	int n = 0;

	errno = 0;
	while (n < 200 && (blocks[n] = malloc(MIB)))
		filled(blocks[n++], MIB, 8);
	fprintf(stderr, "%d MiB, %s\n", n, n == 200 ? "no end" : errno == ENOMEM ? "ENOMEM" : "?");
	for (int i = 0; i < n; i++)
		CHECK(is_filled(blocks[i], MIB, 8));
	while (n > 0)
		free(blocks[--n]);
	free(filled(malloc(2 * MIB), 2 * MIB, 1)); /* there is room again */
}

/* ---- The process ---- */

static void descriptors(void)
{
	int fd = open("/dev/null", O_RDWR);
	unsigned char *block = filled(malloc(3000), 3000, 1);
	pid_t pid;

	printf("the first file is %d\n", fd);
	for (fd = 3; fd < 4096; fd++)
		close(fd);
	/* A file of the program's under any number must stay as it is. */
	fd = dup2(open("/dev/null", O_RDWR), 900);
	for (int i = 0; i < 20; i++)
		CHECK(filled(malloc(MIB), MIB, 1) != NULL);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(!is_filled(block, 3000, 1) || !filled(malloc(2 * MIB), 2 * MIB, 1));
	CHECK(status_of(pid) == 0);
	CHECK(fcntl(fd, F_GETFD) >= 0);
}

/* No page of a file of the heap may have become a private copy. */
static void count_copied(const char *who)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	char line[4096];
	unsigned long n = 0, n_shared = 0, kib;
	int is_heap = 0;

	while (fgets(line, sizeof(line), file)) {
		if (strstr(line, "rw-s") && (strstr(line, "deleted") || strstr(line, "memsight")))
			is_heap = !strstr(line, "memsight-pool");
		else if (strstr(line, "VmFlags"))
			is_heap = 0;
		else if (is_heap && sscanf(line, "Rss: %lu kB", &kib) == 1)
			n_shared += kib;
		else if (is_heap && sscanf(line, "Anonymous: %lu kB", &kib) == 1)
			n += kib;
	}
	fclose(file);
	fprintf(stderr, "%s: shared %s, copied %lu KiB\n", who, n_shared > 4096 ? "yes" : "no", n);
	fflush(stderr);
}

static void copies(void)
{
	unsigned char *block = filled(malloc(8 * MIB), 8 * MIB, 1);
	pid_t pid;

	count_copied("parent");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		filled(block, 8 * MIB, 2);
		count_copied("child");
		_exit(0);
	}
	CHECK(status_of(pid) == 0);
	filled(block, 8 * MIB, 3);
	count_copied("parent");
	free(block);
}

static char *before_main;

__attribute__((constructor)) static void begin(void)
{
	before_main = strdup("a block from before main");
}

static void early(void)
{
	before_main = realloc(before_main, 100000);
	printf("%s\n", before_main);
	free(before_main);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "foreign", foreign },	   { "fork", forks },	    { "storm", storm },
	{ "output", output },	   { "exit", exiting },	    { "nothing", nothing },
	{ "zeros", zeros },	   { "realloc", reallocs }, { "align", alignments },
	{ "errno", errors },	   { "full", full },	    { "descriptors", descriptors },
	{ "copies", copies },	   { "early", early },	    { "stdio", beside_stdio },
	{ "handler", in_handler },
};

/* A name, and how often to do it. */
int main(int argc, char **argv)
{
	if (argc == 3)
		n_rounds = atoi(argv[2]);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc >= 2 && strcmp(argv[1], cases[i].name) == 0) {
			cases[i].run();
			printf("%s: %d failed\n", argv[1], n_failed);
			return n_failed != 0;
		}
	}
	return 2;
}
