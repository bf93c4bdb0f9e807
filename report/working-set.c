/*
 * What --source pages saw: how much memory is in use over windows of time, and which call sites'
 * pages were left alone. Of each interval it is known how many pages of a mapping were touched, not
 * which: so what several of them touched together, and what of it is a call site's, has a least and
 * a most.
 */
#include "report/queries.h"

#include <errno.h>
#include <stdio.h>

/* clang-format off */
/* Rows of page_run, once for each interval that they hold for. */
#define EACH_INTERVAL \
	"WITH each AS (SELECT page_run.process_id AS process, address, size," \
	" page_run.touched AS touched, page_interval.begin_ns AS begin_ns," \
	" page_interval.end_ns AS end_ns FROM page_run JOIN page_interval ON" \
	" page_interval.run_id = page_run.run_id AND page_interval.process_id =" \
	" page_run.process_id AND page_interval.begin_ns >= page_run.begin_ns AND" \
	" page_interval.end_ns <= page_run.end_ns WHERE page_run.run_id = :run)"

/*
 * 0: each interval by itself; windows of which less than a half was seen say nothing. At least the
 * most of any interval was touched: mappings grow, merge and part, and what was touched in one may
 * be touched again in the next one's. At most what was touched in all, and a mapping's size.
 */
#define WINDOWS EACH_INTERVAL \
	", length(ns) AS (VALUES (0), (1000000000), (10000000000), (60000000000))," \
	" mapping AS (SELECT ns, CASE ns WHEN 0 THEN end_ns ELSE end_ns / ns END AS number," \
	"  process, min(sum(touched), max(size)) AS most FROM each, length" \
	"  GROUP BY ns, number, process, address)," \
	" seen AS (SELECT ns, CASE ns WHEN 0 THEN end_ns ELSE end_ns / ns END AS number," \
	"  process_id AS process, 1.0 * sum(end_ns - begin_ns) AS seen_ns, max(touched) AS least," \
	"  max(resident) AS resident FROM page_interval, length" \
	"  WHERE run_id = :run GROUP BY ns, number, process)," \
	" window AS (SELECT ns, number, process, least, sum(most) AS most, resident," \
	"  seen_ns FROM mapping JOIN seen USING (ns, number, process)" \
	"  WHERE ns = 0 OR seen_ns >= ns / 2 GROUP BY ns, number, process)"

/*
 * What is touched of a mapping lies on the nodes that its resident pages lie on: at least what does
 * not fit on the others, at most what is resident there. In the mean over all intervals.
 */
#define NODES \
	", lying AS (SELECT page_run.process_id AS process, n_intervals, touched, resident," \
	"  CAST(own.key AS INTEGER) AS node, own.value AS here, (SELECT sum(value) FROM" \
	"  json_each(node_bytes)) AS told FROM page_run, json_each(node_bytes) AS own WHERE" \
	"  run_id = :run)," \
	" node AS (SELECT process, node, bytes_text(sum(n_intervals * max(0, touched -" \
	"  (max(resident, told) - here))) / n) AS least, bytes_text(sum(n_intervals *" \
	"  min(touched, here)) / n) AS most FROM lying JOIN (SELECT process_id AS process," \
	"  count(*) AS n FROM page_interval WHERE run_id = :run GROUP BY 1) USING (process)" \
	"  GROUP BY process, node HAVING sum(min(touched, here)) > 0 ORDER BY node)"

static const char working_set_sql[] = WINDOWS NODES
	" SELECT CASE ns WHEN 0 THEN CAST(avg(seen_ns) AS INTEGER) ELSE ns END AS window,"
	" count(*) AS windows, CAST(avg(least) AS INTEGER) AS least, CAST(avg(most) AS INTEGER) AS"
	" most, max(least) AS highest_least, max(most) AS highest_most, max(resident) AS resident,"
	" CASE ns WHEN 0 THEN 1.0 ELSE min(1.0, avg(seen_ns) / ns) END AS seen, pid AS process,"
	" CASE ns WHEN 0 THEN (SELECT group_concat(node || ': ' || least || CASE WHEN least <> most"
	" THEN ' to ' || most ELSE '' END, ', ') FROM node WHERE node.process = window.process)"
	" END AS nodes"
	" FROM window JOIN process ON process.id = window.process"
	" GROUP BY window.process, ns ORDER BY max(resident) OVER (PARTITION BY window.process)"
	" DESC, pid, ns"
	" LIMIT :limit";

