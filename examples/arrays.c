/*
 * For docs/tutorial/fast-memory.md: how important is each node of a graph? Each round adds up the
 * ranks of a node's neighbours. The arrays differ in size and in use:
 *
 *   history   128 MiB: one number of it is written in each round
 *   edges      32 MiB: read from begin to end in each round
 *   rank        8 MiB: read at scattered places, once for each edge
 *   degree      8 MiB: used once, at the start
 *
 * usage: arrays [ROUNDS]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N_NODES	  (1u << 21)
#define PER_NODE  4u
#define N_HISTORY (16u << 20)

static void *allocate(size_t n, size_t n_bytes)
{
	void *block = calloc(n, n_bytes);

	if (!block)
		abort();
	return block;
}

static void connect(uint32_t *edges, uint32_t *degree)
{
	uint32_t random = 1;

	for (size_t i = 0; i < N_NODES * PER_NODE; i++) {
		random = random * 1664525u + 1013904223u;
		edges[i] = random >> 11;
		degree[edges[i]]++;
	}
}

static double round_of(const uint32_t *edges, const float *rank)
{
	double norm = 0;

	for (size_t node = 0; node < N_NODES; node++) {
		float sum = 0;
		for (size_t i = node * PER_NODE; i < (node + 1) * PER_NODE; i++)
			sum += rank[edges[i]];
		norm += (double)sum * (double)sum;
	}
	return norm;
}

int main(int argc, char **argv)
{
	unsigned n_rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 16;
	double *history = allocate(N_HISTORY, sizeof(*history));
	uint32_t *edges = allocate(N_NODES * PER_NODE, sizeof(*edges));
	float *rank = allocate(N_NODES, sizeof(*rank));
	uint32_t *degree = allocate(N_NODES, sizeof(*degree));

	connect(edges, degree);
	for (size_t i = 0; i < N_NODES; i++)
		rank[i] = 1.0f / (float)(1 + degree[i]);
	free(degree);
	for (unsigned round = 0; round < n_rounds; round++)
		history[round * 4096] = round_of(edges, rank);
	printf("norm %g\n", history[0]);
	free(rank);
	free(edges);
	free(history);
	return EXIT_SUCCESS;
}
