#include "store/totals/totals.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "store/database.h"
#include "store/touch.h"

#define NO_BLOCK 1e-3 /* sums of weights leave some 1e-9 behind */

int tally_init(struct tally *tally, int64_t first_thread)
{
	*tally = (struct tally){ .threads.first_row = first_thread,
				 .ends.threads.first_row = first_thread };
	timeline_init(&tally->timeline);
	tally->n_sites = 1; /* 0 is "none yet" */
	return grow_array_to(&tally->sites, 0, &tally->n_sites_allocated, sizeof(*tally->sites));
}

void tally_finish(struct tally *tally)
{
	free(tally->sites);
	free(tally->site_of_stack);
	thread_totals_finish(&tally->threads);
	tally_ends_finish(&tally->ends);
	object_totals_finish(&tally->objects);
	shared_lines_finish(&tally->lines);
	access_totals_finish(&tally->accesses);
	access_totals_finish(&tally->fault_nodes);
	stack_totals_finish(&tally->stacks);
	unresolved_finish(&tally->unresolved);
	tally_sample_finish(&tally->current);
	tally->sites = NULL;
	tally->site_of_stack = NULL;
}

static int add_site(struct tally *tally, int64_t stack_id)
{
	tally->site_of_stack[stack_id] = (uint32_t)tally->n_sites;
	int r = array_add(tally->sites, tally->n_sites, tally->n_sites_allocated,
			  (struct tally_site){
				  .stack_id = stack_id,
				  .first_touch_ns = INT64_MAX,
				  .last_touch_ns = INT64_MIN,
			  });
	if (r < 0)
		tally->site_of_stack[stack_id] = 0;
	return r;
}

int tally_site(struct tally *tally, int64_t stack_id, uint32_t *ret_site)
{
	int r = grow_array_to(&tally->site_of_stack, (size_t)stack_id, &tally->n_stacks,
			      sizeof(*tally->site_of_stack));
	if (r == 0 && tally->site_of_stack[stack_id] == 0)
		r = add_site(tally, stack_id);
	if (r == 0)
		*ret_site = tally->site_of_stack[stack_id];
	return r;
}

void tally_keep_peak(const struct tally *tally, struct tally_site *site)
{
	if (site->kept == tally->n_peaks)
		return;
	site->kept = tally->n_peaks;
	site->kept_bytes = site->live_bytes;
	site->kept_blocks = site->n_live;
	site->kept_variance = site->live_variance;
}

static void put_live(struct tally *tally, struct tally_site *site,
		     const struct block_weight *weight)
{
	tally_keep_peak(tally, site);
	site->n_live += weight->n;
	site->live_bytes += weight->bytes;
	site->live_variance += weight->variance;
	tally->live_bytes += weight->bytes;
	tally->live_variance += weight->variance;
}

static void add_live(struct tally *tally, struct tally_site *site,
		     const struct block_weight *weight, int64_t time_ns)
{
	put_live(tally, site, weight);
	if (site->live_bytes > site->peak_bytes) {
		site->peak_bytes = site->live_bytes;
		site->peak_ns = time_ns;
	}
	if (tally->live_bytes > tally->total.peak_bytes) {
		tally->total.peak_bytes = tally->live_bytes;
		tally->total.peak_variance = tally->live_variance;
		tally->total.peak_ns = time_ns;
		tally->n_peaks++;
	}
	timeline_change(&tally->timeline, time_ns, tally->live_bytes);
}

void tally_allocation(struct tally *tally, uint32_t site, const struct block_weight *weight,
		      int64_t time_ns)
{
	add_live(tally, &tally->sites[site], weight, time_ns);
	timeline_at(&tally->timeline, time_ns)->n_allocations += weight->n;
}

void tally_carry(struct tally *tally, uint32_t site, const struct block_weight *weight)
{
	add_live(tally, &tally->sites[site], weight, 0);
	tally->n_peaks++; /* also where it has no bytes: all that is there is of the peak */
}

static void take_live(struct tally *tally, struct tally_site *site,
		      const struct block_weight *weight)
{
	tally_keep_peak(tally, site);
	site->n_live -= weight->n;
	site->live_bytes -= weight->bytes;
	site->live_variance -= weight->variance;
	tally->live_bytes -= weight->bytes;
	tally->live_variance -= weight->variance;
}

void tally_return(struct tally *tally, uint32_t site, const struct block_weight *weight)
{
	put_live(tally, &tally->sites[site], weight);
}