/* The share of the time seen whose windows of one length had touched at most so much memory. */
#define FIT(ns_, bytes) \
	"sum(CASE WHEN ns = " ns_ " AND " bytes " <= memory THEN seen_ns ELSE 0 END) /" \
	" sum(CASE ns WHEN " ns_ " THEN seen_ns END)"

static const char working_set_curve_sql[] = WINDOWS
	", tenth(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM tenth WHERE n < 10),"
	" given AS (SELECT process AS given_to, n, max(resident) AS whole, max(resident) * n / 10"
	"  AS memory FROM window, tenth GROUP BY process, n)"
	" SELECT memory, n / 10.0 AS share, " FIT("0", "most") " AS interval, "
	FIT("1000000000", "most") " AS \"1s\", " FIT("1000000000", "least") " AS \"1s_most\", "
	FIT("10000000000", "most") " AS \"10s\", " FIT("10000000000", "least") " AS \"10s_most\", "
	FIT("60000000000", "most") " AS \"60s\", " FIT("60000000000", "least") " AS \"60s_most\","
	" pid AS process FROM given JOIN window ON process = given_to JOIN process ON process.id ="
	" given_to GROUP BY given_to, n ORDER BY whole DESC, pid, n LIMIT :limit";

/* What it took, and what it has cost the program, of the time in which processes were looked at. */
static const char working_set_foot_sql[] =
	"SELECT printf('%,d intervals of %s; reading and clearing marks took %.2f %% of the time,"
	" setting them again cost the program some %.2f %%', sum(n), duration_text(sum(seen) /"
	" sum(n)), 100.0 * sum(own) / sum(whole), 100.0 * sum(of_program) / sum(whole)) FROM"
	" (SELECT count(*) AS n, sum(end_ns - begin_ns) AS seen, sum(own_ns) AS own,"
	" sum(program_ns) AS of_program, max(read_ns) - min(begin_ns) AS whole FROM page_interval"
	" WHERE run_id = :run GROUP BY process_id) HAVING sum(n) > 0";

const struct report report_working_set_curve = {
	.name = "working-set-curve",
	.title = "How much of the time so much memory would have held what was touched",
	.nothing = "No touched pages were recorded: record --source pages (if it was, see "
		   "--losses).",
	.note = "memory: a share of the most that was resident; interval, 1s, 10s, 60s:"
		" of the time that was seen, in windows of that length in which"
		" certainly no more than this memory was touched; most: in which that is"
		" possible (what several intervals touch may be the same pages or not);"
		" \"-\": the recording has no such window",
	.foot_sql = working_set_foot_sql,
	.sql = working_set_curve_sql,
	KINDS(TABLE_BYTES, TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT,
	      TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT, TABLE_PLAIN),
};

const struct report report_working_set = {
	.name = "working-set",
	.title = "Memory in use: pages that were touched within a window of time",
	.nothing = "No touched pages were recorded: record --source pages (if it was, see "
		   "--losses).",
	.note = "window: the first line of a process is its intervals; least, most: mean"
		" over the windows of the bytes that were touched, at least and at most"
		" (which pages of a mapping were touched is not known, so those of several"
		" intervals may be the same or not); highest: of all windows; seen: of the"
		" time, between intervals a touch may be missed; nodes: mean of what was"
		" touched on each NUMA node, on hosts with several",
	.foot_sql = working_set_foot_sql,
	.sql = working_set_sql,
	KINDS(TABLE_DURATION, TABLE_COUNT, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES,
	      TABLE_BYTES, TABLE_BYTES, TABLE_PERCENT, TABLE_PLAIN, TABLE_PLAIN),
};

