/*
 * Programs whose pages valgrind's lackey can tell: they work on ARENAS mappings by phases, each of
 * which touches what its number says, the same in each round. `page-phases PROGRAM MS' repeats each
 * phase for MS ms (0: once), so that intervals lie within it; PROGRAM is mixed, sort, list, matrix,
 * hash or stencil. Prints "arena ADDRESS BYTES" first.
 *
 * `page-phases hot|huge MIB MS' reads and writes a tenth of its pages, small or huge ones: for each
 * line that it reads a stretch of as many rounds as take some MS ms at first, and prints ns of CPU
 * time and of wall time that it took. Each stretch is the same work.
 *
 * A phase is announced by a mark (memsight.h), and in a trace of accesses by a write to `beacon`,
 * which is printed as well.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "include/memsight.h"

#define N_ARENAS    6u
#define ARENA_BYTES (64u << 20)
#define N_PHASES    18u

static volatile char *arenas[N_ARENAS];
static volatile uint64_t beacon;
static volatile uint64_t used; /* valgrind leaves loads out whose values nobody takes */
static size_t page_bytes;

static uint64_t clock_now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_now_ns(CLOCK_MONOTONIC);
}

/* Between closed pages, with huge ones or without, all written. */
static volatile char *make_arena(size_t n_bytes, int advice)
{
	char *closed =
		mmap(NULL, n_bytes + 2 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (closed == MAP_FAILED ||
	    mprotect(closed + page_bytes, n_bytes, PROT_READ | PROT_WRITE) < 0)
		exit(1);
	madvise(closed + page_bytes, n_bytes, advice);
	for (size_t i = 0; i < n_bytes; i += page_bytes)
		closed[page_bytes + i] = 1;
	return closed + page_bytes;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Reads, writes, both by blocks, a few hot pages, a walk from page to page, or nothing. */
static void touch_mixed(unsigned phase, unsigned number)
{
	volatile char *arena = arenas[number];
	uint64_t random = 88172645463325252u + 7919 * phase + number;
	size_t n = (size_t)1 << (1 + (phase * 5 + number * 3) % 12);

	switch ((phase + number) % 6) {
	case 0:
		for (size_t i = 0; i < n; i++)
			used += (uint64_t)arena[next_random(&random) % ARENA_BYTES];
		break;
	case 1:
		for (size_t i = 0; i < n; i++)
			arena[next_random(&random) % ARENA_BYTES] = 1;
		break;
	case 2:
		memcpy((char *)arena + ARENA_BYTES / 2, (const char *)arena + 100, n * 64);
		break;
	case 3:
		for (size_t i = 0; i < 1000; i++)
			used += (uint64_t)arena[i % 8 * 17 * page_bytes];
		break;
	case 4:
		for (size_t i = 0; i < ARENA_BYTES; i += (1 + n % 7) * page_bytes)
			used += *(volatile uint64_t *)(arena + i + 16);
		break;
	default:
		break;
	}
}

/* Numbers at random, a shell sort of them; every other arena is left alone. */
static void touch_sort(unsigned phase, unsigned number)
{
	uint64_t random = 7919 * phase + number + 1;
	size_t n = 200 + 40 * ((phase + number) % 7), stride = 16 + 500 * (phase % 5);
	volatile uint64_t *keys = (volatile uint64_t *)(arenas[number] + 8192 * phase);

	if ((phase + number) % 2)
		return;
	for (size_t i = 0; i < n; i++)
		keys[i * stride] = next_random(&random);
	for (size_t gap = n / 3; gap > 0; gap /= 4)
		for (size_t i = gap; i < n; i++)
			for (size_t k = i; k >= gap && keys[(k - gap) * stride] > keys[k * stride];
			     k -= gap) {
				uint64_t key = keys[k * stride];

				keys[k * stride] = keys[(k - gap) * stride];
				keys[(k - gap) * stride] = key;
			}
}

#define N_LISTS 8u

/* Cells anywhere in an arena; each arena has some lists, of different length. */
struct cell {
	volatile struct cell *next;
	uint64_t n_visits;
};

static volatile struct cell *lists[N_ARENAS][N_LISTS];
static volatile struct cell last; /* of all: its next is NULL, that of others never */

static void make_lists(void)
{
	uint64_t random = 4711;

	for (unsigned i = 0; i < N_ARENAS * N_LISTS; i++)
		for (unsigned k = 0; k < 50 + 400 * (i % N_LISTS); k++) {
			volatile struct cell *cell =
				(volatile struct cell *)arenas[i / N_LISTS] +
				next_random(&random) % (ARENA_BYTES / sizeof(*cell) / N_LISTS) *
					N_LISTS +
				i % N_LISTS;

			if (cell->next) /* it is in the list */
				continue;
			cell->next = lists[i / N_LISTS][i % N_LISTS] ?: &last;
			lists[i / N_LISTS][i % N_LISTS] = cell;
		}
}

static void touch_list(unsigned phase, unsigned number)
{
	volatile struct cell *cell = lists[number][(phase * 3 + number) % N_LISTS];

	for (; cell->next; cell = cell->next)
		if (phase % 3 == 0)
			cell->n_visits++;
		else
			used += cell->n_visits;
}

#define SIDE 2048u /* rows of doubles: a row is 4 pages */

/* A tile of c += a * b: b goes down its columns. Three arenas are one product. */
static void touch_matrix(unsigned phase, unsigned number)
{
	volatile double *a = (volatile double *)arenas[number / 3 * 3];
	volatile double *b = (volatile double *)arenas[number / 3 * 3 + 1];
	volatile double *c = (volatile double *)arenas[number / 3 * 3 + 2];
	size_t n = 8 + (phase + number) % 9, row = 97 * phase % 1000, column = 61 * phase % 1900;

	if (number % 3 || (phase + number) % 4 == 3)
		return;
	for (size_t i = row; i < row + n; i++)
		for (size_t j = column; j < column + n; j++)
			for (size_t k = column; k < column + 4 * n; k++)
				c[i * SIDE + j] += a[i * SIDE + k] * b[k * SIDE + j];
}

/* How often each of some keys came; they are looked up in the next arena as well. */
static void touch_hash(unsigned phase, unsigned number)
{
	volatile uint64_t *counts = (volatile uint64_t *)arenas[number];
	volatile uint64_t *others = (volatile uint64_t *)arenas[(number + 1) % N_ARENAS];
	uint64_t random = 31 * phase + 1;

	if ((phase + number) % 3 == 0)
		return;
	for (unsigned i = 0; i < 500 + 200 * (phase % 8); i++) {
		uint64_t key = next_random(&random) % 100000 * UINT64_C(0x9e3779b97f4a7c15);

		counts[key % (ARENA_BYTES / sizeof(*counts))]++;
		if (phase % 2)
			used += others[key % (ARENA_BYTES / sizeof(*others))];
	}
}

/* Rows of a grid, of which each becomes the mean of its neighbours in the next arena. */
static void touch_stencil(unsigned phase, unsigned number)
{
	const volatile double *from = (const volatile double *)arenas[number];
	volatile double *to = (volatile double *)arenas[(number + 1) % N_ARENAS];
	size_t first = 1 + 101 * phase, step = 1 + phase % 4 * 16;

	if ((phase + number) % 2)
		return;
	for (size_t i = first; i < first + 20 + 3 * phase; i++)
		for (size_t j = 1; j < SIDE - 1; j += 64 + step)
			to[i * SIDE + j] = (from[(i - 1) * SIDE + j] + from[(i + 1) * SIDE + j] +
					    from[i * SIDE + j - 1] + from[i * SIDE + j + 1]) /
					   4;
}

static const struct {
	const char *name;
	void (*touch)(unsigned phase, unsigned number);
} programs[] = {
	{ "mixed", touch_mixed },   { "sort", touch_sort }, { "list", touch_list },
	{ "matrix", touch_matrix }, { "hash", touch_hash }, { "stencil", touch_stencil },
};

static void run_phase(size_t program, unsigned phase, uint64_t ms)
{
	uint64_t end_ns = now_ns() + ms * 1000000, next_ns = 0;

	do {
		/* Between two of these lies a whole round. */
		if (now_ns() >= next_ns) {
			memsight_mark("round");
			next_ns = now_ns() + 2000000;
		}
		for (unsigned i = 0; i < N_ARENAS; i++)
			programs[program].touch(phase, i);
	} while (now_ns() < end_ns);
}

static int run_phases(const char *wanted, uint64_t ms)
{
	size_t program = 0;
	char name[32];

	while (strcmp(programs[program].name, wanted) != 0)
		if (++program == sizeof(programs) / sizeof(programs[0]))
			return 2;

	for (unsigned i = 0; i < N_ARENAS; i++) {
		arenas[i] = make_arena(ARENA_BYTES, MADV_NOHUGEPAGE);
		printf("arena %p %u\n", (void *)arenas[i], ARENA_BYTES);
	}
	make_lists();
	printf("beacon %p\n", (void *)&beacon);
	fflush(stdout);
	for (unsigned i = 0; i < N_PHASES; i++) {
		snprintf(name, sizeof(name), "phase %u", i);
		memsight_mark(name);
		beacon = i;
		run_phase(program, i, ms);
	}
	memsight_mark("end");
	beacon = N_PHASES;
	return 0;
}

struct hot {
	volatile char *memory;
	size_t n_bytes;
	uint64_t random;
};

static void run_rounds(struct hot *hot, uint64_t n_rounds)
{
	for (uint64_t i = 0; i < n_rounds * 10000; i++) {
		volatile char *at = hot->memory + next_random(&hot->random) % hot->n_bytes;

		if (i % 8 == 0)
			*at = (char)i;
		else
			used += (uint64_t)*at;
	}
}

static int run_hot(size_t n_bytes, uint64_t ms, int advice)
{
	struct hot hot = { make_arena(n_bytes, advice), n_bytes / 10, 1 };
	uint64_t n_rounds = 100, cpu_ns, wall_ns;

	run_rounds(&hot, n_rounds); /* processor and caches are warm */
	cpu_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
	run_rounds(&hot, n_rounds);
	cpu_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	n_rounds = n_rounds * ms * 1000000 / (cpu_ns + 1) + 1;
	for (int c = '\n'; c != EOF; c = getchar()) {
		if (c != '\n')
			continue;
		cpu_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
		wall_ns = now_ns();
		run_rounds(&hot, n_rounds);
		printf("%llu %llu\n",
		       (unsigned long long)(clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns),
		       (unsigned long long)(now_ns() - wall_ns));
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	if (argc == 4)
		return run_hot(strtoull(argv[2], NULL, 10) << 20, strtoull(argv[3], NULL, 10),
			       strcmp(argv[1], "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return argc == 3 ? run_phases(argv[1], strtoull(argv[2], NULL, 10)) : 2;
}
