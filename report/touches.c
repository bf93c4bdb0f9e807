#include "report/queries.h"

/* clang-format off */
static const char objects_sql[] =
	"WITH object AS (SELECT 1 AS owner_kind, stack_id AS id, n_samples + n_imputed AS n, share,"
	"  share_low, share_high, n_stalls + n_stalls_imputed AS stalls, stall_share, stall_low,"
	"  stall_high, n_faults AS faults, peak_bytes AS bytes, n_blocks AS blocks,"
	"  first_ns AS first, last_ns AS last FROM site WHERE run_id = :run"
	"  UNION ALL SELECT owner_kind, owner_id, n_samples + n_imputed, share, share_low,"
	" share_high,"
	"  n_stalls + n_stalls_imputed, stall_share, stall_low, stall_high, n_faults,"
	"  CASE owner_kind WHEN 2 THEN (SELECT size FROM object_name WHERE object_name.id ="
	" owner_id)"
	"   WHEN 3 THEN (SELECT size FROM mapping JOIN mapping_kind ON mapping_id = mapping.id"
	"    WHERE mapping.id = owner_id AND kind <> 'reserved')"
	"   WHEN 4 THEN (SELECT size FROM symbol WHERE symbol.id = owner_id) END, NULL,"
	"  first_touch_ns, last_touch_ns FROM object_total WHERE run_id = :run), top AS (SELECT *"
	" FROM object ORDER BY n DESC, stalls DESC, faults DESC, bytes DESC, owner_kind, id"
	"  LIMIT :limit) SELECT owner.name AS kind, share AS time, share_low AS low, share_high AS"
	" high, stall_share AS stall, stall_low AS \"stall low\", stall_high AS \"stall high\","
	" " REPORT_SQL_FAULTS("faults") " AS faults,"
	" bytes AS size, blocks, first AS \"from\", last AS \"to\","
	" coalesce(" PLACE ", owner.meaning) AS object"
	" FROM top AS object JOIN owner ON owner.id = owner_kind"
	" ORDER BY n DESC, stalls DESC, faults DESC, bytes DESC, owner_kind, object.id";

const char report_objects_n_sql[] =
	"SELECT (SELECT count(*) FROM site WHERE run_id = :run)"
	" + (SELECT count(*) FROM object_total JOIN owner ON owner.id = owner_kind WHERE run_id"
	" = :run)";
/* clang-format on */

const struct report report_objects = {
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
	.sql = objects_sql,
	.n_sql = report_objects_n_sql,
	KINDS(TABLE_PLAIN, TABLE_SHARE, TABLE_PERCENT, TABLE_PERCENT, TABLE_SHARE, TABLE_PERCENT,
	      TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES, TABLE_COUNT, TABLE_TIME, TABLE_TIME),
};

#define SHOWN "8" /* objects of a loop */

/*
 * A line for each loop, object and direction; objects of the heap are their sites. A loop over a
 * tree has hundreds of them: the small ones are one line, unless all lines are wanted. Of that line
 * n is a bound of the sum of squares.
 */
