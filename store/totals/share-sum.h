#pragma once
/*
 * A sum of shares of samples with what its 95 % interval needs: shares of one sample are added
 * before they are squared, so those of one sample must follow each other. All zero is empty.
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

/* Neighbours in a thread: of the same period, of another; and the sample before the one before. */
enum share_lag { SHARE_LAG_SAME, SHARE_LAG_TURNED, SHARE_LAG_SECOND, SHARE_LAGS };

/*
 * What the interval of an owner's part of CPU time needs: sums over samples of their shares x (one
 * number for each sample, 0 to 1) and weights w, in ns. Of neighbours: the sample before in its
 * thread.
 */
struct share_sum {
	double n; /* of x */
	double n_sq; /* of x^2 */
	double time; /* of w x */
	double time_sq; /* of (w x)^2 */
	double time_w; /* of w^2 x */
	double apart[SHARE_LAGS]; /* of half (x - the neighbour's)^2 times both weights */
	double turn_sq; /* of young threads: over turns of (sum of w x)^2, ... */
	double turn_w; /* ... of the sum of w x times the sum of w */
};

/*
 * Of all samples. A turn: samples of young threads that have one period, for
 * they were born while it was the one that threads begin with.
 */
struct share_design {
	double n;
	double time;
	double time_sq;
	double lag[SHARE_LAGS]; /* of both weights of neighbours */
	double turned_sq; /* of their squares, of another period */
	double young_sq; /* of w^2 of young threads */
	double turn_sq;
	double n_turns;
};

static inline void share_sum_add(struct share_sum *sum, double share, double weight)
{
	sum->n += share;
	sum->n_sq += share * share;
	sum->time += weight * share;
	sum->time_sq += weight * share * weight * share;
	sum->time_w += weight * weight * share;
}

/* How alike neighbours are; 0 where there are none. */
double share_correlation(const struct share_design *design, const struct share_sum *sum,
			 enum share_lag lag);

/*
 * Half of the 95 % interval of sum.time / design.time, as samples give it; 1 without samples. The
 * binomial one holds where neighbours know nothing of each other. Where they are alike because the
 * program works on one thing for longer than a period, only the ends of such slices are uncertain
 * (docs/accuracy.md, "Intervals").
 */
double share_half(const struct share_design *design, const struct share_sum *sum);
