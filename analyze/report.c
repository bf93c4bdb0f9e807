#include "analyze/report.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "analyze/report-curves.h"
#include "analyze/report-functions.h"
#include "analyze/report-heatmap.h"
#include "analyze/report-hints.h"
#include "analyze/report-profile.h"
#include "analyze/report-queries.h"
#include "analyze/report-sampling.h"
#include "analyze/report-sql.h"
#include "analyze/report-stat.h"
#include "analyze/report-stop.h"
#include "analyze/report-summary.h"
#include "analyze/report-why.h"
#include "analyze/stack-text.h"
#include "analyze/statement.h"
#include "analyze/suppressions.h"
#include "common/cleanup.h"

#define KINDS(...)                                                                                 \
	.kinds = (const enum table_kind[]){ __VA_ARGS__ },                                         \
	.n_kinds = sizeof((const enum table_kind[]){ __VA_ARGS__ }) / sizeof(enum table_kind)

static const char sites_sql[] =
	"SELECT CAST(n_samples AS REAL) / " CLOCK_SAMPLES " AS time,"
	" half_width(n_samples, n_samples_sq, " CLOCK_SAMPLES ") AS \"±95 %\","
	" peak_bytes AS peak, n_blocks AS blocks, bytes AS \"in all\", live_bytes AS \"not freed\","
	" n_temporary AS temporary, n_faults AS faults, stack_text(stack_id, 4) AS \"allocated at\""
	" FROM site WHERE run_id = :run"
	" ORDER BY n_samples DESC, peak_bytes DESC, stack_id LIMIT :limit";

static const char leaks_sql[] =
	"SELECT sum(live_bytes) AS bytes, sum(live_blocks) AS blocks, sum(n_blocks) AS \"of blocks\","
	" min(first_ns) AS \"first at\", stack_text(stack_id, 6) AS \"allocated at\""
	" FROM site WHERE run_id = :run AND live_blocks > 0"
	" AND stack_id NOT IN (SELECT stack_id FROM temp.suppressed) GROUP BY stack_text(stack_id, 6)"
	" ORDER BY 1 DESC, 2 DESC, 5 LIMIT :limit";

static const char leaks_hints_sql[] =
	"SELECT printf('the program was killed by signal %d: these blocks were alive when killed, and whether"
	" it would have freed them is not known', exit_status & 127) FROM run WHERE id = :run"
	" AND ended_cleanly AND exit_status & 127";

/*
 * With H samples in heap blocks in all, a site that held a share b of the heap's byte-seconds would
 * see H x b of them at the average rate, and none with probability exp(-H x b): below 1 % from
 * H x b = 4.605 on. Only there "no access seen" says something about the program.
 */
static const char unused_sql[] =
	"WITH heap AS (SELECT sum(n_samples) AS n, sum(byte_seconds) AS held"
	" FROM site WHERE run_id = :run)"
	" SELECT peak_bytes AS peak, n_blocks AS blocks, live_bytes AS \"not freed\","
	" round(heap.n * byte_seconds / heap.held, 1) AS \"samples expected\","
	" stack_text(stack_id, 5) AS \"allocated at\""
	" FROM site, heap WHERE run_id = :run AND n_samples = 0 AND first_touch_ns IS NULL"
	" AND heap.n * byte_seconds > 4.605 * heap.held"
	" ORDER BY peak_bytes DESC, stack_id LIMIT :limit";

/* Trips, and then what is in a region with those inside it; own: without them. */
static const char regions_sql[] =
	"WITH RECURSIVE path(id, text, place) AS ("
	"  SELECT id, name, printf('%08d', id) FROM region_total WHERE run_id = :run"
	"  AND parent_id IS NULL"
	"  UNION ALL SELECT part.id, path.text || ' / ' || part.name,"
	"  path.place || printf('%08d', part.id)"
	"  FROM path JOIN region_total AS part ON part.run_id = :run AND part.parent_id = path.id)"
	" SELECT n_trips AS trips, n_left_open AS \"left open\", all_ns AS time, own_ns AS own,"
	" CAST(all_samples AS REAL) / " CLOCK_SAMPLES " AS \"CPU time\","
	" half_width(all_samples, all_samples, " CLOCK_SAMPLES ") AS \"±95 %\","
	" CAST(own_samples AS REAL) / " CLOCK_SAMPLES " AS \"own CPU\","
	" all_blocks AS blocks, all_bytes AS bytes, own_bytes AS \"own bytes\","
	" all_faults AS faults, path.text AS region"
	" FROM region_total JOIN path USING (id) WHERE run_id = :run ORDER BY place LIMIT :limit";

