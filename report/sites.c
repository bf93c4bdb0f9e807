/*
 * The reports of call stacks that allocated: all, those that kept their blocks, and those nobody
 * accessed.
 */
#include "report/queries.h"

#include <errno.h>

#include "report/known-leaks.h"
#include "store/query-value.h"

#define PICKED_NOTE "\u00b195 % or two numbers: the interval of the estimate"

/* clang-format off */
static const char sites_sql[] = "SELECT share AS time, share_low AS low, share_high AS high,"
	" peak_bytes AS peak, n_blocks AS blocks, bytes AS \"in all\", live_bytes AS \"not freed\","
	" n_temporary AS temporary, " REPORT_SQL_FAULTS("n_faults")
	" AS faults, site_name(stack_id, 4) AS \"allocated at\" FROM site WHERE run_id = :run"
	" ORDER BY n_samples + n_imputed DESC, peak_bytes DESC, stack_id LIMIT :limit";
/* clang-format on */

/*
 * Of what nothing was picked there may be this much: the interval of block_weight_interval() for 0,
 * with the variance of a byte that the site has otherwise.
 */
#define LEAST			     "estimate_least(variance, n_variance, n_blocks)"
#define NONE_PICKED(variance, bytes) "CAST(3.8415 * " variance " / " bytes " AS INTEGER)"

/* clang-format off */
static const char picked_sites_sql[] = "SELECT bytes AS \"in all\", "
	REPORT_ESTIMATE("bytes", "variance", LEAST, "in all") ", n_blocks AS blocks, "
	REPORT_ESTIMATE("n_blocks", "n_variance",
	"estimate_least(n_variance, n_variance, n_blocks)", "blocks") ","
	" live_bytes AS \"not freed\", "
	"estimate_low(live_bytes, live_variance, " LEAST ") AS \"not freed, low\","
	" CASE WHEN live_bytes = 0 AND"
	" bytes > 0 THEN " NONE_PICKED("variance", "bytes") " ELSE estimate_high(live_bytes,"
	" live_variance, " LEAST ") END AS \"not freed, high\", n_picked AS picked,"
	" site_name(stack_id, 4) AS \"allocated at\" FROM site WHERE run_id = :run"
	" ORDER BY bytes DESC, stack_id LIMIT :limit";

#define LEFT_OF_PICKED "sum(" REPORT_LEFT_BYTES ")"
static const char picked_leaks_sql[] =
	"SELECT " LEFT_OF_PICKED " AS bytes, "
	REPORT_ESTIMATE(LEFT_OF_PICKED, "sum(live_variance)", "max(" LEAST ")", "bytes")
	", sum(" REPORT_LEFT_BLOCKS ") AS blocks, sum(n_blocks) AS \"of blocks\", min(first_ns) AS"
	" \"first at\", coalesce('kept by libraries (' || what || '): ', '') ||"
	" site_name(stack_id, 6) AS \"allocated at\" FROM site LEFT JOIN temp.kept USING (stack_id)"
	" WHERE run_id = :run AND " REPORT_LEFT_BLOCKS " > 0 AND stack_id NOT IN (SELECT stack_id"
	" FROM temp.suppressed) GROUP BY 7 ORDER BY 1 DESC, 4 DESC, 7 LIMIT :limit";

static const char picked_peak_sql[] =
	"WITH shown AS (SELECT bytes AS held, variance, n_blocks AS n, stack_id FROM site_peak"
	" WHERE run_id = :run ORDER BY 1 DESC, 3 DESC, stack_id LIMIT :limit)"
	" SELECT held AS bytes, " REPORT_ESTIMATE("held", "variance", "0", "bytes")
	", 1.0 * held / nullif((SELECT sum(bytes) FROM site_peak WHERE run_id = :run), 0) AS share,"
	" n AS blocks, site_name(stack_id, 5) AS \"allocated at\" FROM shown"
	" ORDER BY 1 DESC, 5 DESC, stack_id";
/* clang-format on */

