#include "report/queries.h"

#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/human-number.h"
#include "common/text.h"
#include "report/hints.h"
#include "report/report.h"
#include "report/text/fit-text.h"
#include "report/text/sampling-notes.h"
#include "schemas/trace-format.h"
#include "store/block-weight.h"
#include "store/query-value.h"
#include "store/statement.h"

#define PLACE_COLUMN 39 /* where the last column starts ... */

#define TIME_COLUMNS 15 /* fewer where no time was sampled */
#define GOOD_PLACE   48 /* columns; with less others make room, ... */
#define LEAST_PLACE  40 /* ... and with less than this it is below them */
#define PLACE_INDENT 6

#define LIFE_COLUMNS  16 /* ... or so much further, with the phase of life, ... */
#define STALL_COLUMNS 15 /* ... and with what was waited for */

#define MANY_PARTS 5000 /* 0.2 s for their places */
#define CANDIDATES "10 * :limit" /* rows that are looked at before they are grouped */

/*
 * One row for what reads alike: heap sites by their three innermost frames (the C++ runtime's
 * operator new is none of the program's), mappings by what asked for them. Heap sites come from
 * their aggregate, the others from theirs. For a row of several sites the sum of their peaks is a
 * bound.
 */
#define SHARES                                                                                     \
	"n_samples + n_imputed AS n, n_samples AS told, share AS s, share_low AS s_low,"           \
	" share_high AS s_high, n_stalls + n_stalls_imputed AS st, n_stalls AS st_told,"           \
	" stall_share AS t, stall_low AS t_low, stall_high AS t_high"
#define SUMS                                                                                       \
	"sum(n) AS n, sum(told) AS told, CASE WHEN count(s) = count(*) THEN sum(s) END AS s,"      \
	" sum(s_low) AS s_low, sum(s_high) AS s_high, sum(st) AS st, sum(st_told) AS st_told,"     \
	" CASE WHEN count(t) = count(*) THEN sum(t) END AS t, sum(t_low) AS t_low,"                \
	" sum(t_high) AS t_high"
#define NAMES "n, told, s, s_low, s_high, st, st_told, t, t_low, t_high"

/*
 * An answer of several parts: their ends bound its interval, and so does the binomial one of their
 * sum. That one goes by numbers of samples, the share by their time: the interval holds the number
 * all the same.
 */
#define ANSWER(share, low, high, n, told, anybody)                                                 \
	"CASE WHEN count(" share ") = count(*) THEN sum(" share ") END, "                          \
	"CASE WHEN sum(n_parts) = 1 THEN sum(" low ") ELSE min(coalesce(sum(" share                \
	"), 1), max(sum(" low "), sum(" told ") / " CLOCK_SAMPLES " - half_width(sum(" told        \
	"), sum(" told "), " CLOCK_SAMPLES "))) END, CASE WHEN sum(n_parts) = 1 THEN sum(" high    \
	") ELSE max(coalesce(sum(" share "), 0), min(1, sum(" high "), sum(" n                     \
	") / " CLOCK_SAMPLES " + half_width(sum(" n "), sum(" n "), " CLOCK_SAMPLES                \
	") + (SELECT " anybody " FROM kind_share WHERE run_id = :run AND owner_kind = 0))) END, "

