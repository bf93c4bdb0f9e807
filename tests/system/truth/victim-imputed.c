/*
 * Loops whose accesses samples leave unresolved in part: through an index that was just loaded
 * ("indirect"), along a list ("list"), and as code without optimization keeps its variables, in
 * memory ("plain"). Two such loops over objects of their own take turns, in slices of random
 * lengths, each a region: "one" or "two". make_NAME... made its blocks.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "include/memsight.h"

#define ALL_NS	INT64_C(700000000)
#define N_INDEX 65536u
#define N_FAR	(1u << 21) /* longs: 16 MiB */
#define N_NEAR	512u
#define N_NODES 30000u
#define N_FEW	1000u
#define N_ARRAY 1000u
#define RUNS	16 /* between looks at the clock, which are nobody's time of these */

static uint64_t state = UINT64_C(88172645463325252);
static volatile long result;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static int64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* A function of its own for each object: that is its name in reports. */
#define MAKE(name)                                                                                 \
	__attribute__((noinline)) static void *make_##name(size_t n_bytes)                         \
	{                                                                                          \
		void *block = malloc(n_bytes);                                                     \
		if (!block)                                                                        \
			exit(1);                                                                   \
		memset(block, 1, n_bytes);                                                         \
		return block;                                                                      \
	}

MAKE(one)
MAKE(two)
MAKE(one_index)
MAKE(two_index)
MAKE(one_node)
MAKE(two_node)

/* ---- Loops: each is one object's, and of "indirect" also its index's ---- */

struct node {
	struct node *next;
	long value;
};

static long **indexes[2];
static struct node *lists[2];
static long *arrays[2];

__attribute__((noinline)) static void run_indirect(int which)
{
	long sum = 0;

	for (unsigned i = 0; i < 4096; i++)
		sum += *(volatile long *)indexes[which][i + (which ? 0 : (state & 15) * 4096)];
	result = sum;
	draw();
}

__attribute__((noinline)) static void run_list(int which)
{
	struct node *node = lists[which];
	long sum = 0;

	for (unsigned i = 0; i < 2000; i++) {
		sum += node->value;
		node = node->next;
	}
	lists[which] = node;
	result = sum;
}

/* Its sum, its counter and its pointer are read and written in memory at each turn. */
__attribute__((noinline)) static void run_plain(int which)
{
	volatile long sum = 0;
	long *volatile array = arrays[which];

	for (volatile unsigned i = 0; i < N_ARRAY; i++)
		sum += array[i];
	result = sum;
}

static void link_nodes(struct node **nodes, unsigned n)
{
	for (unsigned i = n - 1; i > 0; i--) {
		unsigned k = (unsigned)(draw() % (i + 1));
		struct node *other = nodes[i];
		nodes[i] = nodes[k];
		nodes[k] = other;
	}
	for (unsigned i = 0; i < n; i++)
		*nodes[i] = (struct node){ nodes[(i + 1) % n], (long)i };
}

static void prepare(void)
{
	long *far = make_one(N_FAR * sizeof(*far)), *near = make_two(N_NEAR * sizeof(*near));
	static struct node *nodes[N_NODES];

	indexes[0] = make_one_index(N_INDEX * sizeof(*indexes[0]));
	indexes[1] = make_two_index(4096 * sizeof(*indexes[1]));
	for (unsigned i = 0; i < N_INDEX; i++)
		indexes[0][i] = far + draw() % N_FAR;
	for (unsigned i = 0; i < 4096; i++)
		indexes[1][i] = near + draw() % N_NEAR;
	arrays[0] = far;
	arrays[1] = near;
	for (unsigned i = 0; i < N_NODES; i++)
		nodes[i] = make_one_node(sizeof(*nodes[i]));
	link_nodes(nodes, N_NODES);
	lists[0] = nodes[0];
	for (unsigned i = 0; i < N_FEW; i++)
		nodes[i] = make_two_node(sizeof(*nodes[i]));
	link_nodes(nodes, N_FEW);
	lists[1] = nodes[0];
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(int which);
	} kinds[] = { { "indirect", run_indirect }, { "list", run_list }, { "plain", run_plain } };
	int64_t spent = 0;
	unsigned kind = 0;

	while (kind < 2 && argc > 1 && strcmp(argv[1], kinds[kind].name) != 0)
		kind++;
	prepare();
	while (spent < ALL_NS) {
		int which = draw() % 5 < 2;
		memsight_region_push(which ? "two" : "one");
		int64_t begin = cpu_ns(), end = begin + (int64_t)(draw() % 6000000), now;
		do
			for (int i = 0; i < RUNS; i++)
				kinds[kind].run(which);
		while ((now = cpu_ns()) < end);
		spent += now - begin;
		memsight_region_pop(which ? "two" : "one");
	}
	return 0;
}