static const struct report picked_peak = {
	.name = "peak",
	.has_lines = true,
	.counts_blocks = true,
	.scope = REPORT_OF_SUM,
	.title = "Who was live when the estimate of the run's live bytes was highest: estimates",
	.needs = REPORT_NEEDS_BLOCKS,
	.note = PICKED_NOTE "; bytes and blocks: live at that moment",
	.sql = picked_peak_sql,
	.n_sql = "SELECT count(*) FROM site_peak WHERE run_id = :run",
	KINDS(TABLE_BYTES_ESTIMATE, TABLE_BYTES, TABLE_BYTES, TABLE_PERCENT, TABLE_COUNT),
};

static const char sites_n_sql[] = "SELECT count(*) FROM site WHERE run_id = :run";

static const struct report picked_sites = {
	.name = "sites",
	.has_lines = true,
	.counts_blocks = true,
	.scope = REPORT_OF_SUM,
	.title = "Call stacks that allocated, most bytes first: estimates",
	.needs = REPORT_NEEDS_BLOCKS,
	.note = PICKED_NOTE "; picked: the blocks that it is made from",
	.sql = picked_sites_sql,
	.n_sql = sites_n_sql,
	KINDS(TABLE_BYTES_ESTIMATE, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT_ESTIMATE, TABLE_COUNT,
	      TABLE_COUNT, TABLE_BYTES_ESTIMATE, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT),
};

const struct report report_sites = {
	.name = "sites",
	.picked = &picked_sites,
	.is_sampled = true,
	.has_lines = true,
	.scope = REPORT_OF_SUM,
	.title = "Call stacks that allocated, hottest first",
	.needs = REPORT_NEEDS_BLOCKS,
	.note = "time: share of the samples of user CPU time at accesses to the site's"
		" blocks; " INTERVAL_NOTE "; faults: page faults; temporary: freed by the same "
		"thread's next event",
	.sql = sites_sql,
	.n_sql = sites_n_sql,
	KINDS(TABLE_SHARE, TABLE_PERCENT, TABLE_PERCENT, TABLE_BYTES, TABLE_COUNT, TABLE_BYTES,
	      TABLE_BYTES, TABLE_COUNT, TABLE_COUNT),
};

/* clang-format off */
static const char leaks_sql[] =
	"SELECT sum(" REPORT_LEFT_BYTES ") AS bytes, sum(" REPORT_LEFT_BLOCKS
	") AS blocks, sum(n_blocks) AS \"of"
	" blocks\", min(first_ns) AS \"first at\", coalesce('kept by libraries (' || what || '): ',"
	" '') || site_name(stack_id, 6) AS \"allocated at\" FROM site LEFT JOIN temp.kept USING"
	" (stack_id) WHERE run_id = :run AND " REPORT_LEFT_BLOCKS
	" > 0 AND stack_id NOT IN (SELECT stack_id"
	" FROM temp.suppressed) AND stack_id NOT IN (" BEFORE_ATTACH ") GROUP BY 5 ORDER BY 1 DESC,"
	" 2 DESC, 5 LIMIT :limit";

#define IN_ALL \
	"bytes_text(sum(bytes)) || printf(' in %,d block%s', sum(n), CASE sum(n) WHEN 1" \
	" THEN '' ELSE 's' END)"

static const char leaks_foot_sql[] = "SELECT 'kept by libraries until the end, by design: ' || "
	IN_ALL " || ' (' || group_concat(what || ' ' || bytes_text(bytes), ',"
	" ') || '): --full lists them' FROM (SELECT what,"
	" sum(" REPORT_LEFT_BYTES ") AS bytes, sum(" REPORT_LEFT_BLOCKS
	") AS n FROM site JOIN temp.kept USING (stack_id)"
	"  JOIN temp.suppressed USING (stack_id) WHERE run_id = :run AND rule = '' GROUP BY what"
	" ORDER BY 2 DESC, 1) HAVING sum(n) > 0"
	" UNION ALL SELECT 'left out by --suppressions: ' || " IN_ALL
	" FROM (SELECT " REPORT_LEFT_BYTES " AS bytes, " REPORT_LEFT_BLOCKS " AS n FROM site"
	" JOIN temp.suppressed USING (stack_id)"
	"  WHERE run_id = :run AND rule <> '') HAVING sum(n) > 0"
	" UNION ALL SELECT 'given back by exec, no leak: ' || " IN_ALL
	" FROM (SELECT exec_bytes AS bytes, exec_blocks AS n FROM site WHERE run_id = :run)"
	" HAVING sum(n) > 0"
	" UNION ALL SELECT 'there before the attach, no leak: ' || " IN_ALL
	" || printf('; %,d more ended since', sum(n_frees)) FROM (SELECT live_bytes AS bytes,"
	" live_blocks AS n, n_frees, n_blocks FROM site WHERE run_id = :run AND stack_id IN ("
	BEFORE_ATTACH "))"
	" HAVING sum(n_blocks) > 0";

