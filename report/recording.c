/* The reports of what was recorded: runs, processes, regions, and what was not. */
#include "report/queries.h"

/* clang-format off */

/*
 * Of components with values in rows of a report: what a counter grew by, or the most of another.
 * of_row has their values by what rows of the report call id.
 */
#define COMPONENT_COLUMNS_SQL(condition) \
	"WITH shown(kind, value, word) AS (VALUES ('counter', 'total', ''), ('counter', 'own'," \
	"  'own '), ('gauge', 'most', 'most '), ('max', 'most', 'most '))" \
	" SELECT group_concat(printf(' (SELECT %s FROM of_row WHERE component_id = %d AND of =" \
	" id) AS \"%s%w [%w]\",', value, component.id, word, name, unit), '') FROM component" \
	" CROSS JOIN shown USING (kind) WHERE run_id = :run AND EXISTS (SELECT 1 FROM" \
	" component_value AS value WHERE value.run_id = :run AND component_id = component.id AND " \
	condition ")"
static const char region_columns_sql[] = COMPONENT_COLUMNS_SQL("path_id > 0 AND value.window = 0");
static const char window_columns_sql[] =
	COMPONENT_COLUMNS_SQL("value.window > 0 AND word <> 'own '");

static const char windows_sql[] =
	"WITH of_row AS (SELECT window AS of, component_id, total, most FROM component_value"
	" WHERE run_id = :run), part AS (SELECT number AS id, * FROM window WHERE run_id = :run)"
	" SELECT number AS window, start_ns AS begin, end_ns AS end, end_ns - start_ns AS length,"
	" cause, live_bytes AS live," REPORT_MORE_COLUMNS " n_live AS blocks FROM part"
	" ORDER BY number LIMIT :limit";

const struct report report_window_list = {
	.name = "window-list",
	.counts_blocks = true,
	.title = "Windows: parts of the run that were recorded (--window N reports on one)",
	.nothing = "The run was recorded as a whole.",
	.note = "live: recorded blocks that lived when the window began; blocks allocated"
		" outside of windows are not known",
	.sql = windows_sql,
	.columns_sql = window_columns_sql,
	.rest = TABLE_COUNT,
	KINDS(TABLE_COUNT, TABLE_TIME, TABLE_TIME, TABLE_DURATION, TABLE_PLAIN, TABLE_BYTES,
	      TABLE_COUNT),
};

static const char list_sql[] =
	"SELECT id, program || '.' || mode || '.' || repetition AS run, duration_ns AS duration,"
	" (SELECT value FROM total WHERE run_id = run.id AND name = 'allocations' AND"
	REPORT_SQL_HAS_BLOCKS("run.id") ") AS allocations,"
	" (SELECT value FROM total WHERE run_id = run.id AND name = 'peak_bytes' AND"
	REPORT_SQL_HAS_BLOCKS("run.id") ") AS peak,"
	" (SELECT count(*) FROM loss WHERE run_id = run.id) AS losses, command"
	" FROM run ORDER BY id LIMIT :limit";

const struct report report_list = {
	.name = "list",
	.title = "Runs in this database",
	.nothing = "None.",
	.sql = list_sql,
	KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_DURATION, TABLE_COUNT, TABLE_BYTES,
	      TABLE_COUNT),
};

static const char processes_sql[] =
	"SELECT pid, (SELECT pid FROM process AS parent WHERE parent.id = process.parent_id) AS"
	" parent, birth, CASE WHEN traced THEN 'traced' ELSE 'not traced: ' || why_not END AS"
	" state, start_ns AS start, end_ns AS end, (SELECT count(*) FROM thread WHERE"
	" thread.process_id = process.id) AS threads, CASE WHEN traced THEN (SELECT sum(n_events)"
	" FROM thread WHERE thread.process_id = process.id) END AS events, CASE WHEN command <> ''"
	" THEN command ELSE exe END AS command FROM process WHERE run_id = :run ORDER BY start_ns,"
	" id LIMIT :limit";
/* clang-format on */

