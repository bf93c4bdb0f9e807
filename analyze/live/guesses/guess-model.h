#pragma once
/*
 * Which place made a block, judged by others that look exactly like it. A look is a hash of all
 * that is known of a block. A place is guessed where GUESS_LEAST_SEEN known blocks and more have
 * the look, and GUESS_LEAST_SHARE of them are of that place. A look that no known block has says
 * that a place made it which is not known.
 *
 * How often a guess is right is measured for each kind of block, of two dangers:
 *  1. Places look alike. Of the known blocks the younger half teaches; the older half is guessed,
 *     as the past will be guessed by the present: r is the share of these guesses that is right.
 *  2. Places that make nothing any more are not known at all. Each known place is withheld once:
 *     c is the share of its blocks that is then given to another. If unknown places are like that,
 *     and N of the asked blocks have a new look, N / (1 - c) are of unknown places, and c of these
 *     are among the G guesses: p = r (1 - c N / ((1 - c) G)).
 * Both shares are by the rule of succession (Laplace), (k + 1) / (n + 2); for c, n are places, not
 * blocks, since blocks of one place are no independent trials. So with few places p is low.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GUESS_N_KINDS	   8u
#define GUESS_LEAST_SEEN   10u
#define GUESS_LEAST_SHARE  0.95
#define GUESS_LEAST_TESTED 20u /* guesses of the older half, below which p is 0 */

struct guess_block {
	uint64_t look;
	unsigned kind; /* below GUESS_N_KINDS */
	int64_t born_ns;
	uint32_t place; /* that made it, from 1; 0: not known. Written: the guess, or 0 */
	bool is_known;
	size_t number; /* the caller's: by which it finds it again */
};

/* What was measured of one kind of block, in blocks. */
struct guess_kind {
	uint64_t n_tested, n_guessed, n_right; /* of the older half of the known ones */
	uint64_t n_places; /* that were withheld, with GUESS_LEAST_SEEN blocks at least */
	uint64_t n_withheld, n_taken; /* of all withheld ones: given to another place */
	double sum_taken; /* over n_places: the share of a place's blocks that was */
	uint64_t n_asked, n_new, n_named;
	double probability; /* of each guess: that it is right; 0: not known */
};

/*
 * Guess the places of all blocks that have none, whatever the probability. Blocks are sorted anew,
 * the known ones first. Returns 0 or -ENOMEM.
 */
int guess_places(struct guess_block *blocks, size_t n, struct guess_kind kinds[GUESS_N_KINDS]);
