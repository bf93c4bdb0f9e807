#include "analyze/import-internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analyze/input/run-discovery.h"
#include "common/cleanup.h"
#include "decode/decode.h"
#include "store/compact/compact.h"
#include "store/database.h"
#include "store/statement.h"

/* Every table with rows of one run, known to an import or not; chunks go with theirs. */
static const char run_tables_sql[] =
	"SELECT tables.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns"
	" WHERE tables.type = 'table' AND columns.name = 'run_id'"
	" AND tables.name NOT GLOB '*_chunk'";

static int delete_from(struct db *db, const char *table, int64_t run_id)
{
	int chunks = compact_columns(table) ? compact_delete_run(db, table, run_id) : 0;
	if (chunks < 0 || compact_is(db_handle(db), table))
		return chunks;
	char *sql = sqlite3_mprintf("DELETE FROM \"%w\" WHERE run_id = ?1", table);
	int r = sql ? db_run(db, sql, "i", run_id) : -ENOMEM;
	sqlite3_free(sql);
	return r;
}

/* Delete a run's rows from each table that a query names. */
static int delete_from_each(struct db *db, const char *names_sql, int64_t run_id)
{
	auto_statement sqlite3_stmt *names = NULL;
	int r = statement_prepare(db_handle(db), names_sql, &names);

	while (r >= 0 && (r = statement_step(names)) > 0)
		r = delete_from(db, statement_string(names, 0), run_id);
	return r;
}

int import_delete_run(struct db *db, int64_t run_id)
{
	int r = db_run(db,
		       "DELETE FROM thread_name WHERE thread_id IN"
		       " (SELECT id FROM thread WHERE run_id = ?1)",
		       "i", run_id);

	r = r ?: delete_from_each(db, run_tables_sql, run_id);
	return r < 0 ? r : db_run(db, "DELETE FROM run WHERE id = ?1", "i", run_id);
}

int import_drop_rows(struct db *db, int64_t run_id)
{
	/* Lines of cache name their blocks by the rows that go; pictures are made of such rows. */
	static const char names_sql[] =
		"SELECT column1 FROM (VALUES ('allocation'), ('mapping_event'), ('sample'),"
		" ('touch'), ('shared_line'), ('stretch'), ('band'), ('site_curve'),"
		" ('timeline_level'), ('picture'), ('picture_category'), ('picture_tile'))";
	int r = delete_from_each(db, names_sql, run_id);

	if (r == 0)
		r = db_run(db, "UPDATE object_name SET allocation_id = NULL WHERE run_id = ?1", "i",
			   run_id);
	return r < 0 ? r
		     : db_run(db, "UPDATE run SET detail = 'totals' WHERE id = ?1", "i", run_id);
}

/*
 * The recording's id as hex. A damaged header has none to trust: then it goes by the file's name.
 */
