#include "tests/analyze/check-db.h"

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK, "%s: %s", sql,
		      sqlite3_errmsg(db));
	return stmt;
}

int64_t check_integer(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *stmt = prepare(db, sql);

	ck_assert_msg(sqlite3_step(stmt) == SQLITE_ROW, "no row: %s", sql);
	int64_t value = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return value;
}

void check_no_row(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *stmt = prepare(db, sql);

	ck_assert_msg(sqlite3_step(stmt) == SQLITE_DONE, "a row (%s): %s",
		      (const char *)sqlite3_column_text(stmt, 0), sql);
	sqlite3_finalize(stmt);
}

/* Totals that are sums over rows. */
static const struct {
	const char *name;
	const char *sql;
} totals[] = {
	{ "allocations", "SELECT count(*) FROM allocation WHERE run_id = %lld" },
	{ "frees", "SELECT count(death_ns) FROM allocation WHERE run_id = %lld" },
	{ "bytes", "SELECT coalesce(sum(size), 0) FROM allocation WHERE run_id = %lld" },
	{ "live_blocks",
	  "SELECT count(*) FROM allocation WHERE run_id = %lld AND death_ns IS NULL" },
	{ "live_bytes", "SELECT coalesce(sum(size), 0) FROM allocation"
			" WHERE run_id = %lld AND death_ns IS NULL" },
	{ "events", "SELECT coalesce(sum(n_events), 0) FROM thread WHERE run_id = %lld" },
	{ "faults", "SELECT coalesce(sum(n_samples), 0) FROM source"
		    " WHERE run_id = %lld AND name = 'faults'" },
};

static int64_t total(sqlite3 *db, int64_t run_id, const char *name)
{
	char *sql = sqlite3_mprintf("SELECT value FROM total WHERE run_id = %lld AND name = %Q",
				    (long long)run_id, name);
	int64_t value = check_integer(db, sql);

	sqlite3_free(sql);
	return value;
}

static void check_totals(sqlite3 *db, int64_t run_id)
{
	for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
		char *sql = sqlite3_mprintf(totals[i].sql, (long long)run_id);
		int64_t expected = check_integer(db, sql);
		ck_assert_msg(total(db, run_id, totals[i].name) == expected, "%s is not %lld",
			      totals[i].name, (long long)expected);
		sqlite3_free(sql);
	}
}

/* Sums per call site, against the same from rows. */
static const char sites_sql[] =
	"WITH rows AS ("
	" SELECT coalesce(stack_id, 0) AS stack_id, count(*) AS n, count(death_ns) AS frees,"
	"  sum(size) AS bytes, sum(death_ns IS NULL) AS live,"
	"  sum(CASE WHEN death_ns IS NULL THEN size ELSE 0 END) AS live_bytes,"
	"  min(birth_ns) AS first_ns,"
	"  sum(size * (coalesce(death_ns, process.end_ns, run.duration_ns) - birth_ns) / 1e9) AS bs"
	" FROM allocation JOIN process ON process.id = process_id JOIN run ON run.id = process.run_id"
	" WHERE allocation.run_id = %lld GROUP BY 1)"
	" SELECT stack_id FROM (SELECT site.stack_id, n IS n_blocks AND frees IS n_frees"
	"  AND rows.bytes IS site.bytes AND live IS live_blocks"
	"  AND rows.live_bytes IS site.live_bytes AND rows.first_ns IS site.first_ns"
	"  AND abs(byte_seconds - bs) <= 1e-9 * (1 + bs) AS fits"
	"  FROM site LEFT JOIN rows USING (stack_id) WHERE run_id = %lld"
	"  UNION ALL SELECT rows.stack_id, 0 FROM rows"
	"  WHERE stack_id NOT IN (SELECT stack_id FROM site WHERE run_id = %lld))"
	" WHERE NOT fits";

static void check_sites(sqlite3 *db, int64_t run_id)
{
	long long id = run_id;
	char *sql = sqlite3_mprintf(sites_sql, id, id, id);

	check_no_row(db, sql);
	sqlite3_free(sql);
}