/* clang-format off */
static const char objects_sql[] = "WITH other AS ("
	"  SELECT owner_kind, owner_id, " SHARES " FROM object_total"
	"  WHERE run_id = :run AND owner_kind IN (2, 3, 4, 5, 6)"
	"  AND n_samples + n_imputed + n_stalls + n_stalls_imputed > 0"
	"  ORDER BY n DESC LIMIT " CANDIDATES "),"
	" site_of AS ("
	"  SELECT " SHARES ", peak_bytes, n_blocks, first_ns, last_ns,"
	"  stack_id, coalesce(stack.user_id, CASE WHEN function GLOB 'operator new*' AND"
	"  stack.parent_id IS NOT NULL THEN stack.parent_id ELSE stack.id END) AS inner_id"
	"  FROM site LEFT JOIN stack ON stack.id = stack_id"
	"  LEFT JOIN frame ON frame.id = stack.frame_id WHERE run_id = :run),"
	" heap AS ("
	"  SELECT count(*) AS n_parts, " SUMS ", sum(peak_bytes) AS bytes,"
	" sum(n_blocks) AS blocks, min(first_ns) AS first,"
	"  max(last_ns) AS last, min(stack_id) AS stack_id"
	"  FROM site_of LEFT JOIN stack AS a ON a.id = inner_id"
	"  LEFT JOIN stack AS b ON b.id = a.parent_id LEFT JOIN stack AS c ON c.id = b.parent_id"
	"  GROUP BY a.frame_id, b.frame_id, c.frame_id, a.stop, b.stop, c.stop"
	"  ORDER BY n DESC, bytes DESC, stack_id LIMIT " CANDIDATES "),"
	" object AS ("
	"  SELECT n_parts, " NAMES ", bytes, blocks, first, last, site_name(stack_id,"
	" 3, 0) AS place FROM heap"
	"  UNION ALL SELECT 1, " NAMES ", size, 1, time_ns, coalesce(object_name.end_ns, "
	"duration_ns),"
	"  'named ' || name"
	"  FROM other JOIN object_name ON object_name.id = owner_id JOIN run ON run.id = :run"
	"  WHERE owner_kind = 2"
	"  UNION ALL SELECT 1, " NAMES ", CASE kind WHEN 'reserved' THEN NULL ELSE size END, 1,"
	" allocated_ns,"
	"  coalesce(freed_ns, duration_ns), CASE WHEN stack_id IS NOT NULL"
	"  THEN CASE kind WHEN 'reserved' THEN 'mmap, reserved: ' ELSE 'mmap: '"
	" END || site_name(stack_id, 3)"
	"  ELSE " MAPPING_NAME " END"
	"  FROM other JOIN mapping ON mapping.id = owner_id JOIN mapping_kind"
	" ON mapping_id = owner_id"
	"  JOIN run ON run.id = :run WHERE owner_kind = 3"
	"  UNION ALL SELECT 1, " NAMES ", NULL, NULL, 0, duration_ns, owner.meaning"
	"  FROM other JOIN owner ON owner.id = owner_kind JOIN run ON run.id = :run"
	"  WHERE owner_kind = 3 AND owner_id NOT IN (SELECT id FROM mapping)"
	"  UNION ALL SELECT 1, " NAMES ", symbol.size, NULL, 0, duration_ns,"
	"  CASE WHEN symbol.name GLOB '[[]*' THEN 'section ' || trim(symbol.name, '[]')"
	"  ELSE 'global ' || symbol.name END || ' in ' || symbol.path"
	"  FROM other JOIN symbol ON symbol.id = owner_id JOIN run ON run.id = :run"
	"  WHERE owner_kind = 4"
	"  UNION ALL SELECT 1, " NAMES ", NULL, NULL, start_ns, coalesce(end_ns, duration_ns),"
	"  CASE owner_kind WHEN 5 THEN 'stack' ELSE 'thread-local storage' END || ' of thread '"
	"  || tid || coalesce(' (' || (SELECT name FROM thread_name WHERE thread_id = thread.id"
	"  ORDER BY time_ns DESC LIMIT 1) || ')', '')"
	"  FROM other JOIN thread ON thread.id = owner_id JOIN run ON run.id = :run"
	"  WHERE owner_kind IN (5, 6)) "
	"SELECT sum(n) AS n_all, " ANSWER("s", "s_low", "s_high", "n", "told", "share_high")
	ANSWER("t", "t_low", "t_high", "st", "st_told", "stall_high")
	"  sum(bytes) AS bytes_all, sum(blocks), min(first), max(last), place, sum(n_parts)"
	" FROM object GROUP BY place ORDER BY n_all DESC, bytes_all DESC LIMIT :limit";
/* clang-format on */

enum {
	COLUMN_N,
	COLUMN_SHARE, /* low and high behind it */
	COLUMN_STALLS = COLUMN_SHARE + 3,
	COLUMN_BYTES = COLUMN_STALLS + 3,
	COLUMN_BLOCKS,
	COLUMN_FIRST,
	COLUMN_LAST,
	COLUMN_PLACE,
	COLUMN_PARTS
};

/* What the rows of a run are measured by. */
struct objects {
	bool has_time; /* there are samples of CPU time */
	bool has_stalls; /* samples tell what was waited for */
	bool has_lives; /* there is room for the phase of life */
};

static unsigned place_column(const struct objects *objects)
{
	return PLACE_COLUMN - (objects->has_time ? 0 : TIME_COLUMNS) +
	       (objects->has_lives ? LIFE_COLUMNS : 0) + (objects->has_stalls ? STALL_COLUMNS : 0);
}

/* What a line is about has its room first. */
static void fit_objects(struct objects *objects, unsigned width)
{
	if (width && width < place_column(objects) + GOOD_PLACE)
		objects->has_lives = false;
	if (width && width < place_column(objects) + GOOD_PLACE)
		objects->has_stalls = false;
}

/* A text with its padding: "±" and "≤" have more bytes than columns. */
static void write_left(FILE *out, const char *text, unsigned width)
{
	unsigned columns = fit_columns(text);

	fprintf(out, "  %s%*s", text, columns < width ? (int)(width - columns) : 0, "");
}

static void write_blocks(FILE *out, sqlite3_stmt *stmt, unsigned width)
{
	bool is_null = sqlite3_column_type(stmt, COLUMN_BLOCKS) == SQLITE_NULL;

	write_left(out,
		   is_null ? "-" : format_count(sqlite3_column_int64(stmt, COLUMN_BLOCKS)).text,
		   width);
}

/* The peaks of several sites need not fall together: their sum bounds that of the row. */
static void write_peak(FILE *out, sqlite3_stmt *stmt)
{
	bool is_bound = sqlite3_column_int64(stmt, COLUMN_PARTS) > 1;
	struct format_text bytes = format_bytes(sqlite3_column_int64(stmt, COLUMN_BYTES));
	char text[sizeof(bytes.text) + 4];

	snprintf(text, sizeof(text), "%s%s", is_bound ? "\u2264" : "", bytes.text);
	write_left(out, sqlite3_column_type(stmt, COLUMN_BYTES) == SQLITE_NULL ? "-" : text, 9);
}