static void set_recording_id(struct import *import)
{
	char *text = import->run.recording_id;
	const uint8_t *id = feed_header(&import->feed)->recording_id;

	if (feed_damage(&import->feed)->header_damaged) {
		const char *slash = strrchr(import->path, '/');
		snprintf(text, sizeof(import->run.recording_id), "damaged header: %s",
			 slash ? slash + 1 : import->path);
		return;
	}
	for (size_t i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
}

unsigned import_estimators(const char *list)
{
	return decode_estimators_parse(list);
}

bool import_is_as_wanted(struct db *db, int64_t run_id, const struct import_options *options)
{
	char text[DECODE_ESTIMATORS_BYTES];

	if (!options->estimators)
		return true;
	decode_estimators_print(options->estimators, text);
	return db_integer_of(db, 0,
			     "SELECT count(*) FROM fact WHERE run_id = ?1 AND key = 'estimator'"
			     " AND value <> ?2",
			     "it", run_id, text) == 0;
}

int import_write_estimators(struct import *import)
{
	unsigned estimators = import->options->estimators;
	char text[DECODE_ESTIMATORS_BYTES];

	decode_estimators_print(estimators ? estimators : DECODE_ESTIMATORS, text);
	return db_run(import->db,
		      "INSERT OR REPLACE INTO fact(run_id, key, at_end, value)"
		      " VALUES(?1, 'estimator', 0, ?2)",
		      "it", import->run_id, text);
}

/* run.id of the recording, or 0; *ret_is_enough: it has all that is wanted. */
static int64_t find_run(const struct import *import, bool *ret_is_enough)
{
	const struct import_options *options = import->options;
	int64_t run_id = db_integer_of(import->db, 0, "SELECT id FROM run WHERE recording_id = ?1",
				       "t", import->run.recording_id);
	int64_t is_enough = db_integer_of(
		import->db, 0,
		"SELECT CASE WHEN detail = 'full' THEN 1 WHEN ?1 THEN 0 ELSE"
		" coalesce(exit_status, 0) <> 0 OR NOT ended_cleanly END FROM run WHERE id = ?2",
		"ii", (int64_t)(options->totals == IMPORT_NOT_ENOUGH), run_id);

	*ret_is_enough = !options->force && (options->totals == IMPORT_ENOUGH || is_enough);
	if (options->first_new_run && run_id >= options->first_new_run)
		*ret_is_enough = true;
	return run_id;
}

int import_begin_run(struct import *import, bool *ret_is_skipped)
{
	struct import_run *run = &import->run;

	set_recording_id(import);
	run->repetition = 1;
	run->exit_status = run->user_ns = run->system_ns = INT64_MIN;
	run->max_rss = run->collector_cpu_ns = run->exit_ns = INT64_MIN;
	run->minor_faults = run->major_faults = INT64_MIN;

	bool is_enough;
	int64_t run_id = find_run(import, &is_enough);
	import->run_id = run_id;
	if (run_id != 0 && is_enough && import_is_as_wanted(import->db, run_id, import->options)) {
		*ret_is_skipped = true;
		return 0;
	}
	if (run_id != 0) {
		int r = import_delete_run(import->db, run_id);
		if (r < 0)
			return r;
	}
	import->run_id = db_integer(import->db, "SELECT max(id) FROM run", 0) + 1;
	if (import->run_id < import->options->first_new_run) /* one was just deleted */
		import->run_id = import->options->first_new_run;
	return 0;
}

static int count_damage(struct import *import)
{
	const struct trace_damage *damage = feed_damage(&import->feed);
	const struct losses_row found[] = {
		{ "trace", "damaged header", damage->header_damaged },
		{ "trace", "damaged frames", damage->n_damaged_frames },
		{ "trace", "items in damaged frames", damage->n_lost_items },
		{ "trace", "unreadable bytes", damage->n_skipped_bytes },
		{ "trace", "frames of a newer version", damage->n_unknown_frames },
		{ "trace", "records of a newer version", damage->n_unknown_records },
		{ "trace", "not committed: may be incomplete", damage->n_uncommitted_items },
		{ "trace", "cut off: the recording did not end", !damage->ended },
		{ "trace", "events of threads whose definition is lost", import->n_orphans },
		{ "trace", "definition lost: call stacks", stacks_n_lost(import->stacks) },
		{ "trace", "clock pairs that ran backwards", import->clock.n_refused },
		{ "analyze", "touches of lines that --sharing had no room for",
		  import->tally.lines.n_forgotten },
		{ "analyze", "frees not seen: address allocated again",
		  import->tally.total.missed_frees },
	};

	return losses_count_each(&import->losses, found, sizeof(found) / sizeof(found[0]));
}

/* The first event of any kind; INT64_MIN: there was none. */
static int64_t first_event(const struct import *import)
{
	int64_t first_ns = import->first_access_ns;

	for (size_t i = 0; i < import->tally.ends.n_sites; i++) {
		const struct site_ends *site = &import->tally.ends.sites[i];
		first_ns = site->first_ns < first_ns ? site->first_ns : first_ns;
	}
	return first_ns == INT64_MAX ? INT64_MIN : first_ns;
}

static int write_run(struct import *import)
{
	const struct trace_damage *damage = feed_damage(&import->feed);
	const struct import_run *run = &import->run;
	const char *shown = import->options->shown_path;
	int64_t duration_ns = run->exit_ns > import->last_ns ? run->exit_ns : import->last_ns;
	int64_t committed_ns =
		damage->committed_ticks ? import_time(import, damage->committed_ticks) : 0;

	return db_insert(import->db,
			 "run(id, program, mode, repetition, command, directory, trace,"
			 " recording_id, start_unix_ns, duration_ns, exit_status, user_ns,"
			 " system_ns, max_rss, collector_cpu_ns, clock_error_ns, ended_cleanly,"
			 " committed_ns, first_event_ns, minor_faults, major_faults)",
			 "nttnttttnniiiiinnniii", import->run_id, run->program ? run->program : "?",
			 run->mode ? run->mode : "default", run->repetition,
			 run->command ? run->command : "", run->directory ? run->directory : "",
			 shown ? shown : import->path, run->recording_id, run->start_unix_ns,
			 duration_ns, run->exit_status, run->user_ns, run->system_ns, run->max_rss,
			 run->collector_cpu_ns,
			 (int64_t)(import->clock.error_ns + samples_clock_error(import->samples)),
			 (int64_t)damage->ended, committed_ns, first_event(import),
			 run->minor_faults, run->major_faults);
}

/* What the series thought of the run: its trace was whole before that was known. */
static int write_verdict(struct import *import)
{
	const char *verdict = import->options->verdict;

	return verdict ? db_run(import->db,
				"INSERT OR REPLACE INTO fact(run_id, key, at_end, value)"
				" VALUES(?1, 'series.result', 1, ?2)",
				"nt", import->run_id, verdict)
		       : 0;
}

#define SAME_NAME                                                                                  \
	" FROM run WHERE (program, mode, repetition) = (SELECT program, mode, repetition FROM run" \
	" WHERE id = ?1)"

/*
 * Give the runs that are called as this one the names of their traces as modes: before.mst,
 * after.mst.
 */
static int name_by_traces(struct import *import)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(import->db), "SELECT id, trace" SAME_NAME, &row);

	if (r == 0)
		statement_integer(row, 1, import->run_id);
	while (r >= 0 && (r = statement_step(row)) > 0) {
		auto_free char *label = results_label(statement_string(row, 1));

		if (!label)
			return -ENOENT;
		r = db_run(import->db,
			   "INSERT OR REPLACE INTO temp.label(run_id, name) VALUES(?1, ?2)", "nt",
			   sqlite3_column_int64(row, 0), label);
	}
	if (r == 0 &&
	    db_integer(import->db, "SELECT count(*) - count(DISTINCT name) FROM temp.label", 1) > 0)
		return -ENOENT;
	return r < 0 ? r
		     : db_run(import->db,
			      "UPDATE run SET mode = (SELECT name FROM temp.label WHERE run_id ="
			      " id) WHERE id IN (SELECT run_id FROM temp.label)",
			      "");
}

/* Two runs of one name could not be told apart, and reports would take them for repetitions. */
static int tell_apart(struct import *import)
{
	if (db_integer_of(import->db, 0, "SELECT count(*)" SAME_NAME, "n", import->run_id) < 2)
		return 0;
	int r = db_run(import->db, "CREATE TEMP TABLE label(run_id INTEGER, name TEXT)", "");
	if (r < 0)
		return r;
	r = name_by_traces(import);
	if (r == -ENOENT)
		r = db_run(
			import->db,
			"UPDATE run SET repetition = (SELECT max(repetition) + 1 FROM run AS other"
			" WHERE (other.program, other.mode) = (run.program, run.mode))"
			" WHERE id = ?1",
			"n", import->run_id);
	int dropped = db_run(import->db, "DROP TABLE temp.label", "");
	return r < 0 ? r : dropped;
}

int import_end_run(struct import *import)
{
	int r = count_damage(import) ?: write_verdict(import);

	r = r ?: losses_write(&import->losses, import->db, import->run_id);
	r = r ?: write_run(import);
	return r < 0 ? r : tell_apart(import);
}