/* clang-format off */
static const char access_mix_sql[] =
	"WITH" WHOLE
	", top AS (SELECT * FROM loop WHERE run_id = :run ORDER BY time_ns DESC, id LIMIT :limit),"
	" ranked AS (SELECT *, row_number() OVER (PARTITION BY loop_id ORDER BY n_samples DESC,"
	" owner_kind,"
	"  owner_id, is_write) AS place FROM loop_access WHERE run_id = :run"
	"  AND loop_id IN (SELECT id FROM top)), object AS (SELECT loop_id, owner_kind, owner_id AS"
	" id, is_write, n_samples, n_samples_sq, accesses,"
	"  NULL AS n_parts FROM ranked WHERE place <= " SHOWN " OR :limit < 0"
	"  UNION ALL SELECT loop_id, NULL, NULL, is_write, sum(n_samples), sum(n_samples),"
	" sum(accesses), count(*)"
	"  FROM ranked WHERE place > " SHOWN " AND :limit >= 0 GROUP BY loop_id, is_write)"
	" SELECT" SHARE_OF("top.time_ns", "loop time", "loop low", "loop high")
	" object.n_samples / top.n_samples AS \"of accesses\", half_width(object.n_samples,"
	" object.n_samples_sq, top.n_samples) AS \"mix \u00b195 %\", round(n_accesses *"
	" object.n_samples / top.n_samples, 2) AS \"each turn\", CASE is_write WHEN 1 THEN"
	" 'written' ELSE 'read' END AS access, CAST(round(object.accesses) AS INTEGER) AS counted,"
	" accesses_half / top.accesses AS \"count ±95 %\", CAST(CASE method WHEN 'registers' THEN"
	" n_pairs WHEN 'replay' THEN n_replayed END AS REAL)"
	"  / top.n_samples AS covered, (SELECT coalesce(frame_line.function || ' ', frame.function"
	" || ' ',"
	"  nullif(replace(frame.path, rtrim(frame.path, replace(frame.path, '/', '')), ''), ''),"
	" '?')"
	"  || coalesce(frame_line.file || ':' || frame_line.line, printf('+0x%x', frame.offset))"
	" FROM frame LEFT JOIN frame_line"
	"  ON frame_line.frame_id = frame.id AND depth = 0 WHERE frame.id = top.frame_id) AS"
	" \"loop\", coalesce(" PLACE
	", owner.meaning, n_parts || ' objects with less each (--limit 0 shows all)') AS object"
	" FROM whole, top JOIN object ON object.loop_id = top.id LEFT JOIN owner ON owner.id ="
	" owner_kind ORDER BY top.time_ns DESC, top.id, n_parts IS NOT NULL, object.n_samples DESC,"
	" owner_kind, object.id, is_write";
/* clang-format on */

/* Loops, as :limit counts them. */
static const char access_mix_n_sql[] =
	"SELECT count(*) FROM loop WHERE run_id = :run AND id IN (SELECT loop_id FROM loop_access)";

const struct report report_access_mix = {
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
	.sql = access_mix_sql,
	.n_sql = access_mix_n_sql,
	KINDS(TABLE_SHARE, TABLE_PERCENT, TABLE_PERCENT, TABLE_SHARE_HALF, TABLE_PERCENT,
	      TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_PERCENT, TABLE_PERCENT),
};

/*
 * Time per byte and second against the heap's average: the share of the heap's time over the share
 * of its byte-seconds, with the interval that both ends allow. Listed only where that leaves the
 * average out.
 */
#define RATED                                                                                      \
	"WITH heap AS (SELECT share, share_low AS low, share_high AS high,"                        \
	"  (SELECT sum(byte_seconds) FROM site WHERE run_id = :run) AS held FROM kind_share"       \
	"  WHERE run_id = :run AND owner_kind = 1),"                                               \
	" rated AS (SELECT stack_id, peak_bytes, n_blocks, live_bytes,"                            \
	"  site.share / nullif(heap.share, 0) AS used,"                                            \
	"  share_low / nullif(max(heap.high, share_low), 0) AS low,"                               \
	"  share_high / nullif(max(heap.low, share_high), 0) AS high,"                             \
	"  byte_seconds / heap.held AS held, n_samples + n_imputed AS n"                           \
	"  FROM site, heap WHERE run_id = :run AND byte_seconds > 0 AND heap.high > 0)"            \
	" SELECT "
/* clang-format off */
#define RATES \
	"of_interval(used / held, (high - low) / 2 / held) AS \"x average\"," \
	" of_interval(low / held, min(high - low, low) / 2 / held) AS \"x low\"," \
	" of_interval(high / held, (high - low) / 2 / held) AS \"x high\"," \
	" used AS \"of heap time\", low, high, held AS \"of heap\", peak_bytes AS peak," \
	" n_blocks AS blocks, live_bytes AS \"not freed\", site_name(stack_id, 4) AS" \
	" \"allocated at\""
