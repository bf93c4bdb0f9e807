#include "store/totals/share-sum.h"

#include <math.h>
#include <stdbool.h>

#define SURE		1.645 /* standard deviations that chance gives to one in ten */
#define LEAST_OF_SLICES 0.3 /* below this correlation of neighbours nothing is gained */
#define LEAST_TURNS	20 /* neighbours of another period, to compare with */
/*
 * Threads that are born while a period holds are sampled at the same ages: what neighbours tell of
 * slices in one holds in all of them. So nothing is gained from threads of fewer than 20 samples,
 * on the average.
 */
#define LEAST_NEIGHBOURS 0.95
#define LEAST_THREADS	 8
#define TURN_DEVIATIONS	 3
#define MOST_OF_TURNS	 0.5
/*
 * Of what a turn loses, and a thread at its end, about what its first sample stands for, in squares
 * of the period: that of its law is 0.26 (pmu/period-ladder.h). A turn makes two neighbours
 * of another weight.
 */
#define TURN_VARIANCE	 0.125
#define MOST_CORRELATION 0.999
#define BINOMIAL_GAIN	 1
#define LEAST_YOUNG_GAIN 0.25
/*
 * What else errs: interrupts that come late, what a thread does before its first sample. Deviations
 * of 0.1 to 0.2 points where each slice is known to a percent (docs/accuracy.md).
 */
#define OTHER_DEVIATION 0.003

struct neighbours {
	double n; /* pairs */
	double correlation;
};

/*
 * The variance over the binomial one of slices whose correlation falls as exp(-t) with the
 * distance, to r at the next sample: (1 + r) / (1 - r) is that of the sampled sum, and 2 / ln r
 * what is known of the true time, too (Cox and Lewis, The Statistical Analysis of Series of Events,
 * chapter 4; Cochran, Sampling Techniques, 8.9). 1 of r = 0; (1 - r) / 6 of long slices: each end
 * of one lies anywhere between two samples.
 */
static double gain_of_exponential(double r)
{
	return (1 + r) / (1 - r) + 2 / log(r);
}

/*
 * The same where the next sample has r, and the one behind it `second`. What falls no faster than
 * r to its square is slices; where it falls less there are two parts: slices of correlation
 * second / r, and what the next sample knows nothing of, which is as uncertain as a fine mix.
 * Neighbours that are less alike may as well be in step with the sampling (frames of a period have
 * 0.2): then they say less than two. Those that differ more than by chance are strata: their
 * correlation counts half. Where the one behind the next is more alike than the next, the program
 * goes on for a part of each period that is near a half: each second sample is at one place of it,
 * as neighbours of frames in step are.
 */
static double gain_of_slices(double r, double second, double n)
{
	double noise = SURE / sqrt(n);

	if (second > fmax(r, 0) + noise)
		return fmax((1 + second + 2 * r) / (1 - fmin(second, MOST_CORRELATION)), 1);
	if (r < -noise)
		return (1 + r / 2) / (1 - r / 2);
	if (r <= noise)
		return BINOMIAL_GAIN;
	if (r < LEAST_OF_SLICES)
		return (1 + r) / (1 - r);
	double of_slices = fmin(fmax(second / r, r), MOST_CORRELATION);
	double part = fmin(r / of_slices, 1);
	return 1 - part * (1 - gain_of_exponential(of_slices));
}

/*
 * A program that repeats in step with the sampling looks like long slices, until the period
 * changes: then each stretch of one period is hardly more than one sample. The correlation across
 * changes follows from how much such neighbours differ, whose noise is that of so many of them
 * differing.
 */
static bool is_in_step(const struct neighbours *same, const struct neighbours *turned,
		       double n_turned, double variance)
{
	/*
	 * Means of (x - y)^2 / 2: of slices both would be as much. Of shares of 0 or 1 its variance
	 * is m / 2 - m^2.
	 */
	double expected = fmax(1 - same->correlation, 0) * variance;
	double found = fmax(1 - turned->correlation, 0) * variance;
	double m = fmin((expected + found) / 2, 0.25);

	return same->n >= LEAST_TURNS && turned->n >= LEAST_TURNS &&
	       turned->correlation < MOST_OF_TURNS &&
	       found - expected > TURN_DEVIATIONS * sqrt((m / 2 - m * m) / n_turned);
}

