#include "store/compact/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/compact/chunk-store.h"
#include "store/compact/compact.h"
#include "store/statement.h"
#include "store/writer-thread.h"

_Static_assert(SCAN_NULL == CHUNK_NULL, "values are passed on");

#define N_WORKERS 2u
#define N_JOBS	  (CHUNK_SERIES + N_WORKERS) /* a chunk of each series, and the next ones */
#define MIN_AHEAD 3u /* chunks, for which a thread pays */

/* A chunk on its way from bytes to values. */
struct job {
	struct db_job decoding;
	struct worker *worker; /* whose that is */
	const struct chunk_head *head; /* NULL: it is free */
	unsigned series;
	uint32_t n; /* rows that are wanted */
	uint32_t from; /* the first of them that was not given out */
	struct chunk_bytes bytes;
	int64_t *values[CHUNK_COLUMNS]; /* CHUNK_ROWS; NULL: not needed yet */
	uint16_t *places; /* of rows, CHUNK_ROWS */
	int64_t *spare; /* for a column that is put in order, likewise */
};

struct place {
	const struct chunk_head *head;
	unsigned series;
};

struct scan {
	struct chunk_store *store;
	sqlite3 *db;
	sqlite3_stmt *lock; /* on a row while chunks are fetched */
	unsigned columns[SCAN_COLUMNS]; /* places in the table */
	unsigned n_columns;
	unsigned id_column;
	unsigned run_column;
	int64_t run_id;
	bool is_merged; /* both series have rows: their ids are compared */
	bool is_begun;
	struct scan_choice choice; /* of no columns: all rows are wanted */
	struct place *chunks; /* in the order of their first rows */
	size_t n_chunks;
	size_t n_fetched;
	struct job jobs[N_JOBS];
	struct job *ahead[N_WORKERS]; /* the next chunks in their order; NULL: there is none */
	struct job *places[CHUNK_SERIES]; /* chunks whose rows are given out */
	struct job *given; /* was given out as a whole */
	int64_t *merged[SCAN_COLUMNS];
	struct chunk_bytes frame; /* that was read last, by scan_read_frame() */
	int64_t frame_id; /* < 0: none */
	struct scan_rows out;
	struct worker {
		struct scan *scan;
		struct chunk_decoder *decoder;
		struct db_writer *thread; /* NULL: it has none */
		uint32_t chosen[CHUNK_FRAME_ROWS]; /* rows of a frame */
		int64_t values[SCAN_COLUMNS][CHUNK_FRAME_ROWS]; /* of those that tell which ones */
	} workers[N_WORKERS];
};

/* ---- Decoding, also by the thread: no word of SQLite ---- */

static int64_t *room(int64_t **values)
{
	if (!*values)
		*values = malloc(CHUNK_ROWS * sizeof(**values));
	return *values;
}

/* Which rows of a frame are wanted; of the columns that tell it theirs are kept. */
static int choose_rows(struct worker *worker, struct job *job, struct chunk_reading *frame)
{
	const struct scan *scan = worker->scan;
	const struct scan_choice *choice = &scan->choice;
	const int64_t *columns[SCAN_COLUMNS];
	int r = 0;

	for (unsigned i = 0; i < choice->n_columns && r == 0; i++) {
		r = chunk_read_column(worker->decoder, frame, scan->columns[i], worker->values[i]);
		columns[i] = worker->values[i];
	}
	if (r < 0 || choice->n_columns == 0)
		return r;
	uint32_t n = choice->choose(choice->context, columns, frame->n_rows, worker->chosen);
	frame->rows = worker->chosen;
	frame->n_chosen = n;
	for (unsigned i = 0; i < choice->n_columns && n > 0; i++) {
		if (!room(&job->values[scan->columns[i]]))
			return -ENOMEM;
		int64_t *to = job->values[scan->columns[i]] + job->n;
		for (uint32_t row = 0; row < n; row++)
			to[row] = columns[i][frame->rows[row]];
		frame->values[scan->columns[i]] = to;
	}
	return 0;
}

/* The rows of a frame that are wanted, behind those of the frames before it. */
static int decode_frame(struct worker *worker, struct job *job, uint32_t number)
{
	const struct scan *scan = worker->scan;
	struct chunk_reading frame =
		chunk_reading_of(&job->bytes, number, job->head->frames[number].n_rows);
	int r = choose_rows(worker, job, &frame);

	for (unsigned i = 0; i <= scan->n_columns && r == 0 && frame.n_chosen > 0; i++) {
		unsigned column = i < scan->n_columns ? scan->columns[i] : scan->id_column;
		r = room(&job->values[column]) ? chunk_read_column(worker->decoder, &frame, column,
								   job->values[column] + job->n)
					       : -ENOMEM;
	}
	job->n += frame.n_chosen;
	return r;
}

