#pragma once
/*
 * The sums of blocks that need no order of events. One thread at a time, which need not be the one
 * of the tally they belong to.
 */
#include <stddef.h>
#include <stdint.h>

#include "store/totals/keyed.h"

/* Of one call site. Numbers of blocks are not whole where blocks were picked. */
struct site_ends {
	double n_blocks; /* allocated by this site */
	uint64_t bytes;
	double n_frees;
	uint64_t unfreed_bytes; /* of blocks that nobody freed */
	double exec_blocks; /* of them: their process became another program */
	uint64_t exec_bytes;
	double n_temporary;
	double n_reallocated;
	uint64_t n_picked; /* that all this is estimated from; 0: it is counted */
	double variance; /* of bytes */
	double n_variance; /* of n_blocks */
	double unfreed_variance; /* of unfreed_bytes */
	int64_t first_ns; /* INT64_MAX: no block */
	int64_t last_ns; /* INT64_MIN: no block */
	unsigned __int128 byte_ns; /* bytes times how long they were there; exact */
};

/* In cache lines of its own: another thread writes what stands beside it. */
struct tally_ends {
	_Alignas(128) struct site_ends *sites; /* by the tally's number of the site */
	size_t n_sites;
	size_t n_sites_allocated;
	struct thread_totals threads; /* threads.first_row: set by the owner */
	struct histogram histogram;
	double allocations; /* blocks that were born */
	uint64_t bytes;
	double frees;
	double temporary;
	double live_blocks; /* not freed */
	uint64_t live_bytes;
	uint64_t n_picked;
	double variance; /* of bytes */
	double n_variance; /* of allocations */
	double live_variance; /* of live_bytes */
};

struct tally_end {
	uint64_t size;
	double weight; /* block-weight.h; up to 1: it stands for itself alone */
	int64_t allocated_ns;
	int64_t time_ns;
	int64_t life_ns; /* < 0: it was not freed */
	int64_t thread_row; /* that allocated; 0: nobody known */
	int64_t freed_thread_row; /* that freed; ROWS_NULL: nobody */
	uint32_t site;
	uint32_t within; /* site of the block that it lies in; 0: it lies in none */
	uint8_t is_freed;
	uint8_t is_temporary; /* freed by the next event of the thread that allocated it */
	uint8_t is_reallocated; /* realloc ended it */
	uint8_t is_replaced; /* not freed: its process became another program */
};

void tally_ends_finish(struct tally_ends *ends);

/*
 * A block that lies in another one counts for its site alone, and its bytes are that one's no more:
 * the sums of a run are those of all others.
 */

/*
 * What counts of a block, whenever it was born; that it is live from a time on, that it ends then
 * (killer: thread.id that freed it; 0: nobody), and what is live in the end; with _within, what
 * that is for the one that it lies in. Returns 0 or -ENOMEM.
 */
int tally_ends_born(struct tally_ends *ends, const struct tally_end *end);
int tally_ends_live(struct tally_ends *ends, uint32_t site, uint64_t bytes, int64_t time_ns);
int tally_ends_live_within(struct tally_ends *ends, uint32_t within, uint64_t bytes,
			   int64_t time_ns);
void tally_ends_end_within(struct tally_ends *ends, uint32_t within, uint64_t bytes,
			   int64_t time_ns);
void tally_ends_end(struct tally_ends *ends, uint32_t site, const struct block_weight *weight,
		    int64_t time_ns, int64_t killer);
void tally_ends_left(struct tally_ends *ends, uint32_t site, uint64_t bytes, int64_t time_ns);

/*
 * Add what others have; names: theirs have the numbers that are its stack ids, NULL: the same.
 * Returns 0 or -ENOMEM.
 */
struct tally;
int tally_ends_join(struct tally_ends *to, const struct tally_ends *from,
		    const struct tally *names);

/* What has ended of a site: of one without any, nothing. */
struct site_ends tally_ends_of(const struct tally_ends *ends, size_t site);