/* Changes of live bytes in the order of time; at one time ends come first, but behind their births. */
static const char changes_sql[] =
	"SELECT birth_ns AS t, 1 AS o, size, coalesce(stack_id, 0) FROM allocation WHERE run_id = %lld"
	" UNION ALL"
	" SELECT coalesce(death_ns, process.end_ns), CASE WHEN death_ns = birth_ns THEN 2 ELSE 0 END,"
	" -size, coalesce(stack_id, 0)"
	" FROM allocation JOIN process ON process.id = process_id"
	" WHERE allocation.run_id = %lld AND coalesce(death_ns, process.end_ns) IS NOT NULL"
	" ORDER BY t, o";

struct slot {
	int64_t live;
	int64_t max;
};

/* Slots of the timeline as the rows give them; before the loop all are empty. */
static void check_slots(sqlite3 *db, int64_t run_id, sqlite3_stmt *changes)
{
	char *sql = sqlite3_mprintf("SELECT time_ns, interval_ns, live_bytes, max_live_bytes"
				    " FROM timeline WHERE run_id = %lld ORDER BY time_ns",
				    (long long)run_id);
	sqlite3_stmt *slots = prepare(db, sql);
	int64_t live = 0;
	int n = 0;
	bool more = sqlite3_step(changes) == SQLITE_ROW;

	for (; sqlite3_step(slots) == SQLITE_ROW; n++) {
		int64_t end = sqlite3_column_int64(slots, 0) + sqlite3_column_int64(slots, 1);
		int64_t max = live;
		for (; more && sqlite3_column_int64(changes, 0) < end;
		     more = sqlite3_step(changes) == SQLITE_ROW) {
			live += sqlite3_column_int64(changes, 2);
			max = live > max ? live : max;
		}
		check_equal(sqlite3_column_int64(slots, 2), live);
		check_equal(sqlite3_column_int64(slots, 3), max);
	}
	check_equal(more, false);
	ck_assert_int_le(n, 1000);
	sqlite3_finalize(slots);
	sqlite3_free(sql);
}

/* The most that was live at once, and when that was reached first. */
static void check_peak(sqlite3 *db, int64_t run_id, sqlite3_stmt *changes)
{
	int64_t live = 0, peak = 0, peak_ns = 0;

	while (sqlite3_step(changes) == SQLITE_ROW) {
		live += sqlite3_column_int64(changes, 2);
		if (live > peak) {
			peak = live;
			peak_ns = sqlite3_column_int64(changes, 0);
		}
	}
	ck_assert_int_eq(total(db, run_id, "peak_bytes"), peak);
	ck_assert_int_eq(total(db, run_id, "peak_ns"), peak_ns);
}

/* The same for each call site. */
static const char site_peaks_sql[] =
	"WITH change AS (%s), running AS ("
	" SELECT t, coalesce, sum(size) OVER (PARTITION BY coalesce ORDER BY t, o"
	"  ROWS UNBOUNDED PRECEDING) AS live"
	" FROM (SELECT t, o, size, \"coalesce(stack_id, 0)\" AS coalesce FROM change))"
	" SELECT stack_id FROM site WHERE run_id = %lld AND peak_bytes <>"
	"  max(0, (SELECT max(live) FROM running WHERE coalesce = stack_id))";

/* What touches give for the sites: of the role "window" (time), of faults, and of all in use. */
static const char touched_sql[] =
	"WITH heap AS ("
	" SELECT touch.*, sample.time_ns, sample.weight, coalesce(allocation.stack_id, 0) AS site"
	" FROM touch JOIN sample ON sample.id = sample_id JOIN allocation ON allocation.id = owner_id"
	" WHERE owner_kind = 1 AND touch.run_id = %lld), per_sample AS ("
	" SELECT site, sample_id, sum(share) AS share, sum(share * weight) AS time_ns FROM heap"
	"  WHERE role = 1 GROUP BY 1, 2), sums AS ("
	" SELECT site, sum(share) AS n, sum(share * share) AS n_sq, sum(time_ns) AS time_ns"
	"  FROM per_sample GROUP BY 1), rest AS ("
	" SELECT site, sum(role = 3) AS faults, min(CASE WHEN phase = 0 THEN time_ns END) AS first,"
	"  max(CASE WHEN phase = 0 THEN time_ns END) AS last FROM heap GROUP BY 1)"
	" SELECT stack_id FROM site LEFT JOIN sums ON sums.site = stack_id"
	"  LEFT JOIN rest ON rest.site = stack_id WHERE run_id = %lld AND NOT ("
	"  abs(coalesce(n, 0) - n_samples) < 1e-6 AND abs(coalesce(n_sq, 0) - n_samples_sq) < 1e-6"
	"  AND abs(coalesce(sums.time_ns, 0) - site.time_ns) <= 1e-6 * site.time_ns"
	"  AND coalesce(faults, 0) = n_faults AND first IS first_touch_ns"
	"  AND last IS last_touch_ns)";