/* Rows of frames go where their ids belong. */
static int put_in_order(const struct scan *scan, struct job *job)
{
	if (!job->places)
		job->places = malloc(CHUNK_ROWS * sizeof(*job->places));
	if (!job->places || !room(&job->spare))
		return -ENOMEM;
	int r = chunk_places(job->values[scan->id_column], job->n, job->places);
	for (unsigned i = 0; i < CHUNK_COLUMNS && r > 0; i++) {
		int64_t *values = job->values[i], *to = job->spare;
		if (!values)
			continue;
		for (uint32_t row = 0; row < job->n; row++)
			to[job->places[row]] = values[row];
		job->values[i] = to;
		job->spare = values;
	}
	return r < 0 ? r : 0;
}

static int decode(void *context)
{
	struct job *job = context;
	int r = 0;

	job->n = 0;
	for (uint32_t i = 0; i < job->head->n_frames && r == 0; i++)
		r = decode_frame(job->worker, job, i);
	return r == 0 && job->n > 0 ? put_in_order(job->worker->scan, job) : r;
}

/* Chunks go to the workers in turn: the one at hand has none. */
static int give(struct scan *scan, struct job *job)
{
	struct worker *worker = &scan->workers[scan->n_fetched % N_WORKERS];

	worker->scan = scan;
	if (!worker->decoder)
		worker->decoder = chunk_decoder_open();
	if (!worker->decoder)
		return -ENOMEM;
	job->worker = worker;
	job->decoding = (struct db_job){ .work = decode, .context = job };
	if (!worker->thread && scan->n_chunks >= MIN_AHEAD)
		db_writer_open(&worker->thread);
	if (worker->thread)
		db_writer_give(worker->thread, &job->decoding);
	else
		job->decoding.result = decode(job);
	return 0;
}

/* ---- Opening ---- */

struct scan *scan_close(struct scan *scan)
{
	if (!scan)
		return NULL;
	for (unsigned i = 0; i < N_WORKERS; i++) {
		db_writer_close(scan->workers[i].thread);
		chunk_decoder_close(scan->workers[i].decoder);
	}
	for (unsigned i = 0; i < N_JOBS; i++) {
		for (unsigned j = 0; j < CHUNK_COLUMNS; j++)
			free(scan->jobs[i].values[j]);
		free_all(scan->jobs[i].bytes.at, scan->jobs[i].places, scan->jobs[i].spare);
	}
	for (unsigned i = 0; i < SCAN_COLUMNS; i++)
		free(scan->merged[i]);
	free_all(scan->frame.at, scan->chunks);
	if (scan->is_begun)
		chunk_store_end(scan->store);
	sqlite3_finalize(scan->lock);
	chunk_store_close(scan->store);
	free(scan);
	return NULL;
}

void scan_cleanup(struct scan **scan)
{
	*scan = scan_close(*scan);
}

/* Where the columns of the query lie in the table, by the names of the table's. */
static int find_columns(const struct scan_query *query, const char *names, struct scan *scan)
{
	unsigned n = compact_n_names(query->columns);

	for (const char *name = query->columns; scan->n_columns < n; name += strcspn(name, ", ")) {
		name += strspn(name, ", ");
		int column = compact_find_name(names, name);
		if (scan->n_columns == SCAN_COLUMNS || column < 0)
			return -EINVAL;
		scan->columns[scan->n_columns++] = (unsigned)column;
	}
	return 0;
}

DEFINE_ORDER(compare, struct place, BY(head->first_row));

static int add_chunk(struct scan *scan, const struct chunk_head *head, unsigned series)
{
	const struct chunk_range *range = &head->ranges[scan->run_column];
	if (range->min > scan->run_id || range->max < scan->run_id)
		return 0;
	if (range->min != range->max || range->n_null) /* a chunk is of one run */
		return -EBADMSG;
	scan->chunks[scan->n_chunks++] = (struct place){ head, series };
	return 0;
}

static int list_chunks(struct scan *scan)
{
	size_t n = 0, n_of[CHUNK_SERIES];
	int r = chunk_store_begin(scan->store);

	if (r < 0)
		return r;
	scan->is_begun = true;
	for (unsigned i = 0; i < CHUNK_SERIES; i++)
		n += chunk_store_series(scan->store, i)->n;
	scan->chunks = calloc(n + 1, sizeof(*scan->chunks));
	if (!scan->chunks)
		return -ENOMEM;
	for (unsigned i = 0; i < CHUNK_SERIES && r == 0; i++) {
		const struct chunk_series *series = chunk_store_series(scan->store, i);
		n_of[i] = scan->n_chunks;
		for (size_t j = 0; j < series->n && r == 0; j++)
			r = add_chunk(scan, &series->heads[j], i);
		n_of[i] = scan->n_chunks - n_of[i];
	}
	if (r < 0)
		return r;
	scan->is_merged = n_of[0] > 0 && n_of[1] > 0;
	qsort(scan->chunks, scan->n_chunks, sizeof(*scan->chunks), compare);
	return 0;
}
_Static_assert(CHUNK_SERIES == 2, "two are merged");

