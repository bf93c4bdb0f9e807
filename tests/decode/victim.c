#include "tests/decode/victim.h"

#include <stdint.h>

#define N    64
#define keep __attribute__((noinline))

/* Keeps the compiler from seeing through memory (and from making a memcpy of a loop). */
#define barrier() __asm__ volatile("" ::: "memory")

static unsigned char source[N], target[N];
static double grid[2][N];
static int64_t numbers[N], sums[4];
static struct node {
	struct node *next;
	int64_t value;
} nodes[N];

static void copy(void)
{
	for (int round = 0; round < 8; round++)
		for (int i = 0; i < N; i++) {
			target[i] = source[i];
			barrier();
		}
}

static void stencil(void)
{
	for (int round = 0; round < 8; round++) {
		double *to = grid[round & 1], *from = grid[~round & 1];

		for (int i = 1; i < N - 1; i++) {
			to[i] = (from[i - 1] + from[i] + from[i + 1]) / 3;
			barrier();
		}
	}
}

static void chase(void)
{
	struct node *node = nodes;

	for (int i = 0; i < N; i++)
		nodes[i].next = &nodes[(i * 7 + 1) % N];
	for (int i = 0; i < 4 * N; i++) {
		node = node->next;
		barrier();
	}
	sums[0] = node->value;
}

static keep int64_t mix(int64_t a, int64_t b, int64_t *out)
{
	int64_t local[3] = { a, b, a ^ b };

	barrier();
	*out += local[0] + local[1] * 3;
	return local[2];
}

static void calls(void)
{
	for (int i = 0; i < 2 * N; i++)
		numbers[i % N] = mix(i, numbers[i % N], &sums[1]);
}

static keep int64_t fibonacci(int n)
{
	barrier();
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static void recursion(void)
{
	sums[2] = fibonacci(9);
}

static keep int64_t choose(int which, int64_t a)
{
	switch (which) {
	case 0:
		return a + numbers[1];
	case 1:
		return a * 3;
	case 2:
		numbers[2] = a;
		return a;
	case 3:
		return a ^ numbers[3];
	case 4:
		return a << 2;
	case 5:
		sums[0]++;
		return -a;
	default:
		return 0;
	}
}

static void switches(void)
{
	for (int i = 0; i < 2 * N; i++)
		sums[3] += choose(i % 7, i);
}

static void sort(void)
{
	for (int i = 0; i < N; i++)
		numbers[i] = i * 37 % N;
	for (int i = 1; i < N; i++) {
		int64_t value = numbers[i];
		int j = i;

		for (; j > 0 && numbers[j - 1] > value; j--) {
			numbers[j] = numbers[j - 1];
			barrier();
		}
		numbers[j] = value;
	}
}

static void gather(void)
{
	for (int i = 0; i < N; i++)
		numbers[i] = i * 5 % N;
	for (int round = 0; round < 4; round++)
		for (int i = 0; i < N; i++) {
			sums[0] += source[numbers[i]];
			barrier();
		}
}

static void strings(void)
{
	for (int i = 0; i < 2 * N; i++) {
		void *to = target, *from = source;
		size_t n = (size_t)i % 16;

		__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
		numbers[i % N] = i;
	}
}

const struct victim victims[] = {
	{ "copy", copy, 1 },   { "stencil", stencil, 1 },     { "chase", chase, 1 },
	{ "calls", calls, 1 }, { "recursion", recursion, 0 }, { "switches", switches, 0 },
	{ "sort", sort, 0 },   { "gather", gather, 1 },	      { "strings", strings, 0 },
};
const size_t n_victims = sizeof(victims) / sizeof(victims[0]);