static double variance_of(const struct share_design *design, const struct share_sum *sum)
{
	double mean = sum->time / design->time;

	return (sum->time_sq - 2 * mean * sum->time_w) / design->time_sq + mean * mean;
}

double share_correlation(const struct share_design *design, const struct share_sum *sum,
			 enum share_lag lag)
{
	double variance = variance_of(design, sum);

	if (!(variance > 0 && design->lag[lag] > 0))
		return 0;
	return fmax(1 - sum->apart[lag] / design->lag[lag] / variance, -1);
}

static bool are_short(const struct share_design *design)
{
	double n_pairs = (design->lag[SHARE_LAG_SAME] + design->lag[SHARE_LAG_TURNED]) * design->n /
			 design->time_sq;

	return n_pairs < LEAST_NEIGHBOURS * design->n && design->n - n_pairs >= LEAST_THREADS;
}

static double gain_of(const struct share_design *design, const struct share_sum *sum,
		      double variance)
{
	double each = design->time_sq / design->n;
	struct neighbours same = { design->lag[SHARE_LAG_SAME] / each,
				   share_correlation(design, sum, SHARE_LAG_SAME) };
	struct neighbours turned = { design->lag[SHARE_LAG_TURNED] / each,
				     share_correlation(design, sum, SHARE_LAG_TURNED) };
	/* So many of equal weight would tell as much. */
	double n_turned = design->lag[SHARE_LAG_TURNED] * design->lag[SHARE_LAG_TURNED] /
			  fmax(design->turned_sq, each * each);
	double n = same.n + turned.n;

	if (n < LEAST_TURNS || are_short(design))
		return BINOMIAL_GAIN;
	if (is_in_step(&same, &turned, n_turned, variance)) {
		double r = same.correlation, n_stretches = turned.n + 1;
		/*
		 * Stretches of exponential lengths: the mean square is twice the square of the
		 * mean.
		 */
		return fmin((1 + r) / fmax(1 - r, 1 / n), 2 * n / n_stretches);
	}
	double r = (same.correlation * same.n + turned.correlation * turned.n) / n;
	return gain_of_slices(r, share_correlation(design, sum, SHARE_LAG_SECOND), n) +
	       TURN_VARIANCE * (turned.n + 2 * fmax(design->n - n, 0)) / n;
}

/*
 * Threads of one turn are sampled at the same ages, as if they were one thread: turns are the
 * independent units, and the variance is that of a ratio of their sums (Cochran, Sampling
 * Techniques, 9A.1: clusters of unequal sizes). Few turns tell it badly: Student's quantile is 1 +
 * 1.4 / (n - 1) times the normal one, within 3 % from four on.
 */
static double variance_of_turns(const struct share_design *design, const struct share_sum *sum,
				double variance)
{
	double mean = sum->time / design->time, n = design->n_turns;
	double squares = sum->turn_sq - 2 * mean * sum->turn_w + mean * mean * design->turn_sq;
	double all = design->turn_sq * variance;

	if (n < 2)
		return all / (design->time * design->time);
	double wider = 1 + 1.4 / (n - 1);
	return fmin(squares * n / (n - 1) * wider * wider, all) / (design->time * design->time);
}

double share_half(const struct share_design *design, const struct share_sum *sum)
{
	if (!(design->time > 0 && design->time_sq > 0))
		return 1;

	double n = design->time * design->time / design->time_sq;
	double mean = sum->time / design->time;
	double square = (sum->time_sq - 2 * mean * sum->time_w) / design->time_sq + 2 * mean * mean;
	double variance = square - mean * mean;
	/* Two samples of 1 and two of 0 added, as in format_half_width(). */
	double more = (mean * n + 2) / (n + 4);
	double wide = (square * n + 2) / (n + 4) - more * more;
	double gain = variance > 0 ? gain_of(design, sum, variance) : BINOMIAL_GAIN;
	double binomial = fmax(wide, 0) / (n + 4);
	double other = OTHER_DEVIATION * OTHER_DEVIATION * fmax(mean * (1 - mean), 0);

	if (!are_short(design) || !(design->young_sq > 0 && variance > 0))
		return fmin(1.96 * sqrt(gain * binomial + other), 1);
	double young = fmin(design->young_sq / design->time_sq, 1);
	double turns =
		fmax(variance_of_turns(design, sum, variance), LEAST_YOUNG_GAIN * young * binomial);
	return fmin(1.96 * sqrt((1 - young) * gain * binomial + turns + other), 1);
}
