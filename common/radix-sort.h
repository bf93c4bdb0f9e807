#pragma once
/* Numbers in order, digit by digit: only by those digits in which they differ. Any thread. */
#include <stddef.h>
#include <stdint.h>

/*
 * Sort n keys by their bits from `shift` on; those that are equal in these stay in their order.
 * What the lower bits tell goes along. other: room for as many. Returns which of both has the
 * result.
 */
uint64_t *radix_sort(uint64_t *keys, uint64_t *other, size_t n, unsigned shift);
