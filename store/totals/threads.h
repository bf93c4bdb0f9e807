#pragma once
/*
 * What each thread of a run allocated, freed and spent: the table `thread_total`. Threads go by
 * their rows in the database, which count up from first_row. One thread.
 */
#include <stddef.h>
#include <stdint.h>

struct db;

/* Numbers of blocks are estimates where blocks were picked, and then not whole. */
struct thread_total {
	double n_blocks;
	uint64_t bytes;
	double n_frees;
	double n_foreign;
	double live_blocks;
	uint64_t live_bytes;
	double n_temporary;
	uint64_t n_samples;
	int64_t time_ns;
	uint64_t n_faults;
};

struct thread_totals {
	int64_t first_row; /* set by the owner before the first use */
	struct thread_total *items;
	size_t n;
	size_t n_allocated;
};

void thread_totals_finish(struct thread_totals *totals);

/* As thread_totals_at(), for a thread that may have none yet. */
struct thread_total *thread_totals_make(struct thread_totals *totals, int64_t row);

/* The sums of a thread; valid until the next call. A row below first_row, or no memory: NULL. */
static inline struct thread_total *thread_totals_at(struct thread_totals *totals, int64_t row)
{
	int64_t at = row - totals->first_row;

	return at >= 0 && (size_t)at < totals->n ? &totals->items[at]
						 : thread_totals_make(totals, row);
}

/* Write the sums of both for threads that have any. Returns 0 or a negative errno. */
int thread_totals_write(const struct thread_totals *samples, const struct thread_totals *blocks,
			struct db *db, int64_t run_id);
