#include "store/selection/selection.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "store/database.h"
#include "store/selection/count.h"
#include "store/selection/stretches.h"
#include "store/statement.h"

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
	"object_total", "shared_line", "access_total", "fault_node", "kind_share", "sample_stack",
};

static int hide(struct db *db)
{
	int r = 0;

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

/* All rows of a part of the time. */
static int count_rows(struct count *count, enum sums_of of, int64_t from_ns, int64_t to_ns)
{
	count->from_ns = from_ns;
	count->to_ns = to_ns;
	int r = of == SUMS_OF_BLOCKS ? count_blocks(count) : count_touches(count);

	/* What comes knows itself what is live: it goes on there, or begins with another run. */
	if (of == SUMS_OF_BLOCKS)
		tally_leave(count->tally);
	count->goes_on = true;
	return r;
}

/* The sums of whole stretches, and rows at both edges. */
static int count_part(struct count *count, enum sums_of of, const struct stretches *whole,
		      struct sums *sums)
{
	const struct selection *selection = count->selection;
	int r = 0;

	count->goes_on = false;
	if (whole->from_ns >= whole->to_ns)
		return count_rows(count, of, selection->from_ns, selection->to_ns);
	if (selection->from_ns < whole->from_ns)
		r = count_rows(count, of, selection->from_ns, whole->from_ns);
	r = r ?: stretches_add(count->db, whole, of, sums);
	if (r == 0 && whole->to_ns < selection->to_ns) {
		count->goes_on = true;
		r = count_rows(count, of, whole->to_ns, selection->to_ns);
	}
	return r;
}

/* The stretches that the selection has as a whole. Those know of time only. */
static int find_whole(const struct count *count, struct stretches *ret_whole)
{
	const struct selection *selection = count->selection;
	bool is_time = !selection->pid && !selection->tid && !selection->high &&
		       !selection->region && !selection->wants;

	*ret_whole = (struct stretches){ 0 };
	return is_time ? stretches_find(count->db, count->run_id, selection->from_ns,
					selection->to_ns, ret_whole)
		       : 0;
}

static int count_both(struct count *count)
{
	static const struct stretches none;
	struct sums sums = {
		.tally = count->tally,
		.max_stacks = count->max_stacks,
		.max_threads = count->max_threads,
		.shift_ns = (int64_t)(0 - (uint64_t)count->selection->from_ns),
	};
	struct stretches whole;
	int r = find_whole(count, &whole);

	sums.is_first = whole.from_ns == count->selection->from_ns &&
			count->run_id == count->selection->runs[0];
	r = r ?: count_part(count, SUMS_OF_BLOCKS, &whole, &sums);
	if (r == 0)
		r = count_part(count, SUMS_OF_TOUCHES, whole.have_touches ? &whole : &none, &sums);
	sums_finish(&sums);
	return r;
}

static int count_run(struct db *db, const struct selection *selection, struct tally *tally,
		     int64_t run_id, int64_t *n_clock)
{
	struct filter filter;
	struct count count = { .selection = selection, .filter = &filter, .tally = tally };
	int r = filter_init(&filter, db, selection, run_id);

	count_init(&count, db, run_id);
	r = r ?: count_both(&count);
	r = r ?: tally_impute(tally, db, run_id);
	*n_clock += count.n_clock;
	filter_finish(&filter);
	site_map_finish(&count.stacks);
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
	int r = tally_init(&tally, 0);

	tally.has_no_lines = true;
	tally.has_no_timeline = !(selection->wants & SELECTION_TIMELINE);
	r = r ?: hide(db);
	for (size_t i = 0; i < selection->n_runs && r == 0; i++)
		r = count_run(db, selection, &tally, selection->runs[i], &n_clock);
	r = r ?: tally_write(&tally, db, selection->runs[0]);
	r = r ?: settle(db, selection, n_clock, (int64_t)tally.total.faults);
	return r < 0 ? r : statement_kept(db_handle(db));
}
