#include "analyze/report.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "analyze/format.h"
#include "analyze/report-summary.h"
#include "analyze/stack-text.h"

#define KINDS(...)                                                                                 \
	.kinds = (const enum table_kind[]){ __VA_ARGS__ },                                         \
	.n_kinds = sizeof((const enum table_kind[]){ __VA_ARGS__ }) / sizeof(enum table_kind)

/* Samples of CPU time in the run: what shares of time are shares of. */
#define CLOCK_SAMPLES                                                                              \
	"(SELECT nullif(sum(n_samples), 0) FROM source WHERE run_id = :run AND name = 'clock')"

static const char sites_sql[] =
	"SELECT CAST(n_samples AS REAL) / " CLOCK_SAMPLES " AS time,"
	" half_width(n_samples, n_samples_sq, " CLOCK_SAMPLES ") AS \"±95 %\","
	" peak_bytes AS peak, n_blocks AS blocks, bytes AS \"in all\", live_bytes AS \"not freed\","
	" n_temporary AS temporary, n_faults AS faults, stack_text(stack_id, 4) AS \"allocated at\""
	" FROM site WHERE run_id = :run"
	" ORDER BY n_samples DESC, peak_bytes DESC, stack_id LIMIT :limit";

static const char leaks_sql[] =
	"SELECT sum(live_bytes) AS bytes, sum(live_blocks) AS blocks, sum(n_blocks) AS \"of blocks\","
	" min(first_ns) AS \"first at\", stack_text(stack_id, 6) AS \"allocated at\""
	" FROM site WHERE run_id = :run AND live_blocks > 0 GROUP BY stack_text(stack_id, 6)"
	" ORDER BY 1 DESC, 2 DESC, 5 LIMIT :limit";

/*
 * With H samples in heap blocks in all, a site that held a share b of the heap's byte-seconds would
 * see H x b of them at the average rate, and none with probability exp(-H x b): below 1 % from
 * H x b = 4.605 on. Only there "no access seen" says something about the program.
 */
static const char unused_sql[] =
	"WITH heap AS (SELECT sum(n_samples) AS n, sum(byte_seconds) AS held"
	" FROM site WHERE run_id = :run)"
	" SELECT peak_bytes AS peak, n_blocks AS blocks, live_bytes AS \"not freed\","
	" round(heap.n * byte_seconds / heap.held, 1) AS \"samples expected\","
	" stack_text(stack_id, 5) AS \"allocated at\""
	" FROM site, heap WHERE run_id = :run AND n_samples = 0 AND first_touch_ns IS NULL"
	" AND heap.n * byte_seconds > 4.605 * heap.held"
	" ORDER BY peak_bytes DESC, stack_id LIMIT :limit";

/* Trips, and then what is in a region with those inside it; own: without them. */
static const char regions_sql[] =
	"WITH RECURSIVE path(id, text, place) AS ("
	"  SELECT id, name, printf('%08d', id) FROM region_total WHERE run_id = :run"
	"  AND parent_id IS NULL"
	"  UNION ALL SELECT part.id, path.text || ' / ' || part.name,"
	"  path.place || printf('%08d', part.id)"
	"  FROM path JOIN region_total AS part ON part.run_id = :run AND part.parent_id = path.id)"
	" SELECT n_trips AS trips, n_left_open AS \"left open\", all_ns AS time, own_ns AS own,"
	" CAST(all_samples AS REAL) / " CLOCK_SAMPLES " AS \"CPU time\","
	" half_width(all_samples, all_samples, " CLOCK_SAMPLES ") AS \"±95 %\","
	" CAST(own_samples AS REAL) / " CLOCK_SAMPLES " AS \"own CPU\","
	" all_blocks AS blocks, all_bytes AS bytes, own_bytes AS \"own bytes\","
	" all_faults AS faults, path.text AS region"
	" FROM region_total JOIN path USING (id) WHERE run_id = :run ORDER BY place LIMIT :limit";

static const char losses_sql[] =
	"SELECT source, reason, sum(count) AS count, min(from_ns) AS \"from\", max(to_ns) AS \"to\","
	" (SELECT exe FROM process WHERE process.id = loss.process_id) AS program"
	" FROM loss WHERE run_id = :run GROUP BY source, reason, process_id"
	" UNION ALL SELECT name, 'not opened: ' || coalesce(remedy, 'error ' || error), NULL, NULL,"
	" NULL, NULL FROM source WHERE run_id = :run AND error <> 0"
	" UNION ALL SELECT 'process ' || pid, 'not traced: ' || coalesce(why_not, 'unknown'), NULL,"
	" start_ns, end_ns, exe FROM process WHERE run_id = :run AND NOT traced"
	" LIMIT :limit";

static const char processes_sql[] =
	"SELECT pid, (SELECT pid FROM process AS parent WHERE parent.id = process.parent_id) AS parent,"
	" birth, CASE WHEN traced THEN 'traced' ELSE 'not traced: ' || why_not END AS state,"
	" start_ns AS start, end_ns AS end,"
	" (SELECT count(*) FROM thread WHERE thread.process_id = process.id) AS threads,"
	" (SELECT sum(n_events) FROM thread WHERE thread.process_id = process.id) AS events,"
	" CASE WHEN command <> '' THEN command ELSE exe END AS command"
	" FROM process WHERE run_id = :run ORDER BY start_ns, id LIMIT :limit";

static const char list_sql[] =
	"SELECT id, program || '.' || mode || '.' || repetition AS run, duration_ns AS duration,"
	" (SELECT value FROM total WHERE run_id = run.id AND name = 'allocations') AS allocations,"
	" (SELECT value FROM total WHERE run_id = run.id AND name = 'peak_bytes') AS peak,"
	" (SELECT count(*) FROM loss WHERE run_id = run.id) AS losses, command"
	" FROM run ORDER BY id LIMIT :limit";

