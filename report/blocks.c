#include "report/queries.h"

/* Sizes, then lifetimes; from and below are bytes, or ns. */
#define BUCKETS                                                                                    \
	"WITH bucket AS ("                                                                         \
	"  SELECT 'size' AS of, size_log2 AS log2, sum(n_blocks) AS blocks, sum(bytes) AS bytes"   \
	"  FROM histogram WHERE run_id = :run GROUP BY size_log2"                                  \
	"  UNION ALL SELECT 'life', CASE life_log2 WHEN -2 THEN 64 ELSE life_log2 END,"            \
	"  sum(n_blocks), sum(bytes) FROM histogram WHERE run_id = :run GROUP BY life_log2),"      \
	" shown AS (SELECT of, log2, blocks, bytes,"                                               \
	"  CASE log2 WHEN -1 THEN 0 WHEN 64 THEN NULL ELSE 1 << log2 END AS low,"                  \
	"  CASE log2 WHEN -1 THEN 1 WHEN 64 THEN NULL ELSE 2 << log2 END AS high,"                 \
	"  1.0 * blocks / (SELECT sum(n_blocks) FROM histogram WHERE run_id = :run) AS share,"     \
	"  1.0 * bytes / (SELECT nullif(sum(bytes), 0) FROM histogram WHERE run_id = :run)"        \
	"   AS byte_share FROM bucket)"

const char report_histogram_sql[] =
	BUCKETS " SELECT of, low AS \"from\", high AS below, blocks, share, bytes, byte_share"
		" FROM shown ORDER BY of = 'life', log2";

const char report_histogram_text_sql[] =
	BUCKETS " SELECT CASE of WHEN 'size' THEN 'size from ' || bytes_text(low)"
		"  ELSE CASE log2 WHEN 64 THEN 'not freed' WHEN -1 THEN 'life of 0 ns'"
		"  ELSE 'life from ' || duration_text(low) END END AS bucket,"
		" blocks, share AS \"of blocks\", bytes, byte_share AS \"of bytes\","
		" share AS \"blocks \""
		" FROM shown ORDER BY of = 'life', log2";

#define OF_TRACED(n) "CASE WHEN traced THEN " REPORT_SQL_BLOCKS(n) " END"

const char report_threads_sql[] =
	"WITH" WHOLE
	" SELECT tid, process.pid AS process, CASE WHEN is_main THEN 'yes' ELSE 'no' END AS main," SHARE_OF("time_ns", "time", "low", "high") " " REPORT_SQL_FAULTS("n_faults") " AS faults, " OF_TRACED(
		"n_blocks") " AS blocks,"
			    " " OF_TRACED("bytes") " AS bytes, " OF_TRACED(
				    "n_frees") " AS frees,"
					       " " OF_TRACED(
						       "n_foreign") " AS \"freed by others\","
								    " " OF_TRACED("live_bytes") " AS \"not freed\", " OF_TRACED(
									    "n_temporary") " AS temporary,"
											   " thread.start_ns AS start, thread.end_ns AS end,"
											   " (SELECT name FROM thread_name WHERE thread_id = thread.id"
											   "  ORDER BY time_ns DESC LIMIT 1) AS name"
											   " FROM whole, thread JOIN process ON process.id = process_id"
											   " LEFT JOIN thread_total ON thread_total.thread_id = thread.id"
											   "  AND thread_total.run_id = thread.run_id"
											   " WHERE thread.run_id = :run ORDER BY time_ns DESC, bytes DESC, thread.id LIMIT :limit";

/* The memory of all processes: the sum of what each had at most within the interval. */
#define RESIDENT(low, high)                                                                        \
	"(SELECT sum(most) FROM (SELECT max(rss) AS most FROM process_sample WHERE run_id = :run"  \
	" AND time_ns >= " low " AND time_ns < " high " GROUP BY process_id))"

const char report_timeline_sql[] = "SELECT time_ns AS time, interval_ns AS interval, " REPORT_SQL_BLOCKS(
	"live_bytes") " AS live_bytes,"
		      " " REPORT_SQL_BLOCKS(
			      "max_live_bytes") " AS max_live_bytes,"
						" " RESIDENT(
							"timeline.time_ns",
							"timeline.time_ns + interval_ns") " AS rss,"
											  " " REPORT_SQL_BLOCKS("n_allocations") " AS allocations, " REPORT_SQL_BLOCKS("n_frees") " AS frees, " REPORT_SQL_SAMPLES(
												  "n_samples") " AS samples, " REPORT_SQL_FAULTS("n_faults") " AS faults"
																			     " FROM timeline WHERE run_id = :run ORDER BY time_ns LIMIT :limit";

/* As many lines as --limit, each of several intervals. */
const char report_timeline_text_sql[] =
	"WITH line AS (SELECT CASE WHEN :limit > 0 THEN 1 + (count(*) - 1) / :limit ELSE 1 END AS n,"
	"  max(max_live_bytes) AS peak FROM timeline WHERE run_id = :run),"
	" joined AS (SELECT min(time_ns) AS start, max(time_ns + interval_ns) AS stop,"
	"  max(max_live_bytes) AS most, sum(n_allocations + n_frees) AS events,"
	"  sum(n_samples) AS samples, sum(n_faults) AS faults, peak"
	"  FROM timeline, line WHERE run_id = :run AND EXISTS (SELECT 1 FROM timeline"
	"   WHERE run_id = :run AND n_allocations + n_samples + n_faults > 0) GROUP BY time_ns / interval_ns / line.n)"
	" SELECT start AS \"from\", " REPORT_SQL_BLOCKS("most") " AS live, " RESIDENT(
		"start",
		"stop") " AS rss,"
			" " REPORT_SQL_BLOCKS(
				"CAST(1e9 * events / (stop - start) AS INTEGER)") " AS \"events/s\","
										  " " REPORT_SQL_SAMPLES("samples") " AS samples, " REPORT_SQL_FAULTS(
											  "faults") " AS faults, 1.0 * most / peak AS \"live bytes, at most\""
												    " FROM joined ORDER BY start";