/* clang-format on */

#define HOT  " FROM rated WHERE low > held"
#define COLD " FROM rated WHERE high < held"

const struct report report_hot = {
	.name = "hot",
	.needs_all_blocks = true,
	.is_sampled = true,
	.has_lines = true,
	.scope = REPORT_OF_SUM,
	.title = "Call stacks whose memory gets more time than the average of the heap",
	.nothing = "None for which the samples can say so.",
	.needs = REPORT_NEEDS_CLOCK,
	.note = "x average: share of the heap's time over share of its bytes x seconds;"
		" listed where the 95 % interval leaves the average out; two numbers:"
		" anywhere between them",
	.sql = RATED RATES HOT " ORDER BY n / held DESC, stack_id LIMIT :limit",
	.n_sql = RATED "count(*)" HOT,
	KINDS(TABLE_WITH_INTERVAL, TABLE_PLAIN, TABLE_PLAIN, TABLE_SHARE, TABLE_PERCENT,
	      TABLE_PERCENT, TABLE_PERCENT, TABLE_BYTES, TABLE_COUNT, TABLE_BYTES),
};

const struct report report_cold = {
	.name = "cold",
	.needs_all_blocks = true,
	.is_sampled = true,
	.has_lines = true,
	.scope = REPORT_OF_SUM,
	.title = "Call stacks whose memory gets less time than the average of the heap",
	.nothing = "None for which the samples can say so.",
	.needs = REPORT_NEEDS_CLOCK,
	.note = "x average: share of the heap's time over share of its bytes x seconds;"
		" listed where the 95 % interval leaves the average out, most memory for"
		" nothing first; two numbers: anywhere between them",
	.sql = RATED RATES COLD " ORDER BY held - high DESC, stack_id LIMIT :limit",
	.n_sql = RATED "count(*)" COLD,
	KINDS(TABLE_WITH_INTERVAL, TABLE_PLAIN, TABLE_PLAIN, TABLE_SHARE, TABLE_PERCENT,
	      TABLE_PERCENT, TABLE_PERCENT, TABLE_BYTES, TABLE_COUNT, TABLE_BYTES),
};

#define SHARER(kind, id, stack)                                                                    \
	"CASE " kind " WHEN 1 THEN site_name(coalesce(" stack                                      \
	", 0), 3) WHEN 4 THEN (SELECT name FROM symbol WHERE symbol.id = " id                      \
	") ELSE (SELECT name FROM owner WHERE owner.id = " kind ") END"

/* clang-format off */
const char report_sharing_sql[] =
	"WITH" WHOLE ", shown AS (SELECT * FROM shared_line WHERE run_id = :run ORDER BY n_same >"
	" n_apart, n_changes DESC, n_touches DESC, address, thread_id, other_thread_id"
	" LIMIT :limit)"
	" SELECT"
	" printf('0x%x', address) AS line, CASE WHEN n_same > n_apart THEN 'same bytes' ELSE"
	" 'different bytes' END AS sharing, n_changes AS changes, CAST(n_same AS REAL) / (n_same +"
	" n_apart) AS \"at same\", n_touches AS touches, n_writes AS writes, time_ns AS time,"
	" " PART_OF("time_ns") " AS \"of time\","
	" half_width(" PART_OF("time_ns") " * whole.n,"
	"  " PART_OF("time_ns")
	" * whole.n * n_samples_sq / n_samples, whole.n) AS \"\u00b195 %\","
	" nullif(n_hitm, 0) AS HitM,"
	" (SELECT tid FROM thread WHERE thread.id = thread_id) AS thread,"
	" (SELECT tid FROM thread WHERE thread.id = other_thread_id) AS other,"
	" " SHARER("owner_kind", "owner_id", "stack_id") " || CASE WHEN owner_kind ="
	" other_owner_kind AND owner_id IS other_owner_id THEN '' ELSE ' | ' ||"
	"  " SHARER("other_owner_kind", "other_owner_id", "other_stack_id") " END AS object"
	" FROM whole, shown ORDER BY n_same > n_apart, n_changes DESC, n_touches DESC, address,"
	" thread_id, other_thread_id";
