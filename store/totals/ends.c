#include "store/totals/ends.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "store/row-writer.h"
#include "store/totals/totals.h"

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

static void count_killer(struct tally_ends *ends, int64_t killer, const struct block_weight *weight)
{
	struct thread_total *thread = thread_totals_at(&ends->threads, killer);

	if (thread)
		thread->n_frees += weight->n;
}

/*
 * What is true of a block is a factor of its weight: of many blocks it is true as often as not, and
 * a wrong guess of a branch costs more than what it saves.
 */
static void count_owner(struct tally_ends *ends, const struct tally_end *end,
			const struct block_weight *weight)
{
	struct thread_total *owner = thread_totals_at(&ends->threads, end->thread_row);
	bool is_foreign =
		end->freed_thread_row != ROWS_NULL && end->freed_thread_row != end->thread_row;

	if (!owner)
		return;
	owner->n_blocks += weight->n;
	owner->bytes += weight->bytes;
	owner->live_blocks += !end->is_freed * weight->n;
	owner->live_bytes += !end->is_freed * weight->bytes;
	owner->n_temporary += end->is_temporary * weight->n;
	owner->n_foreign += is_foreign * weight->n;
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

static void count_site(struct site_ends *site, const struct tally_end *end,
		       const struct block_weight *weight)
{
	site->n_blocks += weight->n;
	site->bytes += weight->bytes;
	site->n_frees += end->is_freed * weight->n;
	site->n_temporary += end->is_temporary * weight->n;
	site->n_reallocated += end->is_reallocated * weight->n;
	if (end->is_freed)
		return;
	site->unfreed_bytes += weight->bytes;
	site->exec_blocks += end->is_replaced * weight->n;
	site->exec_bytes += end->is_replaced * weight->bytes;
}

/* What it lies in is not freed either, or this one would have been. */
static void count_within(struct site_ends *within, const struct tally_end *end,
			 const struct block_weight *weight)
{
	within->unfreed_bytes -= !end->is_freed * weight->bytes;
	within->exec_bytes -= end->is_replaced * weight->bytes;
}

static void count_block(struct tally_ends *ends, struct site_ends *site,
			const struct tally_end *end, const struct block_weight *weight)
{
	histogram_add(&ends->histogram, end->size, end->is_freed ? end->life_ns : -1, weight);
	if (weight->is_picked)
		count_picked(ends, site, end, weight);
	ends->allocations += weight->n;
	ends->bytes += weight->bytes;
	ends->frees += end->is_freed * weight->n;
	ends->temporary += end->is_temporary * weight->n;
	if (end->is_freed)
		return;
	ends->live_blocks += weight->n;
	ends->live_bytes += weight->bytes;
}

/* Sums of many products: unsigned, for damaged rows may say anything. */
static void add_time(struct site_ends *site, uint64_t bytes, __int128 time_ns)
{
	site->byte_ns += (unsigned __int128)bytes * (unsigned __int128)time_ns;
}

static void begin_at(struct site_ends *site, int64_t time_ns)
{
	site->first_ns = time_ns < site->first_ns ? time_ns : site->first_ns;
}

static void end_at(struct site_ends *site, int64_t time_ns)
{
	site->last_ns = time_ns > site->last_ns ? time_ns : site->last_ns;
}

int tally_ends_born(struct tally_ends *ends, const struct tally_end *end)
{
	int r = end->site < ends->n_sites ? 0 : make_site(ends, end->site);

	if (r < 0)
		return r;
	const struct block_weight weight = block_weigh(end->weight, end->size);
	count_site(&ends->sites[end->site], end, &weight);
	if (end->within) {
		r = end->within < ends->n_sites ? 0 : make_site(ends, end->within);
		if (r == 0)
			count_within(&ends->sites[end->within], end, &weight);
		return r;
	}
	count_owner(ends, end, &weight);
	count_block(ends, &ends->sites[end->site], end, &weight);
	return 0;
}

int tally_ends_live(struct tally_ends *ends, uint32_t site, uint64_t bytes, int64_t time_ns)
{
	int r = site < ends->n_sites ? 0 : make_site(ends, site);

	if (r < 0)
		return r;
	begin_at(&ends->sites[site], time_ns);
	add_time(&ends->sites[site], bytes, -(__int128)time_ns);
	return 0;
}

int tally_ends_live_within(struct tally_ends *ends, uint32_t within, uint64_t bytes,
			   int64_t time_ns)
{
	int r = within < ends->n_sites ? 0 : make_site(ends, within);

	if (r == 0)
		add_time(&ends->sites[within], bytes, time_ns);
	return r;
}

void tally_ends_end_within(struct tally_ends *ends, uint32_t within, uint64_t bytes,
			   int64_t time_ns)
{
	add_time(&ends->sites[within], bytes, -(__int128)time_ns);
}

void tally_ends_end(struct tally_ends *ends, uint32_t site, const struct block_weight *weight,
		    int64_t time_ns, int64_t killer)
{
	tally_ends_left(ends, site, weight->bytes, time_ns);
	if (killer)
		count_killer(ends, killer, weight);
}

void tally_ends_left(struct tally_ends *ends, uint32_t site, uint64_t bytes, int64_t time_ns)
{
	end_at(&ends->sites[site], time_ns);
	add_time(&ends->sites[site], bytes, time_ns);
}

static void join_site(struct site_ends *to, const struct site_ends *from)
{
	to->n_blocks += from->n_blocks;
	to->bytes += from->bytes;
	to->n_frees += from->n_frees;
	to->unfreed_bytes += from->unfreed_bytes;
	to->exec_blocks += from->exec_blocks;
	to->exec_bytes += from->exec_bytes;
	to->n_temporary += from->n_temporary;
	to->n_reallocated += from->n_reallocated;
	to->n_picked += from->n_picked;
	to->variance += from->variance;
	to->n_variance += from->n_variance;
	to->unfreed_variance += from->unfreed_variance;
	to->byte_ns += from->byte_ns;
	begin_at(to, from->first_ns);
	end_at(to, from->last_ns);
}

static int join_threads(struct thread_totals *to, const struct thread_totals *from)
{
	for (size_t i = 0; i < from->n; i++) {
		const struct thread_total *item = &from->items[i];
		struct thread_total *thread = thread_totals_at(to, from->first_row + (int64_t)i);
		if (!thread)
			return -ENOMEM;
		thread->n_blocks += item->n_blocks;
		thread->bytes += item->bytes;
		thread->n_frees += item->n_frees;
		thread->n_foreign += item->n_foreign;
		thread->live_blocks += item->live_blocks;
		thread->live_bytes += item->live_bytes;
		thread->n_temporary += item->n_temporary;
	}
	return 0;
}

int tally_ends_join(struct tally_ends *to, const struct tally_ends *from, const struct tally *names)
{
	int r = join_threads(&to->threads, &from->threads);

	for (size_t i = 1; i < from->n_sites && r == 0; i++) {
		size_t number = names ? (size_t)names->sites[i].stack_id : i;
		r = number < to->n_sites ? 0 : make_site(to, number);
		if (r == 0)
			join_site(&to->sites[number], &from->sites[i]);
	}
	histogram_join(&to->histogram, &from->histogram);
	to->allocations += from->allocations;
	to->bytes += from->bytes;
	to->frees += from->frees;
	to->temporary += from->temporary;
	to->live_blocks += from->live_blocks;
	to->live_bytes += from->live_bytes;
	to->n_picked += from->n_picked;
	to->variance += from->variance;
	to->n_variance += from->n_variance;
	to->live_variance += from->live_variance;
	return r;
}