/* A share in column, low and high behind it. */
static void write_object_share(FILE *out, sqlite3_stmt *stmt, int column)
{
	struct format_text text = report_sql_share(stmt, column);

	fprintf(out, "%*s%s", 13 - (int)fit_columns(text.text), "", text.text);
}

static void write_object(FILE *out, sqlite3_stmt *stmt, const struct report_request *request,
			 const struct objects *objects)
{
	struct format_text life = format_interval(sqlite3_column_int64(stmt, COLUMN_FIRST),
						  sqlite3_column_int64(stmt, COLUMN_LAST));
	unsigned column = place_column(objects);
	unsigned width = request->width;
	bool is_below = width && width < column + LEAST_PLACE;
	auto_free char *place = report_sql_shown(stmt, COLUMN_PLACE);

	if (objects->has_time) {
		fputs("  ", out);
		write_object_share(out, stmt, COLUMN_SHARE);
	}
	if (objects->has_stalls) {
		fputs("  ", out);
		write_object_share(out, stmt, COLUMN_STALLS);
	}
	write_peak(out, stmt);
	write_blocks(out, stmt, is_below ? 0 : 9);
	if (objects->has_lives)
		fprintf(out, "  %-14s", life.text);
	fprintf(out, is_below ? "\n%*s" : "%*s", is_below ? PLACE_INDENT : 2, "");
	fit_write(out, place && *place ? place : "(unknown)",
		  width ? width - (is_below ? PLACE_INDENT : column) : 0);
	fputc('\n', out);
}

static void write_objects_head(FILE *out, const struct objects *objects)
{
	if (objects->has_time)
		fprintf(out, "  %14s", "time \u00b195 % ");
	if (objects->has_stalls)
		fprintf(out, "  %14s", "stall \u00b195 % ");
	fprintf(out, "  %-9s  %-9s%s  %s\n", "peak", "blocks",
		objects->has_lives ? "  phase of life " : "",
		"what it is, or where it was allocated");
}

static void write_note(FILE *out, const struct objects *objects)
{
	if (!objects->has_time)
		return;
	fprintf(out,
		"time: share of the samples of CPU time at accesses to it, two numbers: anywhere"
		" between them%s%s\n",
		objects->has_stalls ? "; stall: right behind an instruction that waited for it"
				    : "",
		objects->has_lives ? "; phase of life: from the first allocation to the last end"
				   : "; wider output has more columns");
}

/*
 * What was left out. Lines are made of the texts of places, and those take their time: where there
 * are very many, the parts of lines are told.
 */
static void write_rest(FILE *out, sqlite3 *db, const struct report_request *request)
{
	char *sql = sqlite3_mprintf("SELECT count(*) FROM (%s)", objects_sql);
	int64_t n_parts = report_sql_number(db, report_objects_n_sql, request->run_id);

	if (!sql)
		statement_keep(db, SQLITE_NOMEM);
	if (n_parts > MANY_PARTS)
		fprintf(out,
			"\u2026 more (-n 0 shows all): %s call sites and other objects in all\n",
			format_count(n_parts).text);
	else if (sql)
		report_rest_write(out,
				  report_sql_number(db, sql, request->run_id) - request->limit);
	sqlite3_free(sql);
}

/*
 * The hottest objects of a run, or the biggest where nothing was sampled: heap blocks by the call
 * stack that allocated them, mappings, global variables, stacks. request->limit of them, one line
 * each under a head line, and how many follow. Result as report_write().
 */
static int report_objects_write(FILE *out, sqlite3 *db, const struct report_request *request)
{
	struct objects objects = {
		.has_time = report_sql_number(db, "SELECT " CLOCK_SAMPLES, request->run_id) > 0,
		.has_lives = true,
		.has_stalls = report_sql_number(db,
						"SELECT count(*) FROM owner_share"
						" WHERE run_id = :run AND role = 2",
						request->run_id) > 0,
	};
	sqlite3_stmt *stmt = report_sql_prepare(db, objects_sql, request->run_id, request->limit);
	int code = SQLITE_DONE;

	fit_objects(&objects, request->width);
	if (!stmt)
		return -EPROTO;
	size_t row = 0;
	for (; (code = statement_advance(stmt)) == SQLITE_ROW; row++) {
		if (row == 0)
			write_objects_head(out, &objects);
		write_object(out, stmt, request, &objects);
	}
	sqlite3_finalize(stmt);
	if (request->limit > 0 && (int64_t)row >= request->limit)
		write_rest(out, db, request);
	if (row > 0)
		write_note(out, &objects);
	return code == SQLITE_DONE ? 0 : -EPROTO;
}

static int64_t total(sqlite3 *db, int64_t run_id, const char *name)
{
	auto_statement sqlite3_stmt *stmt = report_sql_prepare(
		db, "SELECT value FROM total WHERE run_id = :run AND name = :name", run_id, -1);
	int64_t value = 0;

	if (!stmt)
		return 0;
	sqlite3_bind_text(stmt, sqlite3_bind_parameter_index(stmt, ":name"), name, -1,
			  SQLITE_STATIC);
	if (statement_advance(stmt) == SQLITE_ROW)
		value = sqlite3_column_int64(stmt, 0);
	return value;
}