void tally_settle_live(struct tally *tally, int64_t time_ns)
{
	for (size_t i = 1; i < tally->n_sites; i++) {
		const struct tally_site *site = &tally->sites[i];
		if (site->n_live > NO_BLOCK)
			tally_ends_left(&tally->ends, (uint32_t)i, site->live_bytes, time_ns);
	}
}

void tally_leave(struct tally *tally)
{
	for (size_t i = 1; i < tally->n_sites; i++) {
		struct tally_site *site = &tally->sites[i];
		tally_keep_peak(tally, site);
		tally->live_bytes -= site->live_bytes;
		site->live_bytes = 0;
		site->n_live = site->live_variance = 0;
	}
	tally->live_variance = 0;
}

void tally_free(struct tally *tally, uint32_t site, const struct block_weight *weight,
		int64_t time_ns, bool is_freed)
{
	take_live(tally, &tally->sites[site], weight);
	timeline_change(&tally->timeline, time_ns, tally->live_bytes);
	if (is_freed)
		timeline_at(&tally->timeline, time_ns)->n_frees += weight->n;
}

static void take_bytes(struct tally *tally, struct tally_site *site, uint64_t bytes)
{
	tally_keep_peak(tally, site);
	site->live_bytes -= bytes;
	tally->live_bytes -= bytes;
}

void tally_allocation_within(struct tally *tally, uint32_t site, uint32_t within,
			     const struct block_weight *weight, int64_t time_ns)
{
	take_bytes(tally, &tally->sites[within], weight->bytes);
	add_live(tally, &tally->sites[site], weight, time_ns);
}

void tally_free_within(struct tally *tally, uint32_t site, uint32_t within,
		       const struct block_weight *weight, int64_t time_ns)
{
	take_bytes(tally, &tally->sites[within], -weight->bytes);
	take_live(tally, &tally->sites[site], weight);
	timeline_change(&tally->timeline, time_ns, tally->live_bytes);
}

void tally_sample(struct tally *tally, const struct sample_event *taken)
{
	bool is_fault = taken->measures == MEASURES_FAULT;
	bool is_time = taken->measures == MEASURES_TIME;

	if (taken->measures == MEASURES_WATCH)
		return;

	struct thread_total *thread =
		taken->thread_row ? thread_totals_at(&tally->threads, taken->thread_row) : NULL;

	tally->total.samples += !is_fault;
	tally->total.faults += is_fault;
	if (is_time) {
		tally->design.n++;
		tally->design.time += (double)taken->weight;
		tally->design.time_sq += (double)taken->weight * (double)taken->weight;
	}
	struct timeline_slot *slot = timeline_at(&tally->timeline, taken->time_ns);
	slot->n_samples += !is_fault;
	slot->n_faults += is_fault;
	if (thread) {
		thread->n_faults += is_fault;
		thread->n_samples += is_time;
		/* Unsigned: a damaged weight may be anything. */
		if (is_time)
			thread->time_ns =
				(int64_t)((uint64_t)thread->time_ns + (uint64_t)taken->weight);
	}
}

/* ---- Writing ---- */

/*
 * The most that a site held at any time. The highest of many estimates would be too high: where
 * blocks were picked, what it held when the run held most.
 */
static void find_peak(const struct tally *tally, const struct tally_site *site, uint64_t *ret_bytes,
		      int64_t *ret_ns)
{
	bool is_picked = tally->ends.n_picked > 0;

	*ret_bytes = is_picked ? site->kept_bytes : site->peak_bytes;
	*ret_ns = is_picked ? tally->total.peak_ns : site->peak_ns;
}

