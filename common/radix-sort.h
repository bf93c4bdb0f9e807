#pragma once
/* Numbers in order by their bytes: those that are alike in all cost one look. */
#include <stdint.h>

struct radix_key {
	uint64_t value;
	uint32_t index; /* what it is of */
};

/*
 * Sort n keys by value; equal ones stay in their order. other: room for as many. Returns which of
 * both has the result.
 */
struct radix_key *radix_sort(struct radix_key *keys, struct radix_key *other, uint32_t n);