static int open_chunks(sqlite3 *db, const struct scan_query *query, struct scan *scan)
{
	const char *names = compact_columns(query->table);

	if (!names)
		return -EINVAL;
	scan->run_column = (unsigned)compact_find_name(names, "run_id");
	scan->id_column = (unsigned)compact_find_name(names, "id");
	const struct chunk_table table = { "main", query->table, compact_n_names(names),
					   scan->id_column };
	int r = find_columns(query, names, scan);
	if (r < 0)
		return r;
	scan->store = chunk_store_open(db, &table, 0);
	return scan->store ? list_chunks(scan) : -ENOMEM;
}

int scan_open(sqlite3 *db, const struct scan_query *query, struct scan **ret_scan)
{
	auto_scan struct scan *scan = calloc(1, sizeof(*scan));

	if (!scan)
		return -ENOMEM;
	scan->db = db;
	scan->run_id = query->run_id;
	scan->frame_id = -1;
	int r = open_chunks(db, query, scan);
	if (r < 0)
		return r;
	*ret_scan = steal_ptr(&scan);
	return 0;
}

void scan_bound(struct scan *scan, const struct scan_bound *bound)
{
	unsigned column = scan->columns[bound->column];
	size_t n = 0;

	for (size_t i = 0; i < scan->n_chunks; i++) {
		const struct chunk_range *range = &scan->chunks[i].head->ranges[column];
		bool fits = bound->low <= range->max && bound->high >= range->min;
		if (fits || (range->n_null && bound->or_null))
			scan->chunks[n++] = scan->chunks[i];
	}
	scan->n_chunks = n;
}

void scan_choose(struct scan *scan, const struct scan_choice *choice)
{
	scan->choice = *choice;
}

uint64_t scan_n_rows(const struct scan *scan)
{
	uint64_t n = 0;

	for (size_t i = 0; i < scan->n_chunks; i++)
		n += scan->chunks[i].head->n_rows;
	return n;
}

/* ---- Frames ---- */

size_t scan_n_chunks(const struct scan *scan)
{
	return scan->n_chunks;
}

const struct chunk_head *scan_chunk(const struct scan *scan, size_t i)
{
	return scan->chunks[i].head;
}

int scan_read_frame(struct scan *scan, struct chunk_decoder *decoder,
		    const struct scan_frame *frame, int64_t *const *to)
{
	const struct chunk_head *head = frame->head;
	int64_t id = head->id * CHUNK_FRAMES + frame->number;
	int r = scan->frame_id == id
			? 0
			: chunk_store_fetch(scan->store, head, frame->number, 1, &scan->frame);

	scan->frame_id = r == 0 ? id : -1;
	struct chunk_reading reading =
		chunk_reading_of(&scan->frame, 0, head->frames[frame->number].n_rows);
	reading.rows = frame->rows;
	reading.n_chosen = frame->rows ? frame->n_rows : reading.n_rows;
	for (unsigned i = 0; i < scan->n_columns && r == 0; i++) {
		if (frame->wanted >> i & 1)
			r = chunk_read_column(decoder, &reading, scan->columns[i], to[i]);
	}
	return r;
}

/* Begin with the next chunks. */
static int look_ahead(struct scan *scan)
{
	bool is_held = scan->lock || scan->n_chunks == 0;
	int r = is_held ? 0 : statement_hold(scan->db, &scan->lock);

	for (unsigned i = 0; i < N_WORKERS && r == 0; i++) {
		struct job *job = scan->jobs;
		if (scan->ahead[i] || scan->n_fetched == scan->n_chunks)
			continue;
		while (job->head)
			job++;
		job->head = scan->chunks[scan->n_fetched].head;
		job->series = scan->chunks[scan->n_fetched++].series;
		job->from = 0;
		scan->ahead[i] = job;
		r = chunk_store_fetch(scan->store, job->head, 0, job->head->n_frames, &job->bytes);
		r = r ?: give(scan, job);
	}
	if (scan->n_fetched == scan->n_chunks)
		sqlite3_reset(scan->lock);
	return r;
}

/* The next chunk, decoded; the others move up. */
static struct job *take_next(struct scan *scan)
{
	struct job *job = scan->ahead[0];

	if (job->worker->thread)
		db_writer_wait(job->worker->thread, &job->decoding);
	for (unsigned i = 1; i < N_WORKERS; i++)
		scan->ahead[i - 1] = scan->ahead[i];
	scan->ahead[N_WORKERS - 1] = NULL;
	return job;
}