/* Of the process with most resident memory, as the overview has it. */
const char report_touched_line_sql[] =
	"SELECT bytes_text(CAST(sum(1.0 * touched * (end_ns - begin_ns)) / sum(end_ns - begin_ns)"
	" AS INTEGER)) || ' within ' || duration_text(sum(end_ns - begin_ns) / count(*)) ||"
	" ' on average, ' ||"
	" bytes_text(max(touched)) || ' at most, of ' || bytes_text(max(resident)) || ' resident'"
	" || CASE (SELECT count(DISTINCT process_id) FROM page_interval WHERE run_id = :run) WHEN"
	" 1 THEN '' ELSE ' in process ' || (SELECT pid FROM process WHERE process.id = process_id)"
	" END || '   (--working-set, --untouched)' FROM page_interval WHERE run_id = :run GROUP BY"
	" process_id HAVING sum(end_ns - begin_ns) > 0 ORDER BY max(resident) DESC LIMIT 1";

/*
 * Of n intervals that fill several such times, some n / times of them one behind the other fill one
 * of these times: no more than these touch each were touched in it.
 */
#define UNTOUCHED(ns) \
	"max(CASE WHEN span >= " ns " THEN max(0, resident - most * ((n + span / " ns " - 1) /" \
	" (span / " ns "))) END)"

/*
 * Rows of a call site: those in which nothing was touched are one, as long as none of its blocks
 * ended.
 */
#define STRETCHES \
	"WITH edge AS (SELECT process_id, kind, stack_id, begin_ns, end_ns, n_intervals, size," \
	"  resident, most, most > 0 OR has_ended OR lag(most, 1, 1) OVER site > 0 OR " \
	REPORT_TOUCH_IS_NEW " AS is_new FROM page_touch" \
	"  WHERE run_id = :run WINDOW site AS (PARTITION BY process_id, kind, stack_id ORDER BY" \
	"  begin_ns))," \
	" part AS (SELECT *, sum(is_new) OVER (PARTITION BY process_id, kind, stack_id ORDER BY" \
	"  begin_ns ROWS UNBOUNDED PRECEDING) AS number FROM edge)," \
	" stretch AS (SELECT process_id, kind, stack_id, max(end_ns) - min(begin_ns) AS span," \
	"  sum(n_intervals) AS n, min(resident) AS resident, max(size) AS size, max(most) AS most" \
	"  FROM part GROUP BY process_id, kind, stack_id, number)"

static const char untouched_sql[] = STRETCHES
	/* Large blocks are told apart: the last of them that was touched, or can have been. */
	", block AS (SELECT page_block.process_id AS process_id, page_block.kind AS kind,"
	" coalesce(allocation.stack_id, mapping.stack_id, 0) AS stack_id, min(first_to_ns) AS"
	" first, max(CASE WHEN last_from_ns IS NOT NULL THEN min(last_to_ns,"
	" coalesce(allocation.freed_ns, mapping.freed_ns, last_to_ns)) END) AS last FROM page_block"
	" LEFT JOIN allocation ON page_block.kind = 'heap' AND allocation.id = owner_id LEFT JOIN"
	" mapping ON page_block.kind = 'mapping' AND mapping.id = owner_id WHERE"
	" page_block.run_id = :run GROUP BY 1, 2, 3)"
	" SELECT " UNTOUCHED("1000000000") " AS for_1s, " UNTOUCHED("10000000000") " AS for_10s, "
	UNTOUCHED("60000000000") " AS for_60s, max(CASE most WHEN 0 THEN span END) AS longest,"
	" max(size) AS size, first AS \"first touch\", last AS \"last touch\", pid AS process,"
	" stretch.kind AS kind, site_name(stack_id, 4) AS what FROM stretch JOIN process ON"
	" process.id = process_id LEFT JOIN block USING (process_id, kind, stack_id)"
	" GROUP BY process_id, stretch.kind, stack_id HAVING for_1s > 0"
	" ORDER BY for_60s DESC, for_10s DESC, for_1s DESC, pid, what LIMIT :limit";