const struct report report_processes = {
	.name = "processes",
	.counts_blocks = true,
	.title = "Process images, in the order in which they began",
	.nothing = "No process was recorded.",
	.sql = processes_sql,
	KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_TIME, TABLE_TIME,
	      TABLE_COUNT, TABLE_COUNT),
};

/* clang-format off */
#define REGION_COLUMNS \
	" SELECT n_trips AS trips, n_left_open AS \"left open\", all_ns AS time, own_ns AS own," \
	SHARE_OF("all_time_ns", "CPU time", "low", "high") \
	SHARE_OF("own_time_ns", "own CPU", "own low", "own high") " " \
	REPORT_SQL_BLOCKS("all_blocks") " AS blocks, " REPORT_SQL_BLOCKS("all_bytes") " AS bytes," \
	" " REPORT_SQL_BLOCKS("own_bytes") " AS \"own bytes\"," \
	" " REPORT_SQL_FAULTS("all_faults") " AS faults," REPORT_MORE_COLUMNS

/* Trips, and then what is in a region with those inside it; own: without them. */
static const char regions_sql[] =
	"WITH RECURSIVE path(id, text, place) AS ("
	"  SELECT id, name, printf('%08d', id) FROM region_total WHERE run_id = :run"
	"  AND parent_id IS NULL"
	"  UNION ALL SELECT part.id, path.text || ' / ' || part.name,"
	"  path.place || printf('%08d', part.id)"
	"  FROM path JOIN region_total AS part ON part.run_id = :run AND part.parent_id ="
	" path.id), of_row AS (SELECT path_id AS of, component_id, total, own, most FROM"
	" component_value WHERE run_id = :run AND window = 0)," WHOLE REGION_COLUMNS
	" path.text AS region"
	" FROM whole, region_total JOIN path USING (id) WHERE run_id = :run ORDER BY place LIMIT"
	" :limit";

/*
 * By name, wherever it stands in a path. What is in a path with all that is inside counts where no
 * region around it has the same name.
 */
#define OUTER(column) "sum(iif(outer.id IS NULL, 0, all_" column ")) AS all_" column ","
#define OWN(column)   "sum(own_" column ") AS own_" column ","
static const char functions_sql[] =
	"WITH RECURSIVE above(id, name, parent_id) AS ("
	"  SELECT id, name, parent_id FROM region_total WHERE run_id = :run"
	"  UNION ALL SELECT above.id, above.name, around.parent_id FROM above"
	"  JOIN region_total AS around ON around.run_id = :run AND around.id = above.parent_id"
	"  WHERE around.name <> above.name),"
	" outer AS MATERIALIZED (SELECT id FROM above WHERE parent_id IS NULL),"
	" of_row AS MATERIALIZED (SELECT name AS of, component_id, sum(iif(outer.id IS NULL, 0,"
	"  total)) AS total, sum(own) AS own, max(most) AS most FROM component_value AS value"
	"  JOIN region_total AS part ON part.run_id = :run AND part.id = path_id LEFT JOIN outer"
	"  ON outer.id = path_id WHERE value.run_id = :run AND value.window = 0"
	"  GROUP BY name, component_id),"
	" flat AS (SELECT name AS id, name, sum(n_trips) AS n_trips, sum(n_left_open) AS"
	" n_left_open,"
	OUTER("ns") OWN("ns") OUTER("time_ns") OWN("time_ns") OUTER("blocks") OUTER("bytes")
	OWN("bytes") OUTER("faults") " count(*) AS n_paths"
	" FROM region_total AS part LEFT JOIN outer USING (id) WHERE run_id = :run GROUP BY name"
	" UNION ALL SELECT name, name, n_trips, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
	" NULL, NULL FROM function_trips WHERE run_id = :run),"
	WHOLE REGION_COLUMNS " n_paths AS paths, name AS function"
	" FROM whole, flat ORDER BY own_ns DESC, n_trips DESC, name LIMIT :limit";

#define COST_LINE \
	"SELECT printf('time and own: without what memsight took, %s ±%s of these times:" \
	" --overhead has it by kind and thread', duration_text(sum(ns))," \
	" duration_text(sum(error_ns))) FROM own_time WHERE run_id = :run HAVING count(*) > 0"
