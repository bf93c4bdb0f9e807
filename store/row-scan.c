#include "store/row-scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "store/statement.h"

#define N_SAMPLES 65536u /* that touches may be behind */

/* ---- Which rows are the run's ---- */

/* Row ids from first to last. */
struct span {
	int64_t first;
	int64_t last;
};

/* The run of the first row from an id on; INT64_MAX: there is none. */
static int run_at(sqlite3_stmt *statement, int64_t id, int64_t *ret_run)
{
	statement_integer(statement, 1, id);
	int r = statement_step(statement);

	*ret_run = r > 0 ? sqlite3_column_int64(statement, 0) : INT64_MAX;
	sqlite3_reset(statement);
	return r < 0 ? r : 0;
}

/* The first id whose run is not below run_id. Runs ascend with row ids. */
static int search(sqlite3_stmt *statement, int64_t max, int64_t run_id, int64_t *ret_id)
{
	int64_t low = 0, high = max < INT64_MAX ? max + 1 : max;

	while (low < high) {
		int64_t middle = low + (high - low) / 2, run;
		int r = run_at(statement, middle, &run);
		if (r < 0)
			return r;
		if (run < run_id)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_id = low;
	return 0;
}

/* One run's rows lie together: runs are imported one after the other. */
static int find_rows(sqlite3 *db, const char *table, int64_t run_id, struct span *ret_span)
{
	auto_statement sqlite3_stmt *max = NULL, *statement = NULL;
	char text[96];
	int64_t end = 0;

	snprintf(text, sizeof(text), "SELECT max(rowid) FROM %s", table);
	int r = statement_prepare(db, text, &max);
	snprintf(text, sizeof(text),
		 "SELECT run_id FROM %s WHERE rowid >= ? ORDER BY rowid LIMIT 1", table);
	if (r == 0)
		r = statement_prepare(db, text, &statement);
	if (r == 0)
		r = statement_step(max);
	if (r < 0)
		return r;
	r = search(statement, sqlite3_column_int64(max, 0), run_id, &ret_span->first);
	if (r == 0)
		r = search(statement, sqlite3_column_int64(max, 0), run_id + 1, &end);
	ret_span->last = end - 1;
	return r;
}

/* Prepare a query of ?1: run, ?2 and ?3: row ids from and to. */
static int begin(sqlite3 *db, const char *sql, const char *table, int64_t run_id,
		 sqlite3_stmt **ret_rows)
{
	struct span span;
	int r = find_rows(db, table, run_id, &span);

	if (r == 0)
		r = statement_prepare(db, sql, ret_rows);
	if (r < 0)
		return r;
	statement_integer(*ret_rows, 1, run_id);
	statement_integer(*ret_rows, 2, span.first);
	statement_integer(*ret_rows, 3, span.last);
	return 0;
}

static int64_t or_null(sqlite3_stmt *row, int column)
{
	return sqlite3_column_type(row, column) == SQLITE_NULL ? INT64_MIN
							       : sqlite3_column_int64(row, column);
}

/* ---- Blocks ---- */

int picture_scan_blocks(sqlite3 *db, int64_t run_id, picture_visit_block visit, void *context)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = begin(
		db,
		"SELECT id, process_id, address, size, birth_ns, death_ns, stack_id, thread_id,"
		" death_thread_id FROM allocation WHERE run_id = ?1 AND id BETWEEN ?2 AND ?3",
		"allocation", run_id, &row);

	while (r >= 0 && (r = statement_step(row)) > 0) {
		const struct picture_row_block block = {
			.id = sqlite3_column_int64(row, 0),
			.process_id = sqlite3_column_int64(row, 1),
			.address = (uint64_t)sqlite3_column_int64(row, 2),
			.size = sqlite3_column_int64(row, 3),
			.birth_ns = sqlite3_column_int64(row, 4),
			.death_ns = sqlite3_column_type(row, 5) == SQLITE_NULL
					    ? INT64_MAX
					    : sqlite3_column_int64(row, 5),
			.stack_id = sqlite3_column_int64(row, 6),
			.thread_id = sqlite3_column_int64(row, 7),
			.killer_id = or_null(row, 8),
		};
		r = visit(context, &block);
		if (r != 0)
			return r;
	}
	return r;
}

/* ---- Touches ---- */

/* Samples and their details beside the touches, each read once in the order of their ids. */
struct samples {
	sqlite3_stmt *rows;
	sqlite3_stmt *details; /* NULL: there are none any more */
	sqlite3_stmt *one; /* a sample by its id: of touches out of order */
	int64_t last; /* sample that was read; INT64_MAX: all were */
	int64_t detail; /* sample of the details' row */
	const struct picture_touch_visitor *visitor;
	struct picture_row_sample kept[N_SAMPLES]; /* by id; 0: none */
};

static void close_samples(struct samples **samples)
{
	if (*samples) {
		sqlite3_finalize((*samples)->rows);
		sqlite3_finalize((*samples)->details);
		sqlite3_finalize((*samples)->one);
	}
	free(*samples);
}

#define SAMPLE "SELECT id, process_id, thread_id, source_id, time_ns, weight FROM sample "

static int open_samples(sqlite3 *db, int64_t run_id, struct samples *samples)
{
	int r = begin(db, SAMPLE "WHERE run_id = ?1 AND id BETWEEN ?2 AND ?3", "sample", run_id,
		      &samples->rows);

	if (r == 0)
		r = begin(db,
			  "SELECT sample_id, latency, node + 1 FROM access_detail WHERE run_id = ?1"
			  " AND sample_id BETWEEN ?2 AND ?3 ORDER BY sample_id",
			  "sample", run_id, &samples->details);
	if (r == 0)
		r = statement_prepare(
			db,
			"SELECT id, process_id, thread_id, source_id, time_ns, weight,"
			" (SELECT latency FROM access_detail WHERE sample_id = sample.id),"
			" (SELECT node + 1 FROM access_detail WHERE sample_id = sample.id)"
			" FROM sample WHERE id = ?",
			&samples->one);
	return r;
}

