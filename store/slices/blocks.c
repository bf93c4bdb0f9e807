#include "store/slices/blocks.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define NOBODY INT64_MIN

void slice_blocks_finish(struct slice_blocks *blocks)
{
	int64_t first_row = blocks->threads.first_row;

	key_map_finish(&blocks->numbers);
	free(blocks->sites);
	thread_totals_finish(&blocks->threads);
	*blocks = (struct slice_blocks){ .threads.first_row = first_row };
}

/* ---- Counting ---- */

static int find_site(struct slice_blocks *blocks, int64_t stack_id, struct slice_site **ret_site)
{
	uint64_t number = key_map_get(&blocks->numbers, (uint64_t)stack_id, 0);

	if (!number) {
		int r = grow_array(&blocks->sites, blocks->n_sites, &blocks->n_sites_allocated,
				   sizeof(*blocks->sites));
		if (r == 0)
			r = key_map_put(&blocks->numbers, (uint64_t)stack_id, 0,
					blocks->n_sites + 1);
		if (r < 0)
			return r;
		blocks->sites[blocks->n_sites] = (struct slice_site){ .stack_id = stack_id };
		number = ++blocks->n_sites;
	}
	*ret_site = &blocks->sites[number - 1];
	return 0;
}

const struct slice_site *slice_blocks_site(const struct slice_blocks *blocks, int64_t stack_id)
{
	uint64_t number = key_map_get(&blocks->numbers, (uint64_t)stack_id, 0);

	return number ? &blocks->sites[number - 1] : NULL;
}

static void raise_peak(struct slice_peak *peak, int64_t most, int64_t time_ns, int64_t id)
{
	if (peak->most_id && most <= peak->most)
		return;
	peak->most = most;
	peak->most_ns = time_ns;
	peak->most_id = id;
}

static int count_thread(struct slice_blocks *blocks, const struct slice_birth *birth)
{
	bool is_freed = birth->death_ns != INT64_MAX;
	struct thread_total *killer =
		birth->killer_id == NOBODY ? NULL
					   : thread_totals_at(&blocks->threads, birth->killer_id);
	bool is_foreign = is_freed && killer && birth->killer_id != birth->thread_id;
	struct thread_total *thread = thread_totals_at(&blocks->threads, birth->thread_id);

	if (!thread)
		return birth->thread_id < blocks->threads.first_row ? 0 : -ENOMEM;
	thread->n_blocks++;
	thread->bytes += (uint64_t)birth->size;
	thread->n_foreign += is_foreign;
	thread->live_blocks += !is_freed;
	thread->live_bytes += is_freed ? 0 : (uint64_t)birth->size;
	return 0;
}

int slice_blocks_birth(struct slice_blocks *blocks, const struct slice_birth *birth)
{
	bool is_freed = birth->death_ns != INT64_MAX;
	struct slice_site *site;
	int r = find_site(blocks, birth->stack_id, &site);

	if (r < 0)
		return r;
	bool is_first = site->n_blocks++ == 0;
	site->n_frees += is_freed;
	site->bytes = slice_plus(site->bytes, birth->size);
	site->unfreed_bytes = slice_plus(site->unfreed_bytes, is_freed ? 0 : birth->size);
	int64_t live = slice_minus(site->bytes, site->ended_bytes);
	if (is_first || live > site->most) {
		site->most = live;
		site->most_ns = birth->birth_ns;
	}
	if (is_first)
		site->first_birth_ns = birth->birth_ns;
	site->moment =
		slice_add_moments(site->moment, slice_moment_of(birth->size, birth->birth_ns));
	blocks->peak.live = slice_plus(blocks->peak.live, birth->size);
	raise_peak(&blocks->peak, blocks->peak.live, birth->birth_ns, birth->id);
	histogram_add(&blocks->histogram, (uint64_t)birth->size,
		      is_freed ? slice_minus(birth->death_ns, birth->birth_ns) : -1);
	return count_thread(blocks, birth);
}

int slice_blocks_end(struct slice_blocks *blocks, const struct sweep_end *end)
{
	struct slice_site *site;
	int r = find_site(blocks, end->stack_id, &site);

	if (r < 0)
		return r;
	site->n_ended = slice_plus(site->n_ended, (int64_t)end->n);
	site->ended_bytes = slice_plus(site->ended_bytes, (int64_t)end->size);
	site->last_end_ns = (int64_t)end->time;
	site->moment = slice_add_moments(site->moment,
					 -slice_moment_of((int64_t)end->size, (int64_t)end->time));
	blocks->peak.live = slice_minus(blocks->peak.live, (int64_t)end->size);
	if (end->thread_id == NOBODY)
		return 0;
	struct thread_total *killer = thread_totals_at(&blocks->threads, end->thread_id);
	if (killer)
		killer->n_frees++;
	return killer || end->thread_id < blocks->threads.first_row ? 0 : -ENOMEM;
}

/* ---- As bytes ---- */

static int pack_site(const struct slice_site *site, struct slice_blob *blob, int64_t ref_ns)
{
	int64_t live = slice_minus(site->bytes, site->ended_bytes);
	slice_moment moment = slice_add_moments(site->moment, -slice_moment_of(live, ref_ns));
	const int64_t values[] = {
		site->stack_id,
		site->n_blocks,
		site->n_frees,
		site->bytes,
		site->unfreed_bytes,
		site->n_ended,
		site->ended_bytes,
		site->most,
		site->n_blocks ? site->most_ns - ref_ns : 0,
		site->n_blocks ? site->first_birth_ns - ref_ns : 0,
		site->n_ended ? site->last_end_ns - ref_ns : 0,
		(int64_t)(moment >> 64),
		(int64_t)(uint64_t)moment,
	};

	return slice_blob_row(blob, SLICE_SITES, values, sizeof(values) / sizeof(values[0]));
}