/* The next chunk takes its place, if it has a row that is wanted. */
static int step(struct scan *scan)
{
	int r = look_ahead(scan); /* the first one */

	if (r < 0 || !scan->ahead[0])
		return r;
	struct job *job = take_next(scan);
	if (job->decoding.result < 0)
		return job->decoding.result;
	if (job->n > 0)
		scan->places[job->series] = job;
	else
		job->head = NULL;
	return look_ahead(scan);
}

/* The id of a row of a chunk that has not been given out. */
static int64_t id_at(const struct scan *scan, const struct job *job, uint32_t row)
{
	return job->values[scan->id_column][row];
}

/* ---- Rows ---- */

static void leave(struct job **job)
{
	(*job)->head = NULL;
	*job = NULL;
}

static int give_whole(struct scan *scan, struct job **place)
{
	scan->given = *place;
	*place = NULL;
	scan->out.n = scan->given->n - scan->given->from;
	for (unsigned i = 0; i < scan->n_columns; i++)
		scan->out.columns[i] = scan->given->values[scan->columns[i]] + scan->given->from;
	return 1;
}

static int make_merged(struct scan *scan)
{
	for (unsigned i = 0; i < scan->n_columns; i++) {
		if (!scan->merged[i])
			scan->merged[i] = malloc(CHUNK_ROWS * sizeof(*scan->merged[i]));
		if (!scan->merged[i])
			return -ENOMEM;
		scan->out.columns[i] = scan->merged[i];
	}
	scan->out.n = 0;
	return 0;
}

/* Whether the next chunk may have rows before an id; its series has no other one at hand then. */
static bool comes_before(const struct scan *scan, int64_t id)
{
	const struct job *next = scan->ahead[0];

	return next && next->head->first_row <= id && !scan->places[next->series];
}

/* The chunk whose row is the next one; NULL: there is none. */
static struct job **choose(struct scan *scan)
{
	struct job **a = &scan->places[0], **b = &scan->places[1];

	if (!*a || !*b)
		return *a ? a : *b ? b : NULL;
	return id_at(scan, *b, (*b)->from) < id_at(scan, *a, (*a)->from) ? b : a;
}

/* The row behind those of the chosen chunk that come before all of the other series. */
static uint32_t end_of_run(const struct scan *scan, const struct job *job)
{
	const struct job *other = scan->places[1 - job->series], *next = scan->ahead[0];
	uint32_t room = CHUNK_ROWS - scan->out.n, to = job->n, i = job->from + 1;
	int64_t limit = INT64_MAX;

	if (other)
		limit = id_at(scan, other, other->from);
	else if (next && next->series != job->series)
		limit = next->head->first_row;
	if (to - job->from > room)
		to = job->from + room;
	while (i < to && id_at(scan, job, i) < limit)
		i++;
	return i;
}

/* Runs are short where series are mixed: no call for each of their columns. */
static void copy_run(struct scan *scan, struct job *job, uint32_t to)
{
	for (unsigned i = 0; i < scan->n_columns; i++) {
		const int64_t *values = job->values[scan->columns[i]];
		int64_t *merged = scan->merged[i] + scan->out.n;
		for (uint32_t row = job->from; row < to; row++)
			*merged++ = values[row];
	}
	scan->out.n += to - job->from;
	job->from = to;
}

/* Rows of both series, until chunks run out or there are enough of them. */
static int merge(struct scan *scan)
{
	int r = make_merged(scan);

	while (r == 0 && scan->out.n < CHUNK_ROWS) {
		struct job **place = choose(scan);
		if (!place || comes_before(scan, id_at(scan, *place, (*place)->from))) {
			if (!scan->ahead[0])
				break;
			r = step(scan);
			continue;
		}
		struct job *job = *place;
		uint32_t to = end_of_run(scan, job);
		copy_run(scan, job, to);
		if (to == job->n)
			leave(place);
	}
	return r < 0 ? r : scan->out.n > 0;
}

int scan_next(struct scan *scan, const struct scan_rows **ret_rows)
{
	*ret_rows = &scan->out;
	int r = 0;

	if (scan->given)
		leave(&scan->given);
	do {
		if (!scan->places[0] && !scan->places[1])
			r = step(scan);
	} while (r == 0 && !scan->places[0] && !scan->places[1] && scan->ahead[0]);
	struct job **place = choose(scan);
	if (r < 0 || !place)
		return r;
	bool is_alone = !scan->places[0] || !scan->places[1];
	if (!scan->is_merged || (is_alone && !comes_before(scan, (*place)->head->last_row)))
		return give_whole(scan, place);
	return merge(scan);
}
