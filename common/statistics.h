#pragma once
/* Statistics of a few values, as repetitions of a run give them. */
#include <stddef.h>

/* Put in ascending order; the functions below that want sorted values say so. */
void statistics_sort(double *values, size_t n);

/* The quantile p (0 to 1) of sorted values, between two of them in proportion; n > 0. */
double statistics_quantile(const double *sorted, size_t n, double p);

double statistics_mean(const double *values, size_t n);

/* The sample's standard deviation, with n - 1; n > 1. */
double statistics_deviation(const double *values, size_t n);

/*
 * The 95 % interval of the median: between the values that hold it with more and with less than
 * that by the binomial distribution, in proportion (Hettmansperger and Sheather, Confidence
 * intervals based on interpolated order statistics, 1986): nearly the same for all distributions.
 * Of sorted values, at least as many as below.
 *
 * Of n values, the median of what they were drawn from lies between the least and the greatest with
 * a probability of 1 - 2^(1 - n), 93.75 % of 5: below 6 values no interval within them can claim 95
 * %.
 */
#define STATISTICS_INTERVAL_VALUES 6u
void statistics_interval(const double *sorted, size_t n, double *ret_low, double *ret_high);

/*
 * The fences of Tukey's box plot: what lies outside, 1.5 times the distance of the quartiles beyond
 * them, is an outlier. Of sorted values, n > 0.
 */
void statistics_fences(const double *sorted, size_t n, double *ret_low, double *ret_high);
