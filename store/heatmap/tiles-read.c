#include "store/heatmap/tiles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/cleanup.h"
#include "store/heatmap/categories.h"
#include "store/heatmap/draw-job.h"
#include "store/statement.h"

#define MAX_TILE_BYTES ((size_t)PICTURE_MAX_CATEGORIES * (2 + 4 * PICTURE_TILE_CELLS))
#define OUTSIDE	       UINT32_MAX

/* The grid on the way into a picture. */
struct reader {
	struct picture_job *job;
	struct picture_cells columns; /* of the grid */
	struct picture_cells rows;
	uint32_t column_of[PICTURE_GRID_COLUMNS]; /* cells of the canvas; OUTSIDE */
	uint32_t row_of[PICTURE_GRID_ROWS];
	unsigned category_of
		[PICTURE_MAX_CATEGORIES]; /* by number of picture_category; OUTSIDE: none */
	ZSTD_DCtx *zstd;
	uint8_t *bytes; /* of a tile; MAX_TILE_BYTES */
	size_t n_bytes;
	uint8_t *shares; /* of the whole grid */
};

static void finish(struct reader *reader)
{
	picture_cells_finish(&reader->columns);
	picture_cells_finish(&reader->rows);
	ZSTD_freeDCtx(reader->zstd);
	free(reader->bytes);
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
	reader->zstd = ZSTD_createDCtx();
	reader->bytes = malloc(MAX_TILE_BYTES);
	if (r < 0 || !reader->zstd || !reader->bytes)
		return -ENOMEM;
	map_cells(&reader->columns, &job->canvas.times, reader->column_of);
	map_cells(&reader->rows, &job->canvas.places, reader->row_of);
	return 0;
}

/* ---- Tiles ---- */

static bool meets(const struct reader *reader, int64_t number)
{
	const struct picture_request *slice = &reader->job->slice;
	unsigned column = (unsigned)number % PICTURE_TILE_COLUMNS * PICTURE_TILE;
	unsigned row = (unsigned)number / PICTURE_TILE_COLUMNS * PICTURE_TILE;
	const struct picture_cells *x = &reader->columns, *y = &reader->rows;

	return x->from + x->edges[column] < picture_time(slice->to_ns) &&
	       x->from + x->edges[column + PICTURE_TILE] > picture_time(slice->from_ns) &&
	       y->edges[row] < slice->high && y->edges[row + PICTURE_TILE] > slice->low;
}

/* Decompress a row's tile. Returns 0 or -EPROTO. */
static int unpack(struct reader *reader, sqlite3_stmt *row)
{
	size_t n = ZSTD_decompressDCtx(reader->zstd, reader->bytes, MAX_TILE_BYTES,
				       sqlite3_column_blob(row, 1),
				       (size_t)sqlite3_column_bytes(row, 1));

	if (ZSTD_isError(n))
		return -EPROTO;
	reader->n_bytes = n;
	return 0;
}

static int for_tiles(struct reader *reader, const char *colour, int64_t source_id,
		     int (*use)(struct reader *, unsigned number))
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
	while ((r = statement_step(row)) > 0) {
		int64_t number = sqlite3_column_int64(row, 0);
		if (number < 0 || number >= PICTURE_TILE_COLUMNS * PICTURE_TILE_ROWS)
			return -EPROTO;
		if (!meets(reader, number))
			continue;
		if (reader->job->palette.by == PICTURE_BY_SOURCE) {
			unsigned category = picture_palette_find(&reader->job->palette,
								 sqlite3_column_int64(row, 2));
			for (unsigned i = 0; i < PICTURE_MAX_CATEGORIES; i++)
				reader->category_of[i] = category;
		}
		r = unpack(reader, row);
		if (r == 0)
			r = use(reader, (unsigned)number);
		if (r < 0)
			return r;
	}
	return picture_error(r);
}

/* ---- Touches ---- */

