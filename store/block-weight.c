#include "store/block-weight.h"

#include <math.h>

#define Z2 (1.959964 * 1.959964)

double block_weight_of(uint64_t interval, uint64_t size)
{
	return interval ? -1 / expm1(-((double)size + 1) / (double)interval) : 1;
}

/* A damaged weight may be anything. */
struct block_weight block_weigh_picked(double weight, uint64_t size)
{
	double w = weight < 0x1p40 ? weight : 1;
	double bytes = fmin((double)size * w, 0x1p62);

	return (struct block_weight){
		.n = w,
		.bytes = (uint64_t)(bytes + 0.5),
		.variance = bytes * (bytes - fmin((double)size, bytes)),
		.n_variance = w * (w - 1),
		.is_picked = true,
	};
}

double block_weight_shift(double variance, double n_variance, double n)
{
	double p = n > 0 ? n / (n + n_variance) : 0;

	if (!(n_variance > 0 && variance > 0 && p > 0.5))
		return 0;
	return (Z2 - 1) / 6 * (2 * p - 1) * sqrt(variance / n_variance);
}

void block_weight_interval(double estimate, double variance, double shift, double *ret_low,
			   double *ret_high)
{
	double half = estimate > 0 ? Z2 * variance / estimate / 2 : 0;
	double root = sqrt(half * half + Z2 * fmax(variance, 0));

	*ret_low = fmax(estimate + half - root, 0);
	*ret_high = estimate + half + root + shift;
}

uint8_t block_interval_number(struct block_intervals *intervals, uint64_t bytes)
{
	unsigned i = bytes ? intervals->n : 0;

	while (i > 1 && intervals->bytes[i] != bytes)
		i--;
	if (bytes == 0 || (i > 0 && intervals->bytes[i] == bytes))
		return (uint8_t)i;
	if (intervals->n + 1 < BLOCK_INTERVALS)
		intervals->bytes[++intervals->n] = bytes;
	return (uint8_t)intervals->n;
}
