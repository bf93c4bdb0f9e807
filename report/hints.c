#include "report/hints.h"

#include "common/human-number.h"
#include "report/text/sampling-notes.h"
#include "store/losses.h"
#include "store/query-value.h"

/* No lines. */
#define LINES_SQL "SELECT value FROM fact WHERE run_id = :run AND key LIKE 'hint.debug%' LIMIT 5"

/*
 * Columns of faults count samples. Without a word they would be read as faults. Of the whole run,
 * as the ledger is: a selection has its own number of samples.
 */
/* clang-format off */
#define FAULTS_SQL \
	"SELECT printf('page faults were sampled: each that is counted stands for %.3g of them" \
	" on average'" \
	", 1.0 * weight / n_samples) FROM main.source JOIN source_ledger ON source_id =" \
	" source.id" \
	" WHERE source.run_id = :run AND measures = 'fault' AND weight > n_samples AND" \
	" n_samples > 0"
/* clang-format on */

/*
 * Shares of few samples are wide. The interval is widest at a share of half: 1.96 sqrt(1/4 / n),
 * which 400 samples make 5 points. Above the rate here a sample costs more than it takes to run the
 * program for longer.
 */
#define MOST_HZ "20000"
/* clang-format off */
#define FEW_SQL \
	"SELECT printf('too few samples: %,d of CPU time show a share of a half to \u00b1%.0f" \
	" points; '" \
	", n, 100 * half_width(n / 2.0, n / 2.0, n)) || CASE WHEN hz * 400 / n <= " MOST_HZ \
	" THEN printf('--freq %d, %.3g times the rate, makes it \u00b15', 100 * rate, 100 *" \
	" rate / hz) WHEN hz < 0.7 * " MOST_HZ \
	" THEN printf('--freq " MOST_HZ " makes it \u00b1%.0f, beyond that only a longer run'," \
	" 100 * half_width(most / 2, most / 2, most)) ELSE 'only a longer run makes that less'" \
	" END FROM" \
	" (SELECT n_samples AS n, hz, 1 + CAST(hz * 4 / n_samples AS INTEGER) AS rate," \
	" n_samples * " MOST_HZ \
	" / hz AS most FROM (SELECT *, 1e9 / period AS hz FROM source WHERE run_id = :run AND" \
	" error = 0 AND" \
	"  measures = 'time' AND unit LIKE 'ns of %' AND period > 0 AND n_samples BETWEEN 1" \
	" AND 399" \
	"  LIMIT 1))"
/* clang-format on */

/*
 * Each query gives the texts of its hints, one a row; none when there is nothing to say. The facts
 * named hint.* were found by analyze, which can look at the files.
 */
