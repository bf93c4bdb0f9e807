/*
 * What explains resident memory. Of each process the look at its pages that found most resident is
 * shown: page_snapshot.has_parts says of which looks the parts are kept.
 */
#include "report/queries.h"

#include <errno.h>
#include <stdio.h>

#include "store/selection/selection.h"

/* clang-format off */
#define SHOWN \
	"WITH shown AS (SELECT page_snapshot.id AS id, max(resident) AS resident, rss, rss_after," \
	" time_ns, reason, heap_pages, half_empty, nearly_empty, uncounted, most_rss, process_id," \
	" pss, pid FROM page_snapshot JOIN process ON process.id = process_id" \
	" WHERE page_snapshot.run_id = :run AND has_parts GROUP BY process_id)"

/* Untouched pages of files and stacks are nothing that anybody has asked for. */
#define IS_ASKED_FOR "kind IN ('heap', 'mapping', 'free')"

/* Plain words for what is no call site. */
#define WHAT \
	"CASE kind WHEN 'heap' THEN site_name(stack_id, 4)" \
	" WHEN 'mapping' THEN 'mmap: ' || coalesce(site_name(nullif(stack_id, 0), 4), '(no stack" \
	" recorded)') || coalesce(' (' || name || ')', '')" \
	" WHEN 'free' THEN 'free: held by the allocator, no live block in the page'" \
	" WHEN 'stack' THEN 'stacks of threads' WHEN 'file' THEN 'pages of ' || name" \
	" WHEN 'data' THEN 'variables of ' || name WHEN 'shared' THEN 'shared memory' ||" \
	" coalesce(' ' || name, '') WHEN 'tool' THEN 'memsight itself'" \
	" WHEN 'unmapping' THEN 'being unmapped: in no mapping any more, and not free yet'" \
	" ELSE coalesce(name, 'anonymous memory that no recorded call mapped') END"

const char report_resident_sql[] = SHOWN
	", part AS (SELECT sum(page_part.resident + beside) AS rss, 1.0 * sum(page_part.resident +"
	" beside) / shown.resident AS share, sum(beside) AS beside,"
	" CASE WHEN " IS_ASKED_FOR " THEN sum(untouched) END AS untouched,"
	" sum(swapped) AS swapped, sum(huge) AS huge,"
	" sum(shared) AS shared, sum(bytes) AS size,"
	" nullif(sum(n_blocks), 0) AS blocks, '[' || group_concat(node_bytes) || ']' AS lists,"
	" pid AS process, kind, " WHAT " AS what"
	" FROM shown JOIN page_part ON snapshot_id = shown.id GROUP BY shown.id, kind, what"
	" HAVING sum(page_part.resident + beside + swapped) > 0 OR " IS_ASKED_FOR
	" ORDER BY 1 DESC, untouched DESC, pid, what LIMIT :limit)"
	" SELECT rss, share, beside, untouched, swapped, huge, shared, size, blocks,"
	" (SELECT group_concat(node || ': ' || bytes_text(bytes), ', ') FROM (SELECT each.key AS"
	"  node, sum(each.value) AS bytes FROM json_each(lists) AS list, json_each(list.value) AS"
	"  each GROUP BY 1 ORDER BY CAST(each.key AS INTEGER))) AS nodes, process, kind, what"
	" FROM part ORDER BY 1 DESC, untouched DESC, process, what";

/* The kernel may have found more or less while the look went on: that is no difference. */
#define DIFFERENCE \
	"max(0, resident - uncounted - max(rss, rss_after), min(rss, rss_after) - resident +" \
	" uncounted)"

