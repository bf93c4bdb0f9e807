#include "report/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/queries.h"
#include "store/statement.h"

static const char named_sql[] = "SELECT id FROM run WHERE CAST(id AS TEXT) = ?1"
				" OR program || '.' || mode || '.' || repetition = ?1"
				" OR program || '.' || mode = ?1 OR program = ?1"
				" ORDER BY CAST(id AS TEXT) = ?1 DESC, repetition, id LIMIT 1";

int report_run_find(sqlite3 *db, const char *selector, int64_t *ret_run_id)
{
	sqlite3_stmt *stmt = NULL;
	const char *sql = selector ? named_sql : "SELECT id FROM run ORDER BY id DESC LIMIT 1";

	int result = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
	if (result != SQLITE_OK) {
		statement_keep(db, result);
		return -EPROTO;
	}
	if (selector)
		sqlite3_bind_text(stmt, 1, selector, -1, SQLITE_STATIC);

	int code = statement_advance(stmt);
	if (code == SQLITE_ROW)
		*ret_run_id = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	if (code == SQLITE_DONE)
		return selector ? -ENOENT : -ENODATA;
	return code == SQLITE_ROW ? 0 : -EPROTO;
}

#define KINDS(...)                                                                                 \
	.kinds = (const enum table_kind[]){ __VA_ARGS__ },                                         \
	.n_kinds = sizeof((const enum table_kind[]){ __VA_ARGS__ }) / sizeof(enum table_kind)

#define INTERVAL_NOTE                                                                              \
	"\u00b195 %: with what samples leave unresolved; two numbers: it lies anywhere between"

#define PICKED_NOTE "\u00b195 % or two numbers: the interval of the estimate"

static const struct report picked_sites = {
	.name = "sites",
	.has_lines = true,
	.counts_blocks = true,
	.scope = REPORT_OF_SUM,
	.title = "Call stacks that allocated, most bytes first: estimates",
	.needs = REPORT_NEEDS_BLOCKS,
	.note = PICKED_NOTE "; picked: the blocks that it is made from",
	.sql = report_picked_sites_sql,
	.n_sql = report_sites_n_sql,
	KINDS(TABLE_BYTES_ESTIMATE, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT_ESTIMATE, TABLE_COUNT,
	      TABLE_COUNT, TABLE_BYTES_ESTIMATE, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT),
};

static const struct report picked_leaks = {
	.name = "leaks",
	.has_lines = true,
	.counts_blocks = true,
	.scope = REPORT_OF_SUM,
	.title = "Blocks that were not freed, by call stack: estimates",
	.nothing = "Every picked block that is the program's to free was freed.",
	.foot_sql = report_leaks_foot_sql,
	.note = PICKED_NOTE "; not freed is not always a leak: a program may leave its last"
			    " blocks to the kernel",
	.hints_sql = report_leaks_hints_sql,
	.prepare = report_leaks_prepare,
	.sql = report_picked_leaks_sql,
	KINDS(TABLE_BYTES_ESTIMATE, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT, TABLE_COUNT, TABLE_TIME),
};

static const struct report picked_peak = {
	.name = "peak",
	.has_lines = true,
	.counts_blocks = true,
	.scope = REPORT_OF_SUM,
	.title = "Who was live when the estimate of the run's live bytes was highest: estimates",
	.needs = REPORT_NEEDS_BLOCKS,
	.note = PICKED_NOTE "; bytes and blocks: live at that moment",
	.sql = report_picked_peak_sql,
	.n_sql = "SELECT count(*) FROM site_peak WHERE run_id = :run",
	KINDS(TABLE_BYTES_ESTIMATE, TABLE_BYTES, TABLE_BYTES, TABLE_PERCENT, TABLE_COUNT),
};

/* What only all blocks, and the order of all events, could tell. */
static const struct report not_of_picked = {
	.title = "Not known of picked blocks",
	.nothing = "Not known: blocks were picked (--sample-bytes), and it takes all of them.",
	.sql = "SELECT NULL AS \"not known\" WHERE 0",
};

