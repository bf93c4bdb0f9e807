/* The runs of a database, and what one of them is: requests "runs" and "run". */
#include "view/answers/internal.h"

#include <errno.h>
#include <stddef.h>

#include "store/heatmap/heatmap.h"

/* clang-format off */
static const char runs_sql[] =
	"SELECT id, program, mode, repetition, command, start_unix_ns, duration_ns, exit_status,"
	" ended_cleanly, detail,"
	" coalesce((SELECT value FROM total WHERE run_id = run.id AND name = 'allocations'),"
	" 0) AS n_blocks,"
	" (SELECT coalesce(sum(n_samples), 0) FROM source WHERE run_id = run.id) AS n_samples,"
	" (SELECT coalesce(sum(count), 0) FROM loss WHERE run_id = run.id) AS n_lost"
	" FROM run ORDER BY id";
/* clang-format on */

int view_runs(struct view_question *question)
{
	return view_columns(question, NULL, runs_sql);
}

static const char run_sql[] = "SELECT * FROM run WHERE id = :run";

static const char host_sql[] = "SELECT key, value FROM fact WHERE run_id = :run AND at_end ="
			       " (SELECT min(at_end) FROM fact AS f WHERE f.run_id = :run AND"
			       " f.key = fact.key) ORDER BY key";

static const char totals_sql[] = "SELECT name, value FROM total WHERE run_id = :run ORDER BY name";

/* clang-format off */
static const char sources_sql[] =
	"SELECT id, name, measures, unit, period, n_samples, error, remedy, note, passed_over"
	" FROM source"
	" WHERE run_id = :run ORDER BY number";
/* clang-format on */

static const char losses_sql[] =
	"SELECT source, reason, count, process_id AS process, from_ns, to_ns FROM loss"
	" WHERE run_id = :run ORDER BY count DESC, source, reason";

/* The peak of a process is not an aggregate: of the only one that was traced it is the run's. */
/* clang-format off */
static const char processes_sql[] =
	"SELECT id, pid, exe, command, traced, why_not, start_ns, end_ns,"
	" (SELECT coalesce(sum(n_blocks), 0) FROM thread_total JOIN thread ON thread.id = thread_id"
	"  WHERE process_id = process.id) AS n_blocks,"
	" (SELECT coalesce(sum(n_samples + n_faults), 0) FROM thread_total JOIN thread"
	" ON thread.id = thread_id"
	"  WHERE process_id = process.id) AS n_samples,"
	" CASE WHEN traced AND (SELECT sum(traced) FROM process WHERE run_id = :run) = 1 THEN"
	"  (SELECT value FROM total WHERE run_id = :run AND name = 'peak_bytes') END AS peak_bytes"
	" FROM process WHERE run_id = :run ORDER BY number";

static const char threads_sql[] =
	"SELECT thread.id, process_id, tid, (SELECT name FROM thread_name"
	" WHERE thread_id = thread.id"
	"  ORDER BY time_ns DESC LIMIT 1) AS name, start_ns, end_ns,"
	" coalesce(n_blocks, 0) AS n_blocks, coalesce(n_samples + n_faults, 0) AS n_samples"
	" FROM thread"
	" LEFT JOIN thread_total ON thread_total.run_id = :run AND thread_id = thread.id"
	" WHERE thread.run_id = :run ORDER BY thread.id LIMIT 20000";
/* clang-format on */

/* What the page may offer. */
/* clang-format off */
static const char offers_sql[] =
	"SELECT EXISTS (SELECT 1 FROM access_total JOIN data_source USING (data_src)"
	" WHERE run_id = :run"
	"  AND level IS NOT NULL) AS has_levels,"
	" EXISTS (SELECT 1 FROM access_total WHERE run_id = :run"
	" AND n_latencies > 0) AS has_latency,"
	" EXISTS (SELECT 1 FROM (SELECT stack_id FROM sample WHERE run_id = :run LIMIT 10000)"
	"  WHERE stack_id IS NOT NULL) AS has_stacks";
/* clang-format on */

static int write_run(struct view_question *question)
{
	json_name(&question->json, "run");
	json_open(&question->json, '{');
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

	if (r == 0)
		r = picture_bands(store, question->run, 0, &bands, &n);
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

	json_open(&question->json, '{');
	int r = write_run(question);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && r == 0; i++)
		r = parts[i].write(question, parts[i].name, parts[i].sql);
	if (r == 0)
		r = write_has_picture(question);
	if (r == 0)
		r = view_members(question, offers_sql);
	json_close(&question->json, '}');
	return r < 0 ? r : 0;
}
