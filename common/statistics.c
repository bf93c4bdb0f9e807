#include "common/statistics.h"

#include <math.h>
#include <stdlib.h>

#include "common/array.h"

#define CONFIDENCE     0.95
#define FENCE_DISTANCE 1.5

DEFINE_ORDER(compare, double, ORDER(*a, *b));

void statistics_sort(double *values, size_t n)
{
	if (n > 1)
		qsort(values, n, sizeof(*values), compare);
}

double statistics_quantile(const double *sorted, size_t n, double p)
{
	double at = p * (double)(n - 1);
	size_t below = (size_t)at;

	if (below + 1 >= n)
		return sorted[n - 1];
	return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

double statistics_mean(const double *values, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += values[i];
	return sum / (double)n;
}

double statistics_deviation(const double *values, size_t n)
{
	double mean = statistics_mean(values, n), squares = 0;

	for (size_t i = 0; i < n; i++)
		squares += (values[i] - mean) * (values[i] - mean);
	return sqrt(squares / (double)(n - 1));
}

/* The probability that of n values at most k lie below the median that they were drawn from. */
static double at_most_below(size_t n, size_t k)
{
	double sum = 0, total = (double)n;

	for (size_t i = 0; i <= k; i++)
		sum += exp(lgamma(total + 1) - lgamma((double)i + 1) -
			   lgamma(total - (double)i + 1) - total * M_LN2);
	return sum;
}

void statistics_interval(const double *sorted, size_t n, double *ret_low, double *ret_high)
{
	double covered = 0, next = 1 - 2 * at_most_below(n, 0);
	size_t d = 0;

	do {
		covered = next;
		next = 1 - 2 * at_most_below(n, ++d);
	} while (next >= CONFIDENCE && 2 * (d + 1) <= n);
	double inward = (covered - CONFIDENCE) / (covered - next);
	double part = (double)(n - d) * inward / ((double)d + (double)(n - 2 * d) * inward);

	*ret_low = (1 - part) * sorted[d - 1] + part * sorted[d];
	*ret_high = (1 - part) * sorted[n - d] + part * sorted[n - d - 1];
}

void statistics_fences(const double *sorted, size_t n, double *ret_low, double *ret_high)
{
	double low = statistics_quantile(sorted, n, 0.25);
	double high = statistics_quantile(sorted, n, 0.75);

	*ret_low = low - FENCE_DISTANCE * (high - low);
	*ret_high = high + FENCE_DISTANCE * (high - low);
}