static const char losses_sql[] =
	"SELECT source, reason, sum(count) AS count, min(from_ns) AS \"from\", max(to_ns) AS \"to\","
	" (SELECT exe FROM process WHERE process.id = loss.process_id) AS program"
	" FROM loss WHERE run_id = :run GROUP BY source, reason, process_id"
	" UNION ALL SELECT name, 'not opened: ' || coalesce(remedy, 'error ' || error), NULL, NULL,"
	" NULL, NULL FROM source WHERE run_id = :run AND error <> 0 AND NOT passed_over"
	" UNION ALL SELECT 'process ' || pid, 'not traced: ' || coalesce(why_not, 'unknown'), NULL,"
	" start_ns, end_ns, exe FROM process WHERE run_id = :run AND NOT traced"
	" AND why_not IS NOT 'perf.data'"
	" LIMIT :limit";

/* A node of a reason is one for all stacks of the database: it has no count of its own, but stacks. */
static const char losses_hints_sql[] =
	"WITH RECURSIVE path(id) AS (SELECT stack_id FROM site WHERE run_id = :run"
	" UNION SELECT stack_id FROM mapping WHERE run_id = :run"
	" UNION SELECT parent_id FROM stack JOIN path USING (id) WHERE parent_id IS NOT NULL)"
	" SELECT 'stack cut short: recorded up to ' || CASE stop"
	" WHEN 'depth' THEN 'the depth that stacks are followed to (at most 256 frames, --stack-depth)'"
	" WHEN 'no unwind rule' THEN 'code without unwind tables, such as generated code and some assembly:"
	" its callers are not known'"
	" WHEN 'no frame pointer' THEN 'code without frame pointers: record without --stacks fp'"
	" WHEN 'outside the stack' THEN 'a frame outside of the thread''s stack: its callers are not known'"
	" WHEN 'stack table full' THEN 'what the thread''s table of stacks had room for'"
	" ELSE stop END || '. The event counts, with what is known of its stack'"
	" FROM (SELECT DISTINCT stop FROM stack JOIN path USING (id) WHERE stop IS NOT NULL) WHERE EXISTS (SELECT 1 FROM loss"
	" WHERE run_id = :run AND reason = 'stack cut short')"
	/* Nothing is lost there, but one in a thousand is more than clocks that fit would show. */
	" UNION ALL SELECT printf('%,d of %,d accesses lay in no block, but within 10 us of the life of one"
	" there: where the program does not reuse memory so fast, the clocks of events and samples do not fit',"
	" near, near + found) FROM (SELECT"
	" coalesce(sum(value) FILTER (WHERE name LIKE 'accesses_%'), 0) AS near,"
	" coalesce(sum(value) FILTER (WHERE name = 'heap_accesses'), 0) AS found"
	" FROM total WHERE run_id = :run AND name IN"
	" ('heap_accesses', 'accesses_before_birth', 'accesses_after_death'))"
	" WHERE near >= 10 AND near * 1000 > near + found";

static const char processes_sql[] =
	"SELECT pid, (SELECT pid FROM process AS parent WHERE parent.id = process.parent_id) AS parent,"
	" birth, CASE WHEN traced THEN 'traced' ELSE 'not traced: ' || why_not END AS state,"
	" start_ns AS start, end_ns AS end,"
	" (SELECT count(*) FROM thread WHERE thread.process_id = process.id) AS threads,"
	" (SELECT sum(n_events) FROM thread WHERE thread.process_id = process.id) AS events,"
	" CASE WHEN command <> '' THEN command ELSE exe END AS command"
	" FROM process WHERE run_id = :run ORDER BY start_ns, id LIMIT :limit";

/* A natural run had allocations, too: nobody counted them. */
#define RECORDED                                                                                   \
	"NOT EXISTS (SELECT 1 FROM fact WHERE run_id = run.id AND key = 'memsight.alloc' AND "     \
	"value = 'no')"

static const char list_sql[] =
	"SELECT id, program || '.' || mode || '.' || repetition AS run, duration_ns AS duration,"
	" (SELECT value FROM total WHERE run_id = run.id AND name = 'allocations' AND " RECORDED
	") AS allocations,"
	" (SELECT value FROM total WHERE run_id = run.id AND name = 'peak_bytes' AND " RECORDED
	") AS peak,"
	" (SELECT count(*) FROM loss WHERE run_id = run.id) AS losses, command"
	" FROM run ORDER BY id LIMIT :limit";

