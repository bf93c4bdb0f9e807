/*
 * What stands out (docs/findings.md). Each rule is a query over totals; what they find becomes rows
 * of the table finding when a run is imported, and everybody reads these. Sentences keep a place
 * for the name of what they are about: names may be shown in full, or be replaced.
 */
#include <errno.h>

#include "common/cleanup.h"
#include "report/queries.h"
#include "report/report.h"
#include "report/text/sampling-notes.h"
#include "store/database.h"
#include "store/query-value.h"
#include "store/statement.h"

/* clang-format off */
#define TOTAL(name) "(SELECT value FROM total WHERE run_id = :run AND name = '" name "')"

/* Of a program that did not end by itself nobody knows what it would have freed. */
#define HAS_ENDED \
	"(SELECT ended_cleanly AND coalesce(exit_status, 127) & 127 = 0 AND NOT EXISTS (SELECT 1" \
	REPORT_OF_STOP ") AND NOT EXISTS (SELECT 1 FROM process WHERE run_id = :run AND traced" \
	" AND end_ns IS NULL) FROM run WHERE id = :run)"

#define WHOLES \
	"whole AS MATERIALIZED (SELECT max(" TOTAL("peak_bytes") ", 1) AS peak, max(" \
	TOTAL("allocations") ", 1) AS n, duration_ns AS end_ns, " HAS_ENDED " AS has_ended," \
	" (SELECT sum(n_samples) FROM source WHERE run_id = :run AND" \
	" measures = 'fault' AND error = 0 AND coalesce(period, 1) <= 1) AS n_faults" \
	" FROM run WHERE id = :run)"

/*
 * Sites of one call path of the program, whatever libraries did behind it. Only paths with a site
 * of a sixteenth of a threshold are added up: others would need more than 16 sites.
 */
#define PATHS \
	"chosen AS MATERIALIZED (SELECT user_id FROM site JOIN stack ON stack.id = stack_id" \
	" WHERE run_id = :run AND user_id IS NOT NULL AND (live_bytes >= 4096 OR n_temporary >=" \
	" 625 OR n_reallocated >= 625 OR n_blocks >= 6250))," \
	" path AS MATERIALIZED (SELECT min(stack_id) AS stack_id," \
	" sum(live_bytes - exec_bytes) AS live_bytes, sum(live_blocks - exec_blocks) AS" \
	" live_blocks, sum(n_blocks) AS n, sum(n_frees) AS n_frees, sum(bytes) AS bytes," \
	" sum(n_temporary) AS n_temporary, sum(n_reallocated) AS n_reallocated," \
	" sum(n_picked) AS n_picked, sum(live_variance) AS live_variance," \
	" sum(byte_seconds) AS byte_seconds, min(first_ns) AS first_ns," \
	" max(last_ns) - min(first_ns) AS span_ns FROM site JOIN stack ON stack.id = stack_id" \
	" WHERE run_id = :run AND user_id IN (SELECT user_id FROM chosen) GROUP BY user_id)"

/*
 * What differs only in calls that a sentence leaves out is one sentence. A path that is part of it
 * has a sixteenth of the least share, so few have to be named.
 */
#define NAMED(columns, most_of) \
	"(SELECT min(stack_id) AS stack_id, count(*) AS n_paths, " columns " FROM (SELECT path.*," \
	" site_name(stack_id, 2, 0) AS name FROM path, whole WHERE " most_of ") GROUP BY name)"

#define COUNTED(n) n ", " n ", " n

/* Of live_bytes, which may be estimated from picked blocks: with its interval. */
#define LIVE "live_bytes, estimate_low(live_bytes, live_variance, 0)," \
	" estimate_high(live_bytes, live_variance, 0)"
#define ABOUT "CASE WHEN n_picked > 0 THEN 'about ' ELSE '' END || "
#define SURELY "estimate_low(live_bytes, live_variance, 0) >= max(65536, 0.1 * peak)"

#define LEAK \
	"SELECT 1, stack_id, n_paths, " LIVE ", peak, 'peak', " ABOUT "printf('%s in %,d" \
	" blocks of {} were never freed', bytes_text(live_bytes), live_blocks) FROM " \
	NAMED("sum(live_bytes) AS live_bytes, sum(live_blocks) AS live_blocks," \
	      " sum(n_picked) AS n_picked, sum(live_variance) AS live_variance", \
	      "160 * live_bytes >= peak AND 10 * n_frees <= path.n") ", whole" \
	" WHERE live_blocks >= 16 AND " SURELY " AND has_ended" \
	" ORDER BY live_bytes DESC LIMIT 2"

