#include "report/selection/selection.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "report/callgraph/profile.h"
#include "report/selection/recount.h"
#include "report/selection/sum-blocks.h"
#include "report/selection/sum-slices.h"
#include "store/database.h"
#include "store/row-limit.h"
#include "store/statement.h"

/* ---- The timeline of a span of time, from the rows of the slices that it meets ---- */

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

/* Behind slice_tally(), of the same: its tally gets a timeline. Returns 0 or a negative errno. */
static int slice_timeline(const struct replay *replay)
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

bool selection_is_part(const struct selection *selection)
{
	return selection->n_runs > 1 || selection->from_ns > 0 || selection->to_ns < INT64_MAX ||
	       selection->pid || selection->tid || selection->high || selection->region;
}

int selection_count_trips(struct db *db, const struct selection *selection, int64_t *ret_made,
			  int64_t *ret_stored)
{
	static const char *const sql[2] = {
		"SELECT coalesce(sum(n_trips), 0) FROM main.region_total WHERE run_id = ?1"
		" AND name = ?2",
		"SELECT count(*) FROM main.region WHERE run_id = ?1 AND name = ?2",
	};
	int64_t sums[2] = { 0, 0 };

	for (size_t i = 0; i < 2 * selection->n_runs; i++) {
		sums[i % 2] += db_integer_of(db, 0, sql[i % 2], "it", selection->runs[i / 2],
					     selection->region);
	}
	*ret_made = sums[0];
	*ret_stored = sums[1];
	return 0;
}

/* What tally_write() writes, and whose samples there are. */
static const char *const hidden[] = {
	"site",		"site_peak",   "total",	       "timeline",   "histogram",  "thread_total",
	"object_total", "shared_line", "access_total", "fault_node", "kind_share",
};

static int hide(struct db *db)
{
	int r = db_exec(db,
			"DROP TABLE IF EXISTS temp.sample_stack; CREATE TEMP TABLE sample_stack("
			"measures TEXT, stack_id INTEGER, weight INTEGER)");

	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]) && r == 0; i++) {
		char *sql = sqlite3_mprintf("DROP TABLE IF EXISTS temp.%s; CREATE TEMP TABLE %s AS"
					    " SELECT * FROM main.%s WHERE 0",
					    hidden[i], hidden[i], hidden[i]);
		r = sql ? db_exec(db, sql) : -ENOMEM;
		sqlite3_free(sql);
	}
	return r;
}

/* The sources of all runs as those of the first; their samples are counted below. */
static const char source_sql[] =
	"DROP TABLE IF EXISTS temp.source; CREATE TEMP TABLE source AS SELECT * FROM main.source"
	" WHERE run_id = %lld; UPDATE temp.source SET n_samples = CASE"
	" WHEN measures = 'time' THEN %lld WHEN measures = 'fault' THEN %lld ELSE n_samples END";

/*
 * Regions may lie in each other under the same name: spans are told apart by thread and time only.
 */
static const char span_sql[] =
	"DROP TABLE IF EXISTS temp.span; CREATE TEMP TABLE span AS SELECT thread_id, start_ns,"
	" coalesce(end_ns, 9223372036854775807) AS end_ns FROM main.region WHERE name = %Q;"
	"CREATE INDEX temp.span_of ON span(thread_id, start_ns)";

/* Back to times of the run; what only the order of all events tells is not known. */
static const char settle_sql[] =
	/* Sites whose blocks were born elsewhere: only what was touched is known. */
	"UPDATE temp.site SET first_ns = NULL, last_ns = NULL, peak_ns = NULL WHERE n_blocks = 0"
	" AND first_ns = 9223372036854775807;UPDATE temp.site SET peak_ns = peak_ns + %lld,"
	" first_ns = first_ns + %lld, last_ns = last_ns + %lld, first_touch_ns = first_touch_ns +"
	" %lld, last_touch_ns = last_touch_ns + %lld, n_temporary = NULL;UPDATE temp.thread_total"
	" SET n_temporary = NULL;UPDATE temp.total SET value = value + %lld WHERE name ="
	" 'peak_ns';UPDATE temp.timeline SET time_ns = time_ns + %lld;UPDATE temp.object_total SET"
	" first_touch_ns = first_touch_ns + %lld, last_touch_ns = last_touch_ns + %lld;UPDATE"
	" temp.shared_line SET first_ns = first_ns + %lld, last_ns = last_ns + %lld;DELETE FROM"
	" temp.site WHERE n_blocks = 0 AND n_samples = 0 AND n_faults = 0 AND peak_bytes = 0;UPDATE"
	" temp.site SET peak_bytes = NULL WHERE first_ns IS NULL";

