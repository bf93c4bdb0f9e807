/* What --watch saw. The turns of one hot word are one line. */
#include "report/queries.h"

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
	"CASE owner_kind WHEN 1 THEN (SELECT stack_text(stack_id, 2) FROM allocation"              \
	" WHERE allocation.id = owner_id)"                                                         \
	" WHEN 4 THEN (SELECT name FROM symbol WHERE symbol.id = owner_id)"                        \
	" ELSE (SELECT name FROM owner WHERE owner.id = owner_kind) END"

/* clang-format off */
const char report_watch_sql[] = "WITH line AS (SELECT " KEY("watch")
	" AS key, min(number) AS number, target, address, size,"
	" min(from_ns) AS from_ns, max(to_ns) AS to_ns, sum(armed_ns) AS armed_ns,"
	" sum(n_reads) AS n_reads, sum(n_writes) AS n_writes, sum(n_updates) AS n_updates,"
	" sum(n_unknown) AS n_unknown, is_write_only, max(owner_kind) AS owner_kind,"
	" max(owner_id) AS owner_id, note FROM watch WHERE run_id = :run GROUP BY 1)"
	" SELECT target, printf('0x%x', address) AS address, size AS bytes, from_ns AS \"from\","
	" to_ns AS \"to\", armed_ns AS armed,"
	" CASE WHEN NOT is_write_only THEN n_reads END AS reads, n_writes AS writes,"
	" n_updates AS both,"
	" n_unknown AS unknown,"
	" (n_reads + n_writes + n_updates + n_unknown) * 1e9 / nullif(armed_ns,"
	" 0) AS \"per second\"," MEDIAN " AS \"next access\","
	" (SELECT 1.0 * sum(n_other) / sum(n) FROM watch_reuse WHERE " OF_LINE
	") AS \"by another\"," WHO " AS threads, " OBJECT " AS object,"
	" CASE WHEN to_ns IS NULL THEN 'refused: ' || note ELSE note END AS note"
	" FROM line ORDER BY number LIMIT :limit";
/* clang-format on */
