#include "common/radix-sort.h"

#define DIGIT_BITS 11
#define N_DIGITS   (1u << DIGIT_BITS)

static void sort_by_digit(const uint64_t *from, uint64_t *to, size_t n, unsigned shift)
{
	size_t starts[N_DIGITS + 1] = { 0 };

	for (size_t i = 0; i < n; i++)
		starts[(from[i] >> shift & (N_DIGITS - 1)) + 1]++;
	for (size_t digit = 0; digit < N_DIGITS; digit++)
		starts[digit + 1] += starts[digit];
	for (size_t i = 0; i < n; i++)
		to[starts[from[i] >> shift & (N_DIGITS - 1)]++] = from[i];
}

uint64_t *radix_sort(uint64_t *keys, uint64_t *other, size_t n, unsigned shift)
{
	uint64_t differing = 0;

	for (size_t i = 0; i < n; i++)
		differing |= keys[i] ^ keys[0];
	for (differing >>= shift; differing;) {
		unsigned alike = (unsigned)__builtin_ctzll(differing);
		sort_by_digit(keys, other, n, shift + alike);
		uint64_t *sorted = other;
		other = keys;
		keys = sorted;
		shift += alike + DIGIT_BITS;
		differing = shift < 64 ? differing >> alike >> DIGIT_BITS : 0;
	}
	return keys;
}