/* Shares of each kind of owner; those of one sample and owner are added before they are squared. */
static const char shares_sql[] =
	"WITH per_sample AS ("
	" SELECT source_id, role, owner_kind, phase, sample_id, sum(share) AS share,"
	"  sum(share * weight) AS weight FROM touch JOIN sample ON sample.id = sample_id"
	" WHERE touch.run_id = %lld GROUP BY 1, 2, 3, 4, 5), sums AS ("
	" SELECT source_id, role, owner_kind, phase, sum(share) AS n, sum(share * share) AS n_sq,"
	"  sum(weight) AS weight FROM per_sample GROUP BY 1, 2, 3, 4)"
	" SELECT source_id FROM sums LEFT JOIN owner_share AS kept"
	"  USING (source_id, role, owner_kind, phase) WHERE kept.n IS NULL"
	"  OR abs(sums.n - kept.n) > 1e-6 OR abs(sums.n_sq - kept.n_sq) > 1e-6"
	"  OR abs(sums.weight - kept.weight) > 1e-6 * kept.weight";

static const char rates_sql[] =
	"SELECT 1 FROM (SELECT sum(n_allocations) AS a, sum(n_frees) AS f, sum(n_samples) AS s,"
	"  sum(n_faults) AS p FROM timeline WHERE run_id = %lld)"
	" WHERE a <> (SELECT value FROM total WHERE run_id = %lld AND name = 'allocations')"
	"  OR f <> (SELECT value FROM total WHERE run_id = %lld AND name = 'frees')"
	"  OR s + p <> (SELECT count(*) FROM sample WHERE run_id = %lld)";

static void check_samples(sqlite3 *db, int64_t run_id)
{
	long long id = run_id;
	char *texts[] = { sqlite3_mprintf(touched_sql, id, id), sqlite3_mprintf(shares_sql, id),
			  sqlite3_mprintf(rates_sql, id, id, id, id) };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		check_no_row(db, texts[i]);
		sqlite3_free(texts[i]);
	}
	check_lines(db, run_id, 0, INT64_MAX, "touch.rowid");
}

/* Who was live at the peak: born by then, and not ended. */
static const char at_peak_sql[] =
	"WITH peak AS (SELECT value AS t FROM total WHERE run_id = %lld AND name = 'peak_ns'), live AS ("
	" SELECT coalesce(stack_id, 0) AS stack_id, sum(size) AS bytes, sum(size > 0) AS n"
	" FROM allocation JOIN process ON process.id = process_id, peak"
	" WHERE allocation.run_id = %lld AND birth_ns <= t"
	"  AND (coalesce(death_ns, process.end_ns, t + 1) > t OR (birth_ns = t AND death_ns = t))"
	"  GROUP BY 1)"
	" SELECT live.stack_id FROM live LEFT JOIN site_peak AS kept ON kept.run_id = %lld"
	"  AND kept.stack_id = live.stack_id"
	"  WHERE (kept.bytes IS NOT live.bytes OR kept.n_blocks < n) AND live.bytes > 0"
	" UNION ALL SELECT 0 FROM (SELECT coalesce(sum(bytes), 0) AS bytes FROM site_peak"
	"  WHERE run_id = %lld) WHERE bytes <>"
	"  (SELECT value FROM total WHERE run_id = %lld AND name = 'peak_bytes')";

