/*
 * The rows of what was watched: one for each arming, its counts by thread, and the times between
 * accesses.
 */
#include "analyze/samples/watch-entry.h"
#include "store/statement.h"

static void bind_counts(sqlite3_stmt *statement, int first, const struct watch_counts *counts)
{
	statement_integer(statement, first, (int64_t)counts->n_reads);
	statement_integer(statement, first + 1, (int64_t)counts->n_writes);
	statement_integer(statement, first + 2, (int64_t)counts->n_updates);
	statement_integer(statement, first + 3, (int64_t)counts->n_unknown);
}

static int64_t armed_ns(const struct watch_entry *entry)
{
	int64_t sum = 0;

	for (size_t i = 0; i < entry->n_spans; i++)
		sum += entry->spans[i].to_ns - entry->spans[i].from_ns;
	return sum;
}

static int write_entry(const struct tasks *tasks, const struct watch_entry *entry,
		       sqlite3_stmt *statement, int64_t run_id)
{
	const struct task_process *process = tasks_process(tasks, entry->process);
	bool was_armed = entry->n_spans > 0;

	statement_integer(statement, 1, run_id);
	statement_integer(statement, 2, entry->number);
	statement_text(statement, 3, entry->target);
	statement_integer_or_null(statement, 4, process ? process->row : 0, was_armed && process);
	statement_integer(statement, 5, (int64_t)entry->address);
	statement_integer(statement, 6, (int64_t)entry->n_bytes);
	statement_integer(statement, 7, entry->is_write_only);
	statement_integer(statement, 8, entry->is_hot);
	statement_integer(statement, 9, was_armed ? entry->spans[0].from_ns : entry->refused_ns);
	statement_integer_or_null(statement, 10, entry->ended_ns, was_armed);
	statement_integer(statement, 11, armed_ns(entry));
	bind_counts(statement, 12, &entry->counts);
	statement_integer_or_null(statement, 16, entry->owner_kind, entry->owner_kind >= 0);
	statement_integer_or_null(statement, 17, entry->owner_id, entry->owner_id);
	statement_text(statement, 18, entry->note[0] ? entry->note : NULL);
	return statement_run(statement);
}

static int write_threads(const struct watch_entry *entry, sqlite3_stmt *statement, int64_t run_id,
			 int64_t watch_id)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < entry->n_threads; i++) {
		int64_t row = entry->threads[i].thread_row;

		statement_integer(statement, 1, run_id);
		statement_integer(statement, 2, watch_id);
		statement_integer_or_null(statement, 3, row, row);
		bind_counts(statement, 4, &entry->threads[i].counts);
		r = statement_run(statement);
	}
	return r;
}

static int write_reuse(const struct watch_entry *entry, sqlite3_stmt *statement, int64_t run_id,
		       int64_t watch_id)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < WATCH_REUSE_BUCKETS; i++) {
		if (entry->reuse[i] == 0)
			continue;
		statement_integer(statement, 1, run_id);
		statement_integer(statement, 2, watch_id);
		statement_integer(statement, 3, i);
		statement_integer(statement, 4, (int64_t)entry->reuse[i]);
		statement_integer(statement, 5, (int64_t)entry->reuse_other[i]);
		r = statement_run(statement);
	}
	return r;
}

int watch_rows_write(struct watch_entry *const *entries, size_t n, const struct tasks *tasks,
		     sqlite3 *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *watch = NULL;
	auto_statement sqlite3_stmt *thread = NULL;
	auto_statement sqlite3_stmt *reuse = NULL;
	int r = 0;

	if (n == 0)
		return 0;
	r = statement_prepare(db,
			      "INSERT INTO watch(run_id, number, target, process_id, address, size,"
			      " is_write_only, is_hot, from_ns, to_ns, armed_ns, n_reads, n_writes,"
			      " n_updates, n_unknown, owner_kind, owner_id, note)"
			      " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			      &watch);
	if (r == 0)
		r = statement_prepare(db, "INSERT INTO watch_thread VALUES(?, ?, ?, ?, ?, ?, ?)",
				      &thread);
	if (r == 0)
		r = statement_prepare(db, "INSERT INTO watch_reuse VALUES(?, ?, ?, ?, ?)", &reuse);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct watch_entry *entry = entries[i];

		r = write_entry(tasks, entry, watch, run_id);
		int64_t id = sqlite3_last_insert_rowid(db);
		if (r == 0)
			r = write_threads(entry, thread, run_id, id);
		if (r == 0)
			r = write_reuse(entry, reuse, run_id, id);
	}
	return r;
}