/* --overhead of a run with regions or functions. */
static const struct report own_time = {
	.name = "overhead",
	.title = "What memsight took of the time in regions and functions, and was taken out",
	.foot_sql = report_own_time_foot_sql,
	.note = "counted: so many hooks, each taken to last as the tried ones did, in ns; error:"
		" half of those are so near to that; call stacks, room for records, handlers and"
		" plug-ins were measured, and times is how often; what the kernel takes for"
		" samples and page faults is not taken out",
	.sql = report_own_time_sql,
	KINDS(TABLE_DURATION, TABLE_DURATION, TABLE_COUNT, TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT),
};

const struct report report_cold_for = {
	.picked = &not_of_picked,
	.name = "cold",
	.has_lines = true,
	.title = "Memory that nobody touched for so long, by call stack",
	.nothing = "None that pages or samples can speak for; a shorter time may have some.",
	.note = "bytes: proven: of resident pages, certainly not read or written for so long at"
		" some time, but for the time between intervals (--working-set); probable, in runs"
		" without --source pages: not freed, and not seen touched from then to the end of"
		" the run, in which as many samples were expected at the heap's average rate;"
		" longest: time in which none of it was touched",
	.prepare = report_cold_for_prepare,
	.sql = report_cold_for_sql,
	KINDS(TABLE_BYTES, TABLE_PLAIN, TABLE_DURATION, TABLE_PLAIN, TABLE_PLAIN),
};