/* clang-format on */

const struct report report_sharing = {
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
	KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_PERCENT, TABLE_COUNT, TABLE_COUNT,
	      TABLE_DURATION, TABLE_SHARE_HALF, TABLE_PERCENT, TABLE_COUNT),
};

/* Where a word says that data was; one that is no data source of a level says what it does. */
#define LEVEL_TEXT                                                                                 \
	"coalesce(level || CASE hit WHEN 'miss' THEN ' miss' ELSE '' END, 'level not known')"

/*
 * Accesses by where the data came from, and memory by node, where the machine has several. Shares
 * are of one source: sources sample different things.
 */
/* clang-format off */
static const char locality_sql[] = "WITH level AS (SELECT source_id, " LEVEL_TEXT
	" AS place, sum(n) AS n,"
	"  sum(n_writes) AS writes, sum(n_latencies) AS told, sum(latency) AS cycles,"
	"  sum(CASE WHEN snoop GLOB '*HitM*' THEN n END) AS hitm"
	"  FROM access_total LEFT JOIN data_source USING (data_src) WHERE run_id = :run"
	"  AND data_src <> 0 GROUP BY 1, 2), whole AS (SELECT source_id, sum(n) AS n,"
	" nullif(sum(cycles), 0) AS cycles FROM level"
	"  GROUP BY 1), node AS (SELECT process_sample.process_id, each.key AS node,"
	" max(each.value) AS bytes"
	"  FROM process_sample, json_each(node_bytes) AS each"
	"  WHERE run_id = :run AND node_bytes IS NOT NULL GROUP BY 1, 2), line AS (SELECT"
	" 'accesses: ' || place AS what, 1.0 * level.n / whole.n AS share,"
	"  half_width(level.n, level.n, whole.n) AS half, level.n AS n, NULL AS bytes, writes,"
	" hitm,"
	"  round(1.0 * level.cycles / nullif(told, 0), 1) AS latency,"
	"  1.0 * level.cycles / whole.cycles AS waited,"
	"  source.name || ': ' || source.unit AS source"
	"  FROM level JOIN whole USING (source_id) JOIN source ON source.id = source_id"
	"  UNION ALL SELECT 'page faults: node ' || node, 1.0 * sum(fault_node.n) / of_source.n,"
	"  CASE WHEN period > 1 THEN half_width(sum(fault_node.n), sum(fault_node.n), of_source.n)"
	" END,"
	"  sum(fault_node.n), NULL, NULL, NULL, NULL, NULL, source.name || ': ' || source.unit"
	"  FROM fault_node JOIN source ON source.id = source_id JOIN"
	"  (SELECT source_id, sum(n) AS n FROM fault_node WHERE run_id = :run GROUP BY 1) AS"
	" of_source"
	"  USING (source_id) WHERE fault_node.run_id = :run GROUP BY source_id, node"
	"  UNION ALL SELECT 'memory on node ' || node, 1.0 * sum(bytes) /"
	"  (SELECT sum(bytes) FROM node), NULL, NULL, sum(bytes), NULL, NULL, NULL, NULL, NULL"
	"  FROM node GROUP BY node) SELECT what, share, half AS \"\302\26195 %\", n AS samples,"
	" bytes, writes, hitm AS HitM, latency AS \"mean cycles\", waited AS \"of all cycles\","
	" source FROM line ORDER BY source IS NULL, source, n DESC, what LIMIT :limit";