static const char *plural(int64_t n, const char *one, const char *many)
{
	return n == 1 ? one : many;
}

/*
 * A process counts once, as what it became by exec; its main thread likewise. An exec whose fork
 * was not seen has its parent's id too, so the pid decides.
 */
#define IS_LAST_IMAGE                                                                              \
	" NOT EXISTS (SELECT 1 FROM process AS next WHERE next.parent_id = process.id"             \
	" AND next.pid = process.pid AND next.birth = 'exec')"

/* "   3 processes (1 not traced: ping, setuid)   9 threads" */
static void write_processes(FILE *out, sqlite3 *db, int64_t run)
{
	int64_t n = report_sql_number(
		db, "SELECT count(*) FROM process WHERE run_id = :run AND" IS_LAST_IMAGE, run);
	int64_t n_not =
		report_sql_number(db,
				  "SELECT count(*) FROM process WHERE run_id = :run AND NOT traced"
				  " AND why_not IS NOT 'perf.data' AND" IS_LAST_IMAGE " AND NOT"
				  " EXISTS (SELECT 1 FROM fact WHERE run_id = :run"
				  " AND key = 'memsight.alloc' AND value = 'no')",
				  run);
	int64_t n_threads = report_sql_number(
		db,
		"SELECT count(*) FROM thread JOIN process ON process.id = process_id"
		" WHERE thread.run_id = :run AND (NOT is_main OR" IS_LAST_IMAGE ")"
		/* What was there before an attach stands under the name of none. */
		" AND NOT (tid = 0 AND EXISTS (SELECT 1 FROM thread_name WHERE thread_id ="
		" thread.id AND name = 'before attach'))",
		run);
	auto_free char *first = report_sql_text(
		db,
		"SELECT replace(exe, rtrim(exe, replace(exe, '/', '')), '') || ', ' ||"
		" coalesce(why_not, 'unknown') FROM process WHERE run_id = :run AND NOT traced"
		" AND" IS_LAST_IMAGE " ORDER BY start_ns LIMIT 1",
		run);

	fprintf(out, "   %s %s", format_count(n).text, plural(n, "process", "processes"));
	if (n_not)
		fprintf(out, " (%s not traced: %s%s)", format_count(n_not).text,
			first ? first : "?", n_not > 1 ? ", ..." : "");
	fprintf(out, "   %s %s", format_count(n_threads).text,
		plural(n_threads, "thread", "threads"));
}

void report_summary_run(FILE *out, sqlite3 *db, int64_t run)
{
	report_lines_write(
		out, db,
		"SELECT 'run ' || id || ' of ' || (SELECT count(*) FROM run) || ': ' || program ||"
		" '.' || mode || '.' || repetition || '   (--run chooses one, --stat shows all)'"
		" FROM run WHERE id = :run AND (SELECT count(*) FROM run) > 1",
		run, "");
}

static void write_head(FILE *out, sqlite3 *db, const struct report_request *request)
{
	int64_t run = request->run_id;
	auto_free char *command =
		report_sql_text(db, "SELECT command FROM run WHERE id = :run", run);
	int64_t duration =
		report_sql_number(db, "SELECT duration_ns FROM run WHERE id = :run", run);
	auto_free char *sources =
		report_sql_text(db,
				"SELECT group_concat(name, ' + ') FROM (SELECT name FROM source"
				" WHERE run_id = :run AND error = 0 AND measures <> 'tasks'"
				" ORDER BY number)",
				run);
	auto_free char *pmu = report_sql_text(
		db, "SELECT value FROM fact WHERE run_id = :run AND key = 'pmu' AND NOT at_end",
		run);

	fit_write(out, command && *command ? text_hide_controls(command) : "(command not known)",
		  request->width);
	fprintf(out, "   %s", format_duration(duration).text);
	write_processes(out, db, run);
	if (sources)
		fprintf(out, "   %s%s", pmu && strcmp(pmu, "none") == 0 ? "no PMU: " : "", sources);
	else
		fputs("   nothing sampled", out);
	fputc('\n', out);
	auto_free char *stop = report_stop_text(db, run);
	if (stop)
		fprintf(out, "%s; of what came later nothing is known\n", stop);
}

#define WAS_ATTACHED                                                                               \
	"SELECT count(*) FROM fact WHERE run_id = :run AND key = 'memsight.attach.blocks'"

/* What blocks that are left at the end are called depends on how the end came. */
static const char *left_words(sqlite3 *db, int64_t run)
{
	int64_t clean = report_sql_number(db, "SELECT ended_cleanly FROM run WHERE id = :run", run);
	int64_t status = report_sql_number(db, "SELECT exit_status FROM run WHERE id = :run", run);

	auto_free char *stop = report_stop_text(db, run);

	if (report_sql_number(db,
			      "SELECT count(*) FROM fact WHERE run_id = :run"
			      " AND key = 'memsight.snapshot'",
			      run))
		return "live when the snapshot was taken";
	if (!clean)
		return "live when the trace was cut off";
	if (stop || report_sql_number(db, WAS_ATTACHED, run))
		return "live when recording stopped";
	return WIFSIGNALED((int)status) ? "alive when killed" : "not freed at exit";
}