static int write_site(struct tally *tally, size_t number, struct db *db, int64_t run_id)
{
	struct tally_site *site = &tally->sites[number];
	const struct site_ends ends = tally_ends_of(&tally->ends, number);
	const struct share_sum *time = &site->shares.of[SHARE_TIME];
	const struct share_sum *stalls = &site->shares.of[SHARE_STALL];
	const struct imputed *imputed = site->shares.imputed;
	bool is_touched = site->first_touch_ns != INT64_MAX;
	uint64_t peak_bytes;
	int64_t peak_ns;
	double answers[TALLY_ANSWERS];

	tally_keep_peak(tally, site);
	find_peak(tally, site, &peak_bytes, &peak_ns);
	tally_answers(tally, &site->shares, answers);
	return db_insert(
		db,
		"site(run_id, stack_id, n_blocks, n_frees, bytes, live_blocks, live_bytes,"
		" peak_bytes, peak_ns, first_ns, last_ns, n_temporary, n_reallocated, byte_seconds,"
		" n_samples, n_samples_sq, time_ns, n_faults, first_touch_ns, last_touch_ns,"
		" n_stalls, n_stalls_sq, n_imputed, n_stalls_imputed, share, share_low, share_high,"
		" stall_share, stall_low, stall_high, exec_blocks, exec_bytes, n_picked, variance,"
		" n_variance, live_variance)",
		"nnnnnnnnnnninrrrrniirrrrrrrrrrnnnrrr", run_id, site->stack_id,
		llround(ends.n_blocks), llround(ends.n_frees), (int64_t)ends.bytes,
		llround(ends.n_blocks - ends.n_frees), (int64_t)ends.unfreed_bytes,
		(int64_t)peak_bytes, peak_ns, ends.first_ns, ends.last_ns,
		/* Of picks it is not known whether the next event was another allocation. */
		ends.n_picked > 0 ? INT64_MIN : llround(ends.n_temporary),
		llround(ends.n_reallocated), (double)(__int128)ends.byte_ns / 1e9, time->n,
		time->n_sq, time->time, (int64_t)site->n_faults,
		is_touched ? site->first_touch_ns : INT64_MIN,
		is_touched ? site->last_touch_ns : INT64_MIN, stalls->n, stalls->n_sq,
		imputed[SHARE_TIME].n, imputed[SHARE_STALL].n, answers[0], answers[1], answers[2],
		answers[3], answers[4], answers[5], llround(ends.exec_blocks),
		(int64_t)ends.exec_bytes, (int64_t)ends.n_picked, ends.variance, ends.n_variance,
		ends.unfreed_variance);
}

/* Behind write_site(). */
static int write_peak(const struct tally_site *site, struct db *db, int64_t run_id)
{
	if (site->kept_blocks < NO_BLOCK)
		return 0;
	return db_insert(db, "site_peak(run_id, stack_id, n_blocks, bytes, variance)", "nnnnr",
			 run_id, site->stack_id, llround(site->kept_blocks),
			 (int64_t)site->kept_bytes, fmax(site->kept_variance, 0));
}

static int write_sites(struct tally *tally, struct db *db, int64_t run_id)
{
	int r = 0;

	for (size_t i = 1; i < tally->n_sites && r == 0; i++)
		r = write_site(tally, i, db, run_id);
	for (size_t i = 1; i < tally->n_sites && r == 0; i++)
		r = write_peak(&tally->sites[i], db, run_id);
	return r;
}

static int write_total(struct db *db, int64_t run_id, const char *name, uint64_t value)
{
	return db_insert(db, "total(run_id, name, value)", "ntn", run_id, name, (int64_t)value);
}

/* Where blocks were picked: of how many, and the standard errors of what is estimated from them. */
static int write_errors(const struct tally *tally, struct db *db, int64_t run_id)
{
	const struct tally_ends *ends = &tally->ends;
	const struct {
		const char *name;
		double variance;
	} rows[] = {
		{ "allocations_error", ends->n_variance },
		{ "bytes_error", ends->variance },
		{ "live_bytes_error", ends->live_variance },
		{ "peak_bytes_error", tally->total.peak_variance },
	};
	int r = write_total(db, run_id, "picked_blocks", ends->n_picked);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && r == 0; i++)
		r = write_total(db, run_id, rows[i].name,
				(uint64_t)llround(sqrt(fmax(rows[i].variance, 0))));
	return r;
}

