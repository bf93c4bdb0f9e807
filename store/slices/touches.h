#pragma once
/*
 * What is counted of samples and touches in a slice of time: the sums of tally.h that are of them,
 * in a form that can be stored and added to others. Times are ns since the run's start.
 */
#include <stdint.h>

#include "store/slices/blob.h"
#include "store/totals/totals.h"

struct slice_touches {
	struct tally tally; /* without timeline and lines */
	int64_t n_clock; /* samples of CPU time */
};

/*
 * Make it empty; after slice_touches_finish() or all zero. first_thread: of the run. 0 or -ENOMEM.
 */
int slice_touches_init(struct slice_touches *touches, int64_t first_thread);
void slice_touches_finish(struct slice_touches *touches);

/* How many rows it takes, about. */
size_t slice_touches_n_rows(const struct slice_touches *touches);

/* Put it into a blob. 0 or a negative errno. */
int slice_touches_pack(struct slice_touches *touches, struct slice_blob *blob);

/* Sections of slice_touches_pack(). */
#define SLICE_OF_TOUCHES                                                                           \
	(1u << SLICE_HEAP | 1u << SLICE_OBJECTS | 1u << SLICE_ACCESSES | 1u << SLICE_NODES |       \
	 1u << SLICE_KINDS | 1u << SLICE_UNRESOLVED | 1u << SLICE_SAMPLE_THREADS |                 \
	 1u << SLICE_SAMPLES)

/* A visitor (slice_visitor) that adds what was packed to a tally. */
struct slice_touches_sum {
	struct tally *tally;
	int64_t *n_clock;
	int64_t from_ns; /* times are told from here on */
	int64_t last_thread; /* thread.id: there are none beyond it ... */
	int64_t last_stack; /* ... and of stack.id */
};
int slice_touches_add(void *sum, enum slice_section section, const int64_t *values);
