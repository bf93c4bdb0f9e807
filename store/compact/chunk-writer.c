#include "store/compact/chunk-writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/columns/column.h"
#include "store/compact/chunk-store.h"
#include "store/compact/compact.h"
#include "store/compact/frames.h"
#include "store/database.h"
#include "store/statement.h"
#include "trace/frame.h"

#define TILE_ROWS  256u /* rows that are turned into columns at a time: they stay in the cache */
#define TRY_CHUNKS 64u /* how often narrowings are tried */
#define TRIAL_ROWS 8192u /* on so many, ... */
#define N_PIECES   4u /* ... from here and there: places may be special */
#define ENOUGH	   256u /* bytes, of which nothing is worth more trials */
#define LEAST_ROOM 1024u /* rows; most recordings of short programs have no more */
_Static_assert((CHUNK_ROWS & (CHUNK_ROWS - 1)) == 0, "room is doubled up to a chunk");

/* Rows that are written as one piece of each column. */
struct piece {
	uint32_t first;
	uint32_t n;
};

struct column {
	int64_t *values; /* n_room */
	struct chunk_plan plan;
	struct chunk_survey survey; /* of the chunk that is stored */
	bool may_be_null;
	bool is_alike; /* all of the chunk's values are equal */
	bool is_real;
};

/* What tells frames, in the order of struct frame_columns; NULL: it has no such. */
#define N_FRAMED_BY 7
static const char *const framed_by[][N_FRAMED_BY] = {
	{ "id", "process_id", "address", "allocated_ns", "size", "freed_ns", NULL },
	{ "id", "process_id", "address", "time_ns", NULL, NULL, "picture" },
};
#define N_FRAMED (sizeof(framed_by) / sizeof(framed_by[0]))

struct chunk_writer {
	sqlite3 *db;
	struct chunk_encoder *encoder;
	sqlite3_stmt *insert_chunk;
	sqlite3_stmt *insert_column;
	struct column columns[CHUNK_COLUMNS];
	unsigned n_columns;
	int id_column;
	int run_column;
	unsigned series;
	uint32_t n; /* rows that are not stored yet */
	uint32_t n_room; /* for rows: at most CHUNK_ROWS */
	int64_t next_chunk;
	uint64_t n_chunks;
	struct chunk_frames frames;
	const struct column *framed_by[N_FRAMED_BY];
	int64_t *spare; /* n_room: for a column that is put into frames */
	char *bytes; /* of a frame */
	size_t n_bytes;
	size_t n_bytes_allocated;
};

struct chunk_writer *chunk_writer_close(struct chunk_writer *writer)
{
	if (!writer)
		return NULL;
	for (unsigned i = 0; i < CHUNK_COLUMNS; i++)
		free(writer->columns[i].values);
	sqlite3_finalize(writer->insert_chunk);
	sqlite3_finalize(writer->insert_column);
	chunk_encoder_close(writer->encoder);
	free_all(writer->spare, writer->bytes, writer);
	return NULL;
}

static void cleanup_writer(struct chunk_writer **writer)
{
	*writer = chunk_writer_close(*writer);
}
#define auto_writer __attribute__((cleanup(cleanup_writer)))

/* ---- Which columns ---- */

/* What tells frames: that of blocks, or of touches. */
static int open_frames(struct chunk_writer *writer, const char *names)
{
	for (size_t i = 0; i < N_FRAMED; i++) {
		bool has_all = true;
		for (unsigned j = 0; j < N_FRAMED_BY; j++) {
			const char *name = framed_by[i][j];
			int column = name ? compact_find_name(names, name) : -1;
			writer->framed_by[j] = column >= 0 ? &writer->columns[column] : NULL;
			has_all = has_all && (column >= 0 || !name);
		}
		if (has_all)
			return 0;
	}
	return -EINVAL;
}

/* Rows have all columns of the table, in its order. */
static int open_columns(struct chunk_writer *writer, const struct rows_table *rows)
{
	const char *names = compact_columns(rows->name);
	size_t n = strlen(rows->columns);

	writer->n_columns = (unsigned)strlen(rows->types);
	if (!names || strncmp(names, rows->columns, n) != 0 ||
	    compact_n_names(names) != writer->n_columns || strchr(rows->types, 't'))
		return -EINVAL;
	writer->id_column = compact_find_name(names, "id");
	writer->run_column = compact_find_name(names, "run_id");
	for (unsigned i = 0; i < writer->n_columns; i++) {
		writer->columns[i] = (struct column){
			.may_be_null = rows->types[i] == 'i',
			.is_real = rows->types[i] == 'r',
		};
	}
	return open_frames(writer, names);
}

