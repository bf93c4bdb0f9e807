/*
 * What stands out, as sentences: one query with a part for each rule (docs/findings.md). A rule
 * reads totals only, and names sites where it found something.
 */
#include <errno.h>

#include "report/queries.h"
#include "report/report.h"
#include "store/query-value.h"
#include "store/statement.h"

/* clang-format off */
#define TOTAL(name) "(SELECT value FROM total WHERE run_id = :run AND name = '" name "')"

/*
 * Sites of one call path of the program, whatever libraries did behind it. Only paths with a site
 * of a sixteenth of a threshold are added up: others would need more than 16 sites.
 */
#define PATHS \
	"chosen AS MATERIALIZED (SELECT user_id FROM site JOIN stack ON stack.id = stack_id" \
	" WHERE run_id = :run AND user_id IS NOT NULL AND (live_bytes >= 4096 OR n_temporary >=" \
	" 625 OR n_blocks >= 6250))," \
	" path AS MATERIALIZED (SELECT min(stack_id) AS stack_id, sum(live_bytes) AS live_bytes," \
	" sum(live_blocks) AS live_blocks, sum(n_blocks) AS n, sum(n_frees) AS n_frees," \
	" sum(bytes) AS bytes, sum(n_temporary) AS n_temporary, max(last_ns) - min(first_ns) AS" \
	" span_ns FROM site JOIN stack ON stack.id = stack_id WHERE run_id = :run AND user_id IN" \
	" (SELECT user_id FROM chosen) GROUP BY user_id)," \
	" whole AS MATERIALIZED (SELECT max(" TOTAL("peak_bytes") ", 1) AS peak, max(" \
	TOTAL("allocations") ", 1) AS n),"

/*
 * What differs only in calls that a sentence leaves out is one sentence. A path that is part of it
 * has a sixteenth of the least share, so few have to be named.
 */
#define NAMED(columns, most_of) \
	"(SELECT name || CASE count(*) WHEN 1 THEN '' ELSE printf(' (%d call paths)', count(*))" \
	" END AS name, " columns " FROM (SELECT path.*, site_name(stack_id, 2, 0) AS name" \
	" FROM path, whole WHERE " most_of ") GROUP BY name)"

/* Of a program that ended by itself: of another one nobody knows what it would have freed. */
#define LEAK \
	"leak AS (SELECT 'leak' AS rule, live_bytes AS size, live_bytes AS low, live_bytes AS" \
	" high, 'bytes' AS unit, 1.0 * live_bytes / peak AS weight," \
	" '64 KiB, a tenth of the peak, nine of ten blocks of the path' AS threshold," \
	" printf('%s in %,d blocks of %s were never freed', bytes_text(live_bytes), live_blocks," \
	" name) AS text, '--leaks' AS next FROM (SELECT * FROM " NAMED( \
		"sum(live_bytes) AS live_bytes, sum(live_blocks) AS live_blocks", \
		"160 * live_bytes >= peak AND 10 * n_frees <= path.n") ", whole" \
	" WHERE live_blocks >= 16 AND live_bytes >= max(65536, 0.1 * peak) AND EXISTS (SELECT 1" \
	" FROM run WHERE id = :run AND ended_cleanly AND" \
	" coalesce(exit_status, 0) & 127 = 0) ORDER BY live_bytes DESC LIMIT 2)),"

#define TEMPORARY \
	"temporary AS (SELECT 'temporary', n_temporary, n_temporary, n_temporary, 'blocks'," \
	" 1.0 * n_temporary / all_blocks, '10,000 blocks, a half of the path, a tenth of all'," \
	" printf('%,d of %,d blocks of %s were freed by the next call of their thread'," \
	" n_temporary, n, name), '--temporary' FROM (SELECT one.*, whole.n AS all_blocks FROM " \
	NAMED("sum(n_temporary) AS n_temporary, sum(n) AS n", \
	      "160 * n_temporary >= whole.n AND 2 * n_temporary >= path.n") " AS one, whole" \
	" WHERE n_temporary >= 10000 AND 10 * n_temporary >= whole.n ORDER BY n_temporary DESC" \
	" LIMIT 2)),"

