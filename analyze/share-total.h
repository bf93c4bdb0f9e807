#pragma once
/*
 * A sum of shares of samples with what its 95 % interval needs: shares of one sample are added before
 * they are squared, so those of one sample must follow each other. All zero is empty.
 */
#include <stdint.h>

struct share_total {
	double n; /* sum of shares */
	double n_sq; /* sum over samples of (share)^2; after share_total_settle() */
	int64_t sample; /* the last one, ... */
	double current; /* ... and the sum of its shares, not squared yet */
};

static inline void share_total_settle(struct share_total *total)
{
	total->n_sq += total->current * total->current;
	total->current = 0;
}

static inline void share_total_add(struct share_total *total, int64_t sample, double share)
{
	if (total->sample != sample)
		share_total_settle(total);
	total->sample = sample;
	total->current += share;
	total->n += share;
}
