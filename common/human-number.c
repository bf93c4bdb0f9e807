#include "common/human-number.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct format_text format_count(int64_t count)
{
	struct format_text out = { "" };
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRId64, count);
	size_t used = 0;

	for (int i = 0; i < n; i++) {
		bool is_group = i > 0 && (n - i) % 3 == 0 && digits[i - 1] != '-';
		if (is_group)
			out.text[used++] = ',';
		out.text[used++] = digits[i];
	}
	return out;
}

/* Three digits, as long as the number has that many. */
static int decimals_of(double value)
{
	return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

struct format_text format_bytes(int64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	struct format_text out;
	double value = (double)bytes;
	size_t unit = 0;

	while (fabs(value) >= 1023.5 && unit < sizeof(units) / sizeof(*units) - 1) {
		value /= 1024;
		unit++;
	}
	int decimals = unit == 0 ? 0 : decimals_of(fabs(value));
	snprintf(out.text, sizeof(out.text), "%.*f %s", decimals, value, units[unit]);
	return out;
}

struct format_text format_duration(int64_t ns)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	struct format_text out;
	double value = (double)ns;
	size_t unit = 0;

	while (fabs(value) >= 999.5 && unit < sizeof(units) / sizeof(*units) - 1) {
		value /= 1000;
		unit++;
	}
	if (unit == 3 && value >= 119.5) {
		snprintf(out.text, sizeof(out.text), "%.0f min %.0f s", floor(value / 60),
			 fmod(floor(value + 0.5), 60));
		return out;
	}
	int decimals = unit == 0 ? 0 : decimals_of(fabs(value));
	snprintf(out.text, sizeof(out.text), "%.*f %s", decimals, value, units[unit]);
	return out;
}

struct format_text format_interval(int64_t from_ns, int64_t to_ns)
{
	struct format_text out;
	double from = (double)from_ns / 1e9;
	double to = (double)to_ns / 1e9;
	double span = to - from;
	int decimals = span >= 10 ? 1 : span >= 0.1 ? 2 : span >= 0.01 ? 3 : span >= 1e-5 ? 6 : 9;

	snprintf(out.text, sizeof(out.text), "%.*f-%.*f s", decimals, from, decimals, to);
	return out;
}

struct format_text format_percent(double share)
{
	struct format_text out = { "-" };

	if (share >= 0)
		snprintf(out.text, sizeof(out.text), "%.1f %%", 100 * share);
	return out;
}

#define MOST_OF_VALUE                                                                              \
	0.25 /* that the longer side of an interval is, where a value is told with it */
#define BELOW_A_DIGIT 5e-4 /* of a share: no digit shows it */

static bool is_wide(double value, double low, double high)
{
	return value < 0 || fmax(value - low, high - value) > MOST_OF_VALUE * value;
}

/* An end that is 0 or all says nothing, unless both do. */
static struct format_text share_range(double low, double high)
{
	struct format_text out;
	bool is_from_0 = low<BELOW_A_DIGIT, is_to_all = high> 1 - BELOW_A_DIGIT;

	if (is_from_0 != is_to_all)
		snprintf(out.text, sizeof(out.text), "%s%.1f %%", is_to_all ? "\u2265" : "\u2264",
			 100 * (is_to_all ? low : high));
	else
		snprintf(out.text, sizeof(out.text), "%.1f-%.1f %%", 100 * fmax(low, 0),
			 100 * fmin(high, 1));
	return out;
}

struct format_text format_share(double share, double low, double high)
{
	struct format_text out;
	double half = fmax(share - low, high - share);

	if (half > BELOW_A_DIGIT && (is_wide(share, low, high) || share + half > 1 + BELOW_A_DIGIT))
		return share_range(low, high);
	snprintf(out.text, sizeof(out.text), "%.1f \u00b1%.1f %%", 100 * share, 100 * half);
	return out;
}

struct format_text format_with_interval(double value, double low, double high)
{
	struct format_text out;

	if (is_wide(value, low, high) && low == 0)
		snprintf(out.text, sizeof(out.text), "\u2264%.15g", high);
	else if (is_wide(value, low, high))
		snprintf(out.text, sizeof(out.text), "%.15g-%.15g", low, high);
	else
		snprintf(out.text, sizeof(out.text), "%.15g \u00b1%.2g", value,
			 fmax(value - low, high - value));
	return out;
}

static struct format_text format_amount(double value, bool is_bytes)
{
	return is_bytes ? format_bytes(llround(value)) : format_count(llround(value));
}

struct format_text format_estimate(double value, double low, double high, bool is_bytes)
{
	struct format_text text = format_amount(value, is_bytes), out;
	double half = fmax(value - low, high - value) / fmax(value, 1);

	if (llround(low) == llround(high))
		return text;
	if (half > 0.25)
		snprintf(out.text, sizeof(out.text), "%.20s-%.20s",
			 format_amount(low, is_bytes).text, format_amount(high, is_bytes).text);
	else
		snprintf(out.text, sizeof(out.text), "%.30s \u00b1%.2g %%", text.text, 100 * half);
	return out;
}

double format_half_width(double sum, double sum_of_squares, int64_t n_samples)
{
	if (n_samples <= 0)
		return 1;

	double n = (double)n_samples + 4;
	double mean = (sum + 2) / n;
	double variance = (sum_of_squares + 2) / n - mean * mean;

	return 1.96 * sqrt(fmax(variance, 0) / n);
}
