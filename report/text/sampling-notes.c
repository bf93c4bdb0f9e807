#include "report/text/sampling-notes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/human-number.h"
#include "common/text.h"
#include "store/query-value.h"
#include "store/statement.h"

char *report_stop_text(sqlite3 *db, int64_t run_id)
{
	auto_free char *reason = report_sql_text(db, "SELECT reason" REPORT_OF_STOP, run_id);
	int64_t at = report_sql_number(db, "SELECT from_ns" REPORT_OF_STOP, run_id);
	char *text = NULL;
	int n = 0;

	if (reason) {
		n = asprintf(&text, "recording stopped at %s: %s", format_duration(at).text,
			     reason);
	} else if (report_sql_number(db, "SELECT NOT ended_cleanly FROM run WHERE id = :run",
				     run_id)) {
		at = report_sql_number(db, "SELECT committed_ns FROM run WHERE id = :run", run_id);
		n = asprintf(&text, "the trace was cut off at %s", format_duration(at).text);
	}
	return n < 0 ? NULL : text;
}

#define SHARED_SAMPLES "samples of user CPU time" /* in the notes of reports */

int report_lines_write(FILE *out, sqlite3 *db, const char *sql, int64_t run_id, const char *begin)
{
	auto_statement sqlite3_stmt *stmt = report_sql_prepare(db, sql, run_id, -1);
	int code = SQLITE_DONE;

	if (!stmt)
		return -EPROTO;
	while ((code = statement_advance(stmt)) == SQLITE_ROW) {
		auto_free char *line = strdup(statement_string(stmt, 0));

		if (line)
			fprintf(out, "%s%s\n", begin, text_hide_controls(line));
		else
			statement_keep(db, SQLITE_NOMEM);
	}
	return code == SQLITE_DONE ? 0 : -EPROTO;
}

#define FACT(key) "(SELECT value FROM fact WHERE run_id = :run AND key = '" key "' AND at_end = 0)"

#define COUNTER(name) "(SELECT value FROM counter WHERE run_id = :run AND name = '" name "')"

/* What is lost of a source, as clauses; '' when nothing is. */
/* clang-format off */
#define LOST \
	"CASE WHEN n_lost + n_hardware_lost + n_dropped > 0" \
	" THEN printf(' %,d of %,d samples lost'" \
	" || ' (%.2g %%)', n_lost + n_hardware_lost + n_dropped," \
	" n_taken + n_lost + n_hardware_lost + n_dropped, 100.0 * (n_lost + n_hardware_lost +" \
	" n_dropped) / (n_taken + n_lost + n_hardware_lost + n_dropped)) ELSE '' END"
/* clang-format on */
#define THROTTLED                                                                                  \
	"CASE WHEN n_throttles > 0 THEN printf(' throttled %,d times (%.3g ms without samples)',"  \
	" n_throttles, throttled_ns / 1e6) ELSE '' END"

/* The budget; a rate that could not be had; the kernel lowers it when interrupts take too long. */
/* clang-format off */
static const char sampling_sql[] =
	"SELECT iif(row_number() OVER () = 1, 'sampling     ', '             ') || line FROM"
	" (SELECT printf('budget %s: %s Hz at first, by %.1f us a sample; cost %.2g %% of the"
	" sampled time, rate changed %d times', " FACT("memsight.budget") ", "
	FACT("memsight.budget_rate_hz") ", " FACT("memsight.sample_cost_ns") " / 1e3, 100.0 * "
	COUNTER("sampling cost") " / " COUNTER("sampled CPU time") ", "
	COUNTER("changes of the rate") ") AS line WHERE " FACT("memsight.budget") " IS NOT NULL"
	" UNION ALL SELECT 'at most ' || " FACT("memsight.rate_limit_hz")
	" || ' samples a second: kernel.perf_event_max_sample_rate' WHERE "
	FACT("memsight.rate_limit_hz") " IS NOT NULL"
	" UNION ALL SELECT printf('%s changed from %s to %s during the run', start.key,"
	" start.value, end.value) FROM fact AS start JOIN fact AS end USING (run_id, key) WHERE"
	" run_id = :run AND start.at_end = 0 AND end.at_end = 1 AND start.value <> end.value AND"
	" key IN ('perf_event_max_sample_rate', 'perf_cpu_time_max_percent', 'perf_event_mlock_kb',"
	" 'perf_event_paranoid'))";
/* clang-format on */

int report_sampling_write(FILE *out, sqlite3 *db, int64_t run_id)
{
	return report_lines_write(out, db, sampling_sql, run_id, "");
}

