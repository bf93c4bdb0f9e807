/*
 * Makes heaps of all shapes, writes what lives in them, and stops itself. Its malloc is glibc's
 * behind a list of its own, so that blocks of libc and of the loader are in the list, too.
 *
 * heaps FILE STEP...: plain, threads, ended, mapped, aligned, foreign, blocked, fast.
 * FILE gets a line for each live block: address, usable bytes, both hexadecimal.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MAX_BLOCKS (1u << 20)
#define N_THREADS  4
#define N_PLACES   20000

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

static _Atomic(uintptr_t) table[MAX_BLOCKS];
static pthread_barrier_t barrier;

static size_t place_of(uintptr_t address)
{
	return (address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 44;
}

/* 1: it was freed, others may lie behind it. */
static void *keep(void *block)
{
	uintptr_t address = (uintptr_t)block;

	for (size_t i = place_of(address); address; i = (i + 1) % MAX_BLOCKS) {
		uintptr_t is = 0;

		if (atomic_compare_exchange_strong(&table[i], &is, address))
			break;
		is = 1;
		if (atomic_compare_exchange_strong(&table[i], &is, address))
			break;
	}
	return block;
}

static void drop(void *block)
{
	uintptr_t address = (uintptr_t)block;

	for (size_t i = place_of(address); address && table[i]; i = (i + 1) % MAX_BLOCKS) {
		uintptr_t is = address;

		if (atomic_compare_exchange_strong(&table[i], &is, 1))
			return;
	}
}

void *malloc(size_t size)
{
	return keep(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
	return keep(__libc_calloc(n, size));
}

void *realloc(void *block, size_t size)
{
	drop(block);
	return keep(__libc_realloc(block, size));
}

void *memalign(size_t alignment, size_t size)
{
	return keep(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

int posix_memalign(void **ret_block, size_t alignment, size_t size)
{
	*ret_block = memalign(alignment, size);
	return *ret_block ? 0 : ENOMEM;
}

void free(void *block)
{
	drop(block);
	__libc_free(block);
}

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Mostly small, some of thousands of bytes, few with pages of their own. */
static size_t any_size(uint64_t *state)
{
	uint64_t kind = next(state) % 1000, size = next(state);

	return kind < 2 ? size % 400000 : kind < 60 ? size % 9000 : size % 300;
}

static void churn(uint64_t seed, size_t n)
{
	void **places = mmap(NULL, N_PLACES * sizeof(*places), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < n; i++) {
		void **place = &places[next(&seed) % N_PLACES];
		uint64_t kind = next(&seed) % 100;

		if (kind < 10) {
			*place = realloc(*place, 1 + any_size(&seed));
			continue;
		}
		free(*place);
		*place = NULL;
		if (kind < 15)
			*place = memalign((size_t)16 << next(&seed) % 9, any_size(&seed));
		else if (kind < 25)
			*place = calloc(1, any_size(&seed));
		else if (kind < 75)
			*place = malloc(any_size(&seed));
		if (*place && kind >= 25)
			memset(*place, 0x5a, malloc_usable_size(*place));
	}
	/* Also some that end with all kinds of lists full. */
	for (size_t i = 0; i < N_PLACES; i += 3) {
		free(places[i]);
		places[i] = NULL;
	}
}

/* More than one heap of 64 MiB. */
static void fill(void)
{
	for (size_t i = 0; i < 1100; i++) {
		char *block = malloc(100000 + i);

		block[0] = 1;
		if (i % 5 == 0)
			free(block);
	}
}

static void *run_thread(void *argument)
{
	uint64_t number = (uint64_t)(uintptr_t)argument;

	churn(88172645463325252u + number * 7919, 100000);
	if (number == 0)
		fill();
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

static void *run_and_end(void *argument)
{
	churn((uintptr_t)argument * 104729 + 5, 3000);
	return NULL;
}

static void plain(void)
{
	churn(362436069362436069u, 200000);
}

static void threads(void)
{
	pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
	for (uintptr_t i = 0; i < N_THREADS; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, run_thread, (void *)i);
	}
	pthread_barrier_wait(&barrier);
}

static void ended(void)
{
	for (uintptr_t i = 0; i < 12; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, run_and_end, (void *)(i + 1));
		pthread_join(thread, NULL);
	}
}

/* Blocks with pages of their own between mappings of the program's own. */
static void mapped(void)
{
	for (size_t i = 0; i < 40; i++) {
		char *block = malloc(200000 + 1000 * i);
		uint64_t *other = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		block[0] = 1;
		other[0] = 1;
		if (i % 4 == 0)
			free(block);
		if (i % 4 == 1)
			block = realloc(block, 500000);
	}
}

static void aligned(void)
{
	for (size_t i = 5; i < 24; i++) {
		memset(memalign((size_t)1 << i, 300000), 1, 300000);
		memset(memalign((size_t)1 << i, 100), 1, 100);
	}
}

/* Somebody else takes memory from brk(). */
static void foreign(void)
{
	for (size_t i = 1; i < 5; i++) {
		memset(sbrk(1000 * (intptr_t)i), 0x21, 1000 * i);
		churn(i, 4000);
		for (size_t k = 0; k < 20; k++)
			*(char *)malloc(20000) = 1;
	}
}

/* There is no room behind the heap. */
static void blocked(void)
{
	char *end = sbrk(0);

	mmap((void *)(((uintptr_t)end + 8191) & ~(uintptr_t)4095), 4096, PROT_READ,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	churn(7, 100000);
	for (size_t i = 0; i < 300; i++)
		*(char *)malloc(50000) = 1;
}

/* Fast bins are long. */
static void fast(void)
{
	static void *blocks[4000];

	for (size_t i = 0; i < 4000; i++)
		blocks[i] = malloc(16 + i % 5 * 24);
	for (size_t i = 0; i < 4000; i++)
		if (i % 8)
			free(blocks[i]);
}

static const struct {
	const char *name;
	void (*run)(void);
} steps[] = {
	{ "plain", plain },	{ "threads", threads }, { "ended", ended },
	{ "mapped", mapped },	{ "aligned", aligned }, { "foreign", foreign },
	{ "blocked", blocked }, { "fast", fast },
};

int main(int argc, char **argv)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	for (int i = 2; i < argc; i++)
		for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++)
			if (strcmp(argv[i], steps[k].name) == 0)
				steps[k].run();

	FILE *file = fopen(argv[1], "w");
	setvbuf(file, NULL, _IONBF, 0);
	static char line[MAX_BLOCKS];
	setvbuf(file, line, _IOFBF, sizeof(line));
	for (size_t i = 0; i < MAX_BLOCKS; i++)
		if (table[i] > 1)
			fprintf(file, "%zx %zx\n", (size_t)table[i],
				malloc_usable_size((void *)table[i]));
	fflush(file);
	raise(SIGSTOP);
	for (;;)
		pause();
}