static int prepare_leaks(sqlite3 *db, const struct report_request *request)
{
	return suppressions_table(request->suppressions, db, request->run_id);
}

int64_t report_count_leaks(sqlite3 *db, int64_t run_id)
{
	return report_sql_number(db,
				 "SELECT count(*) FROM site WHERE run_id = :run AND live_blocks > 0"
				 " AND stack_id NOT IN (SELECT stack_id FROM temp.suppressed)",
				 run_id);
}

const struct report reports[] = {
	{
		.name = "summary",
		.title = "what happened, in one screen",
		.sql = "SELECT name, value FROM total WHERE run_id = :run ORDER BY name LIMIT :limit",
		.write = report_summary_write,
	},
	{
		.name = "list",
		.title = "Runs in this database",
		.nothing = "None.",
		.sql = list_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_DURATION, TABLE_COUNT, TABLE_BYTES,
		      TABLE_COUNT),
	},
	{
		.name = "stat",
		.title = "Repetitions of each PROGRAM.MODE",
		.nothing = "No run is there.",
		.note = "n: repetitions that succeeded and have this number; failed: left out; 95 %: interval of the median, by "
			"bootstrap (fewer than 6 values have none); sd: standard deviation; outliers: "
			"repetitions beyond Tukey's fences",
		.sql = report_stat_sql,
		.text_sql = report_stat_text_sql,
		.is_whole = true,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_COUNT),
	},
	{
		.name = "overhead",
		.title = "Each mode against the natural runs of the same block",
		.nothing =
			"There are no pairs: a series needs a mode with `dry = yes', and runs that "
			"succeeded.",
		.note = "ratios of a run to the natural run of its block, median over the pairs, with its "
			"95 % interval by bootstrap (fewer than 6 pairs have none); max rss: how much "
			"more the command had",
		.sql = report_overhead_sql,
		.text_sql = report_overhead_text_sql,
		.is_whole = true,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT),
	},
	{
		.name = "sites",
		.is_sampled = true,
		.has_lines = true,
		.scope = REPORT_OF_SUM,
		.title = "Call stacks that allocated, hottest first",
		.needs = REPORT_NEEDS_BLOCKS,
		.note = "time: share of the samples of user CPU time at accesses to the site's blocks, "
			"with its 95 % interval; faults: page faults; temporary: freed by the same "
			"thread's next event",
		.sql = sites_sql,
		KINDS(TABLE_PERCENT, TABLE_PERCENT, TABLE_BYTES, TABLE_COUNT, TABLE_BYTES,
		      TABLE_BYTES, TABLE_COUNT, TABLE_COUNT),
	},
	{
		.name = "leaks",
		.has_lines = true,
		.scope = REPORT_OF_SUM,
		.title = "Blocks that were not freed, by call stack",
		.nothing = "Every recorded block was freed.",
		.note = "not freed is not always a leak: a program may leave its last blocks to the "
			"kernel",
		.hints_sql = leaks_hints_sql,
		.prepare = prepare_leaks,
		.sql = leaks_sql,
		KINDS(TABLE_BYTES, TABLE_COUNT, TABLE_COUNT, TABLE_TIME),
	},
	{
		.name = "unused",
		.is_sampled = true,
		.has_lines = true,
		.title = "Call stacks whose blocks nobody was seen to access",
		.nothing = "None for which the samples can say so.",
		.needs = REPORT_NEEDS_CLOCK,
		.note = "listed only where a block accessed at the heap's average rate would have been "
			"missed with less than 1 % probability",
		.sql = unused_sql,
		KINDS(TABLE_BYTES, TABLE_COUNT, TABLE_BYTES),
	},
	{
		.name = "regions",
		.is_sampled = true,
		.title = "Regions that the program told (memsight.h), by what they lie in",
		.nothing = "The program told of no region.",
		.note = "time: wall time, added up over trips and threads; own: without the regions inside; CPU "
			"time: share of the run's samples of user CPU time, with its 95 % interval; blocks and "
			"bytes: allocated in the region; left open: trips that no pop of their own ended",
		.sql = regions_sql,
		KINDS(TABLE_COUNT, TABLE_COUNT, TABLE_DURATION, TABLE_DURATION, TABLE_PERCENT,
		      TABLE_PERCENT, TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES, TABLE_BYTES,
		      TABLE_COUNT),
	},
	{
		.name = "marks",
		.title = "Marks that the program set (memsight.h)",
		.nothing = "The program set no mark.",
		.sql = "SELECT time_ns AS at, tid AS thread, name AS mark FROM mark"
		       " JOIN thread ON thread.id = thread_id WHERE mark.run_id = :run"
		       " ORDER BY time_ns, mark.rowid LIMIT :limit",
		KINDS(TABLE_TIME, TABLE_PLAIN),
	},
	{
		.name = "watched",
		.title = "What was watched (record --watch): every access while it was armed",
		.nothing = "Nothing was watched: record with --watch.",
		.note = "counts are of instructions of user code, exact for the time armed and for no other; both: an "
			"instruction that reads and writes; unknown: it could not be told which; next access: "
			"the median of the time to the next one, from a power of two up to its double, with "
			"some 3.5 us that each access costs; by another: pairs whose second access "
			"was another thread's",
		.sql = report_watch_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_TIME, TABLE_TIME, TABLE_DURATION,
		      TABLE_COUNT, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT,
		      TABLE_DURATION, TABLE_PERCENT),
	},
	{
		.name = "processes",
		.title = "Process images, in the order in which they began",
		.nothing = "No process was recorded.",
		.sql = processes_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_TIME, TABLE_TIME,
		      TABLE_COUNT, TABLE_COUNT),
	},
	{
		.name = "losses",
		.title = "What was not recorded, or cannot be used",
		.nothing = "Nothing was lost.",
		.hints_sql = losses_hints_sql,
		.sql = losses_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_TIME, TABLE_TIME),
	},
	{
		.name = "objects",
		.has_lines = true,
		.is_sampled = true,
		.scope = REPORT_OF_SUM,
		.title = "What the program worked on, by time",
		.needs = REPORT_NEEDS_BLOCKS,
		.note = "time: share of the samples of user CPU time, with its 95 % interval; imputed: "
			"more of them, not resolved, whose instructions access it otherwise; stall: "
			"share of the samples taken right behind an instruction that waited for it; "
			"faults: page faults; size: heap: the site's peak; from, to: heap: first birth "
			"and last death, else the touches seen",
		.sql = report_objects_sql,
		KINDS(TABLE_PLAIN, TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT,
		      TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES, TABLE_COUNT, TABLE_TIME, TABLE_TIME),
	},
	{
		.name = "access-mix",
		.title =
			"Loops, by time: what one iteration accesses, and counts where they can be told",
		.nothing = "No sample was taken in a loop whose way is known.",
		.needs = REPORT_NEEDS_CLOCK,
		.note = "loop time: share of the samples of user CPU time; of accesses: of one "
			"iteration, by number (no time), with the interval over the loop's samples; "
			"counted: accesses in the whole run, only where registers or emulation tell "
			"how often the loop ran, with its interval; covered: by how many of its samples",
		.sql = report_access_mix_sql,
		KINDS(TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT, TABLE_PLAIN,
		      TABLE_PLAIN, TABLE_COUNT, TABLE_PERCENT, TABLE_PERCENT),
	},
	{
		.name = "flat",
		.scope = REPORT_OF_SUM,
		.prepare = report_profile_prepare,
		.sql = report_flat_sql,
		.write = report_flat_write,
	},
	{
		.name = "hierarchical",
		.scope = REPORT_OF_SUM,
		.prepare = report_profile_prepare,
		.sql = report_calls_sql,
		.is_whole = true,
		.write = report_calls_write,
	},
	{
		.name = "threads",
		.is_sampled = true,
		.scope = REPORT_OF_PART,
		.title = "Threads: what each allocated, freed and spent",
		.nothing = "No thread was recorded.",
		.note = "time: share of the samples of user CPU time, with its 95 % interval; freed by "
			"others: of its blocks, those that another thread freed",
		.sql = report_threads_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_PERCENT, TABLE_PERCENT,
		      TABLE_COUNT, TABLE_COUNT, TABLE_BYTES, TABLE_COUNT, TABLE_COUNT, TABLE_BYTES,
		      TABLE_COUNT, TABLE_TIME, TABLE_TIME),
	},
	{
		.name = "mappings",
		.needs_rows = true,
		.title = "What was mapped, by kind, maker and place",
		.nothing = "No mapping was recorded.",
		.note = "mapped: bytes as they were made; reserved: made without access (PROT_NONE), addresses and "
			"no memory, until mprotect opens a part; at the end: not unmapped, as far as that was "
			"seen; advised, locked: bytes of all calls; what a library maps for itself is what "
			"blocks lie in, not memory beside them",
		.sql = report_mappings_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES,
		      TABLE_BYTES, TABLE_COUNT),
	},
	{
		.name = "timeline",
		.needs_order = true,
		.scope = REPORT_OF_PART,
		.title = "Live bytes over time",
		.needs = REPORT_NEEDS_BLOCKS,
		.note = "live: the most within the interval; rss: resident memory of all processes, "
			"sampled (drawn up to the next one); events: allocations and frees; the axis of each curve "
			"begins at 0 and ends at its most",
		.sql = report_timeline_sql,
		.text_sql = report_timeline_text_sql,
		.draw = report_curves_draw,
		.is_whole = true,
		KINDS(TABLE_TIME, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT),
	},
	{
		.name = "heatmap",
		.scope = REPORT_OF_PICTURE,
		.needs_rows = true,
		.title = "Touches and blocks over time and addresses",
		.is_whole = true,
		.prepare = report_heatmap_prepare,
		.sql = report_heatmap_sql,
		.write = report_heatmap_write,
	},
	{
		.name = "temporary",
		.has_lines = true,
		.title = "Blocks that their thread freed by its next event, by call stack",
		.nothing = "None.",
		.needs = REPORT_NEEDS_BLOCKS,
		.note = "such a block could be on the stack, or be kept and used again",
		.sql = report_temporary_sql,
		KINDS(TABLE_COUNT, TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES),
	},
	{
		.name = "peak",
		.has_lines = true,
		.scope = REPORT_OF_SUM,
		.title = "Who was live when the run's live bytes were highest",
		.needs = REPORT_NEEDS_BLOCKS,
		.note = "bytes and blocks: live at that moment; own peak: the most of the call stack at "
			"any time, and when",
		.sql = report_peak_sql,
		KINDS(TABLE_BYTES, TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES, TABLE_TIME),
	},
	{
		.name = "histogram",
		.scope = REPORT_OF_SUM,
		.title = "Blocks by size and by lifetime, in powers of two",
		.needs = REPORT_NEEDS_BLOCKS,
		.note = "each bucket reaches to below twice its begin",
		.sql = report_histogram_sql,
		.text_sql = report_histogram_text_sql,
		.is_whole = true,
		KINDS(TABLE_PLAIN, TABLE_COUNT, TABLE_PERCENT, TABLE_BYTES, TABLE_PERCENT),
	},
	{
		.name = "hot",
		.is_sampled = true,
		.has_lines = true,
		.scope = REPORT_OF_SUM,
		.title = "Call stacks whose memory gets more time than the average of the heap",
		.nothing = "None for which the samples can say so.",
		.needs = REPORT_NEEDS_CLOCK,
		.note = "x average: share of the heap's time over share of its bytes x seconds; listed "
			"where the 95 % interval leaves the average out",
		.sql = report_hot_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT,
		      TABLE_BYTES, TABLE_COUNT, TABLE_BYTES),
	},
	{
		.name = "cold",
		.is_sampled = true,
		.has_lines = true,
		.scope = REPORT_OF_SUM,
		.title = "Call stacks whose memory gets less time than the average of the heap",
		.nothing = "None for which the samples can say so.",
		.needs = REPORT_NEEDS_CLOCK,
		.note = "x average: share of the heap's time over share of its bytes x seconds; listed "
			"where the 95 % interval leaves the average out; most memory for nothing first",
		.sql = report_cold_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT,
		      TABLE_BYTES, TABLE_COUNT, TABLE_BYTES),
	},
	{
		.name = "sharing",
		.needs_order = true,
		.needs_rows = true,
		.is_sampled = true,
		.scope = REPORT_OF_PART,
		.title =
			"Lines of 64 bytes that several threads touch, at least one of them writing",
		.nothing = "None was seen.",
		.needs = REPORT_NEEDS_CLOCK,
		.note = "different bytes: candidates for false sharing; same bytes: shared data; "
			"changes: touches by another thread than the one before; HitM: sampled accesses of the "
			"whole run that found the line modified in another cache. Seen in samples: what is not "
			"listed may still be shared",
		.sql = report_sharing_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT,
		      TABLE_DURATION, TABLE_COUNT),
	},
	{
		.name = "locality",
		.is_sampled = true,
		.scope = REPORT_OF_PART,
		.title = "Where the data of sampled accesses came from, and memory by NUMA node",
		.needs = REPORT_NEEDS_DATA_SOURCE,
		.note = "share: of the samples of the source, with its 95 % interval; mean cycles: latency as the "
			"source measures it; of all cycles: share of their sum; HitM: found modified in another "
			"cache. A source samples what its unit says, which need not be all accesses. Page faults: by the "
			"node of the page some ms later, of those that were still there",
		.sql = report_locality_sql,
		KINDS(TABLE_PLAIN, TABLE_PERCENT, TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES,
		      TABLE_COUNT, TABLE_COUNT, TABLE_PLAIN, TABLE_PERCENT),
	},
	{
		.name = "accesses",
		.is_sampled = true,
		.scope = REPORT_OF_PART,
		.title = "What sampled accesses went to, and how far",
		.needs = REPORT_NEEDS_DATA_SOURCE,
		.note = "accesses: share of the samples of the source, with its 95 % interval; mean cycles: latency "
			"as the source measures it; of all cycles: share of their sum. A source samples what its "
			"unit says, which need not be all accesses",
		.sql = report_accesses_sql,
		KINDS(TABLE_PLAIN, TABLE_PERCENT, TABLE_PERCENT, TABLE_COUNT, TABLE_COUNT,
		      TABLE_PLAIN, TABLE_PERCENT),
	},
	{ .name = NULL },
};

