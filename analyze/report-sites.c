/* The reports of call stacks that allocated: all, those that kept their blocks, and those nobody accessed. */
#include "analyze/report-queries.h"
#include "analyze/report-sql.h"
#include "analyze/report.h"
#include "analyze/suppressions.h"

const char report_sites_sql[] =
	"SELECT CAST(n_samples AS REAL) / " CLOCK_SAMPLES " AS time,"
	" half_width(n_samples, n_samples_sq, " CLOCK_SAMPLES ") AS \"±95 %\","
	" peak_bytes AS peak, n_blocks AS blocks, bytes AS \"in all\", live_bytes AS \"not freed\","
	" n_temporary AS temporary, n_faults AS faults, stack_text(stack_id, 4) AS \"allocated at\""
	" FROM site WHERE run_id = :run"
	" ORDER BY n_samples DESC, peak_bytes DESC, stack_id LIMIT :limit";

const char report_leaks_sql[] =
	"SELECT sum(live_bytes) AS bytes, sum(live_blocks) AS blocks, sum(n_blocks) AS \"of blocks\","
	" min(first_ns) AS \"first at\", stack_text(stack_id, 6) AS \"allocated at\""
	" FROM site WHERE run_id = :run AND live_blocks > 0"
	" AND stack_id NOT IN (SELECT stack_id FROM temp.suppressed) GROUP BY stack_text(stack_id, 6)"
	" ORDER BY 1 DESC, 2 DESC, 5 LIMIT :limit";

const char report_leaks_hints_sql[] =
	"SELECT printf('the program was killed by signal %d: these blocks were alive when killed, and whether"
	" it would have freed them is not known', exit_status & 127) FROM run WHERE id = :run"
	" AND ended_cleanly AND exit_status & 127";

/*
 * With H samples in heap blocks in all, a site that held a share b of the heap's byte-seconds would
 * see H x b of them at the average rate, and none with probability exp(-H x b): below 1 % from
 * H x b = 4.605 on. Only there "no access seen" says something about the program.
 */
const char report_unused_sql[] =
	"WITH heap AS (SELECT sum(n_samples) AS n, sum(byte_seconds) AS held"
	" FROM site WHERE run_id = :run)"
	" SELECT peak_bytes AS peak, n_blocks AS blocks, live_bytes AS \"not freed\","
	" round(heap.n * byte_seconds / heap.held, 1) AS \"samples expected\","
	" stack_text(stack_id, 5) AS \"allocated at\""
	" FROM site, heap WHERE run_id = :run AND n_samples = 0 AND first_touch_ns IS NULL"
	" AND heap.n * byte_seconds > 4.605 * heap.held"
	" ORDER BY peak_bytes DESC, stack_id LIMIT :limit";

const char report_peak_sql[] =
	"SELECT site_peak.bytes AS bytes, 1.0 * site_peak.bytes / nullif((SELECT sum(bytes) FROM"
	"  site_peak WHERE run_id = :run), 0) AS share, site_peak.n_blocks AS blocks,"
	" peak_bytes AS \"own peak\", peak_ns AS \"at\","
	" stack_text(stack_id, 5) AS \"allocated at\""
	" FROM site_peak JOIN site USING (run_id, stack_id) WHERE run_id = :run"
	" ORDER BY site_peak.bytes DESC, site_peak.n_blocks DESC, stack_id LIMIT :limit";

const char report_temporary_sql[] =
	"SELECT n_temporary AS temporary, 1.0 * n_temporary / n_blocks AS share, n_blocks AS blocks,"
	" bytes / n_blocks AS \"mean size\", stack_text(stack_id, 5) AS \"allocated at\""
	" FROM site WHERE run_id = :run AND n_temporary > 0"
	" ORDER BY n_temporary DESC, stack_id LIMIT :limit";

int report_leaks_prepare(sqlite3 *db, const struct report_request *request)
{
	return suppressions_table(request->suppressions, db, request->run_id);
}

int64_t report_count_leaks(sqlite3 *db, int64_t run_id)
{
	return report_sql_number(db,
				 "SELECT count(*) FROM site WHERE run_id = :run AND live_blocks > 0"
				 " AND stack_id NOT IN (SELECT stack_id FROM temp.suppressed)",
				 run_id);
}
