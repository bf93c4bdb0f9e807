#pragma once
/*
 * Rows of `allocation`, written in the order of their ids as far as memory permits: blocks end in
 * another order than they were allocated in, and SQLite takes ascending ids several times faster.
 * The last BLOCK_ROWS_WINDOW allocations wait for the end of those before them; who lives longer is
 * written behind all others, again in the order of ids (allocation-sorter.h). The caller hands over
 * what ended and goes on; a thread of its own does the rest.
 */
#include <stdbool.h>
#include <stdint.h>

#include "analyze/live/block-tree.h"

struct db;
struct block_rows;
struct block_intervals;
struct tally;

#define BLOCK_ROWS_WINDOW (1u << 18) /* allocations; a power of two */
#define BLOCK_ROWS_BATCH  (1u << 15) /* of long-lived blocks, sorted at a time */

/* A block that ended. Rows and ids as in the database, except those in `block`. */
struct block_row {
	struct heap_block block;
	int64_t process_row;
	int64_t thread_row;
	int64_t stack_id; /* 0: none */
	int64_t end_ns; /* it was freed, or its process ended */
	int64_t freed_thread_row; /* ROWS_NULL: nobody */
	int64_t kind; /* ROWS_NULL: libc's heap */
	uint64_t within_id; /* of the block that it lies in; 0: none */
	uint32_t within_site; /* of that; 0: none */
	uint32_t pool; /* number of its pool, from 1; 0: it is a block of malloc */
	uint8_t end_kind; /* enum memory_end_kind */
	uint8_t free_call; /* enum trace_call; 0: it did not end by a call */
	uint8_t is_temporary; /* freed by the next event of the thread that allocated it */
	uint8_t is_left; /* it was still there when the trace ended */
};

/*
 * Block ids are added to first_id. Each block is counted in tally->ends, too, which belong to the
 * thread until block_rows_count(); intervals get no other numbers meanwhile. Returns 0 or a
 * negative errno.
 */
struct block_rows_of {
	int64_t run_id;
	int64_t first_id;
	int64_t first_pool; /* numbers of pools are added to it */
	struct tally *tally;
	const struct block_intervals *intervals;
};
int block_rows_open(struct db *db, const struct block_rows_of *of, struct block_rows **ret_rows);

/* Accepts NULL, returns NULL. */
struct block_rows *block_rows_close(struct block_rows *rows);

/*
 * A block was born: the next id. process_row: of its image; within_site: of what it lies in; 0:
 * nothing. Returns 0 or a negative errno.
 */
int block_rows_born(struct block_rows *rows, const struct heap_block *block, int64_t process_row,
		    uint32_t within_site);

/*
 * A sample was taken, whose turn comes at time_ns; and a touch of one: for the sums of stretches
 * (stretches.h). Return 0 or -ENOMEM.
 */
struct sample_event;
struct touch;
int block_rows_sampled(struct block_rows *rows, int64_t time_ns, const struct sample_event *taken);
int block_rows_touched(struct block_rows *rows, const struct touch *touch);

/*
 * A block ended; *ret_row is to be filled in at once. time_ns: when, INT64_MAX for what is left in
 * the end. Returns 0 or a negative errno.
 */
int block_rows_end(struct block_rows *rows, int64_t time_ns, struct block_row **ret_row);

/*
 * Who is told by the thread of blocks that are born and end (picture_build_born() says in which
 * order). stack_id is the tally's number of the site; a birth has no end, and an end no address.
 */
struct picture_row_block;
struct block_listener {
	void *context;
	int (*born)(void *context, const struct picture_row_block *block);
	int (*ended)(void *context, const struct picture_row_block *block);
};

/* Before the first block. */
void block_rows_listen(struct block_rows *rows, const struct block_listener *listener);

/* Behind block_rows_count(): whether the listener knows of all, in that order. */
bool block_rows_have_told(const struct block_rows *rows);

/* No more blocks end: wait until all are counted. Returns 0 or a negative errno. */
int block_rows_count(struct block_rows *rows);

/* Behind that and behind the run's row: store the sums of its stretches. 0 or a negative errno. */
int block_rows_write_sums(struct block_rows *rows, struct db *db);

/*
 * No more blocks end: begin to write all that did, while the caller goes on. Once at most. Returns
 * 0 or a negative errno.
 */
int block_rows_finish(struct block_rows *rows);

/* Wait until it is written. Returns 0 or a negative errno. */
int block_rows_wait(struct block_rows *rows);
