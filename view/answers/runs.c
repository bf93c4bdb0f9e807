/* The runs of a database, and what one of them is: requests "runs" and "run". */
#include "view/answers/internal.h"

#include <errno.h>
#include <stddef.h>

#include "report/queries.h"
#include "report/text/json.h"
#include "store/heatmap/heatmap.h"
#include "store/statement.h"

/* clang-format off */
static const char runs_sql[] =
	"SELECT id, program, mode, repetition, command, start_unix_ns, duration_ns, exit_status,"
	" ended_cleanly, detail, coalesce((SELECT value FROM total WHERE run_id = run.id AND name ="
	" 'allocations'), 0) AS n_blocks, (SELECT coalesce(sum(n_samples), 0) FROM source WHERE"
	" run_id = run.id) AS n_samples, (SELECT coalesce(sum(count), 0) FROM loss WHERE run_id ="
	" run.id) AS n_lost, replace(trace, rtrim(trace, replace(trace, '/', '')), '') AS trace,"
	" CASE row_number() OVER (ORDER BY id) WHEN 1 THEN :first_label WHEN 2 THEN :second_label"
	" END AS label FROM run ORDER BY id";
/* clang-format on */

int view_runs(struct view_question *question)
{
	static const char *const names[] = { ":first_label", ":second_label" };
	auto_statement sqlite3_stmt *rows = NULL;
	int r = view_prepare(question, runs_sql, &rows);

	for (int i = 0; i < 2 && r == 0; i++) {
		const char *label = question->context->labels[i];
		int at = sqlite3_bind_parameter_index(rows, names[i]);
		if (sqlite3_bind_text(rows, at, label, -1, SQLITE_STATIC) != SQLITE_OK)
			r = -ENOMEM;
	}
	return r < 0 ? r : columns_of(&question->json, rows, NULL);
}

static const char run_sql[] = "SELECT * FROM run WHERE id = :run";

static const char host_sql[] = "SELECT key, value FROM fact WHERE run_id = :run AND at_end ="
			       " (SELECT min(at_end) FROM fact AS f WHERE f.run_id = :run AND"
			       " f.key = fact.key) ORDER BY key";

static const char totals_sql[] = "SELECT name, value FROM total WHERE run_id = :run ORDER BY name";

/* clang-format off */
static const char sources_sql[] =
	"SELECT id, name, measures, unit, period, n_samples, error, remedy, note, passed_over FROM"
	" source WHERE run_id = :run ORDER BY number";
/* clang-format on */

static const char losses_sql[] =
	"SELECT source, reason, count, process_id AS process, from_ns, to_ns FROM loss"
	" WHERE run_id = :run ORDER BY count DESC, source, reason";

/* The peak of a process is not an aggregate: of the only one that was traced it is the run's. */
/* clang-format off */
static const char processes_sql[] =
	"SELECT id, pid, exe, command, traced, why_not, start_ns, end_ns, (SELECT"
	" coalesce(sum(n_blocks), 0) FROM thread_total JOIN thread ON thread.id = thread_id"
	"  WHERE process_id = process.id) AS n_blocks, (SELECT coalesce(sum(n_samples + n_faults),"
	" 0) FROM thread_total JOIN thread ON thread.id = thread_id"
	"  WHERE process_id = process.id) AS n_samples, CASE WHEN traced AND (SELECT sum(traced)"
	" FROM process WHERE run_id = :run) = 1 THEN"
	"  (SELECT value FROM total WHERE run_id = :run AND name = 'peak_bytes') END AS peak_bytes"
	" FROM process WHERE run_id = :run ORDER BY number";

static const char threads_sql[] =
	"SELECT thread.id, process_id, tid, (SELECT name FROM thread_name WHERE thread_id ="
	" thread.id"
	"  ORDER BY time_ns DESC LIMIT 1) AS name, start_ns, end_ns, coalesce(n_blocks, 0) AS"
	" n_blocks, coalesce(n_samples + n_faults, 0) AS n_samples FROM thread LEFT JOIN"
	" thread_total ON thread_total.run_id = :run AND thread_id = thread.id WHERE thread.run_id"
	" = :run ORDER BY thread.id LIMIT 20000";
/* clang-format on */

/* What the page may offer. */
/* clang-format off */
static const char offers_sql[] =
	"SELECT EXISTS (SELECT 1 FROM access_total JOIN data_source USING (data_src) WHERE run_id ="
	" :run"
	"  AND level IS NOT NULL) AS has_levels, EXISTS (SELECT 1 FROM access_total WHERE run_id ="
	" :run AND n_latencies > 0) AS has_latency, EXISTS (SELECT 1 FROM"
	" main.sample_stack WHERE run_id = :run) AS has_stacks";
/* clang-format on */

static int write_run(struct view_question *question)
{
	json_set_open(&question->json, "run", '{');
	int r = view_members(question, run_sql);
	json_close(&question->json, '}');
	return r < 0 ? r : 0;
}

/* Pictures may lie in a file of their own. */
static int write_has_picture(struct view_question *question)
{
	const struct picture_band *bands;
	struct picture_store *store;
	size_t n;
	int r = view_context_pictures(question->context, &store);

	r = r ?: picture_bands(store, question->run, 0, &bands, &n);
	json_name(&question->json, "has_picture");
	json_integer(&question->json, r == 0);
	question->context->message[0] = '\0';
	return r == -ENOENT || r == -ENODATA ? 0 : r;
}