static int write_totals(const struct tally *tally, struct db *db, int64_t run_id)
{
	const struct tally_total *total = &tally->total;
	const struct tally_ends *ends = &tally->ends;
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
		{ "allocations", (uint64_t)llround(ends->allocations) },
		{ "frees", (uint64_t)llround(ends->frees) },
		{ "bytes", ends->bytes },
		{ "live_blocks", (uint64_t)llround(ends->live_blocks) },
		{ "live_bytes", ends->live_bytes },
		{ "peak_bytes", total->peak_bytes },
		{ "peak_ns", (uint64_t)total->peak_ns },
		{ "temporary", (uint64_t)llround(ends->temporary) },
		{ "reallocations", total->reallocations },
		{ "missed_frees", total->missed_frees },
		{ "early_frees", total->early_frees },
		{ "mismatched_frees", total->mismatched_frees },
		{ "before_trace_frees", total->before_trace_frees },
		{ "unrecorded_frees", total->unrecorded_frees },
		{ "blocks_below_minimum", total->below_min },
		{ "names_without_size", total->sizeless_names },
		{ "inherited_frees", total->inherited_frees },
		{ "events", total->events },
		{ "samples", total->samples },
		{ "faults", total->faults },
		{ "mappings", total->mappings },
		{ "mapped_bytes", total->mapped_bytes },
		{ "heap_accesses", tally->alignment.n_heap },
		{ "accesses_before_allocation", tally->alignment.n_before },
		{ "accesses_after_free", tally->alignment.n_after },
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && r == 0; i++)
		r = write_total(db, run_id, rows[i].name, rows[i].value);
	return r < 0 || ends->n_picked == 0 ? r : write_errors(tally, db, run_id);
}

static int write_timeline(const struct timeline *timeline, struct db *db, int64_t run_id)
{
	int r = 0;

	for (unsigned i = 0; i < timeline->n && r == 0; i++) {
		const struct timeline_slot *slot = &timeline->slots[i];
		r = db_insert(db,
			      "timeline(run_id, interval_ns, time_ns, live_bytes, max_live_bytes,"
			      " n_allocations, n_frees, n_samples, n_faults)",
			      "nnnnnnnnn", run_id, timeline->interval_ns,
			      (int64_t)i * timeline->interval_ns, (int64_t)slot->live_bytes,
			      (int64_t)slot->max_live_bytes, llround(slot->n_allocations),
			      llround(slot->n_frees), (int64_t)slot->n_samples,
			      (int64_t)slot->n_faults);
	}
	return r;
}

static int write_histogram(const struct histogram *histogram, struct db *db, int64_t run_id)
{
	int r = 0;

	for (int i = 0; i < HISTOGRAM_BUCKETS * HISTOGRAM_BUCKETS && r == 0; i++) {
		int size = i / HISTOGRAM_BUCKETS, life = i % HISTOGRAM_BUCKETS;
		const struct histogram_cell *cell = &histogram->cells[size][life];
		if (cell->n_blocks > 0)
			r = db_insert(db,
				      "histogram(run_id, size_log2, life_log2, n_blocks, bytes)",
				      "nnnnn", run_id, (int64_t)size - 2, (int64_t)life - 2,
				      llround(cell->n_blocks), (int64_t)cell->bytes);
	}
	return r;
}

