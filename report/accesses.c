#include "report/queries.h"

/* Where a word says that data was; one that is no data source of a level says what it does. */
#define LEVEL_TEXT                                                                                 \
	"coalesce(level || CASE hit WHEN 'miss' THEN ' miss' ELSE '' END, 'level not known')"

/*
 * Accesses by where the data came from, and memory by node, where the machine has several. Shares
 * are of one source: sources sample different things.
 */
/* clang-format off */
const char report_locality_sql[] = "WITH level AS (SELECT source_id, " LEVEL_TEXT
	" AS place, sum(n) AS n,"
	"  sum(n_writes) AS writes, sum(n_latencies) AS told, sum(latency) AS cycles,"
	"  sum(CASE WHEN snoop GLOB '*HitM*' THEN n END) AS hitm"
	"  FROM access_total LEFT JOIN data_source USING (data_src) WHERE run_id = :run"
	"  AND data_src <> 0 GROUP BY 1, 2),"
	" whole AS (SELECT source_id, sum(n) AS n, nullif(sum(cycles), 0) AS cycles FROM level"
	"  GROUP BY 1),"
	" node AS (SELECT process_sample.process_id, each.key AS node, max(each.value) AS bytes"
	"  FROM process_sample, json_each(node_bytes) AS each"
	"  WHERE run_id = :run AND node_bytes IS NOT NULL GROUP BY 1, 2),"
	" line AS (SELECT 'accesses: ' || place AS what, 1.0 * level.n / whole.n AS share,"
	"  half_width(level.n, level.n, whole.n) AS half, level.n AS n, NULL AS bytes, writes,"
	" hitm,"
	"  round(1.0 * level.cycles / nullif(told, 0), 1) AS latency,"
	"  1.0 * level.cycles / whole.cycles AS waited,"
	"  source.name || ': ' || source.unit AS source"
	"  FROM level JOIN whole USING (source_id) JOIN source ON source.id = source_id"
	"  UNION ALL SELECT 'page faults: node ' || node, 1.0 * sum(fault_node.n) / of_source.n,"
	"  CASE WHEN period > 1 THEN half_width(sum(fault_node.n), sum(fault_node.n),"
	" of_source.n) END,"
	"  sum(fault_node.n), NULL, NULL, NULL, NULL, NULL, source.name || ': ' || source.unit"
	"  FROM fault_node JOIN source ON source.id = source_id JOIN"
	"  (SELECT source_id, sum(n) AS n FROM fault_node WHERE run_id = :run"
	" GROUP BY 1) AS of_source"
	"  USING (source_id) WHERE fault_node.run_id = :run GROUP BY source_id, node"
	"  UNION ALL SELECT 'memory on node ' || node, 1.0 * sum(bytes) /"
	"  (SELECT sum(bytes) FROM node), NULL, NULL, sum(bytes), NULL, NULL, NULL, NULL, NULL"
	"  FROM node GROUP BY node)"
	" SELECT what, share, half AS \"\302\26195 %\", n AS samples, bytes, writes, hitm AS HitM,"
	" latency AS \"mean cycles\", waited AS \"of all cycles\", source FROM line"
	" ORDER BY source IS NULL, source, n DESC, what LIMIT :limit";
/* clang-format on */

/* The same by what was accessed: the levels of each in a word. */
/* clang-format off */
const char report_accesses_sql[] = "WITH part AS (SELECT source_id, owner_kind, owner_id, "
	LEVEL_TEXT " AS place, sum(n) AS n,"
	"  sum(n_writes) AS writes, sum(n_latencies) AS told, sum(latency) AS cycles"
	"  FROM access_total LEFT JOIN data_source USING (data_src) WHERE run_id = :run"
	"  GROUP BY 1, 2, 3, 4),"
	" whole AS (SELECT source_id, sum(n) AS n, nullif(sum(cycles), 0) AS cycles FROM part"
	"  GROUP BY 1),"
	" object AS (SELECT source_id, owner_kind, owner_id AS id, sum(n) AS n,"
	" sum(writes) AS writes,"
	"  sum(told) AS told, sum(cycles) AS cycles,"
	"  group_concat(place || printf(' %.0f%%', 100.0 * n / (SELECT sum(n) FROM part AS all_of"
	"   WHERE all_of.source_id = part.source_id AND all_of.owner_kind = part.owner_kind"
	"   AND all_of.owner_id = part.owner_id)), ', ') AS levels"
	"  FROM (SELECT * FROM part ORDER BY n DESC) AS part GROUP BY 1, 2, 3),"
	" top AS (SELECT * FROM object ORDER BY n DESC, owner_kind, id LIMIT :limit)"
	" SELECT owner.name AS kind, 1.0 * object.n / whole.n AS accesses,"
	" half_width(object.n, object.n, whole.n) AS \"\302\26195 %\", object.n AS samples, writes,"
	" round(1.0 * object.cycles / nullif(told, 0), 1) AS \"mean cycles\","
	" 1.0 * object.cycles / whole.cycles AS \"of all cycles\", levels,"
	" source.name || ': ' || source.unit AS source, coalesce(" PLACE
	", owner.meaning) AS object"
	" FROM top AS object JOIN whole USING (source_id) JOIN owner ON owner.id = owner_kind"
	" JOIN source ON source.id = source_id"
	" ORDER BY object.n DESC, owner_kind, object.id";
/* clang-format on */