static const char leaks_hints_sql[] =
	"SELECT printf('the program was killed by signal %d: these blocks were alive when killed,"
	" and whether it would have freed them is not known', exit_status & 127) FROM run WHERE id"
	" = :run AND ended_cleanly AND exit_status & 127 UNION ALL SELECT 'the program was recorded"
	" by attach: whether it would have freed these blocks is not known' FROM fact WHERE run_id"
	" = :run AND key = 'memsight.attach.blocks'";
/* clang-format on */

/*
 * With H samples in heap blocks in all, a site that held a share b of the heap's byte-seconds would
 * see H x b of them at the average rate, and none with probability exp(-H x b): below 1 % from
 * H x b = 4.605 on. Samples that may be of its blocks, as far as anybody knows, may be all that it
 * would see: so many more are expected, and they must be less than a twentieth of what it would
 * see: memory that may well be used is not called unused. Only there "no access seen" says
 * something about the program.
 */
#define HEAP                                                                                       \
	"WITH heap AS (SELECT sum(n_samples + n_imputed) AS n, sum(byte_seconds) AS held"          \
	" FROM site WHERE run_id = :run)"
#define MAY_BE_ITS                                                                                 \
	"coalesce(" CLOCK_SAMPLES " * max(0, share_high - half_width(0, 0, " CLOCK_SAMPLES ")), 0)"
/* Pages say it without samples: those of its blocks were not even there, whenever it was looked. */
#define UNTOUCHED                                                                                  \
	"(SELECT stack_id FROM (" REPORT_LOOKS_AT_SITES ") GROUP BY stack_id HAVING"               \
	" max(1.0 * used / bytes) <= " REPORT_MOST_USED ")"
#define UNUSED                                                                                     \
	" FROM site, heap WHERE run_id = :run AND n_samples = 0 AND n_imputed = 0"                 \
	" AND first_touch_ns IS NULL AND (heap.n * byte_seconds > heap.held * max(4.605"           \
	" + " MAY_BE_ITS ", 20 * " MAY_BE_ITS ") OR stack_id IN " UNTOUCHED ")"

static const char unused_sql[] =
	HEAP " SELECT peak_bytes AS peak, n_blocks AS blocks, live_bytes AS \"not freed\","
	     " coalesce((SELECT sum(untouched) FROM page_part WHERE kind = 'heap' AND"
	     " page_part.stack_id = site.stack_id AND snapshot_id IN " REPORT_SHOWN_LOOKS "),"
	     " (SELECT bytes - used FROM (" REPORT_LOOKS_AT_SITES ") WHERE stack_id ="
	     " site.stack_id ORDER BY time_ns DESC LIMIT 1)) AS \"never touched\","
	     " round(heap.n * byte_seconds / heap.held, 1) AS \"samples expected\","
	     " share_low AS low, share_high AS high, " REPORT_PROOF(
		     "site.stack_id") " AS proof,"
				      " site_name(stack_id, 5) AS \"allocated at\"" UNUSED
				      " ORDER BY peak_bytes DESC, stack_id LIMIT :limit";