/* ---- Beginning ---- */

static int prepare(struct chunk_writer *writer, const char *format, const char *table,
		   sqlite3_stmt **ret_statement)
{
	char *sql = sqlite3_mprintf(format, table);
	int r = sql ? statement_prepare(writer->db, sql, ret_statement) : -ENOMEM;

	sqlite3_free(sql);
	return r;
}

static int prepare_all(struct chunk_writer *writer, const char *table)
{
	auto_statement sqlite3_stmt *last = NULL;
	int r = prepare(writer,
			"INSERT INTO \"%w_chunk\"(id, run_id, series, n_rows, first_row, last_row,"
			" head) VALUES(?, ?, ?, ?, ?, ?, ?)",
			table, &writer->insert_chunk);

	if (r == 0)
		r = prepare(writer, "INSERT INTO \"%w_column\"(id, data) VALUES(?, ?)", table,
			    &writer->insert_column);
	r = r ?: prepare(writer, "SELECT coalesce(max(id), 0) + 1 FROM \"%w_chunk\"", table, &last);
	r = r ?: statement_step(last);
	if (r < 0)
		return r;
	writer->next_chunk = sqlite3_column_int64(last, 0);
	return 0;
}

int chunk_writer_open(struct db *db, const struct rows_table *rows,
		      struct chunk_writer **ret_writer)
{
	auto_writer struct chunk_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return -ENOMEM;
	writer->db = db_handle(db);
	writer->encoder = chunk_encoder_open();
	if (!writer->encoder)
		return -ENOMEM;
	int r = open_columns(writer, rows) ?: prepare_all(writer, rows->name);
	if (r < 0)
		return r;
	*ret_writer = steal_ptr(&writer);
	return 0;
}

/* ---- Storing a chunk ---- */

static struct chunk_values values_of(const struct chunk_writer *writer, unsigned i,
				     struct chunk_plan plan, const struct piece *piece)
{
	const struct column *columns = writer->columns;

	return (struct chunk_values){
		.values = columns[i].values + piece->first,
		.others = plan.coding == CHUNK_RELATIVE ? columns[plan.other].values + piece->first
							: NULL,
		.n = piece->n,
		.may_be_null = columns[i].may_be_null,
		.is_alike = columns[i].is_alike,
	};
}

/* Of rows from the middle of a piece: the start of a run may be special. */
static struct piece middle_of(struct piece piece, uint32_t most)
{
	return piece.n <= most ? piece : (struct piece){ piece.first + (piece.n - most) / 2, most };
}

/* How a column is narrowed best, by some rows of this chunk. */
struct trial {
	struct piece pieces[N_PIECES];
	unsigned n_pieces;
	struct chunk_plan best;
	size_t n_bytes; /* by that */
};

static void choose_pieces(const struct chunk_writer *writer, struct trial *trial)
{
	const struct chunk_frames *frames = &writer->frames;
	uint32_t n = frames->n, first = 0;
	uint32_t n_pieces = n < N_PIECES ? n : N_PIECES;

	for (uint32_t i = 0; i < n; i++) {
		struct piece piece = { first, frames->items[i].n_rows };
		first += piece.n;
		if (trial->n_pieces < n_pieces &&
		    i >= n * (2 * trial->n_pieces + 1) / (2 * n_pieces))
			trial->pieces[trial->n_pieces++] = middle_of(piece, TRIAL_ROWS / n_pieces);
	}
}

static int try_plan(struct chunk_writer *writer, unsigned i, struct chunk_plan plan,
		    struct trial *trial)
{
	size_t n_all = 0;
	int r = 0;

	for (unsigned k = 0; k < trial->n_pieces && r == 0; k++) {
		const struct chunk_values values = values_of(writer, i, plan, &trial->pieces[k]);
		const void *bytes;
		size_t n;
		r = chunk_column_encode(writer->encoder, &values, plan, &bytes, &n);
		n_all += r == 0 ? n : 0;
	}
	/* What is relative cannot be what another column is relative to: it must be worth it. */
	if (plan.coding == CHUNK_RELATIVE)
		n_all += n_all / 64;
	if (r == 0 && n_all < trial->n_bytes) {
		trial->best = plan;
		trial->n_bytes = n_all;
	}
	return r == -ERANGE ? 0 : r;
}