/* clang-format on */

const struct report report_locality = {
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
	.sql = locality_sql,
	KINDS(TABLE_PLAIN, TABLE_SHARE_HALF, TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES, TABLE_COUNT,
	      TABLE_COUNT, TABLE_PLAIN, TABLE_PERCENT),
};

/* The same by what was accessed: the levels of each in a word. */
/* clang-format off */
static const char accesses_sql[] = "WITH part AS (SELECT source_id, owner_kind, owner_id, "
	LEVEL_TEXT " AS place, sum(n) AS n,"
	"  sum(n_writes) AS writes, sum(n_latencies) AS told, sum(latency) AS cycles"
	"  FROM access_total LEFT JOIN data_source USING (data_src) WHERE run_id = :run"
	"  GROUP BY 1, 2, 3, 4), whole AS (SELECT source_id, sum(n) AS n, nullif(sum(cycles), 0) AS"
	" cycles FROM part"
	"  GROUP BY 1), object AS (SELECT source_id, owner_kind, owner_id AS id, sum(n) AS n,"
	" sum(writes) AS writes,"
	"  sum(told) AS told, sum(cycles) AS cycles,"
	"  group_concat(place || printf(' %.0f%%', 100.0 * n / (SELECT sum(n) FROM part AS all_of"
	"   WHERE all_of.source_id = part.source_id AND all_of.owner_kind = part.owner_kind"
	"   AND all_of.owner_id = part.owner_id)), ', ') AS levels"
	"  FROM (SELECT * FROM part ORDER BY n DESC) AS part GROUP BY 1, 2, 3), top AS (SELECT *"
	" FROM object ORDER BY n DESC, owner_kind, id LIMIT :limit) SELECT owner.name AS kind, 1.0"
	" * object.n / whole.n AS accesses, half_width(object.n, object.n, whole.n) AS \"\302\26195"
	" %\", object.n AS samples, writes, round(1.0 * object.cycles / nullif(told, 0), 1) AS"
	" \"mean cycles\", 1.0 * object.cycles / whole.cycles AS \"of all cycles\", levels,"
	" source.name || ': ' || source.unit AS source, coalesce(" PLACE
	", owner.meaning) AS object FROM top AS object JOIN whole USING (source_id) JOIN owner ON"
	" owner.id = owner_kind JOIN source ON source.id = source_id ORDER BY object.n DESC,"
	" owner_kind, object.id";
/* clang-format on */

const struct report report_accesses = {
	.name = "accesses",
	.is_sampled = true,
	.scope = REPORT_OF_PART,
	.title = "What sampled accesses went to, and how far",
	.needs = REPORT_NEEDS_DATA_SOURCE,
	.note = "accesses: share of the samples of the source, with its 95 % interval;"
		" mean cycles: latency as the source measures it; of all cycles: share of"
		" their sum. A source samples what its unit says, which need not be all"
		" accesses",
	.sql = accesses_sql,
	KINDS(TABLE_PLAIN, TABLE_SHARE_HALF, TABLE_PERCENT, TABLE_COUNT, TABLE_COUNT, TABLE_PLAIN,
	      TABLE_PERCENT),
};

/* ---- What --watch saw. The turns of one hot word are one line ---- */

#define KEY(table)                                                                                 \
	"CASE WHEN " table ".is_hot THEN 'hot ' || coalesce(" table ".process_id, 0) || ' ' || "   \
	"" table ".address ELSE '' || " table ".id END"

/* Those of a line. */
#define OF_LINE                                                                                    \
	"watch_id IN (SELECT same.id FROM watch AS same WHERE same.run_id = :run AND " KEY(        \
		"same") " = key)"