/* The most live bytes of all, after so many quarters of the time that a path made blocks in. */
#define LIVE_AT(quarters) \
	"coalesce((SELECT max_live_bytes FROM timeline WHERE run_id = :run AND time_ns <=" \
	" first_ns + (end_ns - first_ns) * " #quarters " / 4 ORDER BY time_ns DESC LIMIT 1), 0)"
#define ROSE(quarter, next) "16 * (" LIVE_AT(next) " - " LIVE_AT(quarter) ") >= live_bytes"

/* Added evenly: blocks are as old as half of the time on average, and each quarter added some. */
#define GROWTH \
	"SELECT 1, stack_id, 1, " LIVE ", peak, 'peak', " ABOUT "printf('%s in %,d blocks" \
	" of {} were added over %s and not freed: %s a second', bytes_text(live_bytes)," \
	" live_blocks, duration_text(end_ns - first_ns), bytes_text(CAST(1e9 * live_bytes /" \
	" (end_ns - first_ns) AS INTEGER))) FROM path, whole WHERE NOT has_ended AND live_blocks" \
	" >= 64 AND " SURELY " AND 10 * n_frees <= path.n AND end_ns -" \
	" first_ns >= max(1e9, 0.5 * end_ns) AND 1e9 * byte_seconds BETWEEN 0.3 * live_bytes *" \
	" (end_ns - first_ns) AND 0.7 * live_bytes * (end_ns - first_ns) AND " ROSE(0, 1) " AND " \
	ROSE(1, 2) " AND " ROSE(2, 3) " AND " ROSE(3, 4) " ORDER BY live_bytes DESC LIMIT 2"

#define TEMPORARY \
	"SELECT 1, stack_id, n_paths, " COUNTED("n_temporary") ", all_blocks, 'all blocks'," \
	" printf('%,d of %,d blocks of {} were freed by the next call of their thread'," \
	" n_temporary, n) FROM (SELECT one.*, whole.n AS all_blocks FROM " \
	NAMED("sum(n_temporary) AS n_temporary, sum(n) AS n", \
	      "160 * n_temporary >= whole.n AND 2 * n_temporary >= path.n") " AS one, whole" \
	" WHERE n_temporary >= 10000 AND 10 * n_temporary >= whole.n ORDER BY n_temporary DESC" \
	" LIMIT 2)"

#define REALLOCATED \
	"SELECT 1, stack_id, n_paths, " COUNTED("n_reallocated") ", all_blocks, 'all blocks'," \
	" printf('%,d of %,d blocks of {} were made larger or smaller by realloc'," \
	" n_reallocated, n) FROM (SELECT one.*, whole.n AS all_blocks FROM " \
	NAMED("sum(n_reallocated) AS n_reallocated, sum(n) AS n, sum(n_picked) AS n_picked", \
	      "160 * n_reallocated >= whole.n AND 2 * n_reallocated >= path.n") " AS one, whole" \
	" WHERE n_picked = 0 AND n_reallocated >= 10000 AND 10 * n_reallocated >= whole.n" \
	" ORDER BY n_reallocated" \
	" DESC LIMIT 1)"

#define TINY \
	"SELECT 1, stack_id, 1, " COUNTED("n") ", all_blocks, 'all blocks', printf('%,d blocks of" \
	" %d bytes on average, %,d a second, are of {}', n, bytes / n, CAST(1e9 * n / span_ns AS" \
	" INTEGER)) FROM (SELECT path.*, whole.n AS all_blocks FROM path, whole WHERE path.n >=" \
	" 100000 AND n_picked = 0 AND bytes <= 64 * path.n AND 10 * path.n >= 3 * whole.n" \
	" AND 2 * (n_temporary +" \
	" n_reallocated) < path.n AND path.n * 1e9 >= 1e5 * span_ns AND span_ns > 0" \
	" ORDER BY path.n DESC LIMIT 1)"

/* Turns that met other bytes than the other's. */
#define IS_APART "n_apart >= 8 AND n_apart > 4 * n_same"

#define HOT \
	"SELECT 1, stack_id, 1, coalesce(share, share_low), share_low, share_high, 1, 'CPU time'," \
	" printf('%s of the CPU time is at %s of {}', percent_text(share_low, share_high)," \
	" bytes_text(peak_bytes)) FROM site, whole WHERE run_id = :run AND n_picked = 0 AND" \
	" share_low >= 0.3 AND" \
	" 10 * peak_bytes <= peak AND " CLOCK_SAMPLES " >= 100" \
	" AND stack_id NOT IN (SELECT stack_id FROM shared_line WHERE run_id = :run AND" \
	" stack_id IS NOT NULL AND " IS_APART ") ORDER BY share_low DESC LIMIT 1"