const struct report *report_find(const char *name)
{
	for (const struct report *report = reports; report->name; report++)
		if (strcmp(report->name, name) == 0)
			return report;
	return NULL;
}

/* It also says of each source what was not lost. */
static bool is_of_losses(const struct report *report)
{
	return report->sql == losses_sql;
}

/* Under the rows, or instead of them. */
static int write_foot(FILE *out, sqlite3 *db, const struct report *report,
		      const struct report_request *request, size_t n_rows)
{
	if (n_rows > 0) {
		auto_free char *stop = report_stop_text(db, request->run_id);

		if (report->note)
			report_sampling_note(out, db, request->run_id, report->note);
		if (report->is_sampled && report_sampling_foot(out, db, request->run_id) < 0)
			return -EPROTO;
		if (is_of_losses(report) && report_ledger_write(out, db, request->run_id) < 0)
			return -EPROTO;
		if (report->note && stop)
			fprintf(out, "%s: what lived then counts as not freed\n", stop);
		if (report->hints_sql &&
		    report_hint_write(out, db, report->hints_sql, request->run_id) < 0)
			return -EPROTO;
		return report->has_lines ? report_line_hints_write(out, db, request->run_id) : 0;
	}
	int r = report_why_write(out, db, request, report->needs, report->nothing);

	return r == 0 && is_of_losses(report) ? report_ledger_write(out, db, request->run_id) : r;
}

