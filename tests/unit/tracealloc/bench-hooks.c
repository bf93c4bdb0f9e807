/*
 * What a hook costs: churn (malloc and free of 16-528 bytes, 1,000 live blocks) untraced, with
 * nothing stored, and with a collector that drains and drops. Prints the added ns per event, as
 * the difference of medians and of the fastest rounds, and the events lost.
 *
 *	bench-hooks [EVENTS] [ROUNDS] [THREADS] [DEPTH] [STACKS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mini-collector.h"

#define MAX_ROUNDS  64
#define N_ARGUMENTS 9 /* of churn, then perhaps one more */

static const struct variant {
	const char *name;
	struct mini_options options;
	bool is_paused;
} variants[] = {
	{ "untraced", { .no_preload = true } },
	{ "inert", { .is_inert = true } },
	{ "paused", { .n_chunks = 1024, .is_discarding = true }, .is_paused = true },
	{ "null sink, no stacks", { .flags = RING_FLAG_NULL_SINK } },
	{ "null sink, frame pointers", { .flags = RING_FLAG_NULL_SINK, .stacks = RING_STACKS_FP } },
	{ "null sink, unwind tables",
	  { .flags = RING_FLAG_NULL_SINK, .stacks = RING_STACKS_DWARF } },
	{ "drained, no stacks", { .n_chunks = 1024, .is_discarding = true } },
	{ "drained, frame pointers",
	  { .n_chunks = 1024, .is_discarding = true, .stacks = RING_STACKS_FP } },
	{ "drained, unwind tables",
	  { .n_chunks = 1024, .is_discarding = true, .stacks = RING_STACKS_DWARF } },
};
#define N_VARIANTS (sizeof(variants) / sizeof(*variants))

/* One run of churn: ns per event, by its own clock. */
static double measure(const struct variant *variant, const char *argv[], uint64_t *n_dropped)
{
	struct mini_run run;
	unsigned long long n_events;
	double seconds;

	argv[N_ARGUMENTS] = variant->is_paused ? "-p" : NULL;
	mini_run(&variant->options, argv, &run);
	if (sscanf(run.output, "%llu events, %lf s", &n_events, &seconds) != 2)
		abort();
	*n_dropped += run.processes[0].n_dropped;
	mini_finish(&run);
	return seconds * 1e9 / (double)n_events;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left;
	double b = *(const double *)right;

	return a < b ? -1 : a > b;
}

int main(int argc, char **argv)
{
	const char *churn[N_ARGUMENTS + 2] = {
		CHURN,
		"-n",
		argc > 1 ? argv[1] : "3000000",
		"-t",
		argc > 3 ? argv[3] : "1",
		"-d",
		argc > 4 ? argv[4] : "4",
		"-s",
		argc > 5 ? argv[5] : "0",
	};
	unsigned n_rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 7;
	static double ns[N_VARIANTS][MAX_ROUNDS];
	uint64_t n_dropped[N_VARIANTS] = { 0 };

	if (n_rounds == 0 || n_rounds > MAX_ROUNDS)
		return 2;
	for (unsigned i = 0; i < n_rounds; i++)
		for (size_t v = 0; v < N_VARIANTS; v++)
			ns[v][i] = measure(&variants[v], churn, &n_dropped[v]);
	for (size_t v = 0; v < N_VARIANTS; v++) {
		qsort(ns[v], n_rounds, sizeof(double), compare);
		printf("%-28s %6.1f ns/event  added: median %6.1f  least %6.1f  dropped %llu\n",
		       variants[v].name, ns[v][n_rounds / 2],
		       ns[v][n_rounds / 2] - ns[0][n_rounds / 2], ns[v][0] - ns[0][0],
		       (unsigned long long)n_dropped[v]);
	}
	return 0;
}