int view_run(struct view_question *question)
{
	static const struct {
		int (*write)(struct view_question *question, const char *name, const char *sql);
		const char *name;
		const char *sql;
	} parts[] = {
		{ view_pairs, "host", host_sql },
		{ view_pairs, "totals", totals_sql },
		{ view_columns, "sources", sources_sql },
		{ view_columns, "losses", losses_sql },
		{ view_columns, "processes", processes_sql },
		{ view_columns, "threads", threads_sql },
	};

	int r = view_take_part(question, 0);
	if (r < 0)
		return r;
	json_open(&question->json, '{');
	r = write_run(question);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && r == 0; i++)
		r = parts[i].write(question, parts[i].name, parts[i].sql);
	r = r ?: write_has_picture(question) ?: view_members(question, offers_sql);
	json_close(&question->json, '}');
	return r < 0 ? r : 0;
}

/* Live bytes, resident memory, rates, levels, regions and marks over time: request "timeline". */

#define INSIDE " run_id = :run AND time_ns >= coalesce(:from, 0) AND (:to IS NULL OR time_ns < :to)"

/* As many intervals joined as it takes to give no more than :width. */
/* clang-format off */
static const char live_sql[] =
	"WITH span AS (SELECT max(1, (count(*) + coalesce(:width, 1000) - 1) / coalesce(:width,"
	" 1000)) AS k"
	"  FROM timeline WHERE" INSIDE "),"
	" numbered AS (SELECT *, (row_number() OVER (ORDER BY time_ns) - 1) / (SELECT k"
	" FROM span) AS part"
	"  FROM timeline WHERE" INSIDE "),"
	" joined AS (SELECT part, min(time_ns) AS time_ns, max(time_ns) AS last_ns,"
	"  sum(interval_ns) AS interval_ns, max(max_live_bytes) AS max_live_bytes,"
	"  sum(n_allocations) AS n_allocations, sum(n_frees) AS n_frees,"
	" sum(n_samples) AS n_samples,"
	"  sum(n_faults) AS n_faults FROM numbered GROUP BY part)"
	" SELECT joined.time_ns, joined.interval_ns, timeline.live_bytes, joined.max_live_bytes,"
	"  joined.n_allocations, joined.n_frees, joined.n_samples, joined.n_faults FROM joined"
	"  JOIN timeline ON timeline.run_id = :run AND timeline.time_ns = last_ns ORDER BY part";
/* clang-format on */

/* Processes are looked at one after the other: between looks each keeps what it had. */
/* clang-format off */
static const char rss_sql[] = "WITH step AS (SELECT time_ns,"
	"  rss - lag(rss, 1, 0) OVER one AS rss, anonymous - lag(anonymous, 1, 0) OVER one AS"
	" anonymous"
	"  FROM process_sample WHERE run_id = :run WINDOW one AS (PARTITION BY process_id ORDER BY"
	" time_ns)), moved AS (SELECT * FROM step UNION ALL"
	"  SELECT end_ns, -rss, -anonymous FROM process JOIN process_sample AS last ON"
	" last.process_id = process.id"
	"   AND last.time_ns = (SELECT max(time_ns) FROM process_sample AS s WHERE s.process_id ="
	" process.id)"
	"  WHERE process.run_id = :run AND last.run_id = :run AND end_ns IS NOT NULL"
	"   AND end_ns < (SELECT max(time_ns) FROM process_sample WHERE run_id = :run)), summed AS"
	" (SELECT time_ns, sum(sum(rss)) OVER (ORDER BY time_ns) AS rss,"
	"  sum(sum(anonymous)) OVER (ORDER BY time_ns) AS anonymous FROM moved GROUP BY time_ns)"
	" SELECT time_ns, rss, anonymous FROM summed WHERE time_ns >= coalesce(:from, 0)"
	"  AND (:to IS NULL OR time_ns < :to) ORDER BY time_ns LIMIT 20000";
/* clang-format on */

static const char levels_sql[] =
	"SELECT time_ns, (SELECT interval_ns FROM timeline WHERE timeline.run_id = :run AND"
	"  timeline.time_ns = timeline_level.time_ns) AS interval_ns, level, n FROM timeline_level"
	" WHERE" INSIDE " ORDER BY time_ns, level LIMIT 20000";

static const char regions_sql[] =
	"SELECT region.name, thread_id AS thread, start_ns, end_ns,"
	" (SELECT depth FROM region_total WHERE run_id = :run AND id = region.path_id) AS depth"
	" FROM region WHERE region.run_id = :run AND (:to IS NULL OR start_ns < :to)"
	" AND coalesce(end_ns, :from, 0) >= coalesce(:from, 0)"
	" ORDER BY coalesce(end_ns, 9223372036854775807) - start_ns DESC LIMIT 2000";

static const char marks_sql[] = "SELECT name, thread_id AS thread, time_ns FROM mark WHERE" INSIDE
				" ORDER BY time_ns LIMIT 2000";

/* A table of an answer. */
struct part {
	const char *name;
	const char *sql;
};

static int write_parts(struct view_question *question, const struct part *parts, size_t n)
{
	int r = 0;

	json_open(&question->json, '{');
	for (size_t i = 0; i < n && r == 0; i++)
		r = view_columns(question, parts[i].name, parts[i].sql);
	json_close(&question->json, '}');
	return r;
}

int view_timeline(struct view_question *question)
{
	static const struct part parts[] = {
		{ "live", live_sql },	    { "rss", rss_sql },	    { "levels", levels_sql },
		{ "regions", regions_sql }, { "marks", marks_sql },
	};

	return write_parts(question, parts, sizeof(parts) / sizeof(parts[0]));
}

/*
 * Repetitions and modes: request "series"; the numbers of `memsight report --stat` and --overhead.
 */

int view_series(struct view_question *question)
{
	const struct part parts[] = {
		{ "values", report_series_values_sql },
		{ "statistics", report_series_statistics_sql },
		{ "overhead", report_series_overhead_sql },
	};

	return write_parts(question, parts, sizeof(parts) / sizeof(parts[0]));
}