static const char threads_sql[] =
	"WITH born AS (SELECT thread_id, count(*) AS n, sum(size) AS bytes,"
	"  sum(death_ns IS NULL) AS live, sum(CASE WHEN death_ns IS NULL THEN size ELSE 0 END) AS lb,"
	"  sum(death_thread_id <> thread_id) AS other FROM allocation WHERE run_id = %lld GROUP BY 1),"
	" freed AS (SELECT death_thread_id AS thread_id, count(*) AS n FROM allocation"
	"  WHERE run_id = %lld AND death_thread_id IS NOT NULL GROUP BY 1),"
	" seen AS (SELECT thread_id, sum(name = 'clock') AS n, sum(name = 'faults') AS faults,"
	"  sum(CASE WHEN name = 'clock' THEN weight ELSE 0 END) AS ns FROM sample"
	"  JOIN source ON source.id = source_id WHERE sample.run_id = %lld"
	"  AND thread_id IS NOT NULL GROUP BY 1)"
	" SELECT id FROM thread LEFT JOIN thread_total AS kept ON kept.thread_id = thread.id"
	"  LEFT JOIN born ON born.thread_id = thread.id LEFT JOIN freed ON freed.thread_id = thread.id"
	"  LEFT JOIN seen ON seen.thread_id = thread.id WHERE thread.run_id = %lld AND NOT ("
	"  coalesce(n_blocks, 0) = coalesce(born.n, 0) AND coalesce(kept.bytes, 0) ="
	"  coalesce(born.bytes, 0) AND coalesce(live_blocks, 0) = coalesce(live, 0)"
	"  AND coalesce(live_bytes, 0) = coalesce(lb, 0) AND coalesce(n_foreign, 0) ="
	"  coalesce(other, 0) AND coalesce(n_frees, 0) = coalesce(freed.n, 0)"
	"  AND coalesce(n_samples, 0) = coalesce(seen.n, 0) AND coalesce(time_ns, 0) ="
	"  coalesce(ns, 0) AND coalesce(n_faults, 0) = coalesce(faults, 0))";

/* What lies beside the heap, against its touches. */
static const char objects_sql[] =
	"WITH other AS (SELECT owner_kind, coalesce(owner_id, 0) AS owner_id, sample_id, role,"
	"  sum(share) AS share, count(*) AS n, time_ns FROM touch JOIN sample ON sample.id = sample_id"
	"  WHERE touch.run_id = %lld AND owner_kind <> 1 GROUP BY 1, 2, 3, 4), sums AS ("
	" SELECT owner_kind, owner_id, sum(CASE WHEN role = 1 THEN share ELSE 0 END) AS n,"
	"  sum(CASE WHEN role = 1 THEN share * share ELSE 0 END) AS sq,"
	"  sum(CASE WHEN role = 3 THEN n ELSE 0 END) AS faults, min(time_ns) AS a, max(time_ns) AS b"
	"  FROM other GROUP BY 1, 2)"
	" SELECT sums.owner_id FROM sums LEFT JOIN object_total AS kept ON kept.run_id = %lld"
	"  AND kept.owner_kind = sums.owner_kind AND kept.owner_id = sums.owner_id"
	" WHERE kept.n_samples IS NULL OR abs(n - n_samples) > 1e-6 OR abs(sq - n_samples_sq) > 1e-6"
	"  OR faults <> n_faults OR a <> first_touch_ns OR b <> last_touch_ns";

/* The buckets, found by comparison instead of by counting bits. */
static const char histogram_sql[] =
	"WITH RECURSIVE bucket(i, least) AS (SELECT 0, 1 UNION ALL SELECT i + 1, least * 2"
	"  FROM bucket WHERE i < 61), block AS (SELECT size,"
	"  coalesce((SELECT max(i) FROM bucket WHERE least <= size), -1) AS s,"
	"  CASE WHEN death_ns IS NULL THEN -2 ELSE coalesce((SELECT max(i) FROM bucket"
	"   WHERE least <= death_ns - birth_ns), -1) END AS l"
	"  FROM allocation WHERE run_id = %lld), sums AS (SELECT s, l, count(*) AS n,"
	"  sum(size) AS bytes FROM block GROUP BY 1, 2)"
	" SELECT s FROM sums LEFT JOIN histogram AS kept ON kept.run_id = %lld AND size_log2 = s"
	"  AND life_log2 = l WHERE kept.n_blocks IS NOT n OR kept.bytes IS NOT sums.bytes"
	" UNION ALL SELECT size_log2 FROM histogram WHERE run_id = %lld AND NOT EXISTS"
	"  (SELECT 1 FROM sums WHERE s = size_log2 AND l = life_log2)";

/*
 * Of lines with two users of different threads, the first of which begins with a write: turns are what one does before the
 * other comes; the first two and the last do not count, and from 4 changes on with a write they are told.
 */