static int pack_threads(const struct thread_totals *threads, struct slice_blob *blob)
{
	static const struct thread_total nothing;
	int r = 0;

	for (size_t i = 0; i < threads->n && r == 0; i++) {
		const struct thread_total *thread = &threads->items[i];
		const int64_t values[] = {
			threads->first_row + (int64_t)i, (int64_t)thread->n_blocks,
			(int64_t)thread->bytes,		 (int64_t)thread->n_frees,
			(int64_t)thread->n_foreign,	 (int64_t)thread->live_blocks,
			(int64_t)thread->live_bytes,
		};
		if (memcmp(thread, &nothing, sizeof(nothing)) != 0)
			r = slice_blob_row(blob, SLICE_BLOCK_THREADS, values,
					   sizeof(values) / sizeof(values[0]));
	}
	return r;
}

static int pack_histogram(const struct histogram *histogram, struct slice_blob *blob)
{
	int r = 0;

	for (int i = 0; i < HISTOGRAM_BUCKETS * HISTOGRAM_BUCKETS && r == 0; i++) {
		const struct histogram_cell *cell =
			&histogram->cells[i / HISTOGRAM_BUCKETS][i % HISTOGRAM_BUCKETS];
		const int64_t values[] = { i, (int64_t)cell->n_blocks, (int64_t)cell->bytes };
		if (cell->n_blocks)
			r = slice_blob_row(blob, SLICE_HISTOGRAM, values, 3);
	}
	return r;
}

int slice_blocks_pack(const struct slice_blocks *blocks, struct slice_blob *blob, int64_t ref_ns)
{
	const struct slice_peak *peak = &blocks->peak;
	const int64_t values[] = { peak->live, peak->most, peak->most_ns, peak->most_id };
	int r = slice_blob_row(blob, SLICE_PEAK, values, 4);

	for (size_t i = 0; i < blocks->n_sites && r == 0; i++)
		r = pack_site(&blocks->sites[i], blob, ref_ns);
	if (r == 0)
		r = pack_threads(&blocks->threads, blob);
	return r < 0 ? r : pack_histogram(&blocks->histogram, blob);
}

/* ---- Adding ---- */

static int add_site(struct slice_blocks *blocks, const int64_t *values, int64_t ref_ns)
{
	struct slice_site *site;
	int r = find_site(blocks, values[0], &site);

	if (r < 0)
		return r;
	int64_t live = slice_minus(site->bytes, site->ended_bytes);
	int64_t most = slice_plus(live, values[7]);
	int64_t gained = slice_minus(values[3], values[6]);
	if (values[1] && (!site->n_blocks || most > site->most)) {
		site->most = most;
		site->most_ns = slice_plus(values[8], ref_ns);
	}
	if (values[1] && !site->n_blocks)
		site->first_birth_ns = slice_plus(values[9], ref_ns);
	if (values[5])
		site->last_end_ns = slice_plus(values[10], ref_ns);
	site->n_blocks = slice_plus(site->n_blocks, values[1]);
	site->n_frees = slice_plus(site->n_frees, values[2]);
	site->bytes = slice_plus(site->bytes, values[3]);
	site->unfreed_bytes = slice_plus(site->unfreed_bytes, values[4]);
	site->n_ended = slice_plus(site->n_ended, values[5]);
	site->ended_bytes = slice_plus(site->ended_bytes, values[6]);
	slice_moment moment = (slice_moment)((unsigned __int128)(uint64_t)values[11] << 64 |
					     (uint64_t)values[12]);
	site->moment = slice_add_moments(
		site->moment, slice_add_moments(moment, slice_moment_of(gained, ref_ns)));
	return 0;
}

static int add_thread(const struct slice_blocks_sum *sum, const int64_t *values)
{
	struct thread_totals *threads = &sum->blocks->threads;

	if (values[0] < threads->first_row || values[0] > sum->last_thread)
		return -EBADMSG;
	struct thread_total *thread = thread_totals_at(threads, values[0]);
	if (!thread)
		return -ENOMEM;
	thread->n_blocks += (uint64_t)values[1];
	thread->bytes += (uint64_t)values[2];
	thread->n_frees += (uint64_t)values[3];
	thread->n_foreign += (uint64_t)values[4];
	thread->live_blocks += (uint64_t)values[5];
	thread->live_bytes += (uint64_t)values[6];
	return 0;
}

static int add_cell(struct slice_blocks *blocks, const int64_t *values)
{
	int64_t i = values[0];

	if (i < 0 || i >= HISTOGRAM_BUCKETS * HISTOGRAM_BUCKETS)
		return -EBADMSG;
	struct histogram_cell *cell =
		&blocks->histogram.cells[i / HISTOGRAM_BUCKETS][i % HISTOGRAM_BUCKETS];
	cell->n_blocks += (uint64_t)values[1];
	cell->bytes += (uint64_t)values[2];
	return 0;
}

static void add_peak(struct slice_peak *peak, const int64_t *values)
{
	if (values[3])
		raise_peak(peak, slice_plus(peak->live, values[1]), values[2], values[3]);
	peak->live = slice_plus(peak->live, values[0]);
}

int slice_blocks_add(void *context, enum slice_section section, const int64_t *values)
{
	struct slice_blocks_sum *sum = context;

	if (section == SLICE_SITES)
		return add_site(sum->blocks, values, sum->ref_ns);
	if (section == SLICE_BLOCK_THREADS)
		return add_thread(sum, values);
	if (section == SLICE_HISTOGRAM)
		return add_cell(sum->blocks, values);
	if (section == SLICE_PEAK)
		add_peak(&sum->blocks->peak, values);
	return 0;
}
