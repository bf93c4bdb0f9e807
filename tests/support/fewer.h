#pragma once
/*
 * What is repeated with other seeds, or at each byte, is repeated less often where the environment
 * says so: sanitizers and valgrind make it five to fifty times slower, and see the same paths in a
 * part of it (TESTS_FEWER). What takes long is done in part by each check and wholly by the suite
 * `long` (TESTS_PART).
 */
#include <stdlib.h>

static inline int number_in_environment(const char *name)
{
	const char *text = getenv(name);
	int by = text ? atoi(text) : 1;

	return by > 1 ? by : 1;
}

/* Every so many-th of what is repeated; 1: all. */
static inline int every(void)
{
	int fewer = number_in_environment("TESTS_FEWER"),
	    part = number_in_environment("TESTS_PART");

	return fewer > part ? fewer : part;
}

/* Of n, but one at least. */
static inline int fewer(int n)
{
	return (n + every() - 1) / every();
}
