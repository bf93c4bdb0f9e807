#pragma once
/*
 * Rows of `allocation`, written in the order of their ids as far as memory permits: blocks end in
 * another order than they were allocated in, and SQLite takes ascending ids several times faster.
 * The last BLOCK_ROWS_WINDOW allocations wait for the end of those before them; who lives longer is
 * written behind all others, again in the order of ids (allocation-sorter.h). The caller hands over
 * what was born and what ended, and goes on; a thread of its own does the rest.
 */
#include <stdbool.h>
#include <stdint.h>

struct db;
struct block_rows;
struct block_intervals;
struct tally;

#define BLOCK_ROWS_WINDOW (1u << 18) /* allocations, at least */
#define BLOCK_ROWS_BATCH  (1u << 15) /* of long-lived blocks, sorted at a time */

/*
 * What is known of a block from its birth on. Rows of the database are below 2^32: with as many
 * stacks it had 100 GB.
 */
struct block_birth {
	int64_t time_ns;
	uint64_t address;
	uint64_t size;
	uint64_t within_id; /* of the block that it lies in; 0: none */
	uint32_t within_site; /* of that; 0: none */
	uint32_t site; /* number of its call site (tally.h) */
	uint32_t process; /* row */
	uint32_t thread; /* row */
	uint32_t stack; /* stack.id; 0: none */
	uint32_t pool; /* number of its pool, from 1; 0: it is a block of malloc */
	uint8_t interval; /* number of that with which it was picked (block-weight.h); 0: none */
};

/* What is known of it in the end. */
struct block_end {
	uint64_t id : 40; /* number of its allocation in the run, from 1 */
	uint64_t call : 8; /* enum trace_call that made it */
	uint64_t free_call : 8; /* enum trace_call; 0: it did not end by a call */
	uint64_t end_kind : 6; /* enum memory_end_kind */
	uint64_t is_temporary : 1; /* freed by the next event of the thread that allocated it */
	uint64_t is_left : 1; /* it was still there when the trace ended */
	int64_t time_ns; /* it was freed, or its process ended */
	uint64_t previous_id : 40; /* of the block that realloc turned into this one; 0: none */
	uint64_t kind : 24; /* row; 0: libc's heap */
	uint32_t freed_thread; /* row; 0: nobody */
	uint32_t late; /* place among births that are told again, from 1; 0: it is not */
};
_Static_assert(sizeof(struct block_end) == 32, "many go from thread to thread");

/* A block that has ended, once end.id is not 0. */
struct block_row {
	struct block_birth birth;
	struct block_end end;
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

/* A block was born: the next id. Returns 0 or a negative errno. */
int block_rows_born(struct block_rows *rows, const struct block_birth *birth);

/*
 * A sample was taken, whose turn comes at time_ns; and a touch of one: for the sums of stretches
 * (stretches.h). Return 0 or -ENOMEM.
 */
struct sample_event;
struct touch;
int block_rows_sampled(struct block_rows *rows, int64_t time_ns, const struct sample_event *taken);
int block_rows_touched(struct block_rows *rows, const struct touch *touch);

/*
 * A block ended. batch_ns: when, INT64_MAX for what is left in the end. It may have been born so
 * long ago that it was forgotten: then *ret_birth is to be filled in at once, else it is NULL.
 * Returns 0 or a negative errno.
 */
int block_rows_end(struct block_rows *rows, int64_t batch_ns, const struct block_end *end,
		   struct block_birth **ret_birth);

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
