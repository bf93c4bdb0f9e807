#pragma once
/*
 * What is counted of blocks in a span of time, in a form that can be stored and added to that of
 * the span before: births by call site, thread, size and life, and how live bytes moved, told from
 * where they were at the begin. Times are ns since the run's start. All zero is empty. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"
#include "store/lifetime-queue.h"
#include "store/slices/blob.h"
#include "store/totals/histogram.h"
#include "store/totals/threads.h"

/* A sum of sizes and times needs more than 64 bits. */
typedef __int128 slice_moment;

static inline slice_moment slice_moment_of(int64_t bytes, int64_t time_ns)
{
	return (slice_moment)bytes * time_ns;
}

/* As unsigned numbers, which may wrap. */
static inline slice_moment slice_add_moments(slice_moment a, slice_moment b)
{
	return (slice_moment)((unsigned __int128)a + (unsigned __int128)b);
}

struct slice_site {
	int64_t stack_id; /* 0: no stack recorded */
	int64_t n_blocks; /* born */
	int64_t n_frees; /* of them, those that are freed, ever */
	int64_t bytes;
	int64_t unfreed_bytes;
	int64_t n_ended; /* of any blocks: freed, or their process ended */
	int64_t ended_bytes;
	/* live bytes beyond those at the begin, after a birth; without one: nothing */
	int64_t most;
	int64_t most_ns; /* when first */
	int64_t first_birth_ns; /* without a birth: nothing */
	int64_t last_end_ns; /* without an end: nothing */
	slice_moment moment; /* sum of size x time of births, less that of ends: bytes x ns */
};

/* All blocks together. */
struct slice_peak {
	int64_t live; /* bytes beyond those at the begin */
	int64_t most; /* the same at most, after a birth */
	int64_t most_ns;
	int64_t most_id; /* allocation.id of that birth; 0: there was none */
};

struct slice_blocks {
	struct key_map numbers; /* of stack_id: 1 + place in sites */
	struct slice_site *sites;
	size_t n_sites;
	size_t n_sites_allocated;
	struct thread_totals threads; /* first_row: set by the owner */
	struct histogram histogram;
	struct slice_peak peak;
};

struct slice_birth {
	int64_t id;
	int64_t stack_id;
	int64_t size;
	int64_t birth_ns;
	int64_t death_ns; /* INT64_MAX: not freed */
	int64_t thread_id;
	int64_t killer_id; /* thread that freed; INT64_MIN: nobody */
};

/* Empty it, its memory too. */
void slice_blocks_finish(struct slice_blocks *blocks);

/* Events in the order of time. Return 0 or -ENOMEM. */
int slice_blocks_birth(struct slice_blocks *blocks, const struct slice_birth *birth);
int slice_blocks_end(struct slice_blocks *blocks, const struct sweep_end *end);

/* The site of a stack; NULL: it has nothing here. */
const struct slice_site *slice_blocks_site(const struct slice_blocks *blocks, int64_t stack_id);

/* Put it into a blob. ref_ns: a time near, from which times are told. 0 or a negative errno. */
int slice_blocks_pack(const struct slice_blocks *blocks, struct slice_blob *blob, int64_t ref_ns);

/* Sections of slice_blocks_pack(). */
#define SLICE_OF_BLOCKS                                                                            \
	(1u << SLICE_SITES | 1u << SLICE_BLOCK_THREADS | 1u << SLICE_HISTOGRAM | 1u << SLICE_PEAK)

/*
 * A visitor (slice_visitor) that adds what was packed with ref_ns, the slice behind what is here.
 */
struct slice_blocks_sum {
	struct slice_blocks *blocks;
	int64_t ref_ns;
	int64_t last_thread; /* thread.id: there are none beyond it */
};
int slice_blocks_add(void *sum, enum slice_section section, const int64_t *values);
