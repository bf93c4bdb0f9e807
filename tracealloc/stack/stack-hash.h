#pragma once
/*
 * The hash by which a call stack is known: a polynomial over the field of 2^61 - 1, the return
 * addresses being its coefficients, the innermost one that of power 0 (Carter and Wegman 1979). So
 * the hash of a stack is that of what lies outside times a power, plus the new frames, however the
 * stack is cut; and two stacks of up to 256 frames can have one hash only where the base is one of
 * the at most 256 roots of their difference: with n stacks known to a thread, n / 2^61 of new ones.
 */
#include <stdint.h>

#include "schemas/ring.h"

#define TA_HASH_PRIME ((UINT64_C(1) << 61) - 1)

__extension__ typedef unsigned __int128 ta_hash_sum;

/* Powers of the base; filled once, before the image records. */
extern uint64_t ta_hash_power[RING_MAX_FRAMES + 1] __attribute__((visibility("hidden")));

/* Fill ta_hash_power. */
void ta_hash_begin(void);

/* Below the prime. */
static inline uint64_t ta_hash_reduce(ta_hash_sum sum)
{
	uint64_t low = (uint64_t)sum & TA_HASH_PRIME;
	uint64_t middle = (uint64_t)(sum >> 61) & TA_HASH_PRIME;
	uint64_t high = (uint64_t)(sum >> 122);
	uint64_t value = low + middle + high;

	value = (value & TA_HASH_PRIME) + (value >> 61);
	return value >= TA_HASH_PRIME ? value - TA_HASH_PRIME : value;
}

/*
 * What the i-th frame from the inside adds to a sum. An address has 47 bits, but for a last one
 * that is none: 256 of them fit.
 */
static inline ta_hash_sum ta_hash_term(uintptr_t pc, uint32_t i)
{
	return (ta_hash_sum)pc * ta_hash_power[i];
}

/* The hash of n frames, whose terms are in sum, with what lies outside of them. */
static inline uint64_t ta_hash_join(ta_hash_sum sum, uint64_t outer, uint32_t n)
{
	return ta_hash_reduce(sum + (ta_hash_sum)outer * ta_hash_power[n]);
}

/* The hash of one more frame. */
static inline uint64_t ta_hash_inward(uint64_t outer, uintptr_t pc)
{
	return ta_hash_join(pc, outer, 1);
}

/* The hash of no frame at all: of the reason why there are no more (enum trace_stop). */
static inline uint64_t ta_hash_of_stop(uint32_t stop)
{
	return stop + 1;
}
