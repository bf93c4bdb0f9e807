#include "analyze/report-summary.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "analyze/format.h"
#include "analyze/report-hints.h"
#include "analyze/report-objects.h"
#include "analyze/report-sampling.h"
#include "analyze/report-sql.h"
#include "analyze/report-stop.h"
#include "analyze/statement.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "schemas/trace-format.h"

#define OBJECT_ROWS 10

static int64_t total(sqlite3 *db, int64_t run_id, const char *name)
{
	sqlite3_stmt *stmt = report_sql_prepare(
		db, "SELECT value FROM total WHERE run_id = :run AND name = :name", run_id, -1);
	int64_t value = 0;

	if (!stmt)
		return 0;
	sqlite3_bind_text(stmt, sqlite3_bind_parameter_index(stmt, ":name"), name, -1,
			  SQLITE_STATIC);
	if (statement_advance(stmt) == SQLITE_ROW)
		value = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return value;
}

static const char *plural(int64_t n, const char *one, const char *many)
{
	return n == 1 ? one : many;
}

/*
 * A process counts once, as what it became by exec; its main thread likewise. An exec whose fork was
 * not seen has its parent's id too, so the pid decides.
 */
#define IS_LAST_IMAGE                                                                              \
	" NOT EXISTS (SELECT 1 FROM process AS next WHERE next.parent_id = process.id"             \
	" AND next.pid = process.pid AND next.birth = 'exec')"

