#include "store/heatmap/tiles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "store/columns/column.h"
#include "store/heatmap/categories.h"
#include "store/heatmap/draw-job.h"
#include "store/statement.h"

#define OUTSIDE UINT32_MAX

/* The grid on the way into a picture. */
struct reader {
	struct picture_job *job;
	struct picture_cells columns; /* of the grid */
	struct picture_cells rows;
	uint32_t column_of[PICTURE_GRID_COLUMNS]; /* cells of the canvas; OUTSIDE */
	uint32_t row_of[PICTURE_GRID_ROWS];
	int64_t cells[PICTURE_TILE_CELLS]; /* of the tile at hand */
	unsigned first_column; /* of the grid, of the tile */
	unsigned first_row;
	uint8_t *shares; /* of the whole grid */
};

static void finish(struct reader *reader)
{
	picture_cells_finish(&reader->columns);
	picture_cells_finish(&reader->rows);
	free(reader->shares);
}
#define auto_reader __attribute__((cleanup(finish)))

/* In which cell of a canvas the middle of each cell of the grid lies. */
static void map_cells(const struct picture_cells *grid, const struct picture_cells *canvas,
		      uint32_t *cells)
{
	for (unsigned i = 0; i < grid->n; i++) {
		uint64_t a = grid->from + grid->edges[i], b = grid->from + grid->edges[i + 1];
		uint64_t middle = a + (b - a) / 2;
		cells[i] = a < b && middle >= canvas->from && middle < canvas->to
				   ? picture_cell_of(canvas, middle)
				   : OUTSIDE;
	}
}

static int init(struct reader *reader, struct picture_job *job)
{
	const struct picture_process *process = job->process;
	int r = picture_cells_init(&reader->columns, picture_time(process->from_ns),
				   picture_time(process->to_ns), PICTURE_GRID_COLUMNS);

	reader->job = job;
	if (r == 0)
		r = picture_cells_init(&reader->rows, 0, process->height, PICTURE_GRID_ROWS);
	if (r < 0)
		return r;
	map_cells(&reader->columns, &job->canvas.times, reader->column_of);
	map_cells(&reader->rows, &job->canvas.places, reader->row_of);
	return 0;
}

/* ---- Tiles ---- */

static bool meets(const struct reader *reader)
{
	const struct picture_request *slice = &reader->job->slice;
	const struct picture_cells *x = &reader->columns, *y = &reader->rows;
	unsigned column = reader->first_column, row = reader->first_row;

	return x->from + x->edges[column] < picture_time(slice->to_ns) &&
	       x->from + x->edges[column + PICTURE_TILE] > picture_time(slice->from_ns) &&
	       y->edges[row] < slice->high && y->edges[row + PICTURE_TILE] > slice->low;
}

/* Read a row's cells. Returns 1; 0: the tile is not in the slice; -ENOMEM or -EPROTO. */
static int read_tile(struct reader *reader, sqlite3_stmt *row)
{
	uint64_t number = (uint64_t)sqlite3_column_int64(row, 0) / PICTURE_MAX_CATEGORIES;
	uint32_t n;

	if (number >= PICTURE_TILE_COLUMNS * PICTURE_TILE_ROWS)
		return -EPROTO;
	reader->first_row = (unsigned)number / PICTURE_TILE_COLUMNS * PICTURE_TILE;
	reader->first_column = (unsigned)number % PICTURE_TILE_COLUMNS * PICTURE_TILE;
	if (!meets(reader))
		return 0;
	const struct picture_bytes bytes = { sqlite3_column_blob(row, 1),
					     (size_t)sqlite3_column_bytes(row, 1) };
	int r = bytes.data ? picture_unpack_column(reader->job->store->decoder, &bytes,
						   reader->cells, PICTURE_TILE_CELLS, &n)
			   : -EBADMSG;
	if (r == 0 && n != PICTURE_TILE_CELLS)
		r = -EBADMSG;
	return r < 0 ? picture_error(r) : 1;
}

static int for_tiles(struct reader *reader, const char *colour, int64_t source_id,
		     int (*use)(struct reader *, sqlite3_stmt *row))
{
	const struct picture_request *request = &reader->job->picture->request;
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(reader->job->store->db,
				  "SELECT number, data, source_id FROM picture_tile WHERE"
				  " run_id = ?1 AND process_id = ?2 AND colour = ?3"
				  " AND (?4 = 0 OR source_id = ?4)",
				  &row);

	if (r < 0)
		return picture_error(r);
	statement_integer(row, 1, request->run_id);
	statement_integer(row, 2, request->process_id);
	statement_text(row, 3, colour);
	statement_integer(row, 4, source_id);
	while (r >= 0 && (r = statement_step(row)) > 0) {
		r = read_tile(reader, row);
		if (r > 0)
			r = use(reader, row);
	}
	return picture_error(r);
}

