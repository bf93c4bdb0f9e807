#include "common/radix-sort.h"

#define BYTES sizeof(uint64_t)

struct radix_key *radix_sort(struct radix_key *keys, struct radix_key *other, uint32_t n)
{
	uint32_t counts[BYTES][256] = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		for (unsigned byte = 0; byte < BYTES; byte++)
			counts[byte][keys[i].value >> 8 * byte & 255]++;
	}
	for (unsigned byte = 0; byte < BYTES && n > 0; byte++) {
		uint32_t *places = counts[byte], at = 0;
		if (places[keys[0].value >> 8 * byte & 255] == n)
			continue;
		for (unsigned i = 0; i < 256; i++) {
			uint32_t here = places[i];
			places[i] = at;
			at += here;
		}
		for (uint32_t i = 0; i < n; i++)
			other[places[keys[i].value >> 8 * byte & 255]++] = keys[i];
		struct radix_key *swapped = keys;
		keys = other;
		other = swapped;
	}
	return keys;
}
