#include "report/selection/sum-timeline.h"

#include <stdbool.h>

#include "report/selection/sum-blocks.h"
#include "store/database.h"

/* What is live, on its way. */
struct live {
	struct timeline *timeline;
	int64_t from_ns;
	uint64_t bytes;
};

static int add_birth(void *context, const struct slice_birth *birth)
{
	struct live *live = context;
	int64_t time_ns = slice_minus(birth->birth_ns, live->from_ns);

	live->bytes += (uint64_t)birth->size;
	timeline_change(live->timeline, time_ns, live->bytes);
	timeline_at(live->timeline, time_ns)->n_allocations++;
	return 0;
}

static int add_end(void *context, const struct sweep_end *end)
{
	struct live *live = context;
	int64_t time_ns = slice_minus((int64_t)end->time, live->from_ns);

	live->bytes -= end->size;
	timeline_change(live->timeline, time_ns, live->bytes);
	if (end->id != SLICE_EXIT)
		timeline_at(live->timeline, time_ns)->n_frees++;
	return 0;
}

static int add_blocks(const struct replay *replay, struct slice_store *store)
{
	const struct selection *selection = replay->selection;
	struct tally *tally = replay->tally;
	struct live live = { &tally->timeline, selection->from_ns, tally->live_bytes };
	const struct slice_events events = { add_birth, add_end, &live };
	const struct slice_cut cut = { selection->from_ns, selection->to_ns, 0 };

	if (live.bytes > 0)
		timeline_change(&tally->timeline, 0, live.bytes);
	return slice_edge_visit(store, &cut, &events);
}

static int add_part(void *context, const struct slice_head *head)
{
	struct replay part = *(const struct replay *)context;
	const struct replay_rows rows = {
		.first_sample = head->first_sample,
		.last_sample = head->last_sample,
	};

	part.rows = &rows;
	return replay_samples(&part);
}

static void cleanup(struct tally *tally)
{
	tally_finish(tally);
}

/* The slices have counted them otherwise: of this tally only the timeline is kept. */
static int add_samples(const struct replay *replay, struct slice_store *store)
{
	__attribute__((cleanup(cleanup))) struct tally tally = { 0 };
	int64_t n_clock = 0;
	struct replay again = *replay;
	const struct slice_walk walk = { .from_ns = replay->selection->from_ns,
					 .to_ns = replay->selection->to_ns,
					 .is_of_rows = true,
					 .part = add_part,
					 .context = &again };
	int r = tally_init(&tally);

	tally.timeline = replay->tally->timeline;
	again.tally = &tally;
	again.n_clock = &n_clock;
	if (r == 0)
		r = slice_store_walk(store, &walk);
	replay->tally->timeline = tally.timeline;
	return r;
}

int slice_timeline(const struct replay *replay)
{
	auto_slice_store struct slice_store blocks = { 0 }, touches = { 0 };
	sqlite3 *db = db_handle(replay->db);
	int r = slice_store_open(db, replay->run_id, true, &blocks);

	if (r == 0)
		r = slice_store_open(db, replay->run_id, false, &touches);
	if (r == 0)
		r = add_blocks(replay, &blocks);
	if (r == 0)
		r = add_samples(replay, &touches);
	replay->tally->has_no_timeline = false;
	return r;
}