const struct report reports[] = {
	{
		.name = "summary",
		.title = "what happened, in one screen",
		.sql = "SELECT name, value FROM total WHERE run_id = :run ORDER BY name LIMIT :limit",
		.write = report_summary_write,
	},
	{
		.name = "list",
		.title = "Runs in this database",
		.nothing = "None.",
		.sql = list_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_DURATION, TABLE_COUNT, TABLE_BYTES,
		      TABLE_COUNT),
	},
	{
		.name = "sites",
		.title = "Call stacks that allocated, hottest first",
		.nothing = "No allocation was recorded.",
		.note = "time: share of the samples of user CPU time at accesses to the site's blocks, "
			"with its 95 % interval; faults: page faults; temporary: freed by the same "
			"thread's next event",
		.sql = sites_sql,
		KINDS(TABLE_PERCENT, TABLE_PERCENT, TABLE_BYTES, TABLE_COUNT, TABLE_BYTES,
		      TABLE_BYTES, TABLE_COUNT, TABLE_COUNT),
	},
	{
		.name = "leaks",
		.title = "Blocks that were not freed, by call stack",
		.nothing = "Every recorded block was freed.",
		.note = "not freed is not always a leak: a program may leave its last blocks to the "
			"kernel",
		.sql = leaks_sql,
		KINDS(TABLE_BYTES, TABLE_COUNT, TABLE_COUNT, TABLE_TIME),
	},
	{
		.name = "unused",
		.title = "Call stacks whose blocks nobody was seen to access",
		.nothing = "None for which the samples can say so.",
		.note = "listed only where a block accessed at the heap's average rate would have been "
			"missed with less than 1 % probability",
		.sql = unused_sql,
		KINDS(TABLE_BYTES, TABLE_COUNT, TABLE_BYTES),
	},
	{
		.name = "regions",
		.title = "Regions that the program told (memsight.h), by what they lie in",
		.nothing = "The program told of no region.",
		.note = "time: wall time, added up over trips and threads; own: without the regions inside; CPU "
			"time: share of the run's samples of user CPU time, with its 95 % interval; blocks and "
			"bytes: allocated in the region; left open: trips that no pop of their own ended",
		.sql = regions_sql,
		KINDS(TABLE_COUNT, TABLE_COUNT, TABLE_DURATION, TABLE_DURATION, TABLE_PERCENT,
		      TABLE_PERCENT, TABLE_PERCENT, TABLE_COUNT, TABLE_BYTES, TABLE_BYTES,
		      TABLE_COUNT),
	},
	{
		.name = "marks",
		.title = "Marks that the program set (memsight.h)",
		.nothing = "The program set no mark.",
		.sql = "SELECT time_ns AS at, tid AS thread, name AS mark FROM mark"
		       " JOIN thread ON thread.id = thread_id WHERE mark.run_id = :run"
		       " ORDER BY time_ns, mark.rowid LIMIT :limit",
		KINDS(TABLE_TIME, TABLE_PLAIN),
	},
	{
		.name = "processes",
		.title = "Process images, in the order in which they began",
		.nothing = "No process was recorded.",
		.sql = processes_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_TIME, TABLE_TIME,
		      TABLE_COUNT, TABLE_COUNT),
	},
	{
		.name = "losses",
		.title = "What was not recorded, or cannot be used",
		.nothing = "Nothing was lost.",
		.sql = losses_sql,
		KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_TIME, TABLE_TIME),
	},
	{ .name = NULL },
};

const struct report *report_find(const char *name)
{
	for (const struct report *report = reports; report->name; report++)
		if (strcmp(report->name, name) == 0)
			return report;
	return NULL;
}

static int write_list(FILE *out, sqlite3_stmt *stmt, const struct report *report,
		      const struct report_request *request)
{
	struct table_style style = { request->format, report->kinds, report->n_kinds,
				     request->width, true };
	bool is_text = request->format == TABLE_TEXT;
	size_t n_rows = 0;

	if (is_text)
		fprintf(out, "%s\n", report->title);
	int r = table_write(out, stmt, &style, &n_rows);
	if (r < 0 || !is_text)
		return r;
	if (n_rows == 0)
		fprintf(out, "%s\n", report->nothing);
	else if (report->note)
		fprintf(out, "%s\n", report->note);
	return 0;
}

int report_write(FILE *out, sqlite3 *db, const struct report *report,
		 const struct report_request *request)
{
	sqlite3_stmt *stmt = NULL;

	if (report->write && request->format == TABLE_TEXT)
		return report->write(out, db, request);
	if (sqlite3_prepare_v2(db, report->sql, -1, &stmt, NULL) != SQLITE_OK)
		return -EPROTO;

	sqlite3_bind_int64(stmt, sqlite3_bind_parameter_index(stmt, ":run"), request->run_id);
	sqlite3_bind_int64(stmt, sqlite3_bind_parameter_index(stmt, ":limit"), request->limit);
	int r = write_list(out, stmt, report, request);
	sqlite3_finalize(stmt);
	return r;
}

/* half_width(sum, sum_of_squares, n), see format_half_width(); NULL without samples. */
static void half_width(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	int64_t n = sqlite3_value_int64(args[2]);

	(void)n_args;
	if (n <= 0)
		return;
	sqlite3_result_double(context, format_half_width(sqlite3_value_double(args[0]),
							 sqlite3_value_double(args[1]), n));
}

int report_functions_register(sqlite3 *db)
{
	int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
	int code =
		sqlite3_create_function(db, "half_width", 3, flags, NULL, half_width, NULL, NULL);

	return code == SQLITE_OK ? stack_text_register(db) : code;
}