static void add_row(struct reader *reader, const uint8_t *plane, size_t first, unsigned factor_log2,
		    unsigned category)
{
	struct picture_canvas *canvas = &reader->job->canvas;
	const uint32_t *columns = reader->column_of + first % PICTURE_GRID_COLUMNS;
	size_t row = reader->row_of[first / PICTURE_GRID_COLUMNS];

	if (row == OUTSIDE)
		return;
	for (unsigned i = 0; i < PICTURE_TILE; i++) {
		uint32_t n = (uint32_t)plane[i] << factor_log2;
		if (n == 0 || columns[i] == OUTSIDE)
			continue;
		picture_canvas_count(canvas, row * canvas->times.n + columns[i], category, n);
		reader->job->picture->n_touches += n;
	}
}

static int add_tile(struct reader *reader, unsigned number)
{
	size_t at = 0;
	size_t first =
		(size_t)(number / PICTURE_TILE_COLUMNS) * PICTURE_TILE * PICTURE_GRID_COLUMNS +
		(size_t)(number % PICTURE_TILE_COLUMNS) * PICTURE_TILE;

	while (at < reader->n_bytes) {
		unsigned category = reader->bytes[at];
		unsigned n_planes = at + 1 < reader->n_bytes ? reader->bytes[at + 1] : 0;
		at += 2;
		if (category >= PICTURE_MAX_CATEGORIES ||
		    reader->category_of[category] == OUTSIDE || n_planes == 0 || n_planes > 4 ||
		    reader->n_bytes - at < (size_t)n_planes * PICTURE_TILE_CELLS)
			return -EPROTO;
		for (unsigned plane = 0; plane < n_planes; plane++) {
			for (unsigned row = 0; row < PICTURE_TILE; row++)
				add_row(reader, reader->bytes + at + (size_t)row * PICTURE_TILE,
					first + (size_t)row * PICTURE_GRID_COLUMNS, 8 * plane,
					reader->category_of[category]);
			at += PICTURE_TILE_CELLS;
		}
	}
	return 0;
}

/* Categories are numbered as picture_category has them; directions by what there is of them. */
static int map_directions(struct reader *reader)
{
	const struct picture_request *request = &reader->job->picture->request;
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(reader->job->store->db,
				  "SELECT number, item_id FROM picture_category WHERE run_id = ?1"
				  " AND process_id = ?2 AND colour = 'direction'",
				  &row);

	if (r < 0)
		return picture_error(r);
	statement_integer(row, 1, request->run_id);
	statement_integer(row, 2, request->process_id);
	while ((r = statement_step(row)) > 0) {
		int64_t number = sqlite3_column_int64(row, 0);
		if (number >= 0 && number < PICTURE_MAX_CATEGORIES)
			reader->category_of[number] = picture_palette_find(
				&reader->job->palette, sqlite3_column_int64(row, 1));
	}
	return picture_error(r);
}

int picture_grid_count(struct picture_job *job)
{
	auto_reader struct reader reader = { 0 };
	enum picture_by by = job->palette.by;
	/* What has one category only has no tiles of its own. */
	bool has_tiles = by != PICTURE_BY_SOURCE && job->palette.n > 1;
	int r = init(&reader, job);

	for (unsigned i = 0; i < PICTURE_MAX_CATEGORIES && by != PICTURE_BY_DIRECTION; i++)
		reader.category_of[i] = !has_tiles ? 0 : i < job->palette.n ? i : OUTSIDE;
	if (r == 0 && by == PICTURE_BY_DIRECTION)
		r = map_directions(&reader);
	return r < 0 ? r
		     : for_tiles(&reader, picture_colours[has_tiles ? by : PICTURE_BY_DIRECTION],
				 job->slice.source_id, add_tile);
}

/* ---- Blocks ---- */

static int keep_shares(struct reader *reader, unsigned number)
{
	size_t first =
		(size_t)(number / PICTURE_TILE_COLUMNS) * PICTURE_TILE * PICTURE_GRID_COLUMNS +
		(size_t)(number % PICTURE_TILE_COLUMNS) * PICTURE_TILE;

	if (reader->n_bytes != PICTURE_TILE_CELLS)
		return -EPROTO;
	for (unsigned row = 0; row < PICTURE_TILE; row++)
		memcpy(reader->shares + first + (size_t)row * PICTURE_GRID_COLUMNS,
		       reader->bytes + (size_t)row * PICTURE_TILE, PICTURE_TILE);
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