static const char resident_foot_sql[] = SHOWN
	" SELECT 'process ' || pid || ' at ' || duration_text(time_ns) || CASE reason WHEN 'end'"
	" THEN ', its end' WHEN 'tick' THEN '' ELSE ', a peak' END || ': ' ||"
	" bytes_text(resident) || ' found resident, VmRSS ' || bytes_text(rss) || ', difference '"
	" || bytes_text(" DIFFERENCE ") || printf(' (%.1f %%)', 100.0 * " DIFFERENCE
	" / max(rss, 1)) || CASE WHEN uncounted > 0 THEN ', beside VmRSS ' || bytes_text(uncounted)"
	" || ' of huge pages of hugetlbfs, persistent memory or devices' ELSE '' END ||"
	" CASE WHEN own <= 1.01 * pss THEN ', Pss ' ||"
	" bytes_text(pss) || ': ' || bytes_text(min(own, pss)) || ' in pages of its own, ' ||"
	" bytes_text(max(0, pss - own)) || ' its part of ' || bytes_text(resident - uncounted -"
	" own) || ' that others have, too' ELSE '' END ||"
	" CASE WHEN heap_pages > 0 THEN printf('; of %,d pages with live blocks"
	" %,d are less than half full, %,d less than a tenth', heap_pages, half_empty,"
	" nearly_empty) ELSE '' END || CASE WHEN most_rss > rss + rss / 10 THEN '; it had '"
	" || bytes_text(most_rss) || ' at most' ELSE '' END"
	" FROM (SELECT *, resident - uncounted - (SELECT coalesce(sum(shared), 0) FROM page_part"
	" WHERE snapshot_id = shown.id) AS own"
	" FROM shown ORDER BY resident DESC LIMIT 5)"
	" UNION ALL SELECT printf('%d %s no look at the end: killed, replaced by exec, or ended"
	" by a system call of its own', count(*), CASE count(*) WHEN 1 THEN 'process has' ELSE"
	" 'processes have' END) FROM shown WHERE NOT EXISTS (SELECT 1 FROM main.page_snapshot"
	" AS last WHERE last.process_id = shown.process_id AND last.reason = 'end')"
	" HAVING count(*) > 0";

/* Of the process with most of it. */
const char report_resident_line_sql[] = SHOWN
	", most AS (SELECT * FROM shown ORDER BY resident DESC LIMIT 1), part AS (SELECT kind,"
	" sum(page_part.resident) AS own, sum(beside) AS beside, sum(untouched) AS untouched"
	" FROM most JOIN page_part ON snapshot_id = most.id GROUP BY kind)"
	" SELECT 'resident ' || bytes_text(resident) || ' at ' || duration_text(time_ns) ||"
	" CASE (SELECT count(*) FROM shown) WHEN 1 THEN '' ELSE ' in process ' || pid END || ': '"
	" || (SELECT group_concat(bytes_text(bytes) || ' ' || what, ', ') FROM (SELECT what, sum(n)"
	"  AS bytes FROM (SELECT CASE kind WHEN 'heap' THEN 'live blocks' WHEN 'free' THEN"
	"  'free in the allocator' WHEN 'mapping' THEN 'mapped' WHEN 'tool' THEN 'memsight'"
	"  WHEN 'file' THEN 'files' WHEN 'data' THEN 'variables' WHEN 'stack' THEN 'stacks'"
	"  WHEN 'unmapping' THEN 'being unmapped'"
	"  ELSE 'other' END AS what, own AS n FROM part UNION ALL SELECT 'free in the allocator',"
	"  beside FROM part) GROUP BY what HAVING sum(n) > 0 ORDER BY 2 DESC)) ||"
	" coalesce((SELECT '; ' || bytes_text(sum(untouched)) || ' of live blocks never touched'"
	" FROM part WHERE kind = 'heap' HAVING sum(untouched) > 0), '') ||"
	" '   (--resident)' FROM most";
/* clang-format on */

/* A table that hides that of the database. */
/* Only looks within request->selection are there from now on. */
static int prepare(sqlite3 *db, const struct report_request *request)
{
	const struct selection *selection = request->selection;
	char sql[512];

	/* a connection of the page answers for one span after another */
	if (sqlite3_exec(db, "DROP TABLE IF EXISTS temp.page_snapshot", NULL, NULL, NULL))
		return -EPROTO;
	if (!selection || !selection_is_part(selection))
		return 0;
	snprintf(sql, sizeof(sql),
		 "CREATE TEMP TABLE page_snapshot AS SELECT"
		 " * FROM main.page_snapshot WHERE run_id = %lld AND time_ns >= %lld AND time_ns <"
		 " %lld AND (%lld = 0 OR process_id IN (SELECT id FROM process WHERE pid = %lld))",
		 (long long)request->run_id, (long long)selection->from_ns,
		 (long long)selection->to_ns, (long long)selection->pid, (long long)selection->pid);
	return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : -EPROTO;
}

const struct report report_resident = {
	.name = "resident",
	.scope = REPORT_OF_SPAN,
	.prepare = prepare,
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
	.foot_sql = resident_foot_sql,
	.sql = report_resident_sql,
	KINDS(TABLE_BYTES, TABLE_PERCENT, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES, TABLE_BYTES,
	      TABLE_BYTES, TABLE_BYTES, TABLE_COUNT, TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN),
};
