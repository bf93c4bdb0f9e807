/* What --watch saw. */
#include "analyze/report-queries.h"

/* Half of the pairs are below: the bucket in which the median lies, its begin. */
#define MEDIAN                                                                                     \
	"(SELECT 1 << log2_ns FROM (SELECT log2_ns, sum(n) OVER (ORDER BY log2_ns) AS up,"         \
	"  sum(n) OVER () AS whole FROM watch_reuse WHERE watch_id = watch.id)"                    \
	" WHERE 2 * up >= whole ORDER BY log2_ns LIMIT 1)"

#define WHO                                                                                              \
	"(SELECT group_concat('T' || coalesce((SELECT tid FROM thread WHERE thread.id = thread_id),'?')" \
	"  || ':' || CASE WHEN n_reads THEN ' ' || n_reads || ' r' ELSE '' END"                          \
	"  || CASE WHEN n_writes THEN ' ' || n_writes || ' w' ELSE '' END"                               \
	"  || CASE WHEN n_updates THEN ' ' || n_updates || ' rw' ELSE '' END"                            \
	"  || CASE WHEN n_unknown THEN ' ' || n_unknown || ' ?' ELSE '' END, ', ')"                      \
	" FROM (SELECT * FROM watch_thread WHERE watch_id = watch.id"                                    \
	"  ORDER BY n_reads + n_writes + n_updates + n_unknown DESC LIMIT 8))"

const char report_watch_sql[] =
	"SELECT target, printf('0x%x', address) AS address, size AS bytes, from_ns AS \"from\","
	" to_ns AS \"to\", armed_ns AS armed,"
	" CASE WHEN NOT is_write_only THEN n_reads END AS reads, n_writes AS writes, n_updates AS both,"
	" n_unknown AS unknown,"
	" (n_reads + n_writes + n_updates + n_unknown) * 1e9 / nullif(armed_ns, 0) AS \"per second\"," MEDIAN
	" AS \"next access\","
	" (SELECT 1.0 * sum(n_other) / sum(n) FROM watch_reuse WHERE watch_id = watch.id) AS \"by another\"," WHO
	" AS threads,"
	" CASE WHEN to_ns IS NULL THEN 'refused: ' || note ELSE note END AS note"
	" FROM watch WHERE run_id = :run ORDER BY number LIMIT :limit";