/* Half of the pairs are below: the bucket in which the median lies, its begin. */
#define MEDIAN                                                                                     \
	"(SELECT 1 << log2_ns FROM (SELECT log2_ns, sum(n) OVER (ORDER BY log2_ns) AS up,"         \
	"  sum(n) OVER () AS whole FROM (SELECT log2_ns, sum(n) AS n FROM watch_reuse"             \
	"  WHERE " OF_LINE " GROUP BY log2_ns))"                                                   \
	" WHERE 2 * up >= whole ORDER BY log2_ns LIMIT 1)"

#define WHO                                                                                        \
	"(SELECT group_concat('T' || coalesce((SELECT tid FROM thread"                             \
	"  WHERE thread.id = thread_id), '?')"                                                     \
	"  || ':' || CASE WHEN r THEN ' ' || r || ' r' ELSE '' END"                                \
	"  || CASE WHEN w THEN ' ' || w || ' w' ELSE '' END"                                       \
	"  || CASE WHEN u THEN ' ' || u || ' rw' ELSE '' END"                                      \
	"  || CASE WHEN x THEN ' ' || x || ' ?' ELSE '' END, ', ')"                                \
	" FROM (SELECT thread_id, sum(n_reads) AS r, sum(n_writes) AS w, sum(n_updates) AS u,"     \
	"  sum(n_unknown) AS x FROM watch_thread WHERE " OF_LINE " GROUP BY thread_id"             \
	"  ORDER BY r + w + u + x DESC LIMIT 8))"

#define OBJECT                                                                                     \
	"CASE owner_kind WHEN 1 THEN (SELECT site_name(stack_id, 2) FROM allocation"               \
	" WHERE allocation.id = owner_id)"                                                         \
	" WHEN 4 THEN (SELECT name FROM symbol WHERE symbol.id = owner_id)"                        \
	" ELSE (SELECT name FROM owner WHERE owner.id = owner_kind) END"

/* clang-format off */
static const char watch_sql[] = "WITH line AS (SELECT " KEY("watch")
	" AS key, min(number) AS number, target, address, size, min(from_ns) AS from_ns, max(to_ns)"
	" AS to_ns, sum(armed_ns) AS armed_ns, sum(n_reads) AS n_reads, sum(n_writes) AS n_writes,"
	" sum(n_updates) AS n_updates, sum(n_unknown) AS n_unknown, is_write_only, max(owner_kind)"
	" AS owner_kind, max(owner_id) AS owner_id, note FROM watch WHERE run_id = :run GROUP BY 1)"
	" SELECT target, printf('0x%x', address) AS address, size AS bytes, from_ns AS \"from\","
	" to_ns AS \"to\", armed_ns AS armed, CASE WHEN NOT is_write_only THEN n_reads END AS"
	" reads, n_writes AS writes, n_updates AS both, n_unknown AS unknown, (n_reads + n_writes +"
	" n_updates + n_unknown) * 1e9 / nullif(armed_ns,"
	" 0) AS \"per second\"," MEDIAN " AS \"next access\","
	" (SELECT 1.0 * sum(n_other) / sum(n) FROM watch_reuse WHERE " OF_LINE
	") AS \"by another\"," WHO " AS threads, " OBJECT " AS object,"
	" CASE WHEN to_ns IS NULL THEN 'refused: ' || note ELSE note END AS note"
	" FROM line ORDER BY number LIMIT :limit";
/* clang-format on */

const struct report report_watched = {
	.name = "watched",
	.title = "What was watched (record --watch): every access while it was armed",
	.nothing = "Nothing was watched: record with --watch.",
	.note = "counts are of instructions of user code, exact for the time armed and"
		" for no other; both: an instruction that reads and writes; unknown: it is"
		" not known which; next access: the median of the time to the next one,"
		" from a power of two up to its double, with some 3.5 us that each access"
		" costs; by another: pairs whose second access was another thread's",
	.sql = watch_sql,
	KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_TIME, TABLE_TIME, TABLE_DURATION,
	      TABLE_COUNT, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT, TABLE_DURATION,
	      TABLE_PERCENT),
};