/* Memory that is there for most of the time and gets hardly any of it. */
#define COLD \
	"SELECT 1, stack_id, 1, " COUNTED("peak_bytes") ", peak, 'peak', printf('%s of {} got at" \
	" most %.1f %% of the CPU time%s', bytes_text(peak_bytes), 100 * share_high, CASE WHEN" \
	" last_touch_ns < 0.5 * end_ns THEN ': no access was seen after ' ||" \
	" duration_text(last_touch_ns) ELSE '' END) FROM site, whole JOIN stack ON stack.id =" \
	" stack_id WHERE run_id = :run AND n_picked = 0 AND user_id IS NOT NULL AND" \
	" peak_bytes >= max(16777216," \
	" peak / 5) AND share_high <= 0.02 AND byte_seconds >= 0.5 * peak_bytes * end_ns / 1e9" \
	" AND site.stack_id NOT IN (SELECT stack_id FROM page_part WHERE run_id = :run AND" \
	" stack_id IS NOT NULL AND 2 * untouched >= bytes) ORDER BY peak_bytes DESC LIMIT 1"

/* Lines of blocks and of variables. */
#define SHARING \
	"SELECT kind, id, 1, share, max(share - half, 0), min(share + half, 1), 1, 'CPU time'," \
	" printf('%s of the CPU time is at %d line%s of {} that two threads use in turn, each" \
	" its own bytes: false sharing', percent_text(max(share - half, 0), min(share + half," \
	" 1)), n_lines, CASE n_lines WHEN 1 THEN '' ELSE 's' END) FROM (SELECT kind, id," \
	" count(*) AS n_lines, half_width(sum(n), sum(n_sq), " CLOCK_SAMPLES ") AS half, sum(n) /" \
	" " \
	CLOCK_SAMPLES " AS share FROM (SELECT max(n_samples) AS n, max(n_samples_sq) AS n_sq," \
	" max(CASE WHEN stack_id IS NULL THEN owner_kind ELSE 1 END) AS kind," \
	" max(coalesce(stack_id, owner_id)) AS id FROM shared_line WHERE run_id = :run AND" \
	" owner_kind IN (1, 2, 4) AND " IS_APART \
	" GROUP BY process_id, address) GROUP BY kind, id) WHERE share - half >= 0.02" \
	" ORDER BY share DESC LIMIT 1"

/* Of one source: they sample different things. */
#define REMOTE \
	"SELECT owner_kind, owner_id, 1, share, max(share - half, 0), min(share + half, 1), 1," \
	" 'accesses', printf('%s of the sampled accesses were served by another node, most of" \
	" them at {}', percent_text(max(share - half, 0), min(share + half, 1))) FROM" \
	" (SELECT source_id, 1.0 * sum(n * is_remote) / sum(n) AS share, half_width(sum(n *" \
	" is_remote), sum(n * is_remote), sum(n)) AS half FROM access_total JOIN data_source" \
	" USING (data_src) WHERE run_id = :run GROUP BY source_id) AS source JOIN access_total" \
	" USING (source_id) JOIN data_source USING (data_src) WHERE run_id = :run AND is_remote" \
	" AND share - half >= 0.1 GROUP BY source_id, owner_kind, owner_id ORDER BY share DESC," \
	" sum(n) DESC LIMIT 1"

#define FAULTS \
	"SELECT 1, stack_id, 1, " COUNTED("site.n_faults") ", whole.n_faults, 'all page faults'," \
	" printf('%,d page faults are in blocks of {}, which hold %s at most: their pages are" \
	" given back and made anew', site.n_faults, bytes_text(peak_bytes)) FROM site, whole" \
	" WHERE run_id = :run AND n_picked = 0 AND site.n_faults >= 20000 AND" \
	" 3 * site.n_faults >= whole.n_faults" \
	" AND site.n_faults * 4096 >= 8 * max(peak_bytes, 4096) ORDER BY site.n_faults DESC LIMIT 1"

/*
 * A look before the end does not know of what was touched later: page faults do. Without them it
 * must be of the second half.
 */
