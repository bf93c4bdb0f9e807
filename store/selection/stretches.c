#include "store/selection/stretches.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/compact/scan.h"
#include "store/database.h"
#include "store/selection/count.h"
#include "store/statement.h"
#include "store/touch.h"

#define STEP	  16u /* rows, of which one is looked at to find borders */
#define SITE_ROWS 8u /* that a stretch has for each site, at least: sums are few beside rows */

/* ---- Borders ---- */

struct times {
	int64_t *items;
	size_t n;
	size_t n_allocated;
	size_t n_rows;
};

/* Of the rows that have a bit in their second column. */
static int read_times(struct db *db, const struct scan_query *query, int64_t bit,
		      struct times *times)
{
	auto_scan struct scan *scan = NULL;
	const struct scan_rows *rows;
	int r = scan_open(db_handle(db), query, &scan);

	while (r == 0 && (r = scan_next(scan, &rows)) == 1) {
		r = grow_array_by(&times->items, times->n, rows->n, &times->n_allocated,
				  sizeof(*times->items));
		for (uint32_t i = 0; i < rows->n && r == 0; i++) {
			if ((!bit || rows->columns[1][i] & bit) && times->n_rows++ % STEP == 0)
				times->items[times->n++] = rows->columns[0][i];
		}
	}
	return r;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Times within the run after which about as many rows come before the next one. */
static int find_borders(struct db *db, int64_t run_id, uint32_t least_rows, int64_t *ret_borders,
			size_t *ret_n)
{
	const struct scan_query blocks = { "allocation", "allocated_ns", run_id };
	const struct scan_query samples = { "touch", "time_ns, tables", run_id };
	int64_t end_ns =
		db_integer_of(db, 0, "SELECT duration_ns FROM run WHERE id = ?1", "i", run_id);
	uint64_t n_sites = (uint64_t)db_integer_of(
		db, 0, "SELECT count(*) FROM site WHERE run_id = ?1", "i", run_id);
	struct times times = { 0 };
	int r = read_times(db, &blocks, 0, &times);

	r = r ?: read_times(db, &samples, SHOWN_SAMPLE, &times);
	if (r == 0 && times.n > 0) {
		uint64_t rows = n_sites * SITE_ROWS > least_rows ? n_sites * SITE_ROWS : least_rows;
		size_t n = times.n_rows / rows < STRETCHES ? times.n_rows / rows : STRETCHES;
		int64_t last_ns = 0;
		qsort(times.items, times.n, sizeof(*times.items), compare);
		for (size_t i = 1; i < n; i++) {
			int64_t time_ns = times.items[i * times.n / n];
			if (time_ns > last_ns && time_ns < end_ns)
				ret_borders[(*ret_n)++] = last_ns = time_ns;
		}
	}
	free(times.items);
	return r;
}

/* ---- Writing ---- */

struct write {
	struct db *db;
	int64_t run_id;
	struct count *count;
	struct tally tallies[2]; /* of touches: the stretch at hand, and the one before it */
	struct sums sums;
	enum sums_of of;
	sqlite3_stmt *statement;
};

static void finish(struct write *write)
{
	sqlite3_finalize(write->statement);
	sums_finish(&write->sums);
	tally_finish(&write->tallies[0]);
	tally_finish(&write->tallies[1]);
}
#define auto_write __attribute__((cleanup(finish)))

/* The stretch before a border; behind the last one, the last one. */
static int write_stretch(struct write *write, struct tally *tally, size_t border)
{
	const struct count_borders *borders = write->count->borders;
	sqlite3_stmt *statement = write->statement;

	write->sums.tally = tally;
	int r = sums_write(&write->sums, write->of);
	if (r < 0)
		return r;
	statement_integer(statement, 1, write->run_id);
	statement_integer(statement, 2, border > 0 ? borders->times[border - 1] : 0);
	statement_integer(statement, 3, border < borders->n ? borders->times[border] : INT64_MAX);
	sqlite3_bind_blob64(statement, 4, write->sums.bytes, write->sums.n, SQLITE_STATIC);
	return statement_run(statement);
}

static int close_blocks(struct write *write, size_t border)
{
	struct tally *tally = write->count->tally;
	int64_t border_ns = write->count->borders->times[border];

	tally_settle_live(tally, border_ns);
	int r = write_stretch(write, tally, border);
	return r < 0 ? r : sums_clear(tally, write->of, border_ns);
}

/* Touches are nearly in order: a stretch waits until the next one is over. */
static int close_touches(struct write *write, size_t border)
{
	struct count *count = write->count;
	struct tally *before = count->before;
	int r = border > 0 ? write_stretch(write, before, border - 1) : 0;

	count->before = count->tally;
	count->tally = before;
	return r < 0 ? r : sums_clear(before, write->of, 0);
}

static int close_stretch(void *context, size_t border)
{
	struct write *write = context;

	return write->of == SUMS_OF_BLOCKS ? close_blocks(write, border)
					   : close_touches(write, border);
}

/* What rows of one kind add up to. 0, -ERANGE: nothing does; or another negative errno. */
static int write_all(struct write *write, enum sums_of of)
{
	static const char *const sql[] = {
		[SUMS_OF_BLOCKS] = "INSERT INTO stretch(run_id, from_ns, to_ns, blocks)"
				   " VALUES(?1, ?2, ?3, ?4)",
		[SUMS_OF_TOUCHES] = "UPDATE stretch SET touches = ?4 WHERE run_id = ?1"
				    " AND from_ns = ?2 AND to_ns = ?3",
	};
	struct count *count = write->count;

	sqlite3_finalize(write->statement);
	write->statement = NULL;
	write->of = of;
	count->borders->next = 0;
	count->before = of == SUMS_OF_TOUCHES ? &write->tallies[1] : NULL;
	int r = statement_prepare(db_handle(write->db), sql[of], &write->statement);
	if (r == 0)
		r = of == SUMS_OF_BLOCKS ? count_blocks(count) : count_touches(count);
	if (r == 0 && count->before)
		r = write_stretch(write, count->before, count->borders->n - 1);
	return r < 0 ? r : write_stretch(write, count->tally, count->borders->n);
}

static int remove_all(struct db *db, int64_t run_id)
{
	return db_run(db, "DELETE FROM stretch WHERE run_id = ?1", "i", run_id);
}

static int write_both(struct write *write)
{
	int r = write_all(write, SUMS_OF_BLOCKS);

	if (r == -ERANGE)
		return remove_all(write->db, write->run_id);
	r = r ?: write_all(write, SUMS_OF_TOUCHES);
	if (r == -ERANGE)
		r = db_run(write->db, "UPDATE stretch SET touches = NULL WHERE run_id = ?1", "i",
			   write->run_id);
	return r;
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

int stretches_write(struct db *db, int64_t run_id, uint32_t rows)
{
	int64_t times[STRETCHES];
	auto_write struct write write = { .db = db, .run_id = run_id };
	const struct selection selection = { .runs = &run_id, .n_runs = 1, .to_ns = INT64_MAX };
	struct filter filter = { .selection = &selection, .is_timed = true };
	struct count_borders borders = { times, .close = close_stretch, .context = &write };
	struct count count = {
		.selection = &selection,
		.filter = &filter,
		.tally = &write.tallies[0],
		.to_ns = INT64_MAX,
		.borders = &borders,
	};
	int r = remove_all(db, run_id);

	if (r == 0)
		r = find_borders(db, run_id, rows ? rows : STRETCH_ROWS, times, &borders.n);
	if (r < 0 || borders.n == 0)
		return r;
	write.count = &count;
	count_init(&count, db, run_id);
	r = init_tallies(&write) ?: write_both(&write);
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