/* What each process left when it ended adds up to more than was ever there at once. */
static bool has_several_ends(sqlite3 *db, int64_t run)
{
	return report_sql_number(db,
				 "SELECT count(*) FROM (SELECT 1 FROM process WHERE run_id = :run"
				 " AND traced AND" IS_LAST_IMAGE " LIMIT 2)",
				 run) > 1;
}

/* Where no process was traced, how the first one was not; else NULL. */
static char *untraced_text(sqlite3 *db, int64_t run)
{
	return report_sql_text(
		db,
		"SELECT replace(exe, rtrim(exe, replace(exe, '/', '')), '') || ' was not traced: '"
		" || coalesce(why_not, 'unknown') FROM process WHERE run_id = :run AND NOT EXISTS"
		" (SELECT 1 FROM process WHERE run_id = :run AND traced) ORDER BY start_ns LIMIT 1",
		run);
}

/*
 * What the numbers of allocations may be, where they are estimates: 95 % intervals. The highest of
 * many estimates is too high by chance: of as many independent ones as blocks were picked one in 40
 * would be above z = sqrt(2 ln(40 n)) standard errors.
 */
static void write_estimates(FILE *out, sqlite3 *db, int64_t run)
{
	static const struct {
		const char *name, *error, *text;
		bool is_bytes;
	} numbers[] = {
		{ "allocations", "allocations_error", "allocations", false },
		{ "bytes", "bytes_error", "bytes in all", true },
		{ "live_bytes", "live_bytes_error", "not freed", true },
	};
	double n_picked = (double)total(db, run, "picked_blocks");
	double peak = (double)total(db, run, "peak_bytes");
	double error = (double)total(db, run, "peak_bytes_error");
	double bytes = (double)total(db, run, "bytes");
	double variance = pow((double)total(db, run, "bytes_error"), 2);
	double low, high;

	fputs("             estimates: ", out);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		double value = (double)total(db, run, numbers[i].name);
		double half = (double)total(db, run, numbers[i].error);
		block_weight_interval(value, half * half, 0, &low, &high);
		if (value == 0 &&
		    numbers[i].is_bytes) /* none was picked: of others there may be some */
			high = bytes > 0 ? 3.8415 * variance / bytes : 0;
		fprintf(out, "%s %s, ", numbers[i].text,
			format_estimate(value, low, high, numbers[i].is_bytes).text);
	}
	low = fmax(peak - error * sqrt(2 * log(40 * fmax(n_picked, 1))), 0);
	fprintf(out, "peak %s to %s (95 %%)\n             ", format_bytes(llround(low)).text,
		format_bytes(llround(peak + 1.96 * error)).text);
	report_picked_foot(out, db, run);
}

static bool is_of_part(const struct report_request *request)
{
	return request->selection && selection_is_part(request->selection);
}

static void write_allocations(FILE *out, sqlite3 *db, const struct report_request *request)
{
	int64_t run = request->run_id;
	bool is_part = is_of_part(request);
	auto_free char *left_out = report_sql_text(db, REPORT_SQL_WHY_NO_BLOCKS, run);
	auto_free char *why = left_out ? steal_ptr(&left_out) : untraced_text(db, run);

	if (why) {
		fprintf(out, "allocations  not recorded: %s\n", text_hide_controls(why));
		return;
	}
	int64_t n_left = total(db, run, "live_blocks");
	int64_t n_before = report_sql_number(db,
					     "SELECT sum(n_blocks) FROM site WHERE run_id = :run"
					     " AND stack_id IN (" BEFORE_ATTACH ")",
					     run);

	fprintf(out, "allocations  %s",
		format_count(total(db, run, "allocations") - n_before).text);
	if (n_before)
		fprintf(out, ", and %s %s from before", format_count(n_before).text,
			plural(n_before, "block", "blocks"));
	fprintf(out, "    peak %s at %s", format_bytes(total(db, run, "peak_bytes")).text,
		format_duration(total(db, run, "peak_ns")).text);
	fprintf(out, "    %s ", is_part ? "not freed in it" : left_words(db, run));
	bool is_picked = report_sql_number(db, "SELECT " REPORT_IS_PICKED, run);
	if (n_left)
		fprintf(out, "%s in %s %s%s\n", format_bytes(total(db, run, "live_bytes")).text,
			format_count(n_left).text, plural(n_left, "block", "blocks"),
			!is_part && has_several_ends(db, run) ? " (sum over processes)" : "");
	else
		fputs(is_picked ? "nothing that was picked\n" : "nothing\n", out);
	if (is_picked)
		write_estimates(out, db, run);
}

/*
 * What was mapped when most blocks were live, by who made it; mappings that blocks lie in are left
 * out. Of a process that has ended nothing is there, whatever it left mapped.
 */
