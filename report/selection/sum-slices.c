#include "report/selection/sum-slices.h"

#include <errno.h>
#include <stdbool.h>

#include "report/selection/sum-blocks.h"
#include "store/database.h"
#include "store/row-limit.h"
#include "store/slices/lookup.h"
#include "store/slices/touches.h"

/* ---- Blocks ---- */

struct span {
	struct slice_blocks before; /* from the run's start to the span */
	struct slice_blocks within;
	struct slice_blocks to_peak; /* from the span's begin to when most was live */
	bool has_peak; /* it is behind the begin */
	int64_t from_ns;
	int64_t to_ns; /* not behind the run's end */
};

static void finish_span(struct span *span)
{
	slice_blocks_finish(&span->before);
	slice_blocks_finish(&span->within);
	slice_blocks_finish(&span->to_peak);
}
#define auto_span __attribute__((cleanup(finish_span)))

static int read_span(const struct replay *replay, struct slice_store *store, struct span *span)
{
	const struct selection *selection = replay->selection;
	const struct slice_peak *peak = &span->within.peak;
	int r = 0;

	if (selection->from_ns > 0)
		r = slice_edge_count(store, &(struct slice_cut){ INT64_MIN, selection->from_ns, 0 },
				     &span->before);
	if (r == 0)
		r = slice_edge_count(store,
				     &(struct slice_cut){ selection->from_ns, selection->to_ns, 0 },
				     &span->within);
	span->has_peak = peak->most_id && peak->most > 0;
	if (r == 0 && span->has_peak)
		r = slice_edge_count(store,
				     &(struct slice_cut){ selection->from_ns,
							  slice_plus(peak->most_ns, 1),
							  peak->most_id },
				     &span->to_peak);
	return r;
}

/* What a site holds at the end of some slices beyond what it held at their begin. */
struct held {
	int64_t bytes;
	int64_t blocks;
};

static struct held held_by(const struct slice_blocks *blocks, int64_t stack_id)
{
	const struct slice_site *site = slice_blocks_site(blocks, stack_id);

	return site ? (struct held){ slice_minus(site->bytes, site->ended_bytes),
				     slice_minus(site->n_blocks, site->n_ended) }
		    : (struct held){ 0, 0 };
}

static void set_times(struct tally_site *to, const struct slice_site *site, const struct span *span,
		      const struct held *held)
{
	bool is_left = slice_plus(held->blocks, slice_minus(site->n_blocks, site->n_ended)) > 0;

	if (held->blocks > 0)
		to->first_ns = 0;
	else if (site->n_blocks)
		to->first_ns = slice_minus(site->first_birth_ns, span->from_ns);
	if (is_left)
		to->last_ns = slice_minus(span->to_ns, span->from_ns);
	else if (site->n_ended)
		to->last_ns = slice_minus(site->last_end_ns, span->from_ns);
}

/*
 * The integral of what was live: it begins with `held`, each birth adds until the end, each end
 * takes away.
 */
static double byte_seconds(const struct slice_site *site, const struct span *span,
			   const struct held *held)
{
	int64_t gained = slice_minus(site->bytes, site->ended_bytes);
	slice_moment sum = slice_add_moments(
		slice_moment_of(held->bytes, slice_minus(span->to_ns, span->from_ns)),
		slice_moment_of(gained, span->to_ns));

	return (double)(slice_moment)((unsigned __int128)sum - (unsigned __int128)site->moment) /
	       1e9;
}

static void set_peak(struct tally_site *to, const struct slice_site *site, const struct span *span,
		     const struct held *held)
{
	bool rises = site->n_blocks && site->most > 0;
	struct held kept =
		span->has_peak ? held_by(&span->to_peak, site->stack_id) : (struct held){ 0, 0 };

	to->peak_bytes = (uint64_t)slice_plus(held->bytes, rises ? site->most : 0);
	to->peak_ns = rises ? slice_minus(site->most_ns, span->from_ns) : 0;
	to->kept = 1;
	to->kept_bytes = (uint64_t)slice_plus(held->bytes, kept.bytes);
	to->kept_blocks = (uint64_t)slice_plus(held->blocks, kept.blocks);
}

