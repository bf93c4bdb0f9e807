#include "store/selection/stretches.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/database.h"
#include "store/selection/count.h"
#include "store/statement.h"
#include "store/touch.h"

/* ---- Touches ---- */

struct write {
	struct db *db;
	int64_t run_id;
	struct count *count;
	struct tally tallies[2]; /* the stretch at hand, and the one before it */
	struct sums sums;
	sqlite3_stmt *update;
};

static void finish(struct write *write)
{
	sqlite3_finalize(write->update);
	sums_finish(&write->sums);
	tally_finish(&write->tallies[0]);
	tally_finish(&write->tallies[1]);
}
#define auto_write __attribute__((cleanup(finish)))

/* The stretch before a border; behind the last one, the last one. */
static int write_touches(struct write *write, struct tally *tally, size_t border)
{
	const struct count_borders *borders = write->count->borders;

	write->sums.tally = tally;
	int r = sums_write(&write->sums, SUMS_OF_TOUCHES);
	if (r < 0)
		return r;
	statement_integer(write->update, 1, write->run_id);
	statement_integer(write->update, 2, border > 0 ? borders->times[border - 1] : 0);
	sqlite3_bind_blob64(write->update, 3, write->sums.bytes, write->sums.n, SQLITE_STATIC);
	return statement_run(write->update);
}

/* Touches are nearly in order: a stretch waits until the next one is over. */
static int close_touches(void *context, size_t border)
{
	struct write *write = context;
	struct count *count = write->count;
	struct tally *before = count->before;
	int r = border > 0 ? write_touches(write, before, border - 1) : 0;

	count->before = count->tally;
	count->tally = before;
	return r < 0 ? r : sums_clear(before, SUMS_OF_TOUCHES, 0);
}

static int write_all(struct write *write)
{
	struct count *count = write->count;
	int r = statement_prepare(db_handle(write->db),
				  "UPDATE stretch SET touches = ?3 WHERE run_id = ?1"
				  " AND from_ns = ?2",
				  &write->update);

	r = r ?: count_touches(count);
	r = r ?: write_touches(write, count->before, count->borders->n - 1);
	r = r ?: write_touches(write, count->tally, count->borders->n);
	return r != -ERANGE
		       ? r
		       : db_run(write->db, "UPDATE stretch SET touches = NULL WHERE run_id = ?1",
				"i", write->run_id);
}

static int init_tallies(struct write *write)
{
	int r = 0;

	for (int i = 0; i < 2 && r == 0; i++) {
		r = tally_init(&write->tallies[i], 0);
		write->tallies[i].has_no_lines = true;
	}
	return r;
}

static int read_borders(struct db *db, int64_t run_id, int64_t *times, size_t *ret_n)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(db),
				  "SELECT from_ns FROM main.stretch WHERE run_id = ?1"
				  " AND from_ns > 0 ORDER BY from_ns",
				  &row);

	if (r == 0)
		statement_integer(row, 1, run_id);
	while (r == 0 && *ret_n < MAX_STRETCHES && (r = statement_step(row)) == 1) {
		times[(*ret_n)++] = sqlite3_column_int64(row, 0);
		r = 0;
	}
	return r;
}

int stretches_write_touches(struct db *db, int64_t run_id)
{
	int64_t times[MAX_STRETCHES];
	auto_write struct write write = { .db = db, .run_id = run_id };
	const struct selection selection = { .runs = &run_id, .n_runs = 1, .to_ns = INT64_MAX };
	struct filter filter = { .selection = &selection, .is_timed = true };
	struct count_borders borders = { times, .close = close_touches, .context = &write };
	struct count count = {
		.selection = &selection,
		.filter = &filter,
		.tally = &write.tallies[0],
		.before = &write.tallies[1],
		.to_ns = INT64_MAX,
		.borders = &borders,
	};
	int r = read_borders(db, run_id, times, &borders.n);

	if (r < 0 || borders.n == 0)
		return r;
	write.count = &count;
	count_init(&count, db, run_id);
	r = init_tallies(&write) ?: write_all(&write);
	site_map_finish(&count.stacks);
	return r;
}

/* ---- Reading ---- */

int stretches_find(struct db *db, int64_t run_id, int64_t from_ns, int64_t to_ns,
		   struct stretches *ret_stretches)
{
	auto_statement sqlite3_stmt *row = NULL;
	struct stretches found = { .run_id = run_id, .have_touches = true };
	int r = statement_prepare(db_handle(db),
				  "SELECT from_ns, to_ns, touches IS NOT NULL FROM main.stretch"
				  " WHERE run_id = ?1 AND from_ns >= ?2 AND to_ns <= ?3"
				  " ORDER BY from_ns",
				  &row);
	if (r < 0)
		return r;
	statement_integer(row, 1, run_id);
	statement_integer(row, 2, from_ns);
	statement_integer(row, 3, to_ns);
	while ((r = statement_step(row)) == 1) {
		int64_t begin_ns = sqlite3_column_int64(row, 0);
		bool is_first = found.to_ns == found.from_ns;
		if (!is_first && begin_ns != found.to_ns)
			return -EBADMSG;
		found.from_ns = is_first ? begin_ns : found.from_ns;
		found.to_ns = sqlite3_column_int64(row, 1);
		found.have_touches &= sqlite3_column_int(row, 2) != 0;
		if (found.to_ns <= begin_ns)
			return -EBADMSG;
	}
	if (r == 0)
		*ret_stretches = found;
	return r;
}

int stretches_add(struct db *db, const struct stretches *stretches, enum sums_of of,
		  struct sums *sums)
{
	static const char *const sql[] = {
		[SUMS_OF_BLOCKS] = "SELECT blocks FROM main.stretch WHERE run_id = ?1 AND from_ns"
				   " >= ?2 AND to_ns <= ?3 ORDER BY from_ns",
		[SUMS_OF_TOUCHES] = "SELECT touches FROM main.stretch WHERE run_id = ?1 AND from_ns"
				    " >= ?2 AND to_ns <= ?3 ORDER BY from_ns",
	};
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(db), sql[of], &row);

	if (r < 0)
		return r;
	statement_integer(row, 1, stretches->run_id);
	statement_integer(row, 2, stretches->from_ns);
	statement_integer(row, 3, stretches->to_ns);
	while (r >= 0 && (r = statement_step(row)) == 1)
		r = sums_add(sums, of, sqlite3_column_blob(row, 0),
			     (size_t)sqlite3_column_bytes(row, 0));
	return r;
}
