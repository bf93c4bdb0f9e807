#include "analyze/report-hints.h"

#include <errno.h>

#include "analyze/report-sql.h"

/*
 * Each query gives the texts of its hints, one a row; none when there is nothing to say. The facts
 * named hint.* were found by analyze, which can look at the files.
 */
static const char *const hints_sql[] = {
	/* Allocators that the interposer could not see. */
	"SELECT value FROM fact WHERE run_id = :run AND key LIKE 'hint.allocator%' LIMIT 3",
	/* Nothing recorded, though a program was traced. */
	"SELECT '0 calls of malloc seen in ' || exe || ': it made none, or has an allocator of its own'"
	" FROM process WHERE run_id = :run AND traced"
	" AND NOT EXISTS (SELECT 1 FROM total WHERE run_id = :run AND name = 'allocations'"
	" AND value > 0) AND NOT EXISTS (SELECT 1 FROM fact WHERE run_id = :run"
	" AND key LIKE 'hint.allocator%') LIMIT 1",
	/* Python keeps small objects in arenas of its own. */
	"SELECT 'python allocates objects up to 512 bytes inside its own arenas: PYTHONMALLOC=malloc"
	" memsight record ... shows each of them' FROM process WHERE run_id = :run AND traced"
	" AND exe GLOB '*/python[23]*' AND NOT EXISTS (SELECT 1 FROM fact WHERE run_id = :run"
	" AND key = 'env.PYTHONMALLOC' AND value GLOB 'malloc*') LIMIT 1",
	/* No lines. */
	"SELECT value FROM fact WHERE run_id = :run AND key LIKE 'hint.debug%' LIMIT 3",
	/* Programs without our library. */
	"SELECT 'not traced: ' || exe || CASE why_not"
	" WHEN 'static' THEN ' (statically linked: nothing can be preloaded into it)'"
	" WHEN 'setuid' THEN ' (set-user-ID: the loader ignores preloaded libraries)'"
	" WHEN '32-bit' THEN ' (32-bit program, 64-bit memsight)'"
	" ELSE ' (' || coalesce(why_not, 'unknown') || ')' END"
	" FROM process WHERE run_id = :run AND NOT traced AND coalesce(why_not, '') <> 'not followed'"
	" GROUP BY exe, why_not ORDER BY min(start_ns) LIMIT 3",
	/* Sources that were refused. */
	"SELECT name || ' was not sampled: ' || remedy FROM source"
	" WHERE run_id = :run AND error <> 0 AND remedy <> '' LIMIT 3",
	/*
	 * The timer starts anew in each thread and process. A fifth and 20 periods are more than the
	 * kernel's own rounding of the CPU time.
	 */
	"SELECT printf('the samples stand for %.2f s of %.2f s of user CPU time: threads and processes"
	" that live shorter than %.2f ms are hardly sampled (a higher --freq sees more of them)',"
	" sampled / 1e9, user_ns / 1e9, period / 1e6)"
	" FROM (SELECT user_ns, period, n_samples * period AS sampled FROM run JOIN source"
	" ON source.run_id = run.id AND name = 'clock' AND unit = 'ns of user CPU time' AND error = 0"
	" WHERE run.id = :run)"
	" WHERE sampled < 0.8 * user_ns AND sampled + 20 * period < user_ns",
	/* Frame pointers. */
	"SELECT 'most call stacks stop at the first frame: the code was built without frame pointers"
	" (record without --stacks fp to see its callers)'"
	" WHERE (SELECT sum(n_blocks) FROM site JOIN stack ON stack.id = stack_id"
	" JOIN stack AS outer ON outer.id = stack.parent_id"
	" WHERE run_id = :run AND outer.stop = 'no frame pointer')"
	" > 0.5 * (SELECT sum(n_blocks) FROM site WHERE run_id = :run)",
};

static int write_hint(FILE *out, sqlite3 *db, const char *sql, int64_t run_id)
{
	sqlite3_stmt *stmt = report_sql_prepare(db, sql, run_id, -1);
	int code = SQLITE_DONE;

	if (!stmt)
		return -EPROTO;
	while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
		fprintf(out, "hint: %s\n", (const char *)sqlite3_column_text(stmt, 0));
	sqlite3_finalize(stmt);
	return code == SQLITE_DONE ? 0 : -EPROTO;
}

int report_hints_write(FILE *out, sqlite3 *db, const struct report_request *request)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(hints_sql) / sizeof(*hints_sql); i++)
		r = write_hint(out, db, hints_sql[i], request->run_id);
	return r;
}