const struct report report_untouched = {
	.name = "untouched",
	.has_lines = true,
	.title = "Call sites with pages that nobody touched for a time",
	.nothing =
		"None is proven. It takes record --source pages, and intervals as long as"
		" the time that is asked for: --pages 1s.",
	.note = "for 1s, 10s, 60s: bytes of the site's resident pages that were certainly"
		" not read or written for so long, at least; longest: time in which none"
		" of them was; size: of all its pages, at most; first, last touch: of its"
		" blocks of 64 KiB and more, the end of the interval in which it was;"
		" times between intervals left out (--working-set)",
	.foot_sql = working_set_foot_sql,
	.sql = untouched_sql,
	KINDS(TABLE_BYTES, TABLE_BYTES, TABLE_BYTES, TABLE_DURATION, TABLE_BYTES,
	      TABLE_TIME, TABLE_TIME, TABLE_PLAIN, TABLE_PLAIN),
};

/*
 * Means are over intervals of writes, weighed by their time. What is known of large blocks is known
 * page by page: written at all, and not touched since the last write.
 */
static const char written_sql[] =
	"WITH block AS (SELECT page_block.process_id AS process_id, page_block.kind AS kind,"
	" coalesce(allocation.stack_id, mapping.stack_id, 0) AS stack_id, sum(write_known) AS"
	" known, sum(written) AS written, sum(CASE WHEN last_to_ns <= last_write_ns AND"
	" last_write_ns < coalesce(allocation.freed_ns, mapping.freed_ns, (SELECT max(end_ns) FROM"
	" write_interval WHERE write_interval.process_id = page_block.process_id)) THEN written"
	" END) AS unread FROM page_block LEFT JOIN allocation ON page_block.kind = 'heap' AND"
	" allocation.id = owner_id LEFT JOIN mapping ON page_block.kind = 'mapping' AND mapping.id"
	" = owner_id WHERE page_block.run_id = :run AND write_known > 0 GROUP BY 1, 2, 3),"
	" site AS (SELECT process_id, kind, stack_id, sum(n_intervals) AS n, max(size) AS size,"
	"  max(known) AS known, 1.0 * sum(least * (end_ns - begin_ns)) / sum(end_ns - begin_ns) AS"
	"  least, 1.0 * sum(most * (end_ns - begin_ns)) / sum(end_ns - begin_ns) AS most,"
	"  max(most) AS highest FROM site_write WHERE run_id = :run GROUP BY 1, 2, 3)"
	" SELECT CAST(most AS INTEGER) AS written, CAST(least AS INTEGER) AS certain, highest,"
	" site.known AS known, size, block.known - block.written AS \"never written\","
	" coalesce(unread, CASE WHEN block.known > 0 THEN 0 END) AS unread, n AS intervals,"
	" pid AS process, kind, site_name(stack_id, 4) AS what FROM site JOIN process ON"
	" process.id = process_id LEFT JOIN block USING (process_id, kind, stack_id) WHERE"
	" site.known > 0 ORDER BY most DESC, site.known DESC, pid, what LIMIT :limit";

static const char written_foot_sql[] =
	"SELECT printf('%,d intervals of %s; of %s on average it is known, written or not; asking"
	" took %.2f %% of the time, first writes cost the program some %.2f %%', count(*),"
	" duration_text(sum(end_ns - begin_ns) / count(*)), bytes_text(CAST(1.0 * sum(known *"
	" (end_ns - begin_ns)) / sum(end_ns - begin_ns) AS INTEGER)), 100.0 * sum(own_ns) /"
	" sum(end_ns - begin_ns), 100.0 * sum(program_ns) / sum(end_ns - begin_ns)) FROM"
	" write_interval WHERE run_id = :run HAVING sum(end_ns - begin_ns) > 0";