static int add_site(const struct replay *replay, const struct slice_site *site,
		    const struct span *span)
{
	struct held held = held_by(&span->before, site->stack_id);
	struct tally *tally = replay->tally;
	uint32_t number;

	if (!row_is_below(site->stack_id, replay->limits.stacks))
		return -EBADMSG;
	int r = tally_site(tally, site->stack_id, &number);
	if (r < 0)
		return r;
	struct tally_site *to = &tally->sites[number];
	to->n_blocks = (uint64_t)site->n_blocks;
	to->n_frees = (uint64_t)site->n_frees;
	to->bytes = (uint64_t)site->bytes;
	to->unfreed_bytes = (uint64_t)site->unfreed_bytes;
	to->byte_seconds = byte_seconds(site, span, &held);
	set_times(to, site, span, &held);
	set_peak(to, site, span, &held);
	tally->total.allocations += to->n_blocks;
	tally->total.frees += to->n_frees;
	tally->total.bytes += to->bytes;
	tally->total.live_blocks += to->n_blocks - to->n_frees;
	tally->total.live_bytes += to->unfreed_bytes;
	return 0;
}

/* Sites that only hold what they held before. */
static int add_holder(const struct replay *replay, const struct slice_site *site,
		      const struct span *span)
{
	const struct slice_site nothing = { .stack_id = site->stack_id };

	if (slice_blocks_site(&span->within, site->stack_id) || site->n_blocks == site->n_ended)
		return 0;
	return add_site(replay, &nothing, span);
}

static int add_threads(struct tally *tally, const struct thread_totals *threads)
{
	for (size_t i = 0; i < threads->n; i++) {
		const struct thread_total *from = &threads->items[i];
		struct thread_total *to =
			thread_totals_at(&tally->threads, threads->first_row + (int64_t)i);
		if (!to)
			return -ENOMEM;
		to->n_blocks += from->n_blocks;
		to->bytes += from->bytes;
		to->n_frees += from->n_frees;
		to->n_foreign += from->n_foreign;
		to->live_blocks += from->live_blocks;
		to->live_bytes += from->live_bytes;
	}
	return 0;
}

static int64_t run_end(const struct replay *replay)
{
	return db_integer_of(replay->db, 0, "SELECT duration_ns FROM main.run WHERE id = ?1", "i",
			     replay->run_id);
}

static int count_blocks(const struct replay *replay, struct slice_store *store)
{
	const struct selection *selection = replay->selection;
	int64_t end_ns = run_end(replay);
	auto_span struct span span = {
		.from_ns = selection->from_ns,
		.to_ns = selection->to_ns < end_ns ? selection->to_ns : end_ns,
	};
	struct tally *tally = replay->tally;
	int r = read_span(replay, store, &span);

	for (size_t i = 0; i < span.within.n_sites && r == 0; i++)
		r = add_site(replay, &span.within.sites[i], &span);
	for (size_t i = 0; i < span.before.n_sites && r == 0; i++)
		r = add_holder(replay, &span.before.sites[i], &span);
	tally->n_peaks = 1;
	tally->live_bytes = (uint64_t)span.before.peak.live;
	tally->total.peak_bytes = (uint64_t)slice_plus(span.before.peak.live,
						       span.has_peak ? span.within.peak.most : 0);
	tally->total.peak_ns =
		span.has_peak ? slice_minus(span.within.peak.most_ns, span.from_ns) : 0;
	tally->histogram = span.within.histogram;
	return r < 0 ? r : add_threads(tally, &span.within.threads);
}

/* ---- Samples and touches ---- */

struct touches {
	const struct replay *replay;
	struct slice_store *store;
};