/* "   3 processes (1 not traced: ping, setuid)   9 threads" */
static void write_processes(FILE *out, sqlite3 *db, int64_t run)
{
	int64_t n = report_sql_number(
		db, "SELECT count(*) FROM process WHERE run_id = :run AND" IS_LAST_IMAGE, run);
	int64_t n_not = report_sql_number(
		db,
		"SELECT count(*) FROM process WHERE run_id = :run AND NOT traced"
		" AND why_not IS NOT 'perf.data' AND" IS_LAST_IMAGE " AND NOT" REPORT_SQL_LEFT_OUT,
		run);
	int64_t n_threads = report_sql_number(
		db,
		"SELECT count(*) FROM thread JOIN process ON process.id = process_id"
		" WHERE thread.run_id = :run AND (NOT is_main OR" IS_LAST_IMAGE ")",
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
	auto_free char *line = report_sql_text(
		db,
		"SELECT 'run ' || id || ' of ' || (SELECT count(*) FROM run) || ': ' || program || '.'"
		" || mode || '.' || repetition || '   (--run chooses one, --stat tells of all)' FROM run"
		" WHERE id = :run AND (SELECT count(*) FROM run) > 1",
		run);

	if (line)
		fprintf(out, "%s\n", text_hide_controls(line));
}

static void write_head(FILE *out, sqlite3 *db, int64_t run)
{
	auto_free char *command =
		report_sql_text(db, "SELECT command FROM run WHERE id = :run", run);
	int64_t duration =
		report_sql_number(db, "SELECT duration_ns FROM run WHERE id = :run", run);
	auto_free char *sources = report_sql_text(
		db,
		"SELECT group_concat(name, ' + ') FROM (SELECT name FROM source"
		" WHERE run_id = :run AND error = 0 AND name <> 'tasks' ORDER BY number)",
		run);
	auto_free char *pmu = report_sql_text(
		db, "SELECT value FROM fact WHERE run_id = :run AND key = 'pmu' AND NOT at_end",
		run);

	fprintf(out, "%s   %s",
		command && *command ? text_hide_controls(command) : "(command not known)",
		format_duration(duration).text);
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

/* What blocks that are left at the end are called depends on how the end came. */
static const char *left_words(sqlite3 *db, int64_t run)
{
	int64_t clean = report_sql_number(db, "SELECT ended_cleanly FROM run WHERE id = :run", run);
	int64_t status = report_sql_number(db, "SELECT exit_status FROM run WHERE id = :run", run);

	auto_free char *stop = report_stop_text(db, run);

	if (!clean)
		return "live when the trace was cut off";
	if (stop)
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
		"SELECT replace(exe, rtrim(exe, replace(exe, '/', '')), '') || ' was not traced: ' ||"
		" coalesce(why_not, 'unknown') FROM process WHERE run_id = :run AND NOT EXISTS"
		" (SELECT 1 FROM process WHERE run_id = :run AND traced) ORDER BY start_ns LIMIT 1",
		run);
}

static void write_allocations(FILE *out, sqlite3 *db, int64_t run)
{
	auto_free char *recorder = report_sql_text(
		db, "SELECT value FROM fact WHERE run_id = :run AND key = 'recorded_by'", run);

	if (recorder && strcmp(recorder, "perf") == 0) {
		fputs("allocations  not recorded: a perf.data tells of samples\n", out);
		return;
	}
	if (report_sql_number(db, "SELECT" REPORT_SQL_LEFT_OUT, run)) {
		fputs("allocations  not recorded: --no-alloc, or the natural run of a series\n",
		      out);
		return;
	}
	auto_free char *why = untraced_text(db, run);
	if (why) {
		fprintf(out, "allocations  not recorded: %s\n", text_hide_controls(why));
		return;
	}
	int64_t n_left = total(db, run, "live_blocks");

	fprintf(out, "allocations  %s", format_count(total(db, run, "allocations")).text);
	fprintf(out, "    peak %s at %s", format_bytes(total(db, run, "peak_bytes")).text,
		format_duration(total(db, run, "peak_ns")).text);
	fprintf(out, "    %s ", left_words(db, run));
	if (n_left)
		fprintf(out, "%s in %s %s%s\n", format_bytes(total(db, run, "live_bytes")).text,
			format_count(n_left).text, plural(n_left, "block", "blocks"),
			has_several_ends(db, run) ? " (sum over processes)" : "");
	else
		fputs("nothing\n", out);
}

/* "12,388 x 1 ms user CPU time; 310,201 page faults" */
static void write_sources(FILE *out, sqlite3 *db, int64_t run)
{
	sqlite3_stmt *stmt = report_sql_prepare(
		db,
		"SELECT n_samples, coalesce(weight / nullif(n_samples, 0), period), unit FROM source"
		" LEFT JOIN source_ledger ON source_id = source.id WHERE source.run_id = :run"
		" AND error = 0 AND name <> 'tasks' ORDER BY number",
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
		fputs("none", out);
	sqlite3_finalize(stmt);
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

/* Where the blocks lay; spilled ones stand apart, for they are not where the run wanted them. */
static const char kinds_sql[] =
	"SELECT heap_kind.name, n_blocks, bytes, peak_bytes, kind_total.n_samples, n_samples_sq,"
	" n_faults, (SELECT source.n_samples FROM source WHERE source.run_id = :run AND"
	" source.name IN ('clock', 'signal') AND error = 0)"
	" FROM kind_total JOIN heap_kind ON heap_kind.id = kind_id"
	" WHERE kind_total.run_id = :run AND n_blocks > 0"
	" ORDER BY heap_kind.name = 'libc', heap_kind.name = 'spilled', bytes DESC";

static void write_kind(FILE *out, sqlite3_stmt *stmt)
{
	int64_t n = sqlite3_column_int64(stmt, 7);
	int64_t n_blocks = sqlite3_column_int64(stmt, 1);
	double sum = sqlite3_column_double(stmt, 4);

	fprintf(out, "%s: %s %s, %s, peak %s", statement_string(stmt, 0),
		format_count(n_blocks).text, plural(n_blocks, "block", "blocks"),
		format_bytes(sqlite3_column_int64(stmt, 2)).text,
		format_bytes(sqlite3_column_int64(stmt, 3)).text);
	if (n > 0)
		fprintf(out, ", %s of CPU time",
			format_percent_interval(
				sum / (double)n,
				format_half_width(sum, sqlite3_column_double(stmt, 5), n))
				.text);
	fprintf(out, ", %s page faults\n", format_count(sqlite3_column_int64(stmt, 6)).text);
}

static void write_kinds(FILE *out, sqlite3 *db, int64_t run)
{
	sqlite3_stmt *stmt = report_sql_prepare(db, kinds_sql, run, -1);
	size_t n_rows = 0;

	while (stmt && statement_advance(stmt) == SQLITE_ROW) {
		fputs(n_rows++ ? "             " : "blocks in    ", out);
		write_kind(out, stmt);
	}
	sqlite3_finalize(stmt);
}

/* Plain words for owners; memsight's own part is never hidden. */
static const char owners_sql[] =
	"SELECT CASE owner.name WHEN 'paused' THEN 'not recorded' WHEN 'global' THEN 'globals' WHEN 'tool' THEN 'memsight'"
	" WHEN 'before_trace' THEN 'before trace' WHEN 'below_threshold' THEN 'below threshold'"
	" WHEN 'mapping' THEN 'mappings' ELSE owner.name END,"
	" sum(n), sum(n_sq), (SELECT n_samples FROM source WHERE source.id = owner_share.source_id)"
	" FROM owner_share JOIN owner ON owner.id = owner_kind"
	" JOIN source ON source.id = source_id AND source.name IN ('clock', 'signal')"
	" WHERE owner_share.run_id = :run AND role = :role GROUP BY owner.id"
	" HAVING sum(n) > 0 ORDER BY owner.name = 'unknown', sum(n) DESC";

/* What instructions access that samples left unresolved: concluded, so it stands apart. */
static const char imputed_sql[] =
	"SELECT CASE owner.name WHEN 'global' THEN 'globals' WHEN 'mapping' THEN 'mappings'"
	" ELSE owner.name END, sum(n), (SELECT n_samples FROM source WHERE run_id = :run"
	" AND name IN ('clock', 'signal')) FROM"
	" (SELECT 1 AS owner_kind, n_imputed AS n FROM site WHERE run_id = :run"
	"  UNION ALL SELECT owner_kind, n_imputed FROM object_total WHERE run_id = :run)"
	" JOIN owner ON owner.id = owner_kind GROUP BY owner.id HAVING sum(n) > 0 ORDER BY 2 DESC";

static void write_imputed(FILE *out, sqlite3 *db, int64_t run)
{
	sqlite3_stmt *stmt = report_sql_prepare(db, imputed_sql, run, -1);
	size_t n_rows = 0;

	while (stmt && statement_advance(stmt) == SQLITE_ROW) {
		double share = 100 * sqlite3_column_double(stmt, 1) /
			       (double)sqlite3_column_int64(stmt, 2);

		if (share < 0.05)
			break;
		fprintf(out, "%s%s %.1f",
			n_rows++
				? "  "
				: "             of the unknown, by the same instructions elsewhere: ",
			statement_string(stmt, 0), share);
	}
	if (n_rows)
		fputc('\n', out);
	sqlite3_finalize(stmt);
}

static void write_owners(FILE *out, sqlite3 *db, int64_t run, enum trace_role role)
{
	sqlite3_stmt *stmt = report_sql_prepare(db, owners_sql, run, -1);
	size_t n_rows = 0;

	if (stmt)
		sqlite3_bind_int(stmt, sqlite3_bind_parameter_index(stmt, ":role"), role);

	while (stmt && statement_advance(stmt) == SQLITE_ROW) {
		double sum = sqlite3_column_double(stmt, 1);
		int64_t n = sqlite3_column_int64(stmt, 3);
		double half = format_half_width(sum, sqlite3_column_double(stmt, 2), n);

		fprintf(out, "%s%s",
			n_rows			   ? "  "
			: role == TRACE_ROLE_STALL ? "waited for   "
						   : "owners       ",
			statement_string(stmt, 0));
		if (n_rows++ == 0)
			fprintf(out, " %s", format_percent_interval(sum / (double)n, half).text);
		else
			fprintf(out, " %.1f", 100 * sum / (double)n);
	}
	if (n_rows)
		fputs("   (% of CPU time)\n", out);
	sqlite3_finalize(stmt);
}

static void write_next(FILE *out, const struct report_request *request)
{
	if (request->name)
		fprintf(out,
			"next: memsight report %s --sites | --flat | --peak | --leaks | --timeline     "
			"memsight query %s \"...\"\n",
			request->name, request->name);
}

/* As many as fit a screen, unless another number than --limit's own is asked for. */
static int64_t object_rows(int64_t limit)
{
	return limit == REPORT_LIMIT ? OBJECT_ROWS : limit;
}

int report_summary_write(FILE *out, sqlite3 *db, const struct report_request *request)
{
	write_head(out, db, request->run_id);
	write_allocations(out, db, request->run_id);
	write_kinds(out, db, request->run_id);
	write_samples(out, db, request->run_id);
	report_sampling_write(out, db, request->run_id);
	report_sampling_foot(out, db, request->run_id);
	write_owners(out, db, request->run_id, TRACE_ROLE_WINDOW);
	write_imputed(out, db, request->run_id);
	write_owners(out, db, request->run_id, TRACE_ROLE_STALL);
	write_notes(out, db, request->run_id);
	int r = report_objects_write(out, db, request, object_rows(request->limit));
	if (r == 0)
		r = report_hints_write(out, db, request);
	write_next(out, request);
	return ferror(out) ? -EIO : r;
}
