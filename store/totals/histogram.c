#include "store/totals/histogram.h"

#include <math.h>

#include "store/database.h"

int histogram_bucket(uint64_t number)
{
	return number ? 63 - __builtin_clzll(number) : HISTOGRAM_ZERO;
}

void histogram_add(struct histogram *histogram, uint64_t size, int64_t life_ns,
		   const struct block_weight *weight)
{
	int life = life_ns < 0 ? HISTOGRAM_UNFREED : histogram_bucket((uint64_t)life_ns);
	struct histogram_cell *cell = &histogram->cells[histogram_bucket(size) + 2][life + 2];

	cell->n_blocks += weight->n;
	cell->bytes += weight->bytes;
}

int histogram_write(const struct histogram *histogram, struct db *db, int64_t run_id)
{
	int r = 0;

	for (int i = 0; i < HISTOGRAM_BUCKETS * HISTOGRAM_BUCKETS && r == 0; i++) {
		int size = i / HISTOGRAM_BUCKETS, life = i % HISTOGRAM_BUCKETS;
		const struct histogram_cell *cell = &histogram->cells[size][life];
		if (cell->n_blocks == 0)
			continue;
		r = db_run(db,
			   "INSERT INTO histogram(run_id, size_log2, life_log2, n_blocks, bytes)"
			   " VALUES(?1, ?2, ?3, ?4, ?5)",
			   "nnnnn", run_id, (int64_t)size - 2, (int64_t)life - 2,
			   llround(cell->n_blocks), (int64_t)cell->bytes);
	}
	return r;
}
