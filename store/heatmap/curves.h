#pragma once
/*
 * What is kept over time beside pictures: what the blocks of each call site held (table
 * site_curve), and how often each memory level was met (table timeline_level).
 */
#include <sqlite3.h>
#include <stdint.h>

#include "common/hash-map.h"

struct db;

struct picture_curves;

/* Of the blocks of a run. NULL without memory. */
struct picture_curves *picture_curves_open(void);
struct picture_curves *picture_curves_close(struct picture_curves *curves); /* accepts NULL */

/*
 * The number of a site that the caller calls so, made when it is new: from 1 on. Returns 0 or
 * -ENOMEM.
 */
int picture_curves_site(struct picture_curves *curves, int64_t key, uint32_t *ret_number);

/*
 * By the number of a site: such a one, or that of a tally. In the order of time, and what is freed
 * at a moment before what is born. Return 0 or -ENOMEM.
 */
int picture_curves_born(struct picture_curves *curves, uint32_t number, uint64_t bytes,
			int64_t time_ns);
int picture_curves_freed(struct picture_curves *curves, uint32_t number, uint64_t bytes,
			 int64_t time_ns);

/* Numbers were those of its sites: they get its stack ids as keys. Returns 0 or -ENOMEM. */
struct tally;
int picture_curves_name(struct picture_curves *curves, const struct tally *tally);

/* Store what was found of a run that has lasted so long; keys are stack ids. 0 or an errno. */
int picture_curves_write(struct picture_curves *curves, struct db *db, int64_t run_id,
			 int64_t duration_ns);

/* Memory levels of a run as numbers. */
#define PICTURE_MAX_LEVELS 64u

/* All zero is none. */
struct picture_levels {
	struct key_map numbers; /* of words: 1 + number */
	char *names[PICTURE_MAX_LEVELS]; /* 0: not told */
	unsigned n;
	int64_t interval_ns;
	uint64_t *counts; /* of the intervals and levels */
};

void picture_levels_finish(struct picture_levels *levels);

/* The number of a touch's level, or -ENOMEM. An access that was sampled is counted. */
struct touch;
int picture_levels_add(struct picture_levels *levels, const struct touch *touch);

/* In the intervals of the run's timeline. 0 or a negative errno. */
int picture_levels_write(struct picture_levels *levels, struct db *db, int64_t run_id);
