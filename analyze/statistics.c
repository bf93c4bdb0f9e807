#include "analyze/statistics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/cleanup.h"

#define N_SAMPLES      10000u
#define N_FEWER	       2000u /* of many values, whose medians vary less */
#define MANY_VALUES    50u
#define SEED	       UINT64_C(0x6d656d7369676874)
#define PERCENT_BELOW  0.025
#define PERCENT_ABOVE  0.975
#define FENCE_DISTANCE 1.5

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

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

/* splitmix64: Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

int statistics_interval(const double *sorted, size_t n, double *ret_low, double *ret_high)
{
	size_t n_samples = n > MANY_VALUES ? N_FEWER : N_SAMPLES;
	auto_free double *medians = calloc(n_samples, sizeof(*medians));
	auto_free double *sample = calloc(n, sizeof(*sample));
	uint64_t state = SEED;

	if (!medians || !sample)
		return -ENOMEM;
	for (size_t i = 0; i < n_samples; i++) {
		for (size_t j = 0; j < n; j++)
			sample[j] = sorted[next_random(&state) % n];
		statistics_sort(sample, n);
		medians[i] = statistics_quantile(sample, n, 0.5);
	}
	statistics_sort(medians, n_samples);
	*ret_low = statistics_quantile(medians, n_samples, PERCENT_BELOW);
	*ret_high = statistics_quantile(medians, n_samples, PERCENT_ABOVE);
	return 0;
}

void statistics_fences(const double *sorted, size_t n, double *ret_low, double *ret_high)
{
	double low = statistics_quantile(sorted, n, 0.25);
	double high = statistics_quantile(sorted, n, 0.75);

	*ret_low = low - FENCE_DISTANCE * (high - low);
	*ret_high = high + FENCE_DISTANCE * (high - low);
}