const struct report report_regions = {
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
	.foot_sql = COST_LINE,
	.sql = regions_sql,
	.columns_sql = region_columns_sql,
	.rest = TABLE_COUNT,
	KINDS(TABLE_COUNT, TABLE_COUNT, TABLE_DURATION, TABLE_DURATION, TABLE_SHARE,
	      TABLE_PERCENT, TABLE_PERCENT, TABLE_SHARE, TABLE_PERCENT, TABLE_PERCENT,
	      TABLE_COUNT, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT),
};

static const char functions_foot_sql[] =
	COST_LINE " UNION ALL SELECT 'time and own: with what memsight took for each call, which"
	" was not measured' WHERE NOT EXISTS (SELECT 1 FROM hook_cost WHERE run_id = :run)"
	" AND NOT EXISTS (SELECT 1 FROM own_time WHERE run_id = :run AND kind = 'uprobes')"
	" AND EXISTS (SELECT 1 FROM region_total WHERE run_id = :run)";

const struct report report_functions = {
	.name = "functions",
	.counts_blocks = true,
	.is_sampled = true,
	.title = "Functions (record --function-include) and regions, by their own time",
	.nothing = "No chosen function was called: record --function-include REGEX chooses"
		   " them; what the compiler put into its callers is no call"
		   " (docs/functions.md).",
	.note = "time: wall time, added up over calls and threads, once where a function"
		" calls itself; own: without the functions and regions inside that were"
		" recorded; CPU "
		"time: share of the run's samples of user CPU time; " INTERVAL_NOTE
		"; blocks and bytes: allocated in it; left open: calls that ended by an"
		" exception, a jump or their thread's end; paths: of callers, see"
		" --regions",
	.foot_sql = functions_foot_sql,
	.sql = functions_sql,
	.columns_sql = region_columns_sql,
	.rest = TABLE_COUNT,
	KINDS(TABLE_COUNT, TABLE_COUNT, TABLE_DURATION, TABLE_DURATION, TABLE_SHARE,
	      TABLE_PERCENT, TABLE_PERCENT, TABLE_SHARE, TABLE_PERCENT, TABLE_PERCENT,
	      TABLE_COUNT, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT, TABLE_COUNT),
};

static const char own_time_sql[] =
	"SELECT ns AS \"taken out\", error_ns AS error, own_time.n AS times, round(mean_ns, 1) AS"
	" each, round(spread_ns, 1) AS \"each error\", hook_cost.n AS tried, kind, (SELECT"
	" name FROM thread_name WHERE thread_name.thread_id = thread.id ORDER BY time_ns DESC"
	" LIMIT 1) AS thread, tid, pid AS process FROM own_time JOIN thread ON thread.id ="
	" thread_id JOIN process ON process.id = thread.process_id LEFT JOIN hook_cost ON"
	" hook_cost.run_id = :run AND hook = kind WHERE own_time.run_id = :run"
	" ORDER BY ns DESC, tid, kind LIMIT :limit";

static const char own_time_foot_sql[] =
	"SELECT printf('in all %s ±%s, of %s in regions and functions', duration_text(sum(ns)),"
	" duration_text(sum(error_ns)), duration_text((SELECT sum(own_ns + own_cost_ns) FROM"
	" region_total WHERE run_id = :run))) FROM own_time WHERE run_id = :run";

/* --overhead of a run with regions or functions. */
const struct report report_own_time = {
	.name = "own_time",
	.title = "What memsight took of the time in regions and functions, and was taken out",
	.foot_sql = own_time_foot_sql,
	.note = "counted: so many hooks, each taken to last as the tried ones did, in ns; error:"
		" half of those are so near to that; call stacks, room for records, handlers and"
		" plug-ins were measured, and times is how often; what the kernel takes for"
		" samples and page faults is not taken out",
	.sql = own_time_sql,
	KINDS(TABLE_DURATION, TABLE_DURATION, TABLE_COUNT, TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT),
};