#define TINY \
	"tiny AS (SELECT 'tiny blocks', n, n, n, 'blocks', 1.0 * n / all_blocks," \
	" '100,000 blocks, 64 bytes each, 100,000 a second, three of ten blocks'," \
	" printf('%,d blocks of %d bytes on average, %,d a second, are of %s', n, bytes / n," \
	" CAST(1e9 * n / span_ns AS INTEGER), site_name(stack_id, 2, 0)), '--histogram' FROM" \
	" (SELECT path.*, whole.n AS all_blocks FROM path, whole WHERE path.n >= 100000 AND bytes" \
	" <= 64 * path.n AND 10 * path.n >= 3 * whole.n AND 2 * n_temporary < path.n AND" \
	" path.n * 1e9 >= 1e5 * span_ns AND span_ns > 0 ORDER BY path.n DESC LIMIT 1)),"

#define HOT \
	"hot AS (SELECT 'hot', share, share_low, share_high, 'share of CPU time', share_low," \
	" '30 % of the time for certain, a tenth of the peak at most'," \
	" printf('%.0f-%.0f %% of the CPU time is at %s of %s', 100 * share_low, 100 *" \
	" share_high, bytes_text(peak_bytes), site_name(stack_id, 2))," \
	" '--hot' FROM (SELECT site.*" \
	" FROM site, whole WHERE run_id = :run AND share_low >= 0.3 AND 10 * peak_bytes <= peak" \
	" ORDER BY share_low DESC LIMIT 1)),"

/* Turns that met other bytes than the other's, on lines of blocks. */
#define SHARING \
	"line AS (SELECT max(n_samples) AS n, max(n_samples_sq) AS n_sq, max(n_apart) AS turns," \
	" max(owner_id) AS owner_id FROM shared_line WHERE run_id = :run AND owner_kind = 1 AND" \
	" n_apart >= 8 AND n_apart > 4 * n_same GROUP BY process_id, address)," \
	" shared AS (SELECT stack_id, sum(line.n) AS n, count(*) AS n_lines," \
	" sum(turns) AS turns, half_width(sum(line.n), sum(line.n_sq), "" \
	" CLOCK_SAMPLES ") AS half," \
	" sum(line.n) / " CLOCK_SAMPLES " AS share FROM line JOIN allocation ON allocation.id =" \
	" owner_id GROUP BY stack_id)," \
	" sharing AS (SELECT 'false sharing', share, max(share - half, 0), min(share + half, 1)," \
	" 'share of CPU time', share - half, '2 % of the time for certain, 8" \
	" turns, 4 of 5 apart'," \
	" printf('%.0f-%.0f %% of the CPU time is at %d line%s of %s that two threads use in turn" \
	", each its own bytes: false sharing', 100 * max(share - half, 0), 100 * min(share + half" \
	", 1), n_lines, CASE n_lines WHEN 1 THEN '' ELSE 's' END, site_name(stack_id, 2))," \
	" '--sharing' FROM (SELECT * FROM shared WHERE share - half >= 0.02 ORDER BY share DESC" \
	" LIMIT 1)),"

#define UNTOUCHED \
	"untouched AS (SELECT 'never touched', untouched, untouched, untouched, 'bytes'," \
	" 1.0 * untouched / peak, '1 MiB, a half of the site, a tenth of the peak'," \
	" printf('%s of %s of %s were never touched until %s', bytes_text(untouched)," \
	" bytes_text(bytes), site_name(stack_id, 2), duration_text(time_ns)), '--resident' FROM" \
	" (SELECT page_part.stack_id, sum(untouched) AS untouched, sum(bytes) AS bytes," \
	" max(time_ns) AS time_ns FROM page_part JOIN page_snapshot ON page_snapshot.id =" \
	" snapshot_id JOIN stack ON stack.id = page_part.stack_id WHERE page_part.run_id = :run" \
	" AND kind = 'heap' AND user_id IS NOT NULL AND snapshot_id IN " REPORT_SHOWN_LOOKS \
	" GROUP BY page_part.stack_id), whole WHERE untouched >= max(1048576, 0.1 * peak) AND 2 *" \
	" untouched >= bytes ORDER BY untouched DESC LIMIT 1),"