/* clang-format off */
static const char ledger_sql[] = "SELECT printf('%s: %,d samples read; ', name, n_taken) ||"
	" CASE WHEN n_lost > 0 THEN printf('%,d found the ring full', n_lost) ELSE 'none lost' END"
	" || CASE WHEN NOT is_complete THEN ' (the recorder was killed: as far as the trace shows)'"
	" WHEN NOT lost_is_exact THEN ' (as far as records show)' ELSE '' END || CASE WHEN"
	" n_hardware_lost THEN printf('; %,d dropped by the hardware', n_hardware_lost) ELSE '' END"
	" || CASE WHEN n_dropped THEN printf('; %,d after recording had stopped', n_dropped) ELSE"
	" '' END || CASE WHEN n_throttles THEN printf('; throttled %,d times, %.3g ms without"
	" samples', n_throttles, throttled_ns / 1e6) ELSE '; not throttled' END || CASE WHEN"
	" unsampled_ns > 0 THEN printf('; no samples for %.3g ms of the program''s CPU time',"
	" unsampled_ns / 1e6) ELSE '' END || CASE WHEN n_behind THEN printf('; the recorder was"
	" late %,d times', n_behind) ELSE '' END || CASE WHEN n_aux_truncated + n_aux_partial +"
	" n_aux_collision THEN printf('; AUX area: %,d full, %,d with gaps, %,d collisions',"
	" n_aux_truncated, n_aux_partial, n_aux_collision) ELSE '' END || CASE WHEN bad_bytes THEN"
	" printf('; %,d bytes unreadable', bad_bytes) ELSE '' END || CASE WHEN n_undecodable THEN"
	" printf('; %,d not decodable', n_undecodable) ELSE '' END || CASE WHEN n_no_memory THEN"
	" printf('; %,d without memory access', n_no_memory) ELSE '' END || CASE WHEN n_outside"
	" THEN printf('; %,d of unknown processes', n_outside) ELSE '' END || CASE WHEN n_zero THEN"
	" printf('; %,d with address 0', n_zero) ELSE '' END || CASE WHEN n_kernel THEN printf(';"
	" %,d with an address in the kernel', n_kernel) ELSE '' END || CASE WHEN n_no_clock THEN"
	" printf('; %,d without a time', n_no_clock) ELSE '' END || CASE WHEN scale > 1.0005 THEN"
	" printf('; what was lost counted in, times and counts are x %.3f', scale) ELSE '' END FROM"
	" source_ledger JOIN source ON source.id = source_id WHERE source.run_id = :run AND"
	" (measures NOT IN ('tasks', 'pages') OR n_lost + bad_bytes > 0) ORDER BY number";
/* clang-format on */

int report_ledger_write(FILE *out, sqlite3 *db, int64_t run_id)
{
	return report_lines_write(out, db, ledger_sql, run_id, "");
}

/* clang-format off */
static const char foot_sql[] = "SELECT name || ':' || " LOST
	" || CASE WHEN n_lost + n_hardware_lost + n_dropped > 0 AND"
	" n_throttles > 0 THEN ',' ELSE '' END || " THROTTLED
	" || printf(': shares are those of the samples that are there; times and counts with the"
	" lost ones are x %.3f', scale) FROM source_ledger JOIN source ON source.id = source_id"
	" WHERE source.run_id = :run AND measures NOT IN ('tasks', 'pages') AND n_lost +"
	" n_hardware_lost + n_dropped + n_throttles > 0 ORDER BY number";
/* clang-format on */

/*
 * Code without optimisation keeps variables where the kernel's samples have no bytes. Of what is
 * known half or more is on the stack then, which it hardly is otherwise. No hint at the end: who
 * does not record again reads ranges.
 */
/* clang-format off */
static const char plain_sql[] =
	"SELECT printf('clock: %.0f %% of the time is at addresses that its samples cannot "
	"tell, as in code without optimisation (-O0), which keeps variables below the stack "
	"pointer: record again with --source signal, whose samples have them (up to 250 a "
	"second)', 100 * unknown / n) FROM (SELECT (SELECT sum(n_samples) FROM source WHERE "
	"run_id = :run AND name = 'clock') AS n, (SELECT n_samples FROM kind_share WHERE "
	"run_id = :run AND owner_kind = 13) AS unknown, (SELECT n_samples FROM kind_share "
	"WHERE run_id = :run AND owner_kind = 5) AS stack) WHERE n >= 100 AND unknown > 0.03 "
	"* n AND stack >= 0.5 * (n - unknown)";
/* clang-format on */

int report_sampling_foot(FILE *out, sqlite3 *db, int64_t run_id)
{
	int r = report_lines_write(out, db, foot_sql, run_id, "");

	return r < 0 ? r : report_lines_write(out, db, plain_sql, run_id, "");
}

#define BASE "CAST(" FACT("memsight.sample_bytes") " AS INTEGER)"
/* clang-format off */
static const char picked_sql[] = "SELECT printf('numbers of blocks and bytes are estimates from %,d"
	" picked blocks, %s%s', value, CASE WHEN " BASE " > 0"
	" THEN 'one in ' || bytes_text(" BASE ") || ' on the average (--sample-bytes)'"
	" WHEN EXISTS (SELECT 1 FROM pool WHERE run_id = :run)"
	" THEN 'with the weights that probes of the program give (--usdt-from)'"
	" ELSE 'of several runs (--sample-bytes)' END,"
	" CASE WHEN " COUNTER("changes of the interval of picks") " > 0"
	" THEN printf(' at first; --budget changed that %d times', "
	COUNTER("changes of the interval of picks") ") ELSE '' END)"
	" FROM total WHERE run_id = :run AND name = 'picked_blocks'";
/* clang-format on */

int report_picked_foot(FILE *out, sqlite3 *db, int64_t run_id)
{
	return report_lines_write(out, db, picked_sql, run_id, "");
}

/* "1,200 samples of user CPU time (clock)": what shares are of, as far as the note speaks of it. */
static char *base_text(sqlite3 *db, int64_t run_id)
{
	return report_sql_text(
		db,
		"SELECT printf('%,d samples of ', sum(n_samples)) || substr(min(unit), 7) || ' ('"
		" || group_concat(name) || ')' FROM source WHERE run_id = :run AND error = 0 AND"
		" measures = 'time' AND unit LIKE 'ns of %' HAVING sum(n_samples) > 0",
		run_id);
}

void report_sampling_note(FILE *out, sqlite3 *db, int64_t run_id, const char *note)
{
	auto_free char *base = base_text(db, run_id);
	const char *at = strstr(note, SHARED_SAMPLES);

	if (!base || !at)
		fprintf(out, "%s\n", note);
	else
		fprintf(out, "%.*s%s%s\n", (int)(at - note), note, base,
			at + strlen(SHARED_SAMPLES));
}