static int try_plans(struct chunk_writer *writer)
{
	struct column *columns = writer->columns;
	struct trial trial = { .n_pieces = 0 };
	int r = 0;

	choose_pieces(writer, &trial);
	for (unsigned i = 0; i < writer->n_columns && r == 0; i++) {
		static const enum chunk_coding alone[] = { CHUNK_PLAIN, CHUNK_DELTA,
							   CHUNK_DICTIONARY };
		trial.n_bytes = SIZE_MAX;
		for (unsigned k = 0; k < 3 && r == 0 && trial.n_bytes > ENOUGH; k++)
			r = try_plan(writer, i, (struct chunk_plan){ alone[k], 0 }, &trial);
		for (unsigned k = 0; k < i && r == 0 && trial.n_bytes > ENOUGH; k++) {
			const struct chunk_plan plan = { CHUNK_RELATIVE, (uint8_t)k };
			if (!columns[i].is_real && !columns[k].is_real &&
			    columns[k].plan.coding != CHUNK_RELATIVE)
				r = try_plan(writer, i, plan, &trial);
		}
		columns[i].plan = trial.best;
	}
	return r;
}

static int encode(struct chunk_writer *writer, unsigned i, const struct piece *piece,
		  const void **ret_bytes, size_t *ret_n)
{
	struct chunk_plan plan = writer->columns[i].plan;
	struct chunk_values values = values_of(writer, i, plan, piece);
	int r = chunk_column_encode(writer->encoder, &values, plan, ret_bytes, ret_n);
	if (r == -ERANGE)
		r = chunk_column_encode(writer->encoder, &values,
					(struct chunk_plan){ CHUNK_PLAIN, 0 }, ret_bytes, ret_n);
	return r;
}

static int append(struct chunk_writer *writer, const void *bytes, size_t n)
{
	int r = grow_array_by(&writer->bytes, writer->n_bytes, n, &writer->n_bytes_allocated, 1);

	if (r < 0)
		return r;
	memcpy(writer->bytes + writer->n_bytes, bytes, n);
	writer->n_bytes += n;
	return 0;
}

/* A frame: a piece of each column. */
static int store_frame(struct chunk_writer *writer, unsigned number, const struct piece *piece)
{
	const void *bytes;
	size_t n;
	int r = 0;

	writer->n_bytes = 0;
	for (unsigned i = 0; i < writer->n_columns && r == 0; i++) {
		r = encode(writer, i, piece, &bytes, &n);
		uint32_t size = (uint32_t)n;
		r = r ?: append(writer, &size, sizeof(size));
		r = r ?: append(writer, bytes, n);
	}
	if (r < 0)
		return r;
	statement_integer(writer->insert_column, 1, writer->next_chunk * CHUNK_FRAMES + number);
	sqlite3_bind_blob(writer->insert_column, 2, writer->bytes, (int)writer->n_bytes,
			  SQLITE_STATIC);
	return statement_run(writer->insert_column);
}

static int store_frames(struct chunk_writer *writer)
{
	struct piece piece = { 0, 0 };
	int r = 0;

	for (uint32_t i = 0; i < writer->frames.n && r == 0; i++) {
		piece = (struct piece){ piece.first + piece.n, writer->frames.items[i].n_rows };
		r = store_frame(writer, i, &piece);
	}
	return r;
}

/* Columns as they are stored; what their heads tell is of the order of ids. */
static int arrange(struct chunk_writer *writer)
{
	for (unsigned i = 0; i < writer->n_columns; i++) {
		struct column *column = &writer->columns[i];
		column->is_alike =
			column->survey.differing == 0 &&
			(column->survey.n_null == 0 || column->survey.n_null == writer->n);
	}
	const int64_t *told[N_FRAMED_BY];
	for (unsigned i = 0; i < N_FRAMED_BY; i++)
		told[i] = writer->framed_by[i] ? writer->framed_by[i]->values : NULL;
	const struct frame_columns columns = { told[0], told[1], told[2], told[3],
					       told[4], told[5], told[6] };
	int r = chunk_frames_make(&writer->frames, &columns, writer->n);
	for (unsigned i = 0; i < writer->n_columns && r == 0 && writer->frames.n > 1; i++) {
		int64_t *values = writer->columns[i].values, *to = writer->spare;
		if (writer->columns[i].is_alike)
			continue;
		for (uint32_t row = 0; row < writer->n; row++)
			to[row] = values[writer->frames.rows[row]];
		writer->columns[i].values = to;
		writer->spare = values;
	}
	return r;
}