/* What samples and what blocks say of a thread. */
static struct thread_total thread_of(const struct tally *tally, size_t i)
{
	const struct thread_totals *samples = &tally->threads, *blocks = &tally->ends.threads;
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

static int write_threads(const struct tally *tally, struct db *db, int64_t run_id)
{
	static const struct thread_total nothing;
	const struct thread_totals *samples = &tally->threads, *blocks = &tally->ends.threads;
	int r = 0;

	for (size_t i = 0; (i < samples->n || i < blocks->n) && r == 0; i++) {
		const struct thread_total total = thread_of(tally, i);
		if (memcmp(&total, &nothing, sizeof(nothing)) == 0)
			continue;
		r = db_insert(
			db,
			"thread_total(run_id, thread_id, n_blocks, bytes, n_frees, n_foreign,"
			" live_blocks, live_bytes, n_temporary, n_samples, time_ns, n_faults)",
			"nnnnnnnnnnnn", run_id, samples->first_row + (int64_t)i,
			llround(total.n_blocks), (int64_t)total.bytes, llround(total.n_frees),
			llround(total.n_foreign), llround(total.live_blocks),
			(int64_t)total.live_bytes, llround(total.n_temporary),
			(int64_t)total.n_samples, total.time_ns, (int64_t)total.n_faults);
	}
	return r;
}

static int write_object(const struct tally *tally, const struct object_total *item, struct db *db,
			int64_t run_id)
{
	const struct share_sum *time = &item->shares.of[SHARE_TIME];
	const struct share_sum *stalls = &item->shares.of[SHARE_STALL];
	double answers[TALLY_ANSWERS];

	tally_answers(tally, &item->shares, answers);
	return db_insert(
		db,
		"object_total(run_id, owner_kind, owner_id, n_samples, n_samples_sq, time_ns,"
		" n_faults, first_touch_ns, last_touch_ns, n_stalls, n_stalls_sq, n_imputed,"
		" n_stalls_imputed, share, share_low, share_high, stall_share, stall_low,"
		" stall_high)",
		"nnnrrrnnnrrrrrrrrrr", run_id, item->owner_kind, item->owner_id, time->n,
		time->n_sq, time->time, (int64_t)item->n_faults, item->first_touch_ns,
		item->last_touch_ns, stalls->n, stalls->n_sq, item->shares.imputed[SHARE_TIME].n,
		item->shares.imputed[SHARE_STALL].n, answers[0], answers[1], answers[2], answers[3],
		answers[4], answers[5]);
}

static int write_kind(const struct tally *tally, unsigned kind, struct db *db, int64_t run_id)
{
	const struct owner_shares *shares = &tally->kinds[kind];
	double n = shares->of[SHARE_TIME].n, n_imputed = shares->imputed[SHARE_TIME].n;
	double n_stalls = shares->of[SHARE_STALL].n;
	double n_stalls_imputed = shares->imputed[SHARE_STALL].n;
	double answers[TALLY_ANSWERS];

	if (kind > 0 && n + n_stalls + n_imputed + n_stalls_imputed == 0)
		return 0;
	tally_answers(tally, shares, answers);
	return db_insert(db,
			 "kind_share(run_id, owner_kind, n_samples, n_imputed, n_stalls,"
			 " n_stalls_imputed, share, share_low, share_high, stall_share, stall_low,"
			 " stall_high)",
			 "nnrrrrrrrrrr", run_id, (int64_t)kind, n, n_imputed, n_stalls,
			 n_stalls_imputed, answers[0], answers[1], answers[2], answers[3],
			 answers[4], answers[5]);
}

static int write_access(const struct access_total *item, struct db *db, int64_t run_id)
{
	return db_insert(db,
			 "access_total(run_id, source_id, owner_kind, owner_id, data_src, n,"
			 " n_writes, n_latencies, latency, latency_sq)",
			 "nnnnnnnnnr", run_id, item->source_row, item->owner_kind, item->owner_id,
			 item->data_src, (int64_t)item->n, (int64_t)item->n_writes,
			 (int64_t)item->n_latencies, (int64_t)item->latency, item->latency_sq);
}

static int write_node(const struct access_total *item, struct db *db, int64_t run_id)
{
	return db_insert(db, "fault_node(run_id, source_id, owner_kind, owner_id, node, n)",
			 "nnnnnn", run_id, item->source_row, item->owner_kind, item->owner_id,
			 item->data_src, (int64_t)item->n);
}

static int write_stack(const struct stack_total *item, struct db *db, int64_t run_id)
{
	return db_insert(db, "sample_stack(run_id, measures, stack_id, n, weight)", "ntnnn", run_id,
			 source_measures_word(item->measures), item->stack_id, (int64_t)item->n,
			 item->weight);
}

static int write_others(struct tally *tally, struct db *db, int64_t run_id)
{
	int r = tally->has_no_timeline ? 0 : write_timeline(&tally->timeline, db, run_id);

	r = r ?: write_histogram(&tally->ends.histogram, db, run_id);
	r = r ?: write_threads(tally, db, run_id);
	for (size_t i = 0; i < tally->objects.n && r == 0; i++)
		r = write_object(tally, &tally->objects.items[i], db, run_id);
	for (unsigned kind = 0; kind < TALLY_KINDS && r == 0; kind++)
		r = write_kind(tally, kind, db, run_id);
	for (size_t i = 0; i < tally->accesses.n && r == 0; i++)
		r = write_access(&tally->accesses.items[i], db, run_id);
	for (size_t i = 0; i < tally->fault_nodes.n && r == 0; i++)
		r = write_node(&tally->fault_nodes.items[i], db, run_id);
	for (size_t i = 0; i < tally->stacks.n && r == 0; i++)
		r = write_stack(&tally->stacks.items[i], db, run_id);
	return r < 0 ? r : shared_lines_write(&tally->lines, db, run_id);
}

int tally_write(struct tally *tally, struct db *db, int64_t run_id)
{
	int r = tally_settle(tally);

	tally->unsampled = tally_unsampled(db, run_id);
	r = r ?: write_sites(tally, db, run_id);
	r = r ?: write_totals(tally, db, run_id);
	return r < 0 ? r : write_others(tally, db, run_id);
}
