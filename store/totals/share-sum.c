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
#define LEAST_NEIGHBOURS   0.95
#define LEAST_THREADS	   8
#define TURN_DEVIATIONS	   2.5
#define MOST_OF_TURNS	   0.5
#define MOST_CORRELATION   0.999
#define SMALL_VARIATION	   1e-6
#define MOST_BINOMIAL_GAIN 1
#define LEAST_GAIN	   0.25

struct neighbours {
	double n; /* pairs */
	double correlation;
};

/*
 * The variance over the binomial one for neighbours of correlation r. With sample distances of
 * squared coefficient of variation v (a gamma distribution) and slices whose correlation falls as
 * exp(-t), r is the Laplace transform of the distance, and the variance of the sampled sum about
 * the true time is (1 + r) / (1 - r) - 2 / t: Cox and Lewis, The Statistical Analysis of Series of
 * Events, chapter 4; Cochran, Sampling Techniques, 8.9. Neighbours that differ more than by chance
 * are strata: their correlation counts half.
 *
 * An interval is never less than half as wide as the binomial one: in slices of many periods the
 * shares of a chase of pointers vary twice as much as this says (0.61 points, of 20 runs 14
 * inside), for what else errs is not in it.
 */
static double gain_of_slices(double r, double n, double v)
{
	double noise = SURE / sqrt(n);

	if (fabs(r) <= noise || (r > 0 && r < LEAST_OF_SLICES))
		return MOST_BINOMIAL_GAIN;
	r = fmin(r - noise * noise / r, MOST_CORRELATION);
	if (r < 0)
		return (1 + r / 2) / (1 - r / 2);
	double t = v > SMALL_VARIATION ? (pow(r, -v) - 1) / v : -log(r);
	return fmax(fmin((1 + r) / (1 - r) - 2 / t, MOST_BINOMIAL_GAIN), LEAST_GAIN);
}

/*
 * A program that repeats in step with the sampling looks like long slices, until the period
 * changes: then each stretch of one period is hardly more than one sample. The correlation across
 * changes follows from how much such neighbours differ (turned_correlation()), whose noise is that
 * of so many of them differing.
 */
static bool is_in_step(const struct neighbours *same, const struct neighbours *turned,
		       double variance)
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
	       found - expected > TURN_DEVIATIONS * sqrt((m / 2 - m * m) / turned->n);
}

double share_correlation(const struct share_design *design, const struct share_sum *sum, unsigned i)
{
	double mean = sum->time / design->time;
	double variance = (sum->time_sq - 2 * mean * sum->time_w) / design->time_sq + mean * mean;

	if (!(variance > 0 && design->lag[i] > 0))
		return 0;
	/* Where all samples have about the same share, their weights make it anything. */
	return fmin(fmax((sum->lag[i] / design->lag[i] - mean * mean) / variance, -1), 1);
}

/*
 * By how much neighbours of another period differ. There are few of them, which lie together: how
 * many of them fall into a slice is chance, and the products that share_correlation() goes by with
 * it, but not whether they differ.
 */
static double turned_correlation(const struct share_design *design, const struct share_sum *sum,
				 double variance)
{
	return design->lag[1] > 0 ? 1 - (sum->turned - sum->lag[1]) / design->lag[1] / variance : 0;
}

static bool are_short(const struct share_design *design)
{
	double n_pairs = (design->lag[0] + design->lag[1]) * design->n / design->time_sq;

	return n_pairs < LEAST_NEIGHBOURS * design->n && design->n - n_pairs >= LEAST_THREADS;
}

static double gain_of(const struct share_design *design, const struct share_sum *sum,
		      double variance)
{
	double each = design->time_sq / design->n;
	double v = design->n * design->time_sq / (design->time * design->time) - 1;
	struct neighbours same = { design->lag[0] / each, share_correlation(design, sum, 0) };
	struct neighbours turned = { design->lag[1] / each,
				     turned_correlation(design, sum, variance) };
	double n = same.n + turned.n;

	if (n < LEAST_TURNS || are_short(design))
		return MOST_BINOMIAL_GAIN;
	if (is_in_step(&same, &turned, variance)) {
		double r = same.correlation, n_stretches = turned.n + 1;
		/*
		 * Stretches of exponential lengths: the mean square is twice the square of the
		 * mean.
		 */
		return fmin((1 + r) / fmax(1 - r, 1 / n), 2 * n / n_stretches);
	}
	double r = (same.correlation * same.n + share_correlation(design, sum, 1) * turned.n) / n;
	return gain_of_slices(r, n, fmin(fmax(v, 0), 1));
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
	double gain = variance > 0 ? gain_of(design, sum, variance) : MOST_BINOMIAL_GAIN;
	double binomial = fmax(wide, 0) / (n + 4);

	if (!are_short(design) || !(design->young_sq > 0 && variance > 0))
		return fmin(1.96 * sqrt(gain * binomial), 1);
	double young = fmin(design->young_sq / design->time_sq, 1);
	double turns =
		fmax(variance_of_turns(design, sum, variance), LEAST_GAIN * young * binomial);
	return fmin(1.96 * sqrt((1 - young) * gain * binomial + turns), 1);
}