/* ---- Touches ---- */

/*
 * The category of a row's tile. What has one category only has no tiles of its own, but those of
 * directions.
 */
static unsigned category_of(const struct reader *reader, sqlite3_stmt *row)
{
	const struct picture_palette *palette = &reader->job->palette;

	if (palette->by == PICTURE_BY_SOURCE)
		return picture_palette_find(palette, sqlite3_column_int64(row, 2));
	return palette->n > 1 ? (unsigned)sqlite3_column_int64(row, 0) % PICTURE_MAX_CATEGORIES : 0;
}

static int add_tile(struct reader *reader, sqlite3_stmt *row)
{
	struct picture_canvas *canvas = &reader->job->canvas;
	unsigned category = category_of(reader, row);

	if (category >= reader->job->palette.n)
		return -EPROTO;
	for (unsigned i = 0; i < PICTURE_TILE_CELLS; i++) {
		uint32_t y = reader->row_of[reader->first_row + i / PICTURE_TILE];
		uint32_t x = reader->column_of[reader->first_column + i % PICTURE_TILE];
		if (reader->cells[i] == 0 || x == OUTSIDE || y == OUTSIDE)
			continue;
		uint32_t n = (uint32_t)reader->cells[i];
		picture_canvas_count(canvas, (size_t)y * canvas->times.n + x, category, n);
		reader->job->picture->n_touches += n;
	}
	return 0;
}

int picture_grid_count(struct picture_job *job)
{
	auto_reader struct reader reader = { 0 };
	const struct picture_palette *palette = &job->palette;
	bool has_tiles = palette->by != PICTURE_BY_SOURCE && palette->n > 1;
	int r = init(&reader, job);

	return r < 0 ? r
		     : for_tiles(&reader,
				 picture_colours[has_tiles ? palette->by : PICTURE_BY_DIRECTION],
				 job->slice.source_id, add_tile);
}

/* ---- Blocks ---- */

static int keep_shares(struct reader *reader, sqlite3_stmt *row)
{
	(void)row;
	for (unsigned i = 0; i < PICTURE_TILE_CELLS; i++)
		reader->shares[(size_t)(reader->first_row + i / PICTURE_TILE) *
				       PICTURE_GRID_COLUMNS +
			       reader->first_column + i % PICTURE_TILE] = (uint8_t)reader->cells[i];
	return 0;
}

/* The cells of the grid that a cell of the canvas lies in. */
struct overlap {
	unsigned first;
	unsigned last;
};

static struct overlap overlap_of(const struct picture_cells *grid,
				 const struct picture_cells *canvas, unsigned cell)
{
	uint64_t from = canvas->from + canvas->edges[cell];
	uint64_t last = canvas->from + canvas->edges[cell + 1] - 1;

	if (from >= grid->to)
		from = grid->to - 1;
	if (last < from || last >= grid->to)
		last = from;
	return (struct overlap){ picture_cell_of(grid, from), picture_cell_of(grid, last) };
}

static uint8_t mean_of(const struct reader *reader, const struct overlap *x,
		       const struct overlap *y)
{
	unsigned sum = 0, n = 0;

	for (unsigned j = y->first; j <= y->last; j++) {
		for (unsigned i = x->first; i <= x->last; i++, n++)
			sum += reader->shares[(size_t)j * PICTURE_GRID_COLUMNS + i];
	}
	return picture_share((double)sum / n / 255);
}

int picture_grid_occupy(struct picture_job *job)
{
	auto_reader struct reader reader = { 0 };
	const struct picture_cells *times = &job->canvas.times, *places = &job->canvas.places;
	uint8_t *to = job->picture->occupancy + (size_t)job->canvas.first_row * times->n;
	auto_free struct overlap *columns = calloc(times->n, sizeof(*columns));
	int r = init(&reader, job);

	reader.shares = calloc(PICTURE_GRID_COLUMNS, PICTURE_GRID_ROWS);
	if (r < 0 || !columns || !reader.shares)
		return -ENOMEM;
	r = for_tiles(&reader, PICTURE_BLOCKS, 0, keep_shares);
	for (unsigned i = 0; i < times->n; i++)
		columns[i] = overlap_of(&reader.columns, times, i);
	for (unsigned j = 0; j < places->n && r == 0; j++) {
		struct overlap row = overlap_of(&reader.rows, places, j);
		for (unsigned i = 0; i < times->n; i++)
			to[(size_t)j * times->n + i] = mean_of(&reader, &columns[i], &row);
	}
	return r;
}
