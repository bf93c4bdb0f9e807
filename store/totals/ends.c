#include "store/totals/ends.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "store/row-writer.h"

static const struct site_ends nothing = { .first_ns = INT64_MAX, .last_ns = INT64_MIN };

void tally_ends_finish(struct tally_ends *ends)
{
	thread_totals_finish(&ends->threads);
	free(ends->sites);
	ends->sites = NULL;
}

static int make_site(struct tally_ends *ends, size_t number)
{
	int r = grow_array_to(&ends->sites, number, &ends->n_sites_allocated, sizeof(*ends->sites));

	while (r == 0 && ends->n_sites <= number)
		ends->sites[ends->n_sites++] = nothing;
	return r;
}

struct site_ends tally_ends_of(const struct tally_ends *ends, size_t site)
{
	return site < ends->n_sites ? ends->sites[site] : nothing;
}

static void count_thread(struct tally_ends *ends, const struct tally_end *end,
			 const struct block_weight *weight)
{
	struct thread_total *killer =
		end->freed_thread_row == ROWS_NULL
			? NULL
			: thread_totals_at(&ends->threads, end->freed_thread_row);
	bool is_foreign = killer && end->freed_thread_row != end->thread_row;

	if (killer && !end->is_left)
		killer->n_frees += weight->n;
	/* After the killer: the array may have moved. */
	struct thread_total *owner = thread_totals_at(&ends->threads, end->thread_row);
	if (!owner || end->is_carried)
		return;
	owner->n_blocks += weight->n;
	owner->bytes += weight->bytes;
	owner->live_blocks += end->is_freed ? 0 : weight->n;
	owner->live_bytes += end->is_freed ? 0 : weight->bytes;
	owner->n_temporary += end->is_temporary ? weight->n : 0;
	owner->n_foreign += is_foreign ? weight->n : 0;
}

static void count_picked(struct tally_ends *ends, struct site_ends *site,
			 const struct tally_end *end, const struct block_weight *weight)
{
	site->n_picked++;
	site->variance += weight->variance;
	site->n_variance += weight->n_variance;
	ends->n_picked++;
	ends->variance += weight->variance;
	ends->n_variance += weight->n_variance;
	if (end->is_freed)
		return;
	site->unfreed_variance += weight->variance;
	ends->live_variance += weight->variance;
}

static void count_block(struct tally_ends *ends, struct site_ends *site,
			const struct tally_end *end, const struct block_weight *weight)
{
	histogram_add(&ends->histogram, end->size, end->is_freed ? end->life_ns : -1, weight);
	if (weight->is_picked)
		count_picked(ends, site, end, weight);
	site->n_blocks += weight->n;
	site->bytes += weight->bytes;
	ends->allocations += weight->n;
	ends->bytes += weight->bytes;
	site->n_frees += end->is_freed ? weight->n : 0;
	site->n_temporary += end->is_temporary ? weight->n : 0;
	site->n_reallocated += end->is_reallocated ? weight->n : 0;
	ends->frees += end->is_freed ? weight->n : 0;
	ends->temporary += end->is_temporary ? weight->n : 0;
	if (end->is_freed)
		return;
	site->unfreed_bytes += weight->bytes;
	site->exec_blocks += end->is_replaced ? weight->n : 0;
	site->exec_bytes += end->is_replaced ? weight->bytes : 0;
	ends->live_blocks += weight->n;
	ends->live_bytes += weight->bytes;
}

int tally_ends_add(struct tally_ends *ends, const struct tally_end *end)
{
	int64_t first_ns = end->is_carried ? 0 : end->allocated_ns;
	int r = end->site < ends->n_sites ? 0 : make_site(ends, end->site);

	if (r < 0)
		return r;
	const struct block_weight weight = block_weigh(end->weight, end->size);
	struct site_ends *site = &ends->sites[end->site];
	site->byte_seconds +=
		(double)weight.bytes * ((double)end->time_ns - (double)end->allocated_ns) / 1e9;
	site->first_ns = first_ns < site->first_ns ? first_ns : site->first_ns;
	site->last_ns = end->time_ns > site->last_ns ? end->time_ns : site->last_ns;
	count_thread(ends, end, &weight);
	if (!end->is_carried)
		count_block(ends, site, end, &weight);
	return 0;
}