/* clang-format off */
static const char mapped_sql[] =
	"WITH at(ns) AS (SELECT value FROM total WHERE run_id = :run AND name = 'peak_ns'), part AS"
	" (SELECT CASE WHEN kind = 'stack' THEN 'stacks' WHEN kind = 'reserved' THEN 'reserved'"
	"  WHEN seen = 0 AND kind <> 'file' THEN 'by the program' WHEN kind = 'file' THEN 'files'"
	" END AS what, size"
	"  FROM at, mapping JOIN mapping_kind ON mapping_id = mapping.id JOIN process ON process.id"
	" = process_id"
	"  WHERE mapping.run_id = :run AND seen <> 2 AND NOT is_nested AND allocated_ns <= ns"
	"  AND coalesce(freed_ns, ns + 1) > ns AND coalesce(end_ns, ns + 1) > ns AND start_ns <="
	" ns) SELECT group_concat(bytes_text(bytes) || ' ' || what, ', ') FROM (SELECT what,"
	" sum(size) AS bytes FROM part WHERE what IS NOT NULL GROUP BY what ORDER BY 2 DESC)";
/* clang-format on */

/* The most that was ever found resident, of one process: what the kernel says may lag. */
static const char most_rss_sql[] =
	"SELECT max(rss) FROM (SELECT max(rss) AS rss FROM process_sample WHERE run_id = :run"
	" UNION ALL SELECT max(resident - uncounted) FROM page_snapshot WHERE run_id = :run)";

/* Live bytes are of blocks only: what the kernel had given is told beside them. */
static void write_memory(FILE *out, sqlite3 *db, int64_t run)
{
	int64_t rss = report_sql_number(db, "SELECT max_rss FROM run WHERE id = :run", run);
	int64_t seen = report_sql_number(db, most_rss_sql, run);
	auto_free char *mapped = report_sql_text(db, mapped_sql, run);
	auto_free char *resident = report_sql_text(db, report_resident_line_sql, run);

	if (rss <= 0 && seen <= 0 && !mapped)
		return;
	fprintf(out, "memory       max RSS %s%s\n",
		rss > 0	   ? format_bytes(rss).text
		: seen > 0 ? format_bytes(seen).text
			   : "not known",
		rss > 0	   ? seen > rss ? " (as the kernel counts: some pages late)" : ""
		: seen > 0 ? " as far as it was looked at"
			   : "");
	if (resident)
		fprintf(out, "             %s\n", resident);
	if (mapped)
		fprintf(out,
			"             mapped beside blocks at their peak: %s (touched or not)\n",
			mapped);
}

/* "12,388 x 1 ms user CPU time; 310,201 page faults" */
static void write_sources(FILE *out, sqlite3 *db, int64_t run)
{
	auto_statement sqlite3_stmt *stmt = report_sql_prepare(
		db,
		"SELECT source.n_samples, coalesce(weight / nullif(whole.n_samples, 0),"
		" source.period), source.unit FROM source JOIN main.source AS whole ON whole.id ="
		" source.id LEFT JOIN source_ledger ON source_id = source.id WHERE source.run_id ="
		" :run AND source.error = 0 AND source.measures NOT IN ('tasks', 'pages')"
		" ORDER BY source.number",
		run, -1);
	size_t n = 0;

	while (stmt && statement_advance(stmt) == SQLITE_ROW) {
		const char *unit = statement_string(stmt, 2);
		int64_t period = sqlite3_column_int64(stmt, 1);

		fprintf(out, "%s%s", n++ ? "; " : "",
			format_count(sqlite3_column_int64(stmt, 0)).text);
		if (strncmp(unit, "ns of ", 6) == 0)
			fprintf(out, " x %s %s", format_duration(period).text, unit + 6);
		else if (period > 1)
			fprintf(out, " x %s %s", format_count(period).text, unit);
		else
			fprintf(out, " %s", unit);
	}
	if (n == 0)
		fputs(report_sql_number(
			      db, "SELECT count(*) FROM page_interval WHERE run_id = :run", run)
			      ? "none; pages were looked at"
			      : "none",
		      out);
}

static void write_samples(FILE *out, sqlite3 *db, int64_t run)
{
	int64_t n_lost =
		report_sql_number(db, "SELECT sum(count) FROM loss WHERE run_id = :run", run);
	int64_t n_reasons = report_sql_number(
		db, "SELECT count(DISTINCT source || reason) FROM loss WHERE run_id = :run", run);

	fputs("samples      ", out);
	write_sources(out, db, run);
	if (n_reasons)
		fprintf(out, "    losses: %s of %s %s, see --losses\n", format_count(n_lost).text,
			format_count(n_reasons).text, plural(n_reasons, "kind", "kinds"));
	else
		fputs("    losses: none\n", out);
}

/* "program      12 regions, see --regions; 2 marks: start 0.10 s, done 1.20 s" */
static void write_notes(FILE *out, sqlite3 *db, int64_t run)
{
	int64_t n_paths =
		report_sql_number(db, "SELECT count(*) FROM region_total WHERE run_id = :run", run);
	int64_t n_marks = total(db, run, "marks");
	auto_free char *marks = report_sql_text(
		db,
		"SELECT group_concat(name || printf(' %.2f s', time_ns / 1e9), ', ') FROM"
		" (SELECT name, time_ns FROM mark WHERE run_id = :run ORDER BY time_ns LIMIT 4)",
		run);

	if (n_paths + n_marks == 0)
		return;
	fputs("program      ", out);
	if (n_paths)
		fprintf(out, "%s %s, see --regions%s", format_count(n_paths).text,
			plural(n_paths, "region", "regions"), n_marks ? "; " : "");
	if (n_marks)
		fprintf(out, "%s %s: %s%s", format_count(n_marks).text,
			plural(n_marks, "mark", "marks"), marks ? text_hide_controls(marks) : "",
			n_marks > 4 ? ", ..., see --marks" : "");
	fputc('\n', out);
}

