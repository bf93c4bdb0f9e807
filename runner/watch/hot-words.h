#pragma once
/*
 * --watch-hot: which words the samples of time say are touched most, for the debug registers to
 * look at in turn. Samples are decoded while the program runs, as --private does. What lies on the
 * stack that a sample came from is left out: no other thread has business there. Bounded memory.
 * One thread.
 */
#include <stdint.h>

#include "perf/record.h"
#include "runner/processes/image.h"

#define WATCH_HOT_LINES 16u /* hottest lines among which the registers go round */

struct samples_private;
struct watch_hot;

/* 8 bytes of a line of 64. */
struct watch_hot_word {
	uint32_t process_id;
	uint64_t address;
	double weight; /* samples, the older the less */
};

/* Returns 0, -ENOMEM, or -EOPNOTSUPP for a machine that the decoder does not know. */
int watch_hot_create(struct watch_hot **ret_hot);
struct watch_hot *watch_hot_destroy(struct watch_hot *hot); /* accepts NULL, returns NULL */

/* A sample of time and registers of a living image. */
void watch_hot_sample(struct watch_hot *hot, const struct pmu_record *record,
		      const struct image *image);

/*
 * The words to watch next, of the hottest lines that were not watched just before, each the hottest
 * of its line: at most n_max of them. Returns how many.
 */
unsigned watch_hot_choose(struct watch_hot *hot, struct watch_hot_word *ret_words, unsigned n_max);