#define UNTOUCHED \
	"SELECT 1, stack_id, 1, " COUNTED("untouched") ", peak, 'peak', printf('%s of %s of {}" \
	" were never touched until %s', bytes_text(untouched), bytes_text(look.bytes)," \
	" duration_text(look.time_ns)) FROM (SELECT page_part.stack_id, sum(untouched) AS" \
	" untouched, sum(bytes) AS bytes, max(time_ns) AS time_ns FROM page_part JOIN" \
	" page_snapshot ON page_snapshot.id = snapshot_id JOIN stack ON stack.id =" \
	" page_part.stack_id WHERE page_part.run_id = :run AND kind = 'heap' AND user_id IS NOT" \
	" NULL AND snapshot_id IN " REPORT_SHOWN_LOOKS " GROUP BY page_part.stack_id) AS look" \
	" JOIN site USING (stack_id), whole WHERE site.run_id = :run AND untouched >=" \
	" max(1048576, 0.1 * peak) AND 2 * untouched >= look.bytes AND site.n_faults * 4096 +" \
	" untouched <= 1.1 * max(look.bytes, peak_bytes) AND (whole.n_faults IS NOT NULL OR 2 *" \
	" look.time_ns >= end_ns)" \
	" ORDER BY untouched DESC LIMIT 1"

/* Of the process with most of it: what is large, and no block. */
#define RESIDENT(what) \
	"SELECT 0, 0, 1, " COUNTED(what) ", resident, 'resident memory', printf('%s of %s" \
	" resident memory %s, %s are in blocks', bytes_text(" what "), bytes_text(resident)," \
	" CASE '" what \
	"' WHEN 'mapped' THEN 'are in mappings of the program''s own' ELSE 'are free in the" \
	" allocator' END, bytes_text(blocks)) FROM (SELECT look.resident AS resident," \
	" total(CASE kind WHEN 'heap' THEN page_part.resident END) AS blocks, sum(CASE kind WHEN" \
	" 'mapping' THEN page_part.resident ELSE 0 END) AS mapped, sum(beside + CASE kind WHEN" \
	" 'free' THEN page_part.resident ELSE 0 END) AS free FROM (SELECT id, resident FROM" \
	" page_snapshot WHERE id IN " REPORT_SHOWN_LOOKS " ORDER BY resident DESC LIMIT 1) AS" \
	" look JOIN page_part ON snapshot_id = look.id GROUP BY look.id) WHERE " what \
	" >= max(16777216, resident / 2)"
/* clang-format on */

/*
 * A rule's query gives the columns owner_kind, owner_id, n_paths, size, low, high, whole, whole_is
 * and text of finding.
 */
static const struct rule {
	const char *name;
	const char *unit;
	const char *next;
	const char *threshold;
	const char *sql;
} rules[] = {
	{ "leak", "bytes", "--leaks", "64 KiB, a tenth of the peak, nine of ten blocks of the path",
	  LEAK },
	{ "growth", "bytes", "--leaks",
	  "64 blocks, 64 KiB, a tenth of the peak, in each quarter of half of the time", GROWTH },
	{ "temporary", "blocks", "--temporary", "10,000 blocks, a half of the path, a tenth of all",
	  TEMPORARY },
	{ "realloc", "blocks", "--sites", "10,000 blocks, a half of the path, a tenth of all",
	  REALLOCATED },
	{ "tiny blocks", "blocks", "--histogram",
	  "100,000 blocks, 64 bytes each, 100,000 a second, three of ten blocks", TINY },
	{ "hot", "CPU time", "--hot",
	  "30 % of 100 samples of time for certain, a tenth of the peak", HOT },
	{ "cold", "bytes", "--cold",
	  "16 MiB, a fifth of the peak, half of the time, 2 % of the CPU time at most", COLD },
	{ "false sharing", "CPU time", "--sharing",
	  "2 % of the time for certain, 8 turns, 4 of 5 apart", SHARING },
	{ "remote", "accesses", "--locality", "a tenth of the accesses for certain", REMOTE },
	{ "page faults", "page faults", "--sites",
	  "20,000 page faults, a third of all, 8 times the pages of the most that was live",
	  FAULTS },
	{ "never touched", "bytes", "--resident", "1 MiB, a half of the site, a tenth of the peak",
	  UNTOUCHED },
	{ "own mappings", "bytes", "--resident", "16 MiB, a half of resident memory",
	  RESIDENT("mapped") },
	{ "fragmentation", "bytes", "--resident", "16 MiB, a half of resident memory",
	  RESIDENT("free") },
};

/*
 * All rules at once, so that paths are added up once: a row for each finding, in the columns of the
 * table. NULL: no memory.
 */