const struct report report_written = {
	.name = "written",
	.has_lines = true,
	.title = "Call sites by the pages that were written",
	.nothing = "No written pages are known: record --source pages (Linux 6.7), and see"
		   " --losses.",
	.note = "written: mean over the intervals of the bytes of its pages that were"
		" written (a page may have parts of several sites); certain: of them, in"
		" pages that one of its blocks has as a whole; highest: of all intervals;"
		" known: of so much it is known, at most; of its blocks of 64 KiB and"
		" more: never written: in no interval (before the first one they were"
		" filled); unread: written, and its block not touched in any later"
		" interval than that of its last write, of which there are some",
	.foot_sql = written_foot_sql,
	.sql = written_sql,
	KINDS(TABLE_BYTES, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES,
	      TABLE_BYTES, TABLE_COUNT, TABLE_PLAIN, TABLE_PLAIN),
};

/*
 * Samples speak for blocks that were there all the time: what was not freed is as much as there
 * ever was, and has been since before that.
 */
static const char cold_for_sql[] = STRETCHES
	", heap AS (SELECT sum(n_samples + n_imputed) AS n, sum(byte_seconds) AS held FROM site"
	"  WHERE run_id = :run),"
	" quiet AS (SELECT stack_id, live_bytes, duration_ns - max(coalesce(last_touch_ns,"
	"  first_ns), peak_ns) AS ns FROM site JOIN run ON run.id = :run WHERE run_id = :run AND"
	"  live_bytes > 0 AND live_bytes = peak_bytes AND n_imputed = 0 AND NOT EXISTS (SELECT 1"
	"  FROM page_interval WHERE run_id = :run)),"
	" row AS (SELECT max(CASE WHEN span >= ns THEN max(0, resident - most * ((n + span / ns -"
	"  1) / (span / ns))) END) AS bytes, 'proven' AS proof, max(CASE most WHEN 0 THEN span"
	"  END) AS longest, NULL AS expected, stack_id FROM stretch, temp.cold_for GROUP BY"
	"  process_id, stretch.kind, stack_id UNION ALL SELECT live_bytes, 'probable', quiet.ns,"
	"  round(heap.n / heap.held * live_bytes * quiet.ns / 1e9, 1), stack_id FROM quiet,"
	"  heap, temp.cold_for WHERE quiet.ns >= cold_for.ns)"
	" SELECT bytes, proof, longest, expected AS \"samples expected\", stack_text(stack_id, 5)"
	" AS what FROM row WHERE bytes > 0 AND (proof = 'proven' OR expected > 4.605) ORDER BY"
	" bytes DESC, what LIMIT :limit";
/* clang-format on */

static int prepare_cold_for(sqlite3 *db, const struct report_request *request)
{
	char sql[160];

	snprintf(sql, sizeof(sql),
		 "DROP TABLE IF EXISTS temp.cold_for; CREATE TEMP TABLE cold_for AS SELECT %lld"
		 " AS ns",
		 (long long)request->cold_ns);
	return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : -EPROTO;
}

const struct report report_cold_for = {
	.needs_all_blocks = true,
	.name = "cold",
	.has_lines = true,
	.title = "Memory that nobody touched for so long, by call stack",
	.nothing = "None that pages or samples can speak for; a shorter time may have some.",
	.note = "bytes: proven: of resident pages, certainly not read or written for so long at"
		" some time, but for the time between intervals (--working-set); probable, in runs"
		" without --source pages: not freed, and not seen touched from then to the end of"
		" the run, in which as many samples were expected at the heap's average rate;"
		" longest: time in which none of it was touched",
	.prepare = prepare_cold_for,
	.sql = cold_for_sql,
	KINDS(TABLE_BYTES, TABLE_PLAIN, TABLE_DURATION, TABLE_PLAIN, TABLE_PLAIN),
};