/* A counter has what it grew by, another component its mean. */
static const char components_sql[] =
	"WITH RECURSIVE path(id, text, place) AS ("
	"  VALUES (0, '(process)', '')"
	"  UNION ALL SELECT id, name, printf('%08d', id) FROM region_total WHERE run_id = :run"
	"  AND parent_id IS NULL"
	"  UNION ALL SELECT part.id, path.text || ' / ' || part.name,"
	"  path.place || printf('%08d', part.id)"
	"  FROM path JOIN region_total AS part ON part.run_id = :run AND part.parent_id ="
	" path.id AND path.id > 0)"
	" SELECT component.name AS component, total, own, round(mean, 1) AS mean, least, most, n,"
	" unit, CASE WHEN window > 0 THEN printf('(window %d)', window) WHEN window = 0 THEN"
	" path.text WHEN path_id THEN path.text || ' (samples)' ELSE '(samples)' END AS region"
	" FROM component_value AS value JOIN component ON component.run_id = :run AND component.id"
	" = component_id JOIN path ON path.id = path_id WHERE value.run_id = :run ORDER BY place,"
	" window < 0, window, component_id LIMIT :limit";

static const char components_foot_sql[] =
	"SELECT printf('plug-in %s: %,d readings, of %s each, taken out of the times of regions',"
	" plugin, sum(n_asked), duration_text(sum(asked_ns) / sum(n_asked))) FROM component"
	" WHERE run_id = :run GROUP BY plugin HAVING sum(n_asked) > 0 ORDER BY min(id)";

const struct report report_plugins = {
	.name = "plugins",
	.title = "Values of plug-ins (record --load), by region",
	.nothing = "No plug-in was asked: record --load FILE.so (docs/plugins.md).",
	.note = "(process): from the begin of each process to its end; (window N): likewise"
		" in a window; total: counters:"
		" what it grew by, added up over trips and threads; own: without the"
		" regions inside; mean, least, most: of n, which are trips of a counter,"
		" and else readings at begins and ends; (samples): at samples of --source signal,"
		" counters since the one before of the thread",
	.foot_sql = components_foot_sql,
	.sql = components_sql,
	KINDS(TABLE_PLAIN, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT,
	      TABLE_COUNT, TABLE_PLAIN, TABLE_PLAIN),
};

static const char pools_sql[] =
	"SELECT peak_bytes AS peak, n_blocks AS blocks, bytes, live_blocks AS \"not freed\","
	" live_bytes AS \"bytes not freed\", n_resets AS resets, n_cut AS cut, pid AS process,"
	" printf('0x%x', address) AS pool, allocator FROM pool JOIN process ON process.id ="
	" process_id WHERE pool.run_id = :run ORDER BY peak_bytes DESC, pool.id LIMIT :limit";

const struct report report_pools = {
	.name = "pools",
	.title = "Pools of allocators of the program's own, the largest first",
	.nothing = "No pool: record --alloc-function names a program's own allocator"
		   " (docs/allocators.md), or it reports its blocks by memsight_block() of"
		   " memsight.h (docs/api.md).",
	.note = "blocks and bytes: that it handed out; peak: the most at once; resets:"
		" all its blocks ended at once; cut: blocks that ended since the memory"
		" that they lay in was given back; pool 0x0: blocks of no pool",
	.sql = pools_sql,
	KINDS(TABLE_BYTES, TABLE_COUNT, TABLE_BYTES, TABLE_COUNT, TABLE_BYTES, TABLE_COUNT,
	      TABLE_COUNT, TABLE_COUNT, TABLE_PLAIN, TABLE_PLAIN),
};

#define LOSSES(part) \
	"SELECT source, reason, sum(count) AS count, min(from_ns) AS \"from\"," \
	" max(to_ns) AS \"to\"," part("loss") " (SELECT exe FROM process WHERE process.id" \
	" = loss.process_id) AS program" \
	" FROM loss WHERE run_id = :run GROUP BY source, reason, process_id" \
	" UNION ALL SELECT name, 'not opened: ' || coalesce(remedy, 'error ' || error), NULL," \
	" NULL, NULL," part("source") " NULL FROM source WHERE run_id = :run AND error <> 0" \
	" AND NOT passed_over UNION ALL SELECT 'process ' || pid," \
	" 'not traced: ' || coalesce(why_not, 'unknown'), NULL, start_ns, end_ns," \
	" " part("process") " exe FROM process WHERE run_id = :run AND NOT traced" \
	" AND why_not IS NOT 'perf.data'"