static int write_list(FILE *out, sqlite3_stmt *stmt, const struct report *report,
		      const struct report_request *request)
{
	struct table_style style = { request->format, report->kinds, report->n_kinds,
				     request->width, true };
	bool is_text = request->format == TABLE_TEXT;
	size_t n_rows = 0;

	if (is_text)
		fprintf(out, request->is_coloured ? "\033[1m%s\033[0m\n" : "%s\n", report->title);
	int r = is_text && report->draw ? report->draw(out, sqlite3_db_handle(stmt), request) : 0;
	if (r == 0)
		r = table_write(out, stmt, &style, &n_rows);
	if (r < 0 || !is_text)
		return r;
	return write_foot(out, sqlite3_db_handle(stmt), report, request, n_rows);
}

static int write_rows(FILE *out, sqlite3 *db, const struct report *report,
		      const struct report_request *request)
{
	bool is_text = request->format == TABLE_TEXT;
	const char *sql = is_text && report->text_sql ? report->text_sql : report->sql;
	int64_t limit = report->is_whole && !is_text ? -1 : request->limit;
	sqlite3_stmt *stmt = report_sql_prepare(db, sql, request->run_id, limit);

	if (!stmt)
		return -EPROTO;
	int r = write_list(out, stmt, report, request);
	sqlite3_finalize(stmt);
	return r;
}

int report_write(FILE *out, sqlite3 *db, const struct report *report,
		 const struct report_request *request)
{
	statement_forget(db);
	int r = report->prepare ? report->prepare(db, request) : 0;

	if (r == 0 && report->write && request->format == TABLE_TEXT)
		r = report->write(out, db, request);
	else if (r == 0)
		r = write_rows(out, db, report, request);
	return statement_verdict(db, r);
}

int report_functions_register(sqlite3 *db)
{
	int code = report_functions_add(db);

	if (code == SQLITE_OK)
		code = report_stat_register(db);
	return code == SQLITE_OK ? stack_text_register(db) : code;
}
