#pragma once
/*
 * What is repeated with other seeds, or at each byte, is repeated less often where the environment says
 * so: sanitizers and valgrind make it five to fifty times slower, and see the same paths in a part of it.
 */
#include <stdlib.h>

/* Every so many-th of what is repeated; 1: all. */
static inline int every(void)
{
	const char *text = getenv("TESTS_FEWER");
	int by = text ? atoi(text) : 1;

	return by > 1 ? by : 1;
}

/* Of n, but one at least. */
static inline int fewer(int n)
{
	return (n + every() - 1) / every();
}
