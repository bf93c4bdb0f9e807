#pragma once
/* For selection.c: the rows of one run, in order of time, into the sums of tally.h. One thread. */
#include "report/selection/selection.h"
#include "store/totals/totals.h"

/* Call sites by allocation.id, from first_id on; 0: not met. */
struct replay_sites {
	int64_t first_id;
	uint32_t *sites;
	size_t n;
	uint64_t n_met;
};

/* Of what the sums keep arrays by id (row-limit.h). */
struct replay_limits {
	int64_t stacks;
	int64_t threads;
};

/* Rows that are looked at: of samples and touches. */
struct replay_rows {
	int64_t first_touch; /* touch.rowid */
	int64_t last_touch;
	int64_t first_sample; /* sample.id */
	int64_t last_sample;
};

struct replay {
	struct db *db;
	const struct selection *selection;
	struct tally *tally;
	int64_t run_id;
	struct replay_sites *sites; /* of blocks that were met */
	int64_t *n_clock; /* samples of CPU time, over all runs */
	const struct replay_rows *rows; /* NULL: all */
	struct replay_limits limits;
};

/*
 * Times become those since selection.from_ns. Return 0, -EBADMSG for rows that cannot be, or
 * another negative errno.
 */
int replay_blocks(const struct replay *replay);
int replay_samples(const struct replay *replay);
int replay_touches(const struct replay *replay);

/* The lines that threads share: tally.lines, which replay_touches() leaves out. */
int replay_lines(const struct replay *replay);

/* The samples that have call stacks, into temp.sample_stack. Returns 0 or a negative errno. */
int replay_stacks(const struct replay *replay);
