#pragma once
/*
 * What a block stands for where only some are recorded (--sample-bytes). It was picked with
 * probability p = 1 - exp(-(size + 1) / interval) (tracealloc/pick/pick.h), so it stands for w = 1
 * / p blocks and size * w bytes: sums of these are unbiased (Horvitz and Thompson, A generalization
 * of sampling without replacement from a finite universe, 1952). Blocks are picked independently of
 * each other, so that the variance of a sum of x is estimated by the sum of x^2 w (w - 1).
 *
 * Any thread.
 */
#include <stdbool.h>
#include <stdint.h>

struct block_weight {
	double n; /* blocks; 1 without picking */
	uint64_t bytes; /* rounded: what is added is taken off again exactly */
	double variance; /* of bytes; 0: all blocks are recorded */
	double n_variance;
	bool is_picked; /* else counted: none but itself can have been left out */
};

/* An interval of others, who pick with p = 1 - exp(-size / interval) (OpenTelemetry's contract). */
#define BLOCK_INTERVAL_PLAIN (UINT64_C(1) << 63)

/* The weight of a block that was picked with this interval in bytes; 0: all are recorded, so 1. */
double block_weight_of(uint64_t interval, uint64_t size);

/* What it stands for; weight as above, in the database allocation.stands_for; up to 1 is as 1. */
struct block_weight block_weigh_picked(double weight, uint64_t size);

static inline struct block_weight block_weigh(double weight, uint64_t size)
{
	return weight > 1 ? block_weigh_picked(weight, size)
			  : (struct block_weight){ .n = 1, .bytes = size };
}

/*
 * The 95 % interval of a total that is estimated from picks. Its variance grows with the total:
 * with c = variance / estimate, those totals T are in it for which (estimate - T)^2 <= 1.96^2 c T
 * (Wilson, Probable inference, the law of succession, and statistical inference, 1927). With few
 * picks it holds the truth about as often as it says, and never begins below 0. least: as below.
 */
void block_weight_interval(double estimate, double variance, double least, double *ret_low,
			   double *ret_high);

/*
 * Of large blocks few are missed, each with all of its bytes. Where that is one in more than 5 % of
 * the runs, the high end is at least one whole block above those that were picked: so much above
 * the estimate. variance of the bytes, n_variance of the number n of blocks of the site: their
 * quotient is the square of a block's size, and 1 + n_variance / n its weight. Of numbers of blocks
 * both variances are n_variance.
 */
double block_weight_least(double variance, double n_variance, double n);

/* The intervals of a trace, by number; what comes when there are 255 goes to the last one. */
#define BLOCK_INTERVALS 256u
struct block_intervals {
	uint64_t bytes[BLOCK_INTERVALS]; /* [0]: all blocks are recorded */
	unsigned n; /* without [0] */
};
uint8_t block_interval_number(struct block_intervals *intervals, uint64_t bytes);

/*
 * That of a plain interval with which a block of size stands for so many bytes; a new one only if
 * there is room, and none gives that number within its rounding. 0: it stands for itself.
 */
uint8_t block_interval_of_weight(struct block_intervals *intervals, uint64_t size,
				 uint64_t weighted_bytes);