/* clang-format on */
#define NO_PART(name) ""
#define PART(name)    " '" name "' AS part,"

#define LEDGER(count, reason)                                                                      \
	" UNION ALL SELECT number, name, '" reason "', CAST(" count " AS INTEGER) AS n FROM"       \
	" ledger WHERE n <> 0"

/*
 * In numbers what report_ledger_write() says in words; what was read and what was lost also where
 * it is 0. Rows of part "loss" are all that was lost, and add up to what the overview says; the
 * ledger tells of the same losses by source.
 */
/* clang-format off */
static const char losses_data_sql[] =
	"WITH ledger AS (SELECT * FROM source_ledger JOIN source ON source.id = source_id"
	"  WHERE source.run_id = :run AND (measures NOT IN ('tasks', 'pages') OR"
	"  n_lost + bad_bytes > 0)),"
	" entry(number, name, reason, count) AS ( SELECT number, name, 'samples read', n_taken FROM"
	" ledger UNION ALL SELECT number, name, 'found the ring full' || CASE WHEN NOT is_complete"
	" THEN ' (the recorder was killed: as far as the trace shows)' WHEN NOT lost_is_exact THEN"
	" ' (as far as records show)' ELSE '' END, n_lost FROM"
	" ledger" LEDGER("n_hardware_lost", "dropped by the hardware")
	LEDGER("n_dropped", "after recording had stopped")
	LEDGER("n_throttles", "times throttled")
	LEDGER("throttled_ns", "ns throttled: without samples")
	LEDGER("unsampled_ns", "ns of CPU time without samples")
	LEDGER("n_behind", "times that the recorder was late")
	LEDGER("n_aux_truncated", "AUX area: full") LEDGER("n_aux_partial", "AUX area: with gaps")
	LEDGER("n_aux_collision", "AUX area: collisions") LEDGER("bad_bytes", "bytes unreadable")
	LEDGER("n_undecodable", "not decodable") LEDGER("n_no_memory", "without memory access")
	LEDGER("n_outside", "of unknown processes") LEDGER("n_zero", "with address 0")
	LEDGER("n_kernel", "with an address in the kernel") LEDGER("n_no_clock", "without a time")
	") SELECT * FROM (" LOSSES(PART) ")"
	" UNION ALL SELECT * FROM (SELECT name, reason, count, NULL, NULL, 'ledger', NULL FROM"
	" entry"
	"  ORDER BY number) LIMIT :limit";
/* clang-format on */

/*
 * A node of a reason is one for all stacks of the database: it has no count of its own, but stacks.
 */