/* "3, 0.3 s together, see --window-list" */
static const char windows_sql[] =
	"SELECT count(*) || printf(', %.1f s together, see --window-list', sum(end_ns - start_ns)"
	" / 1e9) FROM window WHERE run_id = :run HAVING count(*) > 0";

/* "1,234 events and 5 samples before 2.1 s (--last 30s): what lived then is here" */
static const char dropped_sql[] =
	"SELECT printf('%,d events and %,d samples%s (--last %s%s): what lived then is here',"
	" CAST(events.value AS INTEGER), CAST(samples.value AS INTEGER), coalesce((SELECT printf("
	"' before %.2f s', start_ns / 1e9) FROM window WHERE run_id = :run AND number = 1 AND cause"
	" LIKE 'last %'), ''), span.value, coalesce((SELECT ', room for ' || value FROM fact WHERE"
	" run_id = :run AND key = 'memsight.last_room'), '')) FROM fact AS span JOIN fact AS events"
	" ON events.run_id = :run AND events.key = 'memsight.dropped_events' JOIN fact AS samples"
	" ON samples.run_id = :run AND samples.key = 'memsight.dropped_samples' WHERE span.run_id ="
	" :run AND span.key = 'memsight.last'";

/*
 * Where the blocks lay; spilled ones stand apart, for they are not where the run wanted them. What
 * samples leave unresolved is told for the heap as a whole: of several kinds each may have all of
 * it, of one it is that one's.
 */
static const char kinds_sql[] =
	"WITH" WHOLE ", heap AS (SELECT share, share_low, share_high, n_samples,"
	"  max(share_high - n_samples / n - half_width(n_samples, n_samples, n), 0) AS rest"
	"  FROM kind_share, whole WHERE run_id = :run AND owner_kind = 1), kind AS (SELECT kind_id,"
	" kind_total.n_samples AS n_samples,"
	"  half_width(kind_total.n_samples, n_samples_sq, n) AS half,"
	"  (SELECT count(*) FROM kind_total WHERE run_id = :run AND n_blocks > 0) = 1 AS is_all"
	"  FROM kind_total, whole WHERE run_id = :run) SELECT heap_kind.name, n_blocks, bytes,"
	" peak_bytes, CASE WHEN is_all THEN share"
	"  WHEN coalesce(rest, 0) <= max(2 * half, 0.002) THEN kind.n_samples / n END, CASE WHEN"
	" is_all THEN share_low"
	"  ELSE max(kind.n_samples / n - half, 0) * (1 - unsampled) END, CASE WHEN is_all THEN"
	" share_high"
	"  ELSE min(kind.n_samples / n + half + coalesce(rest, 0), coalesce(share_high, 1)) END,"
	" n_faults, EXISTS (SELECT 1 FROM source WHERE source.run_id = :run"
	"  AND source.measures = 'fault' AND error = 0) FROM whole, kind_total JOIN kind USING"
	" (kind_id) JOIN heap_kind ON heap_kind.id = kind_id LEFT JOIN heap WHERE kind_total.run_id"
	" = :run AND n_blocks > 0 ORDER BY heap_kind.name = 'libc', heap_kind.name = 'spilled',"
	" bytes DESC";

static void write_kind(FILE *out, sqlite3_stmt *stmt)
{
	int64_t n_blocks = sqlite3_column_int64(stmt, 1);
	auto_free char *name = report_sql_shown(stmt, 0);

	fprintf(out, "%s: %s %s, %s, peak %s", name ? name : "", format_count(n_blocks).text,
		plural(n_blocks, "block", "blocks"),
		format_bytes(sqlite3_column_int64(stmt, 2)).text,
		format_bytes(sqlite3_column_int64(stmt, 3)).text);
	if (sqlite3_column_type(stmt, 6) != SQLITE_NULL)
		fprintf(out, ", %s of CPU time", report_sql_share(stmt, 4).text);
	if (sqlite3_column_int(stmt, 8))
		fprintf(out, ", %s page faults\n",
			format_count(sqlite3_column_int64(stmt, 7)).text);
	else
		fputs(", page faults not recorded\n", out);
}

static void write_kinds(FILE *out, sqlite3 *db, int64_t run)
{
	auto_statement sqlite3_stmt *stmt = report_sql_prepare(db, kinds_sql, run, -1);
	size_t n_rows = 0;

	while (stmt && statement_advance(stmt) == SQLITE_ROW) {
		fputs(n_rows++ ? "             " : "blocks in    ", out);
		write_kind(out, stmt);
	}
}