static const char lines_sql[] =
	"WITH seen AS (SELECT process_id, (touch.address | 63) - 63 AS line, thread_id AS thread,"
	"  owner_kind || ' ' || coalesce(owner_id, 0) AS owner, coalesce(is_write, 0) AS is_write,"
	"  row_number() OVER (ORDER BY %s) AS place FROM touch JOIN sample ON sample.id = sample_id"
	"  JOIN source ON source.id = source_id WHERE touch.run_id = %lld AND role IN (0, 1)"
	"  AND touch.address IS NOT NULL AND thread_id IS NOT NULL AND process_id IS NOT NULL"
	"  AND source.kind IS NOT 7 AND owner_kind NOT IN (7, 8, 12, 13) AND time_ns >= %lld"
	"  AND time_ns < %lld),"
	" line AS (SELECT process_id, line, min(place) AS first FROM seen GROUP BY 1, 2"
	"  HAVING count(DISTINCT thread || ' ' || owner) = 2 AND count(DISTINCT thread) = 2),"
	" placed AS (SELECT seen.*, first, thread <> lag(thread, 1, thread) OVER (PARTITION BY"
	"  process_id, line ORDER BY place) AS is_change FROM seen JOIN line USING (process_id, line)),"
	" turned AS (SELECT *, sum(is_change) OVER (PARTITION BY process_id, line ORDER BY place) AS turn"
	"  FROM placed),"
	" ended AS (SELECT *, max(turn) OVER (PARTITION BY process_id, line) AS last FROM turned),"
	" expected AS (SELECT process_id, line, last, sum(turn BETWEEN 2 AND last - 1) AS n,"
	"  sum((turn BETWEEN 2 AND last - 1) * is_write) AS writes FROM ended GROUP BY 1, 2"
	"  HAVING max((place = first) * is_write) > 0)"
	" SELECT count(*) FILTER (WHERE last >= 4 AND writes > 0), count(*) FILTER (WHERE (last >= 4"
	"  AND writes > 0) <> (kept.address IS NOT NULL) OR kept.address IS NOT NULL AND"
	"  (n_touches <> n OR n_writes <> writes OR n_changes <> last OR n_same + n_apart > last - 2))"
	"  FROM expected LEFT JOIN shared_line AS kept ON kept.run_id = %lld"
	"  AND kept.process_id = expected.process_id AND kept.address = line";

int64_t check_lines(sqlite3 *db, int64_t run_id, int64_t from_ns, int64_t to_ns, const char *order)
{
	char *text = sqlite3_mprintf(lines_sql, order, (long long)run_id, (long long)from_ns,
				     (long long)to_ns, (long long)run_id);
	sqlite3_stmt *row = prepare(db, text);

	ck_assert_int_eq(sqlite3_step(row), SQLITE_ROW);
	int64_t n = sqlite3_column_int64(row, 0);
	ck_assert_msg(sqlite3_column_int64(row, 1) == 0, "%lld lines of %lld are told otherwise",
		      (long long)sqlite3_column_int64(row, 1), (long long)n);
	sqlite3_finalize(row);
	sqlite3_free(text);
	return n;
}

static void check_others(sqlite3 *db, int64_t run_id)
{
	long long id = run_id;
	char *texts[] = { sqlite3_mprintf(at_peak_sql, id, id, id, id, id),
			  sqlite3_mprintf(threads_sql, id, id, id, id),
			  sqlite3_mprintf(objects_sql, id, id),
			  sqlite3_mprintf(histogram_sql, id, id, id) };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		check_no_row(db, texts[i]);
		sqlite3_free(texts[i]);
	}
}

void check_aggregates(sqlite3 *db, int64_t run_id)
{
	long long id = run_id;
	char *changes_text = sqlite3_mprintf(changes_sql, id, id);
	sqlite3_stmt *changes = prepare(db, changes_text);
	char *peaks_text = sqlite3_mprintf(site_peaks_sql, changes_text, id);

	check_totals(db, run_id);
	check_sites(db, run_id);
	check_samples(db, run_id);
	check_others(db, run_id);
	check_peak(db, run_id, changes);
	sqlite3_reset(changes);
	check_slots(db, run_id, changes);
	check_no_row(db, peaks_text);
	sqlite3_finalize(changes);
	sqlite3_free(changes_text);
	sqlite3_free(peaks_text);
}
