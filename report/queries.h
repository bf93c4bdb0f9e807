#pragma once
/*
 * For the reports: all of them, and parts of SQL and queries that several share. Each report is a
 * row of report.h beside its query, which takes :run and :limit and needs
 * report_functions_register().
 */
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>

#include "report/report.h"
#include "store/query-value.h"

/* clang-format off */
/* All reports, in the order of --list; the name with _ for -. */
#define REPORTS(X) \
	X(summary) X(list) X(stat) X(overhead) X(sites) X(leaks) X(before) X(unused) X(regions) \
	X(functions) X(plugins) X(pools) X(marks) X(window_list) X(watched) X(processes) \
	X(losses) X(objects) X(access_mix) X(flat) X(hierarchical) X(threads) X(mappings) \
	X(findings) X(resident) X(working_set) X(working_set_curve) X(untouched) X(written) \
	X(timeline) X(heatmap) X(temporary) X(peak) X(histogram) X(hot) X(cold) X(sharing) \
	X(locality) X(accesses)
/* clang-format on */

#define REPORT(name) extern const struct report report_##name;
REPORTS(REPORT)
#undef REPORT

extern const struct report report_own_time; /* --overhead of a run with regions */

/* ---- Their rows ---- */

/* What stands for more columns (report.columns_sql) in a query. */
#define REPORT_MORE_COLUMNS "/* more columns */"

#define KINDS(...)                                                                                 \
	.kinds = (const enum table_kind[]){ __VA_ARGS__ },                                         \
	.n_kinds = sizeof((const enum table_kind[]){ __VA_ARGS__ }) / sizeof(enum table_kind)

#define INTERVAL_NOTE                                                                              \
	"\u00b195 %: with what samples leave unresolved; two numbers: it lies anywhere between"

/* Stacks of blocks that were there before an attach: none is a leak of what was recorded. */
#define BEFORE_ATTACH "SELECT id FROM stack WHERE stop = 'before the attach' AND parent_id IS NULL"

/* Samples of CPU time in the run: what shares of time are shares of. */
#define CLOCK_SAMPLES                                                                              \
	"(SELECT nullif(sum(n_samples), 0) FROM source WHERE run_id = :run AND measures = 'time')"

/*
 * Of the CPU time that samples stand for, in ns (periods differ, so numbers of samples would not
 * do), a share and the ends of its 95 % interval, as store/totals/imputation.c answers for owners:
 * time that no sample stands for may be anybody's, and where it is much the share is not told.
 * Needs WHOLE as table `whole`.
 */
#define WHOLE                                                                                      \
	" whole(n, ns, unsampled) AS (SELECT " CLOCK_SAMPLES                                       \
	", (SELECT nullif(sum(time_ns), 0) FROM thread_total WHERE run_id = :run)"                 \
	", (SELECT coalesce(1.0 * sum(unsampled_ns) / sum(unsampled_ns + weight * scale), 0)"      \
	"  FROM main.source JOIN main.source_ledger ON source_id = source.id"                      \
	"  WHERE source.run_id = :run AND unsampled_ns > 0))"
#define PART_OF(ns) "1.0 * " ns " / whole.ns"
#define HALF_OF(ns) "half_width(" PART_OF(ns) " * whole.n, " PART_OF(ns) " * whole.n, whole.n)"
#define SHARE_OF(ns, name, low, high)                                                              \
	" CASE WHEN unsampled <= max(2 * " HALF_OF(ns) ", 0.002) THEN " PART_OF(                   \
		ns) " END AS \"" name                                                              \
		    "\", max(" PART_OF(ns) " - " HALF_OF(                                          \
			    ns) ", 0) * (1 - unsampled) AS \"" low                                 \
				"\", min(" PART_OF(ns) " + " HALF_OF(                              \
					ns) ", 1) * (1 - unsampled) + unsampled AS \"" high "\","

/*
 * A mapping that no call made that was seen: by its own name; libc's heap as pictures call it
 * (report/chart/heatmap-request.c).
 */
#define MAPPING_NAME                                                                               \
	"CASE path WHEN '[heap]' THEN 'heap (brk)'"                                                \
	" ELSE 'mapping of ' || coalesce(nullif(path, ''), 'anonymous memory') END"

/* What owner_id means is told by the kind; what has none is told by its kind. */
#define PLACE                                                                                      \
	"CASE owner_kind WHEN 1 THEN site_name(object.id, 5)"                                      \
	" WHEN 2 THEN (SELECT 'named ' || name FROM object_name WHERE object_name.id = object.id)" \
	" WHEN 3 THEN (SELECT CASE WHEN stack_id IS NOT NULL THEN CASE kind WHEN 'reserved'"       \
	"  THEN 'mmap, reserved: ' ELSE 'mmap: ' END || site_name(stack_id, 3)"                    \
	"  ELSE " MAPPING_NAME " END FROM mapping JOIN mapping_kind ON mapping_id = mapping.id"    \
	"  WHERE mapping.id = object.id)"                                                          \
	" WHEN 4 THEN (SELECT CASE WHEN symbol.name GLOB '[[]*' THEN 'section ' ||"                \
	"  trim(symbol.name, '[]') ELSE symbol.name END || ' in ' || path FROM symbol"             \
	"  WHERE symbol.id = object.id)"                                                           \
	" WHEN 5 THEN (SELECT 'stack of thread ' || tid FROM thread WHERE thread.id = object.id)"  \
	" WHEN 6 THEN (SELECT 'thread-local storage of thread ' || tid FROM thread"                \
	"  WHERE thread.id = object.id) END"

/* ---- Queries that others ask, too ---- */