const struct report reports[] = {
	{
		.name = "summary",
		.scope = REPORT_OF_PART,
		.title = "what happened, in one screen",
		.sql = report_totals_sql,
		.write = report_summary_write,
		.n_rows = 10,
	},
	{
		.name = "list",
		.title = "Runs in this database",
		.nothing = "None.",
		.sql = report_list_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_DURATION, TABLE_COUNT, TABLE_BYTES,
		      TABLE_COUNT),
	},
	{
		.name = "stat",
		.title = "Repetitions of each PROGRAM.MODE",
		.nothing = "No run is there.",
		.note = "n: repetitions that succeeded and have this number; failed: left out; 95"
			" %: interval of the median, by bootstrap (fewer than 6 values have none);"
			" sd: standard deviation; outliers: repetitions beyond Tukey's fences",
		.sql = report_stat_sql,
		.n_sql = report_stat_n_sql,
		.text_sql = report_stat_text_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_COUNT),
	},
	{
		.own_time = &own_time,
		.name = "overhead",
		.title = "Each mode against the natural runs of the same block",
		.nothing =
			"There are no pairs: a series needs a mode with `dry = yes', and runs that "
			"succeeded.",
		.note = "ratios of a run to the natural run of its block, median over the pairs,"
			" with its 95 % interval by bootstrap (fewer than 6 pairs have none); max"
			" rss: how much more the command had",
		.sql = report_overhead_sql,
		.text_sql = report_overhead_text_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT),
	},
	{
		.name = "sites",
		.picked = &picked_sites,
		.is_sampled = true,
		.has_lines = true,
		.scope = REPORT_OF_SUM,
		.title = "Call stacks that allocated, hottest first",
		.needs = REPORT_NEEDS_BLOCKS,
		.note = "time: share of the samples of user CPU time at accesses to the site's"
			" blocks; " INTERVAL_NOTE
			"; faults: page faults; temporary: freed by the same "
			"thread's next event",
		.sql = report_sites_sql,
		.n_sql = report_sites_n_sql,
		KINDS(TABLE_SHARE, TABLE_PERCENT, TABLE_PERCENT, TABLE_BYTES, TABLE_COUNT,
		      TABLE_BYTES, TABLE_BYTES, TABLE_COUNT, TABLE_COUNT),
	},
	{
		.name = "leaks",
		.picked = &picked_leaks,
		.has_lines = true,
		.scope = REPORT_OF_SUM,
		.title = "Blocks that were not freed, by call stack",
		.nothing = "Every recorded block that is the program's to free was freed.",
		.foot_sql = report_leaks_foot_sql,
		.note = "not freed is not always a leak: a program may leave its last blocks to"
			" the kernel",
		.hints_sql = report_leaks_hints_sql,
		.prepare = report_leaks_prepare,
		.sql = report_leaks_sql,
		KINDS(TABLE_BYTES, TABLE_COUNT, TABLE_COUNT, TABLE_TIME),
	},
	{
		.name = "before",
		.has_lines = true,
		.title = "Calls that probably made the blocks from before the attach",
		.nothing = "Of no block from before an attach a call is probable.",
		.foot_sql = report_before_foot_sql,
		.note = "probability: that a guess is right, by tests on blocks whose calls are"
			" known, and by how many blocks look like none of these; a call that has"
			" made no block since the attach is never guessed (docs/attach.md)",
		.sql = report_before_sql,
		KINDS(TABLE_BYTES, TABLE_COUNT, TABLE_PERCENT, TABLE_PERCENT),
	},
	{
		.name = "unused",
		.picked = &not_of_picked,
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
		.sql = report_unused_sql,
		.n_sql = report_unused_n_sql,
		KINDS(TABLE_BYTES, TABLE_COUNT, TABLE_BYTES, TABLE_BYTES, TABLE_PLAIN,
		      TABLE_PERCENT, TABLE_PERCENT, TABLE_PLAIN),
	},
	{
		.name = "regions",
		.counts_blocks = true,
		.is_sampled = true,
		.title = "Regions of the program (memsight.h) and functions, by what they lie in",
		.nothing = "The program set no region.",
		.note = "time: wall time, added up over trips and threads; own: without the"
			" regions inside; CPU "
			"time: share of the run's samples of user CPU time; " INTERVAL_NOTE
			"; blocks and bytes: allocated in the region; left open: trips that no pop"
			" of their own ended",
		.foot_sql = report_regions_foot_sql,
		.sql = report_regions_sql,
		.columns_sql = report_region_columns_sql,
		.rest = TABLE_COUNT,
		KINDS(TABLE_COUNT, TABLE_COUNT, TABLE_DURATION, TABLE_DURATION, TABLE_SHARE,
		      TABLE_PERCENT, TABLE_PERCENT, TABLE_SHARE, TABLE_PERCENT, TABLE_PERCENT,
		      TABLE_COUNT, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT),
	},
	{
		.name = "functions",
		.counts_blocks = true,
		.is_sampled = true,
		.title = "Functions (record --function-include) and regions, by their own time",
		.nothing = "No function was recorded: record --function-include REGEX"
			   " (docs/functions.md).",
		.note = "time: wall time, added up over calls and threads, once where a function"
			" calls itself; own: without the functions and regions inside that were"
			" recorded; CPU "
			"time: share of the run's samples of user CPU time; " INTERVAL_NOTE
			"; blocks and bytes: allocated in it; left open: calls that ended by an"
			" exception, a jump or their thread's end; paths: of callers, see"
			" --regions",
		.foot_sql = report_functions_foot_sql,
		.sql = report_functions_sql,
		.columns_sql = report_region_columns_sql,
		.rest = TABLE_COUNT,
		KINDS(TABLE_COUNT, TABLE_COUNT, TABLE_DURATION, TABLE_DURATION, TABLE_SHARE,
		      TABLE_PERCENT, TABLE_PERCENT, TABLE_SHARE, TABLE_PERCENT, TABLE_PERCENT,
		      TABLE_COUNT, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT, TABLE_COUNT),
	},
	{
		.name = "plugins",
		.title = "Values of plug-ins (record --load), by region",
		.nothing = "No plug-in was asked: record --load FILE.so (docs/plugins.md).",
		.note = "(process): from the begin of each process to its end; total: counters:"
			" what it grew by, added up over trips and threads; own: without the"
			" regions inside; mean, least, most: of n, which are trips of a counter,"
			" and else readings at begins and ends",
		.foot_sql = report_components_foot_sql,
		.sql = report_components_sql,
		KINDS(TABLE_PLAIN, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT,
		      TABLE_COUNT, TABLE_PLAIN, TABLE_PLAIN),
	},
	{
		.name = "pools",
		.title = "Pools of allocators of the program's own, the largest first",
		.nothing = "No pool: record --alloc-function names a program's own allocator"
			   " (docs/allocators.md), or it reports its blocks by memsight_block() of"
			   " memsight.h (docs/api.md).",
		.note = "blocks and bytes: that it handed out; peak: the most at once; resets:"
			" all its blocks ended at once; cut: blocks that ended since the memory"
			" that they lay in was given back; pool 0x0: blocks of no pool",
		.sql = report_pools_sql,
		KINDS(TABLE_BYTES, TABLE_COUNT, TABLE_BYTES, TABLE_COUNT, TABLE_BYTES, TABLE_COUNT,
		      TABLE_COUNT, TABLE_COUNT, TABLE_PLAIN, TABLE_PLAIN),
	},
	{
		.name = "marks",
		.title = "Marks that the program set (memsight.h), or `memsight ctl mark'",
		.nothing = "The program set no mark.",
		.sql = "SELECT time_ns AS at, tid AS thread, name AS mark FROM mark"
		       " LEFT JOIN thread ON thread.id = thread_id WHERE mark.run_id = :run"
		       " ORDER BY time_ns, mark.rowid LIMIT :limit",
		KINDS(TABLE_TIME, TABLE_PLAIN),
	},
	{
		.name = "window-list",
		.counts_blocks = true,
		.title = "Windows: parts of the run that were recorded (--window N reports on one)",
		.nothing = "The run was recorded as a whole.",
		.note = "live: recorded blocks that lived when the window began; blocks allocated"
			" outside of windows are not known",
		.sql = report_windows_sql,
		KINDS(TABLE_COUNT, TABLE_TIME, TABLE_TIME, TABLE_DURATION, TABLE_PLAIN, TABLE_BYTES,
		      TABLE_COUNT),
	},
	{
		.name = "watched",
		.title = "What was watched (record --watch): every access while it was armed",
		.nothing = "Nothing was watched: record with --watch.",
		.note = "counts are of instructions of user code, exact for the time armed and"
			" for no other; both: an instruction that reads and writes; unknown: it is"
			" not known which; next access: the median of the time to the next one,"
			" from a power of two up to its double, with some 3.5 us that each access"
			" costs; by another: pairs whose second access was another thread's",
		.sql = report_watch_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_TIME, TABLE_TIME, TABLE_DURATION,
		      TABLE_COUNT, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT,
		      TABLE_DURATION, TABLE_PERCENT),
	},
	{
		.name = "processes",
		.counts_blocks = true,
		.title = "Process images, in the order in which they began",
		.nothing = "No process was recorded.",
		.sql = report_processes_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_TIME, TABLE_TIME,
		      TABLE_COUNT, TABLE_COUNT),
	},
	{
		.name = "losses",
		.title = "What was not recorded, or cannot be used",
		.nothing = "Nothing was lost.",
		.hints_sql = report_losses_hints_sql,
		.sql = report_losses_data_sql,
		.text_sql = report_losses_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_TIME, TABLE_TIME),
	},
	{
		.name = "objects",
		.counts_blocks = true,
		.has_lines = true,
		.is_sampled = true,
		.scope = REPORT_OF_SUM,
		.title = "What the program worked on, by time",
		.needs = REPORT_NEEDS_BLOCKS,
		.note = "time: share of the samples of user CPU time; " INTERVAL_NOTE
			"; stall: share of the samples taken right behind an instruction that"
			" waited for it; faults: page faults; size: heap: the site's peak; from,"
			" to: heap: first allocation and last free, else the touches seen",
		.sql = report_objects_sql,
		.n_sql = report_objects_n_sql,
		KINDS(TABLE_PLAIN, TABLE_SHARE, TABLE_PERCENT, TABLE_PERCENT, TABLE_SHARE,
		      TABLE_PERCENT, TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES, TABLE_COUNT,
		      TABLE_TIME, TABLE_TIME),
	},
	{
		.name = "access-mix",
		.title = "Loops, by time: what one iteration accesses, and counts where they are"
			 " known",
		.nothing = "No sample was taken in a loop whose way is known.",
		.needs = REPORT_NEEDS_CLOCK,
		.note = "loop time: share of CPU time; " INTERVAL_NOTE "; of accesses: of one "
			"iteration, by number (no time), with the interval over the loop's samples;"
			" counted: accesses in the whole run, only where registers or emulation"
			" show how often the loop ran, with its interval; covered: by how many of"
			" its samples",
		.sql = report_access_mix_sql,
		.n_sql = report_access_mix_n_sql,
		KINDS(TABLE_SHARE, TABLE_PERCENT, TABLE_PERCENT, TABLE_SHARE_HALF, TABLE_PERCENT,
		      TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_PERCENT, TABLE_PERCENT),
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
		.write = report_calls_write,
	},
	{
		.name = "threads",
		.counts_blocks = true,
		.is_sampled = true,
		.scope = REPORT_OF_PART,
		.title = "Threads: what each allocated, freed and spent",
		.nothing = "No thread was recorded.",
		.note = "time: share of the samples of user CPU time; " INTERVAL_NOTE "; freed by "
			"others: of its blocks, those that another thread freed",
		.sql = report_threads_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_SHARE, TABLE_PERCENT,
		      TABLE_PERCENT, TABLE_COUNT, TABLE_COUNT, TABLE_BYTES, TABLE_COUNT,
		      TABLE_COUNT, TABLE_BYTES, TABLE_COUNT, TABLE_TIME, TABLE_TIME),
	},
	{
		.name = "mappings",
		.needs_rows = true,
		.title = "What was mapped, by kind, maker and place",
		.nothing = "No mapping was recorded.",
		.note = "mapped: bytes as they were made; reserved: made without access"
			" (PROT_NONE), addresses and no memory, until mprotect opens a part; at the"
			" end: not unmapped, as far as that was seen; advised, locked: bytes of all"
			" calls; what a library maps for itself is what blocks lie in, not memory"
			" beside them",
		.sql = report_mappings_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES,
		      TABLE_BYTES, TABLE_COUNT),
	},
	{
		.name = "findings",
		.title = "What stands out",
		.nothing = "Nothing stands out by the rules of docs/findings.md.",
		.note = "size: with the ends of its interval, equal where it was counted; weight:"
			" part of the whole that it is of",
		.sql = report_findings_sql,
		.write = report_findings_list,
	},
	{
		.name = "resident",
		.scope = REPORT_OF_SPAN,
		.prepare = report_resident_prepare,
		.has_lines = true,
		.title = "What resident memory is, at the moment with most of it",
		.nothing = "No look at the pages of a process was recorded.",
		.note = "rss: resident bytes, all rows of a process add up to its own; beside: of"
			" them, in pages that blocks keep resident and no live block fills (free"
			" blocks, the allocator's words), divided by bytes where call sites share a"
			" page; untouched: asked for, and never touched or given back to the"
			" kernel; shared: in pages that other processes have, too, where that was"
			" asked; size: live bytes of blocks, bytes of mappings; nodes: rss by NUMA"
			" node, on hosts with several",
		.foot_sql = report_resident_foot_sql,
		.sql = report_resident_sql,
		KINDS(TABLE_BYTES, TABLE_PERCENT, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES,
		      TABLE_BYTES, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT, TABLE_PLAIN, TABLE_PLAIN,
		      TABLE_PLAIN),
	},
	{
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
		.foot_sql = report_working_set_foot_sql,
		.sql = report_working_set_sql,
		KINDS(TABLE_DURATION, TABLE_COUNT, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES,
		      TABLE_BYTES, TABLE_BYTES, TABLE_PERCENT, TABLE_PLAIN, TABLE_PLAIN),
	},
	{
		.name = "working-set-curve",
		.title = "How much of the time so much memory would have held what was touched",
		.nothing = "No touched pages were recorded: record --source pages (if it was, see "
			   "--losses).",
		.note = "memory: a share of the most that was resident; interval, 1s, 10s, 60s:"
			" of the time that was seen, in windows of that length in which"
			" certainly no more than this memory was touched; most: in which that is"
			" possible (what several intervals touch may be the same pages or not);"
			" \"-\": the recording has no such window",
		.foot_sql = report_working_set_foot_sql,
		.sql = report_working_set_curve_sql,
		KINDS(TABLE_BYTES, TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT,
		      TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT, TABLE_PERCENT, TABLE_PLAIN),
	},
	{
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
		.foot_sql = report_working_set_foot_sql,
		.sql = report_untouched_sql,
		KINDS(TABLE_BYTES, TABLE_BYTES, TABLE_BYTES, TABLE_DURATION, TABLE_BYTES,
		      TABLE_TIME, TABLE_TIME, TABLE_PLAIN, TABLE_PLAIN),
	},
	{
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
		.foot_sql = report_written_foot_sql,
		.sql = report_written_sql,
		KINDS(TABLE_BYTES, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES,
		      TABLE_BYTES, TABLE_COUNT, TABLE_PLAIN, TABLE_PLAIN),
	},
	{
		.name = "timeline",
		.wants = SELECTION_TIMELINE,
		.counts_blocks = true,
		.scope = REPORT_OF_PART,
		.title = "Live bytes over time",
		.needs = REPORT_NEEDS_BLOCKS,
		.note = "live: the most within the interval; rss: resident memory of all"
			" processes, sampled (drawn up to the next one); touched: in pages read or"
			" written within an interval of --source pages; events: allocations and"
			" frees; the axis of each curve begins at 0 and ends at its most",
		.sql = report_timeline_sql,
		.text_sql = report_timeline_text_sql,
		.n_sql = "SELECT 0", /* a line joins intervals */
		.draw = report_curves_draw,
		KINDS(TABLE_TIME, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT,
		      TABLE_BAR),
	},
	{
		.name = "heatmap",
		.scope = REPORT_OF_PICTURE,
		.needs_rows = true,
		.title = "Touches and blocks over time and addresses",
		.prepare = report_heatmap_prepare,
		.sql = report_heatmap_sql,
		.write = report_heatmap_write,
	},
	{
		.name = "temporary",
		.picked = &not_of_picked,
		.has_lines = true,
		.title = "Blocks that their thread freed by its next event, by call stack",
		.nothing = "None.",
		.needs = REPORT_NEEDS_BLOCKS,
		.note = "such a block could be on the stack, or be kept and used again",
		.sql = report_temporary_sql,
		.n_sql = report_temporary_n_sql,
		KINDS(TABLE_COUNT, TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES),
	},
	{
		.name = "peak",
		.picked = &picked_peak,
		.has_lines = true,
		.scope = REPORT_OF_SUM,
		.title = "Who was live when the run's live bytes were highest",
		.needs = REPORT_NEEDS_BLOCKS,
		.note = "bytes and blocks: live at that moment; own peak: the most of the call"
			" stack at any time, and when",
		.sql = report_peak_sql,
		.n_sql = "SELECT count(*) FROM site_peak JOIN site USING (run_id, stack_id)"
			 " WHERE run_id = :run",
		KINDS(TABLE_BYTES, TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES, TABLE_TIME),
	},
	{
		.name = "histogram",
		.counts_blocks = true,
		.scope = REPORT_OF_SUM,
		.title = "Blocks by size and by lifetime, in powers of two",
		.needs = REPORT_NEEDS_BLOCKS,
		.note = "each bucket reaches to below twice its begin",
		.sql = report_histogram_sql,
		.text_sql = report_histogram_text_sql,
		KINDS(TABLE_PLAIN, TABLE_COUNT, TABLE_PERCENT, TABLE_BYTES, TABLE_PERCENT,
		      TABLE_BAR),
	},
	{
		.name = "hot",
		.picked = &not_of_picked,
		.is_sampled = true,
		.has_lines = true,
		.scope = REPORT_OF_SUM,
		.title = "Call stacks whose memory gets more time than the average of the heap",
		.nothing = "None for which the samples can say so.",
		.needs = REPORT_NEEDS_CLOCK,
		.note = "x average: share of the heap's time over share of its bytes x seconds;"
			" listed where the 95 % interval leaves the average out; two numbers:"
			" anywhere between them",
		.sql = report_hot_sql,
		.n_sql = report_hot_n_sql,
		KINDS(TABLE_WITH_INTERVAL, TABLE_PLAIN, TABLE_PLAIN, TABLE_SHARE, TABLE_PERCENT,
		      TABLE_PERCENT, TABLE_PERCENT, TABLE_BYTES, TABLE_COUNT, TABLE_BYTES),
	},
	{
		.name = "cold",
		.picked = &not_of_picked,
		.is_sampled = true,
		.has_lines = true,
		.scope = REPORT_OF_SUM,
		.title = "Call stacks whose memory gets less time than the average of the heap",
		.nothing = "None for which the samples can say so.",
		.needs = REPORT_NEEDS_CLOCK,
		.note = "x average: share of the heap's time over share of its bytes x seconds;"
			" listed where the 95 % interval leaves the average out, most memory for"
			" nothing first; two numbers: anywhere between them",
		.sql = report_cold_sql,
		.n_sql = report_cold_n_sql,
		KINDS(TABLE_WITH_INTERVAL, TABLE_PLAIN, TABLE_PLAIN, TABLE_SHARE, TABLE_PERCENT,
		      TABLE_PERCENT, TABLE_PERCENT, TABLE_BYTES, TABLE_COUNT, TABLE_BYTES),
	},
	{
		.name = "sharing",
		.wants = SELECTION_LINES,
		.needs_rows = true,
		.is_sampled = true,
		.scope = REPORT_OF_PART,
		.title = "Lines of 64 bytes that two threads touch in turn, at least one of them"
			 " writing",
		.nothing = "None was seen.",
		.needs = REPORT_NEEDS_CLOCK,
		.note = "a row for each pair of threads that come back to the line after each"
			" other; different bytes: false sharing; same bytes: shared data; changes:"
			" touches by the one after the other; at same: turns that met bytes of the"
			" other's; HitM: sampled accesses by anybody that found the line"
			" modified in another cache. Seen in samples: what is not listed may still"
			" be shared",
		.sql = report_sharing_sql,
		.n_sql = "SELECT count(*) FROM shared_line WHERE run_id = :run",
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_PERCENT, TABLE_COUNT,
		      TABLE_COUNT, TABLE_DURATION, TABLE_SHARE_HALF, TABLE_PERCENT, TABLE_COUNT),
	},
	{
		.name = "locality",
		.is_sampled = true,
		.scope = REPORT_OF_PART,
		.title = "Where the data of sampled accesses came from, and memory by NUMA node",
		.needs = REPORT_NEEDS_DATA_SOURCE,
		.note = "share: of the samples of the source, with its 95 % interval; mean"
			" cycles: latency as the source measures it; of all cycles: share of their"
			" sum; HitM: found modified in another cache. A source samples what its"
			" unit says, which need not be all accesses. Page faults: by the node of"
			" the page some ms later, of those that were still there",
		.sql = report_locality_sql,
		KINDS(TABLE_PLAIN, TABLE_SHARE_HALF, TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES,
		      TABLE_COUNT, TABLE_COUNT, TABLE_PLAIN, TABLE_PERCENT),
	},
	{
		.name = "accesses",
		.is_sampled = true,
		.scope = REPORT_OF_PART,
		.title = "What sampled accesses went to, and how far",
		.needs = REPORT_NEEDS_DATA_SOURCE,
		.note = "accesses: share of the samples of the source, with its 95 % interval;"
			" mean cycles: latency as the source measures it; of all cycles: share of"
			" their sum. A source samples what its unit says, which need not be all"
			" accesses",
		.sql = report_accesses_sql,
		KINDS(TABLE_PLAIN, TABLE_SHARE_HALF, TABLE_PERCENT, TABLE_COUNT, TABLE_COUNT,
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