/* clang-format off */
static const char losses_hints_sql[] =
	"WITH RECURSIVE path(id) AS (SELECT stack_id FROM site WHERE run_id = :run UNION SELECT"
	" stack_id FROM mapping WHERE run_id = :run UNION SELECT parent_id FROM stack JOIN path"
	" USING (id) WHERE parent_id IS NOT NULL) SELECT 'stack cut short: recorded up to ' || CASE"
	" stop WHEN 'depth' THEN 'the depth that stacks are followed to (at most 256 frames,"
	" --stack-depth)' WHEN 'no unwind rule' THEN 'code without unwind tables, such as generated"
	" code and some assembly: its callers are not known' WHEN 'no frame pointer' THEN 'code"
	" without frame pointers: record without --stacks fp' WHEN 'outside the stack' THEN 'a"
	" frame outside of the thread''s stack: its callers are not known' WHEN 'stack table full'"
	" THEN 'what the thread''s table of stacks had room for' ELSE stop END || '. The event"
	" counts, with what is known of its stack' FROM (SELECT DISTINCT stop FROM stack JOIN path"
	" USING (id) WHERE stop IS NOT NULL) WHERE EXISTS (SELECT 1 FROM loss WHERE run_id = :run"
	" AND reason = 'stack cut short')"
	/* In a line of its own: the column has no room for a reason that says what to do. */
	" UNION ALL SELECT DISTINCT source || ': ' || reason FROM (" LOSSES(NO_PART)
	"  ) WHERE length(reason) > 36"
	/* Nothing is lost there, but one in a thousand is more than clocks that fit would show. */
	" UNION ALL SELECT printf('%,d of %,d accesses lay in no block, but within 10 us of the"
	" life of one there: where the program does not reuse memory so fast, the clocks of events"
	" and samples do not fit', near, near + found) FROM (SELECT coalesce(sum(value) FILTER"
	" (WHERE name LIKE 'accesses_%'), 0) AS near, coalesce(sum(value) FILTER (WHERE name ="
	" 'heap_accesses'), 0) AS found FROM total WHERE run_id = :run AND name IN"
	" ('heap_accesses', 'accesses_before_allocation', 'accesses_after_free'))"
	" WHERE near >= 10 AND near * 1000 > near + found";
/* clang-format on */

const struct report report_losses = {
	.name = "losses",
	.title = "What was not recorded, or cannot be used",
	.nothing = "Nothing was lost.",
	.hints_sql = losses_hints_sql,
	.sql = losses_data_sql,
	.text_sql = LOSSES(NO_PART) " LIMIT :limit",
	KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_TIME, TABLE_TIME),
};

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

static const char histogram_sql[] =
	BUCKETS " SELECT of, low AS \"from\", high AS below, blocks, share, bytes, byte_share"
		" FROM shown ORDER BY of = 'life', log2";

static const char histogram_text_sql[] =
	BUCKETS " SELECT CASE of WHEN 'size' THEN 'size from ' || bytes_text(low)"
		"  ELSE CASE log2 WHEN 64 THEN 'not freed' WHEN -1 THEN 'life of 0 ns'"
		"  ELSE 'life from ' || duration_text(low) END END AS bucket, blocks, share AS \"of"
		" blocks\", bytes, byte_share AS \"of bytes\", share AS \"blocks \" FROM shown"
		" ORDER BY of = 'life', log2";

const struct report report_histogram = {
	.name = "histogram",
	.counts_blocks = true,
	.scope = REPORT_OF_SUM,
	.title = "Blocks by size and by lifetime, in powers of two",
	.needs = REPORT_NEEDS_BLOCKS,
	.note = "each bucket reaches to below twice its begin",
	.sql = histogram_sql,
	.text_sql = histogram_text_sql,
	KINDS(TABLE_PLAIN, TABLE_COUNT, TABLE_PERCENT, TABLE_BYTES, TABLE_PERCENT, TABLE_BAR),
};

#define OF_TRACED(n) "CASE WHEN traced THEN " REPORT_SQL_BLOCKS(n) " END"

/* clang-format off */
static const char threads_sql[] =
	"WITH" WHOLE
	" SELECT tid, process.pid AS process, CASE WHEN is_main THEN 'yes' ELSE 'no' END AS"
	" main," SHARE_OF("time_ns", "time", "low", "high") " " REPORT_SQL_FAULTS("n_faults")
	" AS faults, " OF_TRACED("n_blocks") " AS blocks,"
	" " OF_TRACED("bytes") " AS bytes, " OF_TRACED("n_frees") " AS frees,"
	" " OF_TRACED("n_foreign") " AS \"freed by others\","
	" " OF_TRACED("live_bytes") " AS \"not freed\", " OF_TRACED("n_temporary")
	" AS temporary, thread.start_ns AS start, thread.end_ns AS end, (SELECT name FROM"
	" thread_name WHERE thread_id = thread.id"
	"  ORDER BY time_ns DESC LIMIT 1) AS name FROM whole, thread JOIN process ON process.id ="
	" process_id LEFT JOIN thread_total ON thread_total.thread_id = thread.id"
	"  AND thread_total.run_id = thread.run_id WHERE thread.run_id = :run ORDER BY time_ns"
	" DESC, bytes DESC, thread.id LIMIT :limit";