const struct report report_unused = {
	.name = "unused",
	.needs_all_blocks = true,
	.is_sampled = true,
	.has_lines = true,
	.title = "Call stacks whose blocks nobody was seen to access",
	.nothing = "None that pages or samples can speak for.",
	.needs = REPORT_NEEDS_CLOCK,
	.note = "listed only where a block accessed at the heap's average rate would have"
		" been missed with less than 1 % probability, and where the samples that"
		" could be anybody's would be less than a twentieth of that, or where the"
		" kernel never gave it pages, but for a twentieth; never touched:"
		" of its bytes that lived when most was resident, or else at its last"
		" look, exact but for what was given back to the kernel; low, high: the"
		" 95 % interval of its share of CPU time, with those; proof: with"
		" --source pages, from when to when no page was touched, but for the time"
		" between intervals (--working-set); without one it is probable",
	.sql = unused_sql,
	.n_sql = HEAP " SELECT count(*)" UNUSED,
	KINDS(TABLE_BYTES, TABLE_COUNT, TABLE_BYTES, TABLE_BYTES, TABLE_PLAIN, TABLE_PERCENT,
	      TABLE_PERCENT, TABLE_PLAIN),
};

static const char peak_sql[] =
	/* names take longer than all else: those that are shown */
	"WITH shown AS (SELECT site_peak.bytes AS held, site_peak.n_blocks AS n, peak_bytes,"
	" peak_ns, stack_id FROM site_peak JOIN site USING (run_id, stack_id) WHERE run_id = :run"
	" ORDER BY 1 DESC, 2 DESC, stack_id LIMIT :limit)"
	" SELECT held AS bytes, 1.0 * held / nullif((SELECT sum(bytes) FROM site_peak WHERE run_id"
	" = :run), 0) AS share, n AS blocks, peak_bytes AS \"own peak\", peak_ns AS \"at\","
	" site_name(stack_id, 5) AS \"allocated at\" FROM shown ORDER BY 1 DESC, 3 DESC, stack_id";

const struct report report_peak = {
	.name = "peak",
	.picked = &picked_peak,
	.has_lines = true,
	.scope = REPORT_OF_SUM,
	.title = "Who was live when the run's live bytes were highest",
	.needs = REPORT_NEEDS_BLOCKS,
	.note = "bytes and blocks: live at that moment; own peak: the most of the call"
		" stack at any time, and when",
	.sql = peak_sql,
	.n_sql = "SELECT count(*) FROM site_peak JOIN site USING (run_id, stack_id)"
		 " WHERE run_id = :run",
	KINDS(TABLE_BYTES, TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES, TABLE_TIME),
};

#define TEMPORARY " FROM site WHERE run_id = :run AND n_temporary > 0"

/* clang-format off */
static const char temporary_sql[] =
	"SELECT n_temporary AS temporary, 1.0 * n_temporary / n_blocks AS share,"
	" n_blocks AS blocks,"
	" bytes / n_blocks AS \"mean size\", site_name(stack_id, 5) AS \"allocated at\"" TEMPORARY
	" ORDER BY n_temporary DESC, stack_id LIMIT :limit";
/* clang-format on */

const struct report report_temporary = {
	.name = "temporary",
	.needs_all_blocks = true,
	.has_lines = true,
	.title = "Blocks that their thread freed by its next event, by call stack",
	.nothing = "None.",
	.needs = REPORT_NEEDS_BLOCKS,
	.note = "such a block could be on the stack, or be kept and used again",
	.sql = temporary_sql,
	.n_sql = "SELECT count(*)" TEMPORARY,
	KINDS(TABLE_COUNT, TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES),
};

