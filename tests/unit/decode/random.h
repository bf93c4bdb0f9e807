#pragma once
/* A seeded sequence, so that a failure can be repeated (xorshift64*, Vigna 2016). */
#include <stdint.h>

struct random {
	uint64_t state; /* not 0 */
};

static inline uint64_t random_next(struct random *random)
{
	random->state ^= random->state >> 12;
	random->state ^= random->state << 25;
	random->state ^= random->state >> 27;
	return random->state * UINT64_C(0x2545f4914f6cdd1d);
}

/* 0 to n - 1 */
static inline unsigned random_below(struct random *random, unsigned n)
{
	return (unsigned)((random_next(random) >> 32) % n);
}
