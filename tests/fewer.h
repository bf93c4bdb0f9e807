#pragma once
/*
 * What is repeated with other seeds is repeated less often where the environment says so: sanitizers
 * and valgrind make it five to fifty times slower, and see the same paths in a part of the rounds.
 */
#include <stdlib.h>

/* n, or the TESTS_FEWER-th part of it, but one at least. */
static inline int fewer(int n)
{
	const char *text = getenv("TESTS_FEWER");
	int by = text ? atoi(text) : 1;

	return by > 1 ? (n + by - 1) / by : n;
}
