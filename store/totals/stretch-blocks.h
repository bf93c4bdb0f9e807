#pragma once
/*
 * Sums of blocks and touches of a run's stretches (selection/stretches.h), while these pass; of
 * blocks those of the run, too.
 *
 * They are made while a run is imported, so how many rows come is not known: when there are too
 * many stretches, each two neighbours become one, and those that follow get twice as many rows. One
 * thread, as it is for each of the things below.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;
struct tally;
struct tally_end;
struct tally_ends;

#define MAX_STRETCHES 128u
#define STRETCH_ROWS  16384u /* at least */

/* All zero but for least_rows, which may be 0 for STRETCH_ROWS. */
struct stretch_borders {
	uint32_t least_rows;
	unsigned shift; /* of least_rows: how often neighbours were joined */
	size_t n;
	uint64_t n_rows; /* since the last border */
	int64_t last_ns;
};

/*
 * A block is born or a sample taken. Whether a stretch begins with it, at time_ns: then nothing
 * that came before was as late. n_sums: sites and threads that there are so far.
 */
bool stretch_borders_row(struct stretch_borders *borders, int64_t time_ns, size_t n_sums);

/* Sums of blocks, of the stretches and of the run. */
struct stretch_blocks;

/*
 * What all blocks add up to is added to `run`, which is the thread's until
 * stretch_blocks_settle(). Returns 0 or -ENOMEM.
 */
int stretch_blocks_open(struct tally_ends *run, struct stretch_blocks **ret_blocks);
struct stretch_blocks *stretch_blocks_close(struct stretch_blocks *blocks); /* accepts NULL */

/*
 * What happens, in the order of time; at one moment ends come before the births of higher ids, and
 * what ends at a border does so behind it. Another order, and blocks that were picked, are fine for
 * the sums of the run, and then there are no stretches. Sites have the run's numbers, and get those
 * of the stretches. Of what is born it needs size, weight, allocated_ns, site and within. is_left:
 * it is still there when the run ends. Return 0 or -ENOMEM.
 */
int stretch_blocks_border(struct stretch_blocks *blocks, int64_t time_ns);
int stretch_blocks_born(struct stretch_blocks *blocks, struct tally_end *block);
int stretch_blocks_end(struct stretch_blocks *blocks, struct tally_end *end, bool is_left);

/* Whether all came in that order, and none was picked. */
bool stretch_blocks_are_ordered(const struct stretch_blocks *blocks);

/* Nothing comes any more: the sums of the run are there. Returns 0 or -ENOMEM. */
int stretch_blocks_settle(struct stretch_blocks *blocks);

/*
 * Sums of touches, of the stretches. Samples and touches may come one stretch late, at most. Those
 * of CPU time do not add up: then there are none. first_thread: as tally_init() has it; stack_id:
 * of the site of a block of the heap. Return 0 or -ENOMEM.
 */
struct stretch_touches;
struct touch;
struct sample_event;
int stretch_touches_open(int64_t first_thread, struct stretch_touches **ret_touches);
struct stretch_touches *stretch_touches_close(struct stretch_touches *touches); /* accepts NULL */
int stretch_touches_border(struct stretch_touches *touches, int64_t time_ns);
int stretch_touches_sample(struct stretch_touches *touches, const struct sample_event *taken);
int stretch_touches_add(struct stretch_touches *touches, const struct touch *touch,
			int64_t stack_id);

/*
 * Store those of the run's stretches, once, behind its row in `run`. run: whose numbers sites have.
 * Returns 0, also where there can be none, or a negative errno.
 */
int stretches_write(struct stretch_blocks *blocks, struct stretch_touches *touches, struct db *db,
		    int64_t run_id, const struct tally *run);