/* clang-format on */

const struct report report_threads = {
	.name = "threads",
	.counts_blocks = true,
	.is_sampled = true,
	.scope = REPORT_OF_PART,
	.title = "Threads: what each allocated, freed and spent",
	.nothing = "No thread was recorded.",
	.note = "time: share of the samples of user CPU time; " INTERVAL_NOTE "; freed by "
		"others: of its blocks, those that another thread freed",
	.sql = threads_sql,
	KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_SHARE, TABLE_PERCENT, TABLE_PERCENT,
	      TABLE_COUNT, TABLE_COUNT, TABLE_BYTES, TABLE_COUNT, TABLE_COUNT, TABLE_BYTES,
	      TABLE_COUNT, TABLE_TIME, TABLE_TIME),
};

/* ---- The report of what was mapped ---- */

/*
 * One row for each kind, maker and place. A piece that goes on when the rest was unmapped, or that
 * moved, was mapped once: only what has none before it counts as mapped.
 */
static const char mappings_sql[] =
	"WITH change AS ("
	"  SELECT mapping_id, sum(CASE WHEN name = 'madvise' THEN size END) AS advised,"
	"  sum(CASE WHEN name = 'mlock' THEN size END) AS locked,"
	"  count(CASE WHEN name = 'mprotect' THEN 1 END) AS protections"
	"  FROM mapping_event JOIN call ON call.id = call WHERE run_id = :run GROUP BY mapping_id),"
	" named AS ("
	"  SELECT kind, seen, mapping.id, size, freed_ns, previous_mapping_id,"
	"  CASE seen WHEN 1 THEN 'before the trace' WHEN 2 THEN 'a library for itself'"
	"  ELSE call.name || CASE WHEN is_nested THEN ' of an allocator' ELSE '' END END AS maker,"
	"  CASE WHEN path <> '' THEN path WHEN stack_id IS NOT NULL THEN site_name(stack_id, 4)"
	"  ELSE '-' END AS place"
	"  FROM mapping JOIN mapping_kind ON mapping_id = mapping.id"
	"  LEFT JOIN call ON call.id = call WHERE run_id = :run)"
	" SELECT kind, maker AS \"made by\", count(*) AS maps,"
	"  sum(CASE WHEN previous_mapping_id IS NULL THEN size ELSE 0 END) AS mapped,"
	"  sum(CASE WHEN freed_ns IS NULL THEN size ELSE 0 END) AS \"at the end\","
	"  sum(advised) AS advised, sum(locked) AS locked,"
	"  nullif(sum(coalesce(protections, 0)), 0) AS \"mprotect\", place AS \"what, or where\""
	" FROM named LEFT JOIN change ON change.mapping_id = named.id"
	" GROUP BY kind, maker, place ORDER BY seen, 5 DESC, 4 DESC, place LIMIT :limit";

const struct report report_mappings = {
	.name = "mappings",
	.needs_rows = true,
	.title = "What was mapped, by kind, maker and place",
	.nothing = "No mapping was recorded.",
	.note = "mapped: bytes as they were made; reserved: made without access"
		" (PROT_NONE), addresses and no memory, until mprotect opens a part; at the"
		" end: not unmapped, as far as that was seen; advised, locked: bytes of all"
		" calls; what a library maps for itself is what blocks lie in, not memory"
		" beside them",
	.sql = mappings_sql,
	KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES,
	      TABLE_BYTES, TABLE_COUNT),
};

const struct report report_marks = {
	.name = "marks",
	.title = "Marks that the program set (memsight.h), or `memsight ctl mark'",
	.nothing = "The program set no mark.",
	.sql = "SELECT time_ns AS at, tid AS thread, name AS mark FROM mark"
	       " LEFT JOIN thread ON thread.id = thread_id WHERE mark.run_id = :run"
	       " ORDER BY time_ns, mark.rowid LIMIT :limit",
	KINDS(TABLE_TIME, TABLE_PLAIN),
};