/* Of the process with most of it: what is large, and no block. */
#define RESIDENT \
	"look AS (SELECT id, resident FROM page_snapshot WHERE id IN " REPORT_SHOWN_LOOKS \
	" ORDER BY resident DESC LIMIT 1)," \
	" held AS (SELECT look.resident AS resident, sum(CASE kind WHEN 'heap' THEN" \
	" page_part.resident END) AS blocks, sum(CASE kind WHEN 'mapping' THEN page_part.resident" \
	" END) AS mapped, sum(beside + CASE kind WHEN 'free' THEN page_part.resident ELSE 0 END)" \
	" AS free FROM look JOIN page_part ON snapshot_id = look.id GROUP BY look.id)," \
	" beside AS (SELECT 'not in blocks', most, most, most, 'bytes', 1.0 * most / resident," \
	" '16 MiB, a half of resident memory', printf('%s of %s resident memory %s, %s are in" \
	" blocks', bytes_text(most), bytes_text(resident), CASE WHEN most = mapped THEN" \
	" 'are in mappings of the program''s own' ELSE 'are free in the allocator' END," \
	" bytes_text(coalesce(blocks, 0))), '--resident' FROM (SELECT *, max(coalesce(mapped, 0)," \
	" coalesce(free, 0)) AS most FROM held) WHERE most >= max(16777216, resident / 2))"

const char report_findings_sql[] =
	"WITH " PATHS LEAK TEMPORARY TINY HOT SHARING UNTOUCHED RESIDENT
	" SELECT rule, text, next, size, low, high, unit, round(weight, 4) AS weight, threshold"
	" FROM (SELECT * FROM leak UNION ALL SELECT * FROM temporary UNION ALL SELECT * FROM tiny"
	" UNION ALL SELECT * FROM hot UNION ALL SELECT * FROM sharing UNION ALL SELECT * FROM"
	" untouched UNION ALL SELECT * FROM beside) ORDER BY weight DESC, rule, text LIMIT :limit";
/* clang-format on */

#define MOST_FINDINGS 5

int report_findings_write(FILE *out, sqlite3 *db, const struct report_request *request)
{
	auto_statement sqlite3_stmt *row =
		report_sql_prepare(db, report_findings_sql, request->run_id, MOST_FINDINGS);
	int code = SQLITE_DONE;

	for (size_t n = 0; row && (code = statement_advance(row)) == SQLITE_ROW; n++)
		fprintf(out, "%-13s%s   (%s)\n", n ? "" : "findings", statement_string(row, 1),
			statement_string(row, 2));
	return row && code == SQLITE_DONE ? 0 : -EPROTO;
}

int report_findings_list(FILE *out, sqlite3 *db, const struct report_request *request)
{
	auto_statement sqlite3_stmt *row =
		report_sql_prepare(db, report_findings_sql, request->run_id, request->limit);
	int code = SQLITE_DONE;
	size_t n = 0;

	for (; row && (code = statement_advance(row)) == SQLITE_ROW; n++)
		fprintf(out, "%s: %s   (%s; threshold: %s)\n", statement_string(row, 0),
			statement_string(row, 1), statement_string(row, 2),
			statement_string(row, 8));
	if (row && n == 0)
		fputs("Nothing stands out by the rules of docs/findings.md.\n", out);
	return row && code == SQLITE_DONE ? 0 : -EPROTO;
}