/* The head: a checksum, the ranges of all columns, and frames. */
static int store_head(struct chunk_writer *writer, int64_t first, int64_t last)
{
	struct chunk_range ranges[CHUNK_COLUMNS];
	size_t n_ranges = writer->n_columns * sizeof(ranges[0]);
	size_t n_frames = writer->frames.n * sizeof(struct chunk_frame);
	size_t n_bytes = sizeof(uint32_t) + n_ranges + n_frames;
	auto_free char *head = malloc(n_bytes);

	if (!head)
		return -ENOMEM;
	memset(ranges, 0, sizeof(ranges));
	for (unsigned i = 0; i < writer->n_columns; i++) {
		const struct chunk_survey *survey = &writer->columns[i].survey;

		ranges[i] = (struct chunk_range){ survey->min, survey->max, survey->n_null,
						  survey->is_ascending };
	}
	memcpy(head + sizeof(uint32_t), ranges, n_ranges);
	memcpy(head + sizeof(uint32_t) + n_ranges, writer->frames.items, n_frames);
	uint32_t checksum = trace_checksum(head + sizeof(checksum), n_bytes - sizeof(checksum));
	memcpy(head, &checksum, sizeof(checksum));

	const int64_t values[] = { writer->next_chunk,
				   writer->columns[writer->run_column].values[0],
				   writer->series,
				   writer->n,
				   first,
				   last };
	for (int i = 0; i < 6; i++)
		statement_integer(writer->insert_chunk, i + 1, values[i]);
	sqlite3_bind_blob(writer->insert_chunk, 7, head, (int)n_bytes, SQLITE_STATIC);
	return statement_run(writer->insert_chunk);
}

int chunk_writer_flush(struct chunk_writer *writer)
{
	const int64_t *ids = writer->columns[writer->id_column].values;
	int r = 0;

	if (writer->n == 0)
		return 0;
	int64_t first = ids[0], last = ids[writer->n - 1];
	r = arrange(writer);
	if (r == 0 && writer->n_chunks++ % TRY_CHUNKS == 0)
		r = try_plans(writer);
	r = r ?: store_frames(writer);
	r = r ?: store_head(writer, first, last);
	writer->next_chunk++;
	writer->n = 0;
	return r;
}

int chunk_writer_next_series(struct chunk_writer *writer)
{
	int r = chunk_writer_flush(writer);

	writer->series++;
	writer->n_chunks = 0;
	return writer->series < CHUNK_SERIES ? r : -EINVAL;
}

/* ---- Rows to columns ---- */

/* Room for some more rows of this chunk. */
static int reserve(struct chunk_writer *writer, uint32_t n)
{
	uint32_t n_room = writer->n_room ? writer->n_room : LEAST_ROOM;

	if (writer->n + n <= writer->n_room)
		return 0;
	while (n_room < writer->n + n)
		n_room *= 2;
	for (unsigned i = 0; i < writer->n_columns; i++) {
		int64_t *values = realloc(writer->columns[i].values, n_room * sizeof(*values));
		if (!values)
			return -ENOMEM;
		writer->columns[i].values = values;
	}
	int64_t *spare = realloc(writer->spare, n_room * sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	writer->spare = spare;
	writer->n_room = n_room;
	return 0;
}

/* Some rows more, which are in the cache. */
static void survey(struct column *column, uint32_t n_before, uint32_t n)
{
	const int64_t *values = column->values + n_before;
	const struct chunk_survey more = chunk_survey(&(struct chunk_values){
		.values = values, .n = n, .may_be_null = column->may_be_null });
	struct chunk_survey *all = &column->survey;

	if (n_before == 0) {
		*all = more;
		return;
	}
	if (all->min <= all->max && more.min <= more.max)
		all->differing |= (uint64_t)(all->min ^ more.min);
	all->differing |= more.differing;
	all->min = more.min < all->min ? more.min : all->min;
	all->max = more.max > all->max ? more.max : all->max;
	all->n_null += more.n_null;
	all->is_ascending = all->is_ascending && more.is_ascending && values[0] >= values[-1];
}

static void turn(struct chunk_writer *writer, const union rows_cell *cells, uint32_t n)
{
	for (unsigned i = 0; i < writer->n_columns; i++) {
		int64_t *to = writer->columns[i].values + writer->n;
		for (uint32_t row = 0; row < n; row++)
			to[row] = cells[row * writer->n_columns + i].integer;
		survey(&writer->columns[i], writer->n, n);
	}
	writer->n += n;
}

int chunk_writer_add(struct chunk_writer *writer, const union rows_cell *cells, size_t n)
{
	int r = 0;

	while (n > 0 && r == 0) {
		uint32_t n_tile = n < TILE_ROWS ? (uint32_t)n : TILE_ROWS;
		if (n_tile > CHUNK_ROWS - writer->n)
			n_tile = CHUNK_ROWS - writer->n;
		r = reserve(writer, n_tile);
		if (r < 0)
			return r;
		turn(writer, cells, n_tile);
		cells += (size_t)n_tile * writer->n_columns;
		n -= n_tile;
		if (writer->n == CHUNK_ROWS)
			r = chunk_writer_flush(writer);
	}
	return r;
}
