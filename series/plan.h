#pragma once
/*
 * What a series does, run by run: globs expanded, programs named, the order drawn from the seed.
 * The same series and seed give the same plan, and more repetitions only add to it.
 */
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "series/series.h"

#define SERIES_NAME_BYTES (NAME_MAX + 1)

/* One command line of a workload. */
struct series_program {
	char name[SERIES_NAME_BYTES]; /* PROGRAM of PROGRAM.MODE.N */
	char **words; /* owned; NULL behind the last */
	const struct series_workload *workload;
};

struct series_item {
	uint32_t program;
	uint32_t mode;
	uint32_t repetition; /* from 1 */
};

struct series_plan {
	const struct series *series;
	uint64_t seed;
	struct series_program *programs;
	size_t n_programs;
	struct series_item *items; /* in the order of execution */
	size_t n_items;
};

/*
 * Lay a series out. seed: see series->has_seed. The series must outlive the plan. Returns 0;
 * -ENOENT with one line in message: a pattern that fits no file; -EINVAL: a name is too long; or
 * -ENOMEM.
 */
int series_plan_make(const struct series *series, uint64_t seed, struct series_plan *ret_plan,
		     char *message);
void series_plan_finish(struct series_plan *plan); /* safe on a zeroed plan */

/* PROGRAM.MODE.N of an item. */
void series_item_name(const struct series_plan *plan, const struct series_item *item,
		      char ret_name[SERIES_NAME_BYTES]);
