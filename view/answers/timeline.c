/* Live bytes, resident memory, rates, levels, regions and marks over time: request "timeline". */
#include "view/answers/internal.h"

#include <stddef.h>

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
	"  rss - lag(rss, 1, 0) OVER one AS rss, anonymous - lag(anonymous, 1,"
	" 0) OVER one AS anonymous"
	"  FROM process_sample WHERE run_id = :run WINDOW one AS (PARTITION BY process_id"
	" ORDER BY time_ns)),"
	" moved AS (SELECT * FROM step UNION ALL"
	"  SELECT end_ns, -rss, -anonymous FROM process JOIN process_sample AS last"
	" ON last.process_id = process.id"
	"   AND last.time_ns = (SELECT max(time_ns) FROM process_sample AS s"
	" WHERE s.process_id = process.id)"
	"  WHERE process.run_id = :run AND last.run_id = :run AND end_ns IS NOT NULL"
	"   AND end_ns < (SELECT max(time_ns) FROM process_sample WHERE run_id = :run)),"
	" summed AS (SELECT time_ns, sum(sum(rss)) OVER (ORDER BY time_ns) AS rss,"
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

int view_timeline(struct view_question *question)
{
	static const struct {
		const char *name;
		const char *sql;
	} parts[] = {
		{ "live", live_sql },	    { "rss", rss_sql },	    { "levels", levels_sql },
		{ "regions", regions_sql }, { "marks", marks_sql },
	};
	int r = 0;

	json_open(&question->json, '{');
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && r == 0; i++)
		r = view_columns(question, parts[i].name, parts[i].sql);
	json_close(&question->json, '}');
	return r;
}