static int run_sql(struct db *db, char *sql)
{
	int r = sql ? db_exec(db, sql) : -ENOMEM;

	sqlite3_free(sql);
	return r;
}

static int settle(struct db *db, const struct selection *selection, int64_t n_clock,
		  int64_t n_faults)
{
	long long t = selection->from_ns;
	int r = run_sql(db, sqlite3_mprintf(settle_sql, t, t, t, t, t, t, t, t, t, t, t));

	return r < 0 ? r
		     : run_sql(db, sqlite3_mprintf(source_sql, (long long)selection->runs[0],
						   (long long)n_clock, (long long)n_faults));
}

/* Whether slices tell it. */
static bool is_of_time(const struct selection *selection)
{
	return selection->n_runs == 1 && !selection->pid && !selection->tid && !selection->high &&
	       !selection->region;
}

static int replay_rows(const struct replay *replay)
{
	const struct selection *selection = replay->selection;
	bool is_timed = selection->from_ns > 0 || selection->to_ns < INT64_MAX;
	int r = replay_blocks(replay);

	if (r == 0)
		r = is_timed ? slice_replay(replay) : -ENODATA;
	if (r != -ENODATA)
		return r;
	r = replay_samples(replay);
	return r < 0 ? r : replay_touches(replay);
}

/*
 * What samples with call stacks count (profile.c); a run has them from its first samples on, or not
 * at all.
 */
static int add_stacks(const struct replay *replay)
{
	bool has_stacks =
		db_integer_of(replay->db, 0,
			      "SELECT EXISTS (SELECT 1 FROM (SELECT stack_id FROM main.sample"
			      " WHERE run_id = ?1 LIMIT ?2) WHERE stack_id IS NOT NULL)",
			      "ii", replay->run_id, (int64_t)PROFILE_FIRST_SAMPLES);

	return has_stacks ? replay_stacks(replay) : 0;
}

static int add_lines(const struct replay *replay)
{
	struct replay_rows rows;
	struct replay part = *replay;
	bool is_timed = replay->selection->from_ns > 0 || replay->selection->to_ns < INT64_MAX;
	int r = is_timed ? slice_rows(replay, &rows) : -ENODATA;

	if (r < 0 && r != -ENODATA)
		return r;
	part.rows = r == 0 ? &rows : NULL;
	return replay_lines(&part);
}

static int replay_run(struct db *db, const struct selection *selection, struct tally *tally,
		      int64_t run_id, int64_t *n_clock)
{
	struct replay_sites sites = { 0 };
	const struct replay replay = {
		db,
		selection,
		tally,
		run_id,
		&sites,
		n_clock,
		NULL,
		{ row_limit(db_handle(db), "main.stack"), row_limit(db_handle(db), "main.thread") }
	};
	int r = is_of_time(selection) ? slice_tally(&replay) : -ENODATA;

	if (r == 0 && selection->order == SELECTION_TIMELINE)
		r = slice_timeline(&replay);
	if (r == -ENODATA)
		r = replay_rows(&replay);
	if (r == 0)
		r = tally_impute(tally, db, run_id);
	if (r == 0)
		r = add_stacks(&replay);
	if (r == 0 && selection->order == SELECTION_LINES)
		r = add_lines(&replay);
	free(sites.sites);
	return r;
}

static void cleanup_tally(struct tally *tally)
{
	tally_finish(tally);
}
#define auto_tally __attribute__((cleanup(cleanup_tally)))

int selection_apply(struct db *db, const struct selection *selection)
{
	auto_tally struct tally tally = { 0 };
	int64_t n_clock = 0;
	int r = tally_init(&tally);

	tally.has_no_lines = true;
	if (r == 0 && selection->region)
		r = run_sql(db, sqlite3_mprintf(span_sql, selection->region));
	if (r == 0)
		r = hide(db);
	for (size_t i = 0; i < selection->n_runs && r == 0; i++)
		r = replay_run(db, selection, &tally, selection->runs[i], &n_clock);
	if (r == 0)
		r = tally_write(&tally, db, selection->runs[0]);
	if (r == 0)
		r = settle(db, selection, n_clock, (int64_t)tally.total.faults);
	return r < 0 ? r : statement_kept(db_handle(db));
}