/* Tables of the call stacks that suppressions name, and of those whose blocks libraries keep. */
static int prepare_leaks(sqlite3 *db, const struct report_request *request)
{
	/*
	 * What libraries keep is suppressed by a rule without a name; by none when it is asked for.
	 */
	static const char hide_sql[] =
		"INSERT OR REPLACE INTO temp.suppressed SELECT stack_id, '' FROM temp.kept";
	int r = suppressions_table(request->suppressions, db, request->run_id);

	r = r ?: kept_table(db, request->run_id);
	if (r < 0 || request->is_full)
		return r;
	return sqlite3_exec(db, hide_sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : -EPROTO;
}

static const struct report picked_leaks = {
	.name = "leaks",
	.has_lines = true,
	.counts_blocks = true,
	.scope = REPORT_OF_SUM,
	.title = "Blocks that were not freed, by call stack: estimates",
	.nothing = "Every picked block that is the program's to free was freed.",
	.foot_sql = leaks_foot_sql,
	.note = PICKED_NOTE "; not freed is not always a leak: a program may leave its last"
			    " blocks to the kernel",
	.hints_sql = leaks_hints_sql,
	.prepare = prepare_leaks,
	.sql = picked_leaks_sql,
	KINDS(TABLE_BYTES_ESTIMATE, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT, TABLE_COUNT, TABLE_TIME),
};

const struct report report_leaks = {
	.name = "leaks",
	.picked = &picked_leaks,
	.has_lines = true,
	.scope = REPORT_OF_SUM,
	.title = "Blocks that were not freed, by call stack",
	.nothing = "Every recorded block that is the program's to free was freed.",
	.foot_sql = leaks_foot_sql,
	.note = "not freed is not always a leak: a program may leave its last blocks to"
		" the kernel",
	.hints_sql = leaks_hints_sql,
	.prepare = prepare_leaks,
	.sql = leaks_sql,
	KINDS(TABLE_BYTES, TABLE_COUNT, TABLE_COUNT, TABLE_TIME),
};

int64_t report_count_leaks(sqlite3 *db, int64_t run_id)
{
	return report_sql_number(db,
				 "SELECT count(*) FROM site WHERE run_id = :run"
				 " AND " REPORT_LEFT_BLOCKS " > 0"
				 " AND stack_id NOT IN (SELECT stack_id FROM temp.suppressed)"
				 " AND stack_id NOT IN (SELECT stack_id FROM temp.kept)"
				 " AND stack_id NOT IN (" BEFORE_ATTACH ")",
				 run_id);
}

/* clang-format off */
static const char before_sql[] =
	"SELECT sum(size) AS bytes, count(*) AS blocks, sum(size * probability) / sum(size) AS"
	" probability, min(probability) AS lowest, coalesce(line.function || coalesce(' (' || "
	"replace(line.file, rtrim(line.file, replace(line.file, '/', '')), '') || ':' ||"
	" line.line || ')', ''), frame.function || ' (' || frame.path || ')', printf('%s+0x%x',"
	" frame.path, frame.offset)) AS \"probably allocated at\" FROM probable_site JOIN frame ON"
	" frame.id = probable_site.frame_id LEFT JOIN frame_line AS line"
	" ON line.frame_id = frame.id AND line.depth = coalesce(frame.user_depth, 0)"
	" WHERE run_id = :run GROUP BY 5"
	" ORDER BY 1 DESC, 2 DESC, 5 LIMIT :limit";

#define GUESSED " FROM probable_site WHERE run_id = :run"
#define TESTED	" FROM probable_test WHERE run_id = :run"

static const char before_foot_sql[] =
	"SELECT printf('of %s in %,d blocks that were there before the attach and until the end, %s"
	" in %,d have a probable call', bytes_text(sum(live_bytes)), sum(live_blocks),"
	" bytes_text((SELECT coalesce(sum(size), 0)" GUESSED ")), (SELECT count(*)" GUESSED "))"
	" FROM site WHERE run_id = :run AND stack_id IN (" BEFORE_ATTACH ") HAVING sum(live_blocks)"
	" > 0 UNION ALL SELECT printf('%s: %,d of %,d blocks from before look like those of one"
	" call, %,d like none since; %s', kind, alike_blocks, before_blocks, new_blocks,"
	" CASE WHEN probability IS NULL THEN 'too uncertain, not shown' ELSE printf('probability"
	" %.1f %%', 100 * probability) END)" TESTED
	" AND alike_blocks > 0";
/* clang-format on */

const struct report report_before = {
	.name = "before",
	.has_lines = true,
	.title = "Calls that probably made the blocks from before the attach",
	.nothing = "Of no block from before an attach a call is probable.",
	.foot_sql = before_foot_sql,
	.note = "probability: that a guess is right, by tests on blocks whose calls are"
		" known, and by how many blocks look like none of these; a call that has"
		" made no block since the attach is never guessed (docs/attach.md)",
	.sql = before_sql,
	KINDS(TABLE_BYTES, TABLE_COUNT, TABLE_PERCENT, TABLE_PERCENT),
};
