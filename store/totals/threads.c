#include "store/totals/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "store/database.h"

void thread_totals_finish(struct thread_totals *totals)
{
	free(totals->items);
	totals->items = NULL;
}

struct thread_total *thread_totals_make(struct thread_totals *totals, int64_t row)
{
	int64_t at = row - totals->first_row;

	if (at < 0 || grow_array_to(&totals->items, (size_t)at, &totals->n_allocated,
				    sizeof(*totals->items)) < 0)
		return NULL;
	if ((size_t)at >= totals->n)
		totals->n = (size_t)at + 1;
	return &totals->items[at];
}

static int write_total(const struct thread_total *total, struct db *db, int64_t run_id, int64_t row)
{
	return db_run(db,
		      "INSERT INTO thread_total(run_id, thread_id, n_blocks, bytes, n_frees,"
		      " n_foreign, live_blocks, live_bytes, n_temporary, n_samples, time_ns,"
		      " n_faults) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
		      "nnnnnnnnnnnn", run_id, row, llround(total->n_blocks), (int64_t)total->bytes,
		      llround(total->n_frees), llround(total->n_foreign),
		      llround(total->live_blocks), (int64_t)total->live_bytes,
		      llround(total->n_temporary), (int64_t)total->n_samples, total->time_ns,
		      (int64_t)total->n_faults);
}

static struct thread_total sum(const struct thread_totals *samples,
			       const struct thread_totals *blocks, size_t i)
{
	struct thread_total sum = { 0 };

	if (i < blocks->n)
		sum = blocks->items[i];
	if (i < samples->n) {
		sum.n_samples = samples->items[i].n_samples;
		sum.time_ns = samples->items[i].time_ns;
		sum.n_faults = samples->items[i].n_faults;
	}
	return sum;
}

int thread_totals_write(const struct thread_totals *samples, const struct thread_totals *blocks,
			struct db *db, int64_t run_id)
{
	static const struct thread_total nothing;
	int r = 0;

	for (size_t i = 0; (i < samples->n || i < blocks->n) && r == 0; i++) {
		struct thread_total total = sum(samples, blocks, i);
		if (memcmp(&total, &nothing, sizeof(nothing)) != 0)
			r = write_total(&total, db, run_id, samples->first_row + (int64_t)i);
	}
	return r;
}