extern const char report_resident_sql[];
extern const char report_resident_line_sql[]; /* of the overview; no row: not known */
extern const char report_touched_line_sql[]; /* of the overview; no row: not recorded */
extern const char report_objects_n_sql[];
extern const char report_sharing_sql[];
extern const char report_stat_values_sql[]; /* a row for each repetition; value NULL: it failed */
/* The same for pages of a series, one value or measure a row; :run 0: all. */
extern const char report_series_values_sql[];
extern const char report_series_statistics_sql[];
extern const char report_series_overhead_sql[];

/* Looks at pages that are shown: of each process the one with most resident. */
#define REPORT_SHOWN_LOOKS                                                                         \
	"(SELECT id FROM (SELECT id, max(resident) FROM page_snapshot WHERE run_id = :run"         \
	" AND has_parts GROUP BY process_id))"

/*
 * Of a row with stack_id: what proves that its blocks were not accessed, and when: all its pages
 * were never touched up to a look at them (none is a page of zeros, which is read), or no resident
 * one was touched in intervals one behind the other.
 */
/* clang-format off */
/*
 * Whether a row of page_touch does not go on with the one before in its window `site`: where more
 * time lies between them than an interval of either took, nobody knows what was in it.
 */
#define REPORT_TOUCH_IS_NEW \
	"coalesce(begin_ns - lag(end_ns) OVER site > max((end_ns - begin_ns) / n_intervals," \
	" lag((end_ns - begin_ns) / n_intervals) OVER site), 0)"
#define REPORT_LOOKS_AT_SITES \
	"SELECT stack_id, max(time_ns) AS time_ns, sum(bytes) AS bytes, sum(bytes - untouched) AS" \
	" used FROM page_part JOIN page_snapshot ON page_snapshot.id = snapshot_id WHERE" \
	" page_part.run_id = :run AND kind = 'heap' AND bytes > 0 GROUP BY stack_id, snapshot_id"
/* Part of a site's bytes that may be there of memory that nobody uses: an allocator's own words. */
#define REPORT_MOST_USED "0.05"
#define REPORT_PROOF(site) \
	"coalesce((SELECT 'untouched to ' || duration_text(max(time_ns)) FROM (" \
	REPORT_LOOKS_AT_SITES ") WHERE stack_id = " site " HAVING max(1.0 * used / bytes) <= " \
	REPORT_MOST_USED "), (SELECT 'proven ' || duration_text(begin_ns) || ' to ' ||" \
	" duration_text(end_ns) FROM (SELECT min(begin_ns) AS begin_ns, max(end_ns) AS end_ns" \
	" FROM (SELECT *, sum(is_new OR most > 0 OR resident < size OR has_ended) OVER (PARTITION" \
	" BY process_id ORDER BY begin_ns) AS part FROM (SELECT *, " REPORT_TOUCH_IS_NEW \
	" AS is_new FROM page_touch WHERE run_id = :run AND kind = 'heap' AND stack_id = " site \
	" WINDOW site AS (PARTITION BY process_id ORDER BY begin_ns))) WHERE most = 0 AND" \
	" resident = size AND NOT has_ended GROUP BY process_id, part ORDER BY end_ns - begin_ns" \
	" DESC LIMIT 1)), 'probable')"
/* clang-format on */

#define REPORT_IS_PICKED                                                                           \
	"EXISTS (SELECT 1 FROM total WHERE run_id = :run AND name = 'picked_blocks')"
/* Two columns behind an estimate with this alias. least: estimate_least(), or 0. */
#define REPORT_ESTIMATE(x, variance, least, name)                                                  \
	"estimate_low(" x ", " variance ", " least ") AS \"" name ", low\", estimate_high(" x      \
	", " variance ", " least ") AS \"" name ", high\""
/* SQL, of `site`: what was not freed, and no exec gave back either. */
#define REPORT_LEFT_BLOCKS "(live_blocks - exec_blocks)"
#define REPORT_LEFT_BYTES  "(live_bytes - exec_bytes)"

/* SQL over a row of run: whether its values count. */
#define REPORT_RUN_IS_GOOD                                                                         \
	"ended_cleanly AND coalesce((SELECT value = 'ok' FROM fact WHERE fact.run_id = run.id"     \
	" AND key = 'series.result'), coalesce(exit_status, 0) = 0)"

/*
 * SQL functions for statistics over repetitions; NULLs are left out. Aggregates: median(x),
 * deviation(x) (NULL below two values), interval_low(x) and interval_high(x) (95 %, of the median,
 * seeded; NULL below STATISTICS_INTERVAL_VALUES), quartile_low(x), quartile_high(x), outliers(x,
 * name): the names of values beyond Tukey's fences, NULL: none. unit_text(x, unit). Returns an
 * SQLite code.
 */
int report_stat_register(sqlite3 *db);
/* ---- What writes ---- */

/* Write the first findings, or as many as are asked for, a line each. Return 0 or -EPROTO. */
int report_findings_write(FILE *out, sqlite3 *db, const struct report_request *request);

/* A line that tells which one of several runs of the database this is; of the only one nothing. */
void report_summary_run(FILE *out, sqlite3 *db, int64_t run);

/*
 * The axis of time under a drawing, with its ticks and their texts: two lines. The drawing begins
 * at column `indent` and has n_columns.
 */
struct report_time_axis {
	int64_t from_ns;
	int64_t to_ns;
	unsigned indent;
	unsigned n_columns;
};
void report_time_axis_draw(FILE *out, const struct report_time_axis *axis);

/*
 * Which of n levels a number from 1 to `most` has: from 0, in equal steps of its logarithm. Each
 * level has at least one number, as far as there are that many.
 */
unsigned report_heatmap_level(uint32_t number, uint32_t most, unsigned n);
