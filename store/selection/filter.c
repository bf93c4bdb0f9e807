#include "store/selection/filter.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/database.h"
#include "store/statement.h"

/* The ids that a query of ?1: run and ?2: number gives. */
static int read_ids(struct db *db, const char *sql, const int64_t *values, int64_t **ret_ids,
		    size_t *ret_n)
{
	auto_statement sqlite3_stmt *row = NULL;
	size_t n_allocated = 0;
	int r = statement_prepare(db_handle(db), sql, &row);

	if (r < 0)
		return r;
	statement_integer(row, 1, values[0]);
	statement_integer(row, 2, values[1]);
	while ((r = statement_step(row)) == 1) {
		if (array_add(*ret_ids, *ret_n, n_allocated, sqlite3_column_int64(row, 0)) < 0)
			return -ENOMEM;
	}
	return r;
}

/*
 * Regions may lie in each other under the same name: spans are told apart by thread and time only.
 */
static int read_spans(struct filter *filter, struct db *db)
{
	auto_statement sqlite3_stmt *row = NULL;
	size_t n_allocated = 0;
	int r = statement_prepare(db_handle(db),
				  "SELECT thread_id, start_ns, coalesce(end_ns,"
				  " 9223372036854775807) FROM main.region WHERE name = ?"
				  " AND thread_id IS NOT NULL ORDER BY thread_id, start_ns",
				  &row);
	if (r < 0)
		return r;
	statement_text(row, 1, filter->selection->region);
	while ((r = statement_step(row)) == 1) {
		const struct filter_span span = { sqlite3_column_int64(row, 0),
						  sqlite3_column_int64(row, 1),
						  sqlite3_column_int64(row, 2) };
		struct filter_span *last =
			filter->n_spans > 0 ? &filter->spans[filter->n_spans - 1] : NULL;
		if (last && last->thread_id == span.thread_id && last->to_ns >= span.from_ns) {
			last->to_ns = span.to_ns > last->to_ns ? span.to_ns : last->to_ns;
			continue;
		}
		if (array_add(filter->spans, filter->n_spans, n_allocated, span) < 0)
			return -ENOMEM;
	}
	return r;
}

int filter_init(struct filter *filter, struct db *db, const struct selection *selection,
		int64_t run_id)
{
	int r = 0;

	*filter = (struct filter){
		.selection = selection,
		.is_timed = selection->from_ns > 0 || selection->to_ns < INT64_MAX,
	};
	if (selection->pid)
		r = read_ids(db, "SELECT id FROM main.process WHERE run_id = ?1 AND pid = ?2",
			     (const int64_t[]){ run_id, selection->pid }, &filter->processes,
			     &filter->n_processes);
	if (r == 0 && selection->tid)
		r = read_ids(db, "SELECT id FROM main.thread WHERE run_id = ?1 AND tid = ?2",
			     (const int64_t[]){ run_id, selection->tid }, &filter->threads,
			     &filter->n_threads);
	if (r == 0 && selection->region)
		r = read_spans(filter, db);
	return r;
}

void filter_finish(struct filter *filter)
{
	free_all(filter->processes, filter->threads, filter->spans);
	*filter = (struct filter){ 0 };
}

static bool has(const int64_t *ids, size_t n, int64_t id)
{
	return array_find(ids, n, it, *it == id);
}

static bool is_in_region(const struct filter *filter, int64_t thread_id, int64_t time_ns)
{
	size_t i = array_n_while(filter->spans, filter->n_spans, it,
				 it->thread_id < thread_id ||
					 (it->thread_id == thread_id && it->to_ns <= time_ns));

	return i < filter->n_spans && filter->spans[i].thread_id == thread_id &&
	       filter->spans[i].from_ns <= time_ns;
}

bool filter_takes(const struct filter *filter, int64_t process_id, int64_t thread_id,
		  int64_t time_ns)
{
	const struct selection *selection = filter->selection;

	return (!selection->pid || has(filter->processes, filter->n_processes, process_id)) &&
	       (!selection->tid || has(filter->threads, filter->n_threads, thread_id)) &&
	       (!selection->region || is_in_region(filter, thread_id, time_ns));
}
