/* The report of what was mapped. */
#include "report/queries.h"

/*
 * One row for each kind, maker and place. A piece that goes on when the rest was unmapped, or that
 * moved, was mapped once: only what has none before it counts as mapped.
 */
const char report_mappings_sql[] =
	"WITH change AS ("
	"  SELECT mapping_id, sum(CASE WHEN name = 'madvise' THEN size END) AS advised,"
	"  sum(CASE WHEN name = 'mlock' THEN size END) AS locked,"
	"  count(CASE WHEN name = 'mprotect' THEN 1 END) AS protections"
	"  FROM mapping_event JOIN call ON call.id = call WHERE run_id = :run GROUP BY mapping_id),"
	" named AS ("
	"  SELECT kind, seen, mapping.id, size, death_ns, previous_mapping_id,"
	"  CASE seen WHEN 1 THEN 'before the trace' WHEN 2 THEN 'a library for itself'"
	"  ELSE call.name || CASE WHEN is_nested THEN ' of an allocator' ELSE '' END END AS maker,"
	"  CASE WHEN path <> '' THEN path WHEN stack_id IS NOT NULL THEN stack_text(stack_id, 4)"
	"  ELSE '-' END AS place"
	"  FROM mapping JOIN mapping_kind ON mapping_id = mapping.id"
	"  LEFT JOIN call ON call.id = call WHERE run_id = :run)"
	" SELECT kind, maker AS \"made by\", count(*) AS maps,"
	"  sum(CASE WHEN previous_mapping_id IS NULL THEN size ELSE 0 END) AS mapped,"
	"  sum(CASE WHEN death_ns IS NULL THEN size ELSE 0 END) AS \"at the end\","
	"  sum(advised) AS advised, sum(locked) AS locked,"
	"  nullif(sum(coalesce(protections, 0)), 0) AS \"mprotect\", place AS \"what, or where\""
	" FROM named LEFT JOIN change ON change.mapping_id = named.id"
	" GROUP BY kind, maker, place ORDER BY seen, 5 DESC, 4 DESC, place LIMIT :limit";