static int read_detail(struct samples *samples, struct picture_row_sample *sample)
{
	while (samples->details && samples->detail < sample->id) {
		int r = statement_step(samples->details);
		if (r < 0)
			return r;
		samples->detail = r > 0 ? sqlite3_column_int64(samples->details, 0) : INT64_MAX;
		if (r == 0) {
			sqlite3_finalize(samples->details);
			samples->details = NULL;
		}
	}
	if (samples->details && samples->detail == sample->id) {
		sample->latency = sqlite3_column_int64(samples->details, 1);
		sample->node = sqlite3_column_int64(samples->details, 2);
	}
	return 0;
}

static struct picture_row_sample *keep_sample(struct samples *samples, sqlite3_stmt *row)
{
	int64_t id = sqlite3_column_int64(row, 0);
	struct picture_row_sample *sample = &samples->kept[(uint64_t)id % N_SAMPLES];

	*sample = (struct picture_row_sample){
		.id = id,
		.process_id = sqlite3_column_int64(row, 1),
		.thread_id = sqlite3_column_int64(row, 2),
		.source_id = sqlite3_column_int64(row, 3),
		.time_ns = sqlite3_column_int64(row, 4),
		.weight = sqlite3_column_int64(row, 5),
	};
	return sample;
}

static int read_next(struct samples *samples)
{
	int r = statement_step(samples->rows);

	if (r <= 0) {
		samples->last = INT64_MAX;
		return r;
	}
	struct picture_row_sample *sample = keep_sample(samples, samples->rows);
	samples->last = sample->id;
	r = read_detail(samples, sample);
	return r < 0 ? r : samples->visitor->sample(samples->visitor->context, sample);
}

/* One that has been left behind, or that there is none of: then its numbers are 0. */
static int look_up(struct samples *samples, int64_t id,
		   const struct picture_row_sample **ret_sample)
{
	statement_integer(samples->one, 1, id);
	int r = statement_step(samples->one);

	if (r > 0) {
		struct picture_row_sample *sample = keep_sample(samples, samples->one);
		sample->latency = sqlite3_column_int64(samples->one, 6);
		sample->node = sqlite3_column_int64(samples->one, 7);
		*ret_sample = sample;
	}
	sqlite3_reset(samples->one);
	return r;
}

/* Returns 1, 0: there is no such sample, or a negative errno. */
static int find_sample(struct samples *samples, int64_t id,
		       const struct picture_row_sample **ret_sample)
{
	const struct picture_row_sample *sample = &samples->kept[(uint64_t)id % N_SAMPLES];

	while (samples->last < id) {
		int r = read_next(samples);
		if (r < 0)
			return r;
	}
	if (sample->id != id)
		return look_up(samples, id, ret_sample);
	*ret_sample = sample;
	return 1;
}

static struct picture_row_touch touch_of(sqlite3_stmt *row, const struct picture_row_sample *sample)
{
	return (struct picture_row_touch){
		.sample_id = sample->id,
		.process_id = sample->process_id,
		.thread_id = sample->thread_id,
		.source_id = sample->source_id,
		.time_ns = sample->time_ns,
		.latency = sample->latency,
		.role = sqlite3_column_int(row, 1),
		.has_address = sqlite3_column_type(row, 2) != SQLITE_NULL,
		.address = (uint64_t)sqlite3_column_int64(row, 2),
		.is_write = sqlite3_column_type(row, 3) == SQLITE_NULL ? -1
								       : sqlite3_column_int(row, 3),
		.data_src = sqlite3_column_int64(row, 4),
		.owner_kind = sqlite3_column_int(row, 5),
		.owner_id = sqlite3_column_int64(row, 6),
		.weight = sample->weight,
		.node = sample->node,
		.share = sqlite3_column_double(row, 7),
		.phase = sqlite3_column_int(row, 8),
		.frame_id = sqlite3_column_int64(row, 9),
		.size = or_null(row, 10),
		.id = sqlite3_column_int64(row, 11),
	};
}

/* Those behind the last touch. */
static int read_rest(struct samples *samples)
{
	int r = 0;

	while (samples->last < INT64_MAX && r >= 0)
		r = read_next(samples);
	return r < 0 ? r : 0;
}

static int read_touches(struct samples *samples, sqlite3_stmt *row)
{
	const struct picture_row_sample *sample;
	int r;

	while ((r = statement_step(row)) > 0) {
		r = find_sample(samples, sqlite3_column_int64(row, 0), &sample);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		const struct picture_row_touch touch = touch_of(row, sample);
		r = samples->visitor->touch(samples->visitor->context, &touch);
		if (r != 0)
			return r;
	}
	return r < 0 ? r : read_rest(samples);
}

int picture_scan_touches(sqlite3 *db, int64_t run_id, const struct picture_touch_visitor *visitor)
{
	auto_statement sqlite3_stmt *row = NULL;
	__attribute__((cleanup(close_samples))) struct samples *samples =
		calloc(1, sizeof(*samples));

	if (!samples)
		return -ENOMEM;
	samples->visitor = visitor;
	int r = open_samples(db, run_id, samples);
	if (r == 0)
		r = begin(db,
			  "SELECT sample_id, role, address, is_write, data_src, owner_kind,"
			  " owner_id, share, phase, frame_id, size, rowid FROM touch"
			  " WHERE run_id = ?1 AND rowid BETWEEN ?2 AND ?3",
			  "touch", run_id, &row);
	return r < 0 ? r : read_touches(samples, row);
}
