#pragma once
/*
 * Numbers as people read them. Each function returns the text by value: printf("%s",
 * format_bytes(n).text). No locale, no allocation; safe in threads.
 */
#include <stdbool.h>
#include <stdint.h>

struct format_text {
	char text[48];
};

/* 4,210,233 */
struct format_text format_count(int64_t count);

/* Binary units with three digits: 512 B, 4.10 KiB, 1.21 GiB. */
struct format_text format_bytes(int64_t bytes);

/* A length of time in ns with three digits: 310 ns, 1.00 ms, 12.4 s, 3 min 20 s. */
struct format_text format_duration(int64_t ns);

/*
 * Seconds since the start of a run, for two ends of an interval: "0.2-12.1 s", with as many
 * decimals as tell them apart.
 */
struct format_text format_interval(int64_t from_ns, int64_t to_ns);

/* "41.3 %" of a share between 0 and 1; negative: "-". */
struct format_text format_percent(double share);

/*
 * A share and the ends of its 95 % interval, all between 0 and 1: "41.3 ±0.9 %", with the longer
 * side; "2.4-10.8 %" where that would be no number to go by: the share is not identified
 * (share < 0), the longer side is more than a quarter of it, or would lead out of 0 to 100 %. Of
 * a range that begins at 0 or ends at 100 %: "≤0.5 %", "≥31.0 %".
 */
struct format_text format_share(double share, double low, double high);

/*
 * The same for another quantity: "35 ±3", "35.2-45.7", "≤4"; numbers stand as they are,
 * value < 0: not identified.
 */
struct format_text format_with_interval(double value, double low, double high);

/*
 * A number of bytes or things that is estimated, with its 95 % interval: "1.34 GiB ±2.1 %", with
 * the longer side; "1.10-1.92 GiB" where that is more than a quarter of it; where both ends are the
 * number it is counted, and stands alone.
 */
struct format_text format_estimate(double value, double low, double high, bool is_bytes);

/*
 * Half the width of the 95 % interval of a mean share. n_samples samples each gave this owner a
 * share between 0 and 1; sum and sum_of_squares are of these shares. The variance is that of a
 * mean, with two samples of 1 and two of 0 added ("plus four", Agresti and Coull, 1998), so that
 * an owner with few samples does not get an interval of zero. Returns 1 when n_samples is 0.
 */
double format_half_width(double sum, double sum_of_squares, int64_t n_samples);