/* Plain words for owners; memsight's own part is never hidden. */
#define OWNERS(share, low, high, n)                                                                \
	"SELECT CASE owner.name WHEN 'paused' THEN 'not recorded' WHEN 'global' THEN 'globals'"    \
	" WHEN 'tool' THEN 'memsight' WHEN 'before_trace' THEN 'before trace'"                     \
	" WHEN 'below_threshold' THEN 'below threshold' WHEN 'unpicked' THEN 'heap, not picked'"   \
	" WHEN 'mapping' THEN 'mappings'"                                                          \
	" ELSE owner.name END, " share ", " low ", " high ", " n " AS n"                           \
	" FROM kind_share JOIN owner ON owner.id = owner_kind WHERE run_id = :run"                 \
	" AND " high " IS NOT NULL AND n > 0 AND (owner.name <> 'unknown' OR " share               \
	" IS NULL OR " share " >= 0.0005) ORDER BY owner.name = 'unknown', n DESC"

static const char time_sql[] = OWNERS("share", "share_low", "share_high", "n_samples + n_imputed");
static const char stalls_sql[] =
	OWNERS("stall_share", "stall_low", "stall_high", "n_stalls + n_stalls_imputed");

static void write_owners(FILE *out, sqlite3 *db, int64_t run, enum trace_role role)
{
	bool is_stall = role == TRACE_ROLE_STALL;
	auto_statement sqlite3_stmt *stmt =
		report_sql_prepare(db, is_stall ? stalls_sql : time_sql, run, -1);
	size_t n_rows = 0;

	while (stmt && statement_advance(stmt) == SQLITE_ROW) {
		const char *heading = is_stall ? "waited for   " : "owners       ";
		struct format_text text = report_sql_share(stmt, 1);

		/*
		 * The first has its interval; the others their number, or the range that they lie
		 * in.
		 */
		if (n_rows > 0)
			text.text[strcspn(text.text, " ")] = '\0';
		fprintf(out, "%s%s %s", n_rows ? "  " : heading, statement_string(stmt, 0),
			text.text);
		n_rows++;
	}
	if (n_rows)
		fputs("   (% of CPU time)\n", out);
}

/* What is known of a part: what its blocks and samples add up to. */
static int write_part(FILE *out, sqlite3 *db, const struct report_request *request)
{
	write_head(out, db, request);
	write_allocations(out, db, request);
	write_samples(out, db, request->run_id);
	write_owners(out, db, request->run_id, TRACE_ROLE_WINDOW);
	write_owners(out, db, request->run_id, TRACE_ROLE_STALL);
	int r = report_objects_write(out, db, request);
	fputs("of the part: allocations, samples, owners and the table; findings and resident"
	      " memory are of a whole run\n",
	      out);
	return ferror(out) ? -EIO : r;
}

/*
 * What ran, what it allocated, what was sampled and lost, who owns the touched memory, and the
 * hottest objects.
 */
static int write_summary(FILE *out, sqlite3 *db, const struct report_request *request)
{
	if (is_of_part(request))
		return write_part(out, db, request);
	write_head(out, db, request);
	int r_findings = report_findings_write(out, db, request);
	write_allocations(out, db, request);
	write_memory(out, db, request->run_id);
	write_kinds(out, db, request->run_id);
	write_samples(out, db, request->run_id);
	/* What --source pages saw of the process with most resident memory. */
	report_lines_write(out, db, report_touched_line_sql, request->run_id, "touched      ");
	report_sampling_write(out, db, request->run_id);
	report_sampling_foot(out, db, request->run_id);
	write_owners(out, db, request->run_id, TRACE_ROLE_WINDOW);
	write_owners(out, db, request->run_id, TRACE_ROLE_STALL);
	report_lines_write(out, db, windows_sql, request->run_id, "windows      ");
	report_lines_write(out, db, dropped_sql, request->run_id, "dropped      ");
	write_notes(out, db, request->run_id);
	int r = report_objects_write(out, db, request) ?: report_hints_write(out, db, request);
	if (request->name)
		fprintf(out,
			"next: memsight report %s --sites | --flat | --peak | --leaks | --timeline"
			"     memsight query %s \"...\"\n",
			request->name, request->name);
	return ferror(out) ? -EIO : r < 0 ? r : r_findings;
}

/* clang-format off */
static const char totals_sql[] =
	"SELECT name, CASE WHEN name = 'samples' THEN " REPORT_SQL_SAMPLES("value")
	" WHEN name = 'faults' THEN " REPORT_SQL_FAULTS("value")
	" WHEN name IN ('allocations', 'bytes', 'frees', 'live_blocks', 'live_bytes',"
	" 'peak_bytes', 'peak_ns', 'reallocations',"
	"  'temporary', 'heap_accesses', 'accesses_before_allocation', 'accesses_after_free')"
	" THEN " REPORT_SQL_BLOCKS("value") " ELSE value END AS value"
	" FROM total WHERE run_id = :run ORDER BY name LIMIT :limit";
/* clang-format on */

const struct report report_summary = {
	.name = "summary",
	.scope = REPORT_OF_PART,
	.title = "what happened, in one screen",
	.sql = totals_sql,
	.write = write_summary,
	.n_rows = 10,
};
