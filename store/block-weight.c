#include "store/block-weight.h"

#include <math.h>

#define Z2	     (1.959964 * 1.959964)
#define WEIGHT_ERROR 1e-6 /* of a weight that others give */
#define FEW_MISSED   0.05 /* of these none is missed in 95 % */

double block_weight_of(uint64_t interval, uint64_t size)
{
	bool is_plain = interval & BLOCK_INTERVAL_PLAIN;
	double n = (double)size + !is_plain;

	interval &= ~BLOCK_INTERVAL_PLAIN;
	return interval && n > 0 ? -1 / expm1(-n / (double)interval) : 1;
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

double block_weight_least(double variance, double n_variance, double n)
{
	if (!(n_variance > 0 && variance > 0 && n > 0))
		return 0;
	double n_missed = n_variance / (1 + n_variance / n);
	return n_missed > FEW_MISSED ? fmax(1 - n_missed, 0) * sqrt(variance / n_variance) : 0;
}

void block_weight_interval(double estimate, double variance, double least, double *ret_low,
			   double *ret_high)
{
	double half = estimate > 0 ? Z2 * variance / estimate / 2 : 0;
	double root = sqrt(half * half + Z2 * fmax(variance, 0));

	*ret_low = fmax(estimate + half - root, 0);
	*ret_high = estimate + fmax(half + root, least);
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

uint8_t block_interval_of_weight(struct block_intervals *intervals, uint64_t size,
				 uint64_t weighted_bytes)
{
	double bytes = (double)size, wanted = (double)weighted_bytes, least = INFINITY;
	unsigned nearest = 0;

	if (weighted_bytes <= size)
		return 0;
	for (unsigned i = intervals->n; i > 0; i--) {
		uint64_t interval = intervals->bytes[i];
		double off = fabs(bytes * block_weight_of(interval, size) - wanted);

		if (!(interval & BLOCK_INTERVAL_PLAIN) || off >= least)
			continue;
		least = off;
		nearest = i;
	}
	if (least <= 1 + wanted * WEIGHT_ERROR || intervals->n + 1 == BLOCK_INTERVALS)
		return (uint8_t)nearest;
	double interval = fmin(fmax(-bytes / log1p(-bytes / wanted), 1), 0x1p62);

	return block_interval_number(intervals, BLOCK_INTERVAL_PLAIN | (uint64_t)llround(interval));
}