static char *make_sql(void)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);

	sqlite3_str_appendall(
		sql, "WITH " WHOLES ", " PATHS
		     ", found(rule, unit, next, threshold, owner_kind, owner_id, n_paths, size,"
		     " low, high, whole, whole_is, text) AS (");
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		sqlite3_str_appendf(sql, "%sSELECT %Q, %Q, %Q, %Q, * FROM (%s)",
				    i ? " UNION ALL " : "", rules[i].name, rules[i].unit,
				    rules[i].next, rules[i].threshold, rules[i].sql);
	sqlite3_str_appendall(
		sql,
		") INSERT INTO finding(run_id, number, rule, text, next, size, low, high, unit,"
		" whole, whole_is, weight, threshold, owner_kind, owner_id, n_paths) SELECT :run,"
		" row_number() OVER (ORDER BY 1.0 * low / whole DESC, rule, text), rule, text,"
		" next, size, low, high, unit, whole, whole_is, round(1.0 * low / whole, 4),"
		" threshold, owner_kind, owner_id, n_paths FROM found");
	return sqlite3_str_finish(sql);
}

int report_findings_store(struct db *db, int64_t run_id)
{
	sqlite3 *handle = db_handle(db);
	auto_statement sqlite3_stmt *statement = NULL;
	char *sql = make_sql();
	int r = sql ? statement_prepare(handle, sql, &statement) : -ENOMEM;

	sqlite3_free(sql);
	if (r < 0)
		return r;
	statement_integer(statement, 1, run_id);
	return statement_run(statement);
}

/* ---- What is there ---- */

/* clang-format off */
static const char findings_sql[] =
	"SELECT rule, replace(text, '{}', coalesce(CASE owner_kind WHEN 1 THEN site_name(id, 2, 0)"
	" WHEN 4 THEN (SELECT name FROM symbol WHERE symbol.id = object.id) ELSE " PLACE
	" END, '?') || CASE n_paths WHEN 1 THEN '' ELSE printf(' (%d call paths)', n_paths) END)"
	" AS text, next, size, low, high, unit, whole, whole_is, weight, threshold, (SELECT name"
	" FROM owner WHERE owner.id = owner_kind) AS owner, id AS owner_id FROM (SELECT *, owner_id"
	" AS id FROM finding WHERE run_id = :run) AS object ORDER BY number LIMIT :limit";
/* clang-format on */

static const char count_sql[] = "SELECT count(*) FROM finding WHERE run_id = :run";

enum { COLUMN_RULE, COLUMN_TEXT, COLUMN_NEXT, COLUMN_THRESHOLD = 10 };

#define MOST_FINDINGS 5

int report_findings_write(FILE *out, sqlite3 *db, const struct report_request *request)
{
	auto_statement sqlite3_stmt *row =
		report_sql_prepare(db, findings_sql, request->run_id, MOST_FINDINGS);
	int code = SQLITE_DONE;

	for (size_t n = 0; row && (code = statement_advance(row)) == SQLITE_ROW; n++) {
		auto_free char *text = report_sql_shown(row, COLUMN_TEXT);
		fprintf(out, "%-13s%s   (%s)\n", n ? "" : "findings", text ? text : "",
			statement_string(row, COLUMN_NEXT));
	}
	return row && code == SQLITE_DONE ? 0 : -EPROTO;
}

static int list_findings(FILE *out, sqlite3 *db, const struct report_request *request)
{
	auto_statement sqlite3_stmt *row =
		report_sql_prepare(db, findings_sql, request->run_id, request->limit);
	int code = SQLITE_DONE;
	size_t n = 0;

	for (; row && (code = statement_advance(row)) == SQLITE_ROW; n++) {
		auto_free char *text = report_sql_shown(row, COLUMN_TEXT);
		fprintf(out, "%s: %s   (%s; threshold: %s)\n", statement_string(row, COLUMN_RULE),
			text ? text : "", statement_string(row, COLUMN_NEXT),
			statement_string(row, COLUMN_THRESHOLD));
	}
	if (row && n == 0)
		fputs("Nothing stands out by the rules of docs/findings.md.\n", out);
	report_rest_write(out, report_sql_number(db, count_sql, request->run_id) - (int64_t)n);
	return row && code == SQLITE_DONE ? 0 : -EPROTO;
}

const struct report report_findings = {
	.name = "findings",
	.title = "What stands out",
	.nothing = "Nothing stands out by the rules of docs/findings.md.",
	.note = "size: with the ends of its interval, equal where it was counted; weight:"
		" part of the whole that it is of",
	.sql = findings_sql,
	.write = list_findings,
};