static const char *const hints_sql[] = {
	/* Allocators that the interposer could not see. */
	"SELECT value FROM fact WHERE run_id = :run AND key LIKE 'hint.allocator%' LIMIT 3",
	/* What was left out on request: by the options, or by the program itself. */
	"SELECT 'nothing of the allocations was stored (--sink null)' FROM fact WHERE run_id = :run"
	" AND key = 'memsight.sink' AND value = 'null'",
	"SELECT 'recorded were only the events ' || value || ' (--events)' FROM fact WHERE run_id ="
	" :run AND key = 'memsight.events' AND value <> 'heap,mmap,brk,shm,threads,regions'",
	"SELECT printf('%,d blocks smaller than %s bytes were counted, not recorded (--min-size):"
	" time in them is shown as below threshold', total.value, fact.value) FROM fact JOIN total"
	" ON total.run_id = :run AND name = 'blocks_below_minimum' WHERE fact.run_id = :run AND key"
	" = 'memsight.min_bytes' AND CAST(fact.value AS INTEGER) > 0 AND NOT EXISTS (SELECT 1 FROM"
	" fact WHERE run_id = :run AND key = 'imported_from')",
	"SELECT 'blocks smaller than ' || value || ' bytes were not recorded, nor counted"
	" (TRAC_THRESHOLD)' FROM fact"
	" WHERE run_id = :run AND key = 'memsight.min_bytes' AND CAST(value AS INTEGER) > 0"
	" AND EXISTS (SELECT 1 FROM fact WHERE run_id = :run AND key = 'imported_from')",
	"SELECT 'of this run only the totals are here: memsight analyze -o DATABASE ' || trace || '"
	" brings its rows' FROM run WHERE id = :run AND detail = 'totals'",
	"SELECT printf('recording was paused by the program for %.2f s (%,d pause%s%s): blocks"
	" allocated then are not recorded, and rates and shares are of the rest', ns.value / 1e9,"
	" n.value, CASE n.value WHEN 1 THEN '' ELSE 's' END, CASE WHEN (SELECT count(DISTINCT"
	" process_id) FROM withheld WHERE run_id = :run AND thread_id IS NULL) > 1 THEN ', over all"
	" processes' ELSE '' END) FROM total AS n JOIN total AS ns ON ns.run_id = :run AND ns.name"
	" = 'paused_ns' WHERE n.run_id = :run AND n.name = 'pauses' AND n.value > 0",
	"SELECT printf('threads paused their own recording for %.2f s in all (%,d pause%s)',"
	" ns.value / 1e9, n.value, CASE n.value WHEN 1 THEN '' ELSE 's' END)"
	" FROM total AS n JOIN total AS ns ON ns.run_id = :run AND ns.name = 'thread_paused_ns'"
	" WHERE n.run_id = :run AND n.name = 'thread_pauses' AND n.value > 0",
	"SELECT printf('the program had only some classes collected at times"
	" (memsight_collect_push, %,d"
	" interval%s): see the table withheld', value, CASE value WHEN 1 THEN '' ELSE 's' END)"
	" FROM total WHERE run_id = :run AND name = 'collect_intervals' AND value > 0",
	"SELECT printf('%s count for %.1f %% of the time, as the program asked: %,d were left out,"
	" and shares are of those that count', CASE measures WHEN 'fault' THEN 'page faults' ELSE"
	" 'samples of ' || name END, 100.0 * (process_ns - withheld_ns) / process_ns, n_withheld)"
	" FROM source WHERE run_id = :run AND withheld_ns > 0 AND process_ns > 0",
	/* What the program's own shares seem to be too small by. */
	"SELECT 'more than a tenth of the samples of CPU time fell into memsight''s own code (owner"
	" memsight), as many events in short time make it: the time of the program itself is the"
	" rest' FROM (SELECT sum(CASE owner_kind WHEN 12 THEN n ELSE 0 END) / sum(n) AS own FROM"
	" owner_share JOIN source ON source.id = source_id WHERE source.run_id = :run AND role = 1"
	" AND source.measures = 'time') WHERE own > 0.1",
	/* Nothing recorded, though a program was traced. */
	"SELECT '0 calls of malloc seen in ' || exe || ': it made none, or has an allocator of its"
	" own' FROM process WHERE run_id = :run AND traced AND NOT EXISTS (SELECT 1 FROM total"
	" WHERE run_id = :run AND name = 'allocations' AND value > 0) AND NOT EXISTS (SELECT 1 FROM"
	" fact WHERE run_id = :run AND (key LIKE 'hint.allocator%' OR key = 'memsight.sink' AND"
	" value = 'null' OR key = 'memsight.events' AND value NOT GLOB '*heap*')) AND NOT EXISTS"
	" (SELECT 1 FROM total WHERE run_id = :run AND value > 0 AND name IN"
	" ('blocks_below_minimum', 'pauses', 'thread_pauses', 'collect_intervals')) LIMIT 1",
	/* Python keeps small objects in arenas of its own. */
	"SELECT 'python allocates objects up to 512 bytes inside its own arenas:"
	" PYTHONMALLOC=malloc memsight record ... shows each of them' FROM process WHERE run_id ="
	" :run AND traced AND exe GLOB '*/python[23]*' AND NOT EXISTS (SELECT 1 FROM fact WHERE"
	" run_id = :run AND key = 'env.PYTHONMALLOC' AND value GLOB 'malloc*') LIMIT 1",
	"SELECT printf('%,d block%s given back by another family of functions than made %s (such as"
	" new and free): the view mismatched_free names them', value, CASE value WHEN 1 THEN ' was'"
	" ELSE 's were' END, CASE value WHEN 1 THEN 'it' ELSE 'them' END) FROM total WHERE run_id ="
	" :run AND name = 'mismatched_frees' AND value > 0",
	LINES_SQL,
	FAULTS_SQL,
	FEW_SQL,
	/* Whoever reads "freed" thinks of errors first. */
	"SELECT printf('%.1f samples of CPU time fell into memory of blocks that were given back"
	" (freed): allocators keep their lists there; who did is query 24 of docs/database.md',"
	" n_samples) FROM kind_share WHERE run_id = :run AND owner_kind = 9 AND n_samples > 0.02 *"
	" (SELECT sum(n_samples) FROM source WHERE run_id = :run AND measures = 'time')",
	/* Programs without our library. */
	"SELECT 'not traced: ' || exe || CASE why_not WHEN 'static' THEN ' (statically linked:"
	" its malloc is not known, or ptrace is refused)' WHEN 'setuid' THEN ' (set-user-ID: the"
	" loader ignores preloaded libraries)' WHEN '32-bit' THEN ' (32-bit program, 64-bit"
	" memsight)' ELSE ' (' || coalesce(why_not, 'unknown') || ')' END FROM process WHERE"
	" run_id = :run AND NOT traced AND coalesce(why_not, '') NOT IN ('not followed',"
	" 'perf.data') GROUP BY exe, why_not ORDER BY min(start_ns) LIMIT 3",
	/* Sources that were refused. */
	"SELECT group_concat(name, ', ') || CASE count(*) WHEN 1 THEN ' was' ELSE ' were' END || '"
	" not sampled: ' || remedy FROM source WHERE run_id = :run AND error <> 0 AND NOT"
	" passed_over AND remedy <> '' GROUP BY remedy ORDER BY min(id) LIMIT 3",
	/* What no sample stands for, where analyze calls it a loss. */
	"SELECT printf('%.2f s of %.2f s of ' || substr(unit, 7) || ' have no samples: threads and"
	" processes that live shorter than %.2f ms, or interrupts that came late; they may be"
	" anybody''s, so intervals of shares are wider', unsampled_ns / 1e9, (unsampled_ns +"
	" sampled) / 1e9, period / 1e6) FROM (SELECT unit, period, unsampled_ns, coalesce(weight *"
	" scale, n_samples * period) AS sampled FROM source LEFT JOIN source_ledger ON source_id ="
	" source.id JOIN loss ON loss.source = name WHERE source.run_id = :run AND loss.run_id ="
	" :run AND reason GLOB '" LOSS_NEVER_CAME "*')",
	/* Frame pointers. */
	"SELECT 'most call stacks stop at the first frame: the code was built without frame"
	" pointers (record without --stacks fp to see its callers)' WHERE (SELECT sum(n_blocks)"
	" FROM site JOIN stack ON stack.id = stack_id JOIN stack AS outer ON outer.id ="
	" stack.parent_id WHERE run_id = :run AND outer.stop = 'no frame pointer') > 0.5 * (SELECT"
	" sum(n_blocks) FROM site WHERE run_id = :run)",
};

int report_hint_write(FILE *out, sqlite3 *db, const char *sql, int64_t run_id)
{
	return report_lines_write(out, db, sql, run_id, "hint: ");
}

int report_hints_write(FILE *out, sqlite3 *db, const struct report_request *request)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(hints_sql) / sizeof(*hints_sql); i++)
		r = report_hint_write(out, db, hints_sql[i], request->run_id);
	return r;
}

int report_line_hints_write(FILE *out, sqlite3 *db, int64_t run_id)
{
	int r = report_hint_write(out, db, LINES_SQL, run_id);

	return r < 0 ? r : report_hint_write(out, db, FAULTS_SQL, run_id);
}

void report_rest_write(FILE *out, int64_t n_rest)
{
	if (n_rest > 0)
		fprintf(out, "\u2026 %s more (-n 0 shows all)\n", format_count(n_rest).text);
}