static int add_whole(void *context, const struct slice_head *head)
{
	const struct touches *touches = context;
	struct slice_touches_sum sum = {
		touches->replay->tally,
		touches->replay->n_clock,
		touches->replay->selection->from_ns,
		touches->store->last_thread,
		touches->store->last_stack,
	};
	const struct slice_visitor visitor = { SLICE_OF_TOUCHES, slice_touches_add, &sum };

	return slice_store_read(touches->store, head, &visitor);
}

static int add_part(void *context, const struct slice_head *head)
{
	const struct touches *touches = context;
	const struct replay_rows rows = {
		.first_touch = head->first_row,
		.last_touch = head->last_row,
		.first_sample = head->first_sample,
		.last_sample = head->last_sample,
	};
	struct replay part = *touches->replay;

	part.rows = &rows;
	int r = replay_samples(&part);
	return r < 0 ? r : replay_touches(&part);
}

static int count_touches(const struct replay *replay, struct slice_store *store)
{
	struct touches touches = { replay, store };
	const struct slice_walk walk = {
		.from_ns = replay->selection->from_ns,
		.to_ns = replay->selection->to_ns,
		.whole = add_whole,
		.part = add_part,
		.context = &touches,
	};

	return slice_store_walk(store, &walk);
}

int slice_tally(const struct replay *replay)
{
	auto_slice_store struct slice_store blocks = { 0 }, touches = { 0 };
	sqlite3 *db = db_handle(replay->db);
	int r = slice_store_open(db, replay->run_id, true, &blocks);

	if (r == 0)
		r = slice_store_open(db, replay->run_id, false, &touches);
	if (r < 0)
		return r;
	replay->tally->has_no_timeline = true;
	r = count_blocks(replay, &blocks);
	return r < 0 ? r : count_touches(replay, &touches);
}

int slice_replay(const struct replay *replay)
{
	auto_slice_store struct slice_store store = { 0 };
	struct touches touches = { replay, &store };
	const struct slice_walk walk = {
		.from_ns = replay->selection->from_ns,
		.to_ns = replay->selection->to_ns,
		.whole = add_part,
		.part = add_part,
		.context = &touches,
	};
	int r = slice_store_open(db_handle(replay->db), replay->run_id, false, &store);

	return r < 0 ? r : slice_store_walk(&store, &walk);
}

static int widen(void *context, const struct slice_head *head)
{
	struct replay_rows *rows = context;

	rows->first_touch =
		head->first_row < rows->first_touch ? head->first_row : rows->first_touch;
	rows->last_touch = head->last_row > rows->last_touch ? head->last_row : rows->last_touch;
	rows->first_sample =
		head->first_sample < rows->first_sample ? head->first_sample : rows->first_sample;
	rows->last_sample =
		head->last_sample > rows->last_sample ? head->last_sample : rows->last_sample;
	return 0;
}

static int find_rows(const struct replay *replay, bool is_blocks, struct replay_rows *ret_rows)
{
	auto_slice_store struct slice_store store = { 0 };
	struct replay_rows rows = { INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN };
	const struct slice_walk walk = {
		.from_ns = replay->selection->from_ns,
		.to_ns = replay->selection->to_ns,
		.is_of_rows = true,
		.part = widen,
		.context = &rows,
	};
	int r = slice_store_open(db_handle(replay->db), replay->run_id, is_blocks, &store);

	if (r == 0)
		r = slice_store_walk(&store, &walk);
	if (r == 0)
		*ret_rows = rows;
	return r;
}

int slice_rows(const struct replay *replay, struct replay_rows *ret_rows)
{
	return find_rows(replay, false, ret_rows);
}

int slice_births(const struct replay *replay, int64_t *ret_first, int64_t *ret_last)
{
	struct replay_rows rows;
	int r = find_rows(replay, true, &rows);

	if (r == 0) {
		*ret_first = rows.first_touch;
		*ret_last = rows.last_touch;
	}
	return r;
}
