#include "store/heatmap/draw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "store/columns/column.h"
#include "store/database.h"
#include "store/heatmap/categories.h"
#include "store/statement.h"

#define PLANES_BYTES (UINT64_C(48) << 20) /* of counts at a time */
#define N_COLOURS    4u /* what has tiles: of sources each has its own */

static const struct {
	enum picture_by by;
	enum picture_touch_column column;
} colours[N_COLOURS] = {
	{ PICTURE_BY_DIRECTION, PICTURE_TOUCH_DIRECTION },
	{ PICTURE_BY_THREAD, PICTURE_TOUCH_THREAD },
	{ PICTURE_BY_LEVEL, PICTURE_TOUCH_LEVEL },
	{ PICTURE_BY_LATENCY, PICTURE_TOUCH_LATENCY },
};

struct writer {
	struct picture_store *store;
	const struct picture_process *process;
	struct picture_palette palettes[N_COLOURS];
	struct picture_palette sources;
	struct picture_cells columns;
	struct picture_cells rows;
	unsigned first_plane[N_COLOURS]; /* of a source */
	unsigned n_planes; /* of a source: one for each category of each colour */
	unsigned first_column; /* of the strip at hand */
	unsigned n_columns;
	uint32_t *counts; /* by source, plane, row and column of the strip */
	sqlite3_stmt *insert;
	struct chunk_encoder *encoder;
};

static void finish_writer(struct writer *writer)
{
	picture_cells_finish(&writer->columns);
	picture_cells_finish(&writer->rows);
	free(writer->counts);
	sqlite3_finalize(writer->insert);
	chunk_encoder_close(writer->encoder);
}
#define auto_writer __attribute__((cleanup(finish_writer)))

int picture_grid_cells(const struct picture_process *process, struct picture_cells *columns,
		       struct picture_cells *rows)
{
	int r = picture_cells_init(columns, picture_time(process->from_ns),
				   picture_time(process->to_ns), PICTURE_GRID_COLUMNS);

	return r ?: picture_cells_init(rows, 0, process->height, PICTURE_GRID_ROWS);
}

/* ---- Tiles ---- */

/* What the rows of picture_tile say beside their bytes. */
struct plane {
	const char *colour;
	int64_t source_id;
	unsigned category;
	const uint32_t *counts; /* of the strip */
};

static int insert_tile(struct writer *writer, const struct plane *plane, unsigned number,
		       const struct chunk_values *values, int64_t n)
{
	const void *bytes;
	size_t n_bytes;
	int r = chunk_column_encode(writer->encoder, values, (struct chunk_plan){ CHUNK_PLAIN, 0 },
				    &bytes, &n_bytes);

	if (r < 0)
		return r;
	statement_integer(writer->insert, 1, writer->process->run_id);
	statement_integer(writer->insert, 2, writer->process->process_id);
	statement_text(writer->insert, 3, plane->colour);
	statement_integer(writer->insert, 4, plane->source_id);
	statement_integer(writer->insert, 5, number * PICTURE_MAX_CATEGORIES + plane->category);
	statement_integer(writer->insert, 6, n);
	sqlite3_bind_blob64(writer->insert, 7, bytes, n_bytes, SQLITE_STATIC);
	return statement_run(writer->insert);
}

/* row, column: of tiles in the strip. A tile without anything is left out. */
static int write_tile(struct writer *writer, const struct plane *plane, unsigned row,
		      unsigned column)
{
	int64_t cells[PICTURE_TILE_CELLS], n = 0;
	const struct chunk_values values = { .values = cells, .n = PICTURE_TILE_CELLS };
	const uint32_t *from = plane->counts + (size_t)row * PICTURE_TILE * writer->n_columns +
			       (size_t)column * PICTURE_TILE;

	for (unsigned i = 0; i < PICTURE_TILE_CELLS; i++) {
		cells[i] = from[i / PICTURE_TILE * (size_t)writer->n_columns + i % PICTURE_TILE];
		n += cells[i];
	}
	unsigned number = row * PICTURE_TILE_COLUMNS + writer->first_column / PICTURE_TILE + column;
	return n ? insert_tile(writer, plane, number, &values, n) : 0;
}

static int write_plane(struct writer *writer, const struct plane *plane)
{
	int r = 0;

	for (unsigned row = 0; row < PICTURE_TILE_ROWS; row++) {
		for (unsigned i = 0; i < writer->n_columns / PICTURE_TILE && r == 0; i++)
			r = write_tile(writer, plane, row, i);
	}
	return r;
}

/* ---- Touches ---- */

/* A colour of which there is one category only has the tiles of directions. */
static bool has_tiles(const struct writer *writer, unsigned colour)
{
	return colour == 0 || writer->palettes[colour].n > 1;
}

/* The counts of a source's plane. */
static uint32_t *plane_at(const struct writer *writer, unsigned source, unsigned plane)
{
	return writer->counts +
	       (size_t)(source * writer->n_planes + plane) * PICTURE_GRID_ROWS * writer->n_columns;
}

static void count_part(struct writer *writer)
{
	const struct picture_columns *columns = &writer->store->columns;
	struct picture_placer placer = picture_placer_of(writer->process);

	for (uint32_t i = 0; i < columns->n; i++) {
		uint64_t time = picture_time(columns->values[PICTURE_TOUCH_TIME][i]);
		uint64_t y = picture_placer_at(&placer,
					       (uint64_t)columns->values[PICTURE_TOUCH_ADDRESS][i]);
		if (time < writer->columns.from || time >= writer->columns.to ||
		    y >= writer->rows.to)
			continue;
		unsigned column = picture_cell_of(&writer->columns, time) - writer->first_column;
		if (column >= writer->n_columns)
			continue;
		size_t cell =
			(size_t)picture_cell_of(&writer->rows, y) * writer->n_columns + column;
		unsigned source = picture_palette_find(&writer->sources,
						       columns->values[PICTURE_TOUCH_SOURCE][i]);
		for (unsigned c = 0; c < N_COLOURS; c++) {
			int64_t item = columns->values[colours[c].column][i];
			unsigned plane = writer->first_plane[c] +
					 picture_palette_find(&writer->palettes[c], item);
			if (has_tiles(writer, c))
				plane_at(writer, source, plane)[cell]++;
		}
	}
}

static int count_strip(struct writer *writer)
{
	const struct picture_cells *times = &writer->columns;
	const struct picture_request strip = {
		.from_ns = picture_ns(times->from + times->edges[writer->first_column]),
		.to_ns = picture_ns(times->from +
				    times->edges[writer->first_column + writer->n_columns]),
		.high = UINT64_MAX,
	};
	const struct picture_look look = { .stride = 1, .wanted = (1u << PICTURE_TOUCH_SITE) - 1 };
	const struct picture_part *part = NULL;
	int r = 0;

	while (r >= 0 &&
	       (part = picture_part_next(writer->process, part, PICTURE_KIND_TOUCHES, &strip))) {
		r = picture_store_read(writer->store, writer->process, part, &look);
		if (r > 0)
			count_part(writer);
	}
	return r < 0 ? r : 0;
}

static int write_source(struct writer *writer, unsigned source)
{
	int r = 0;

	for (unsigned c = 0; c < N_COLOURS; c++) {
		const struct picture_palette *palette = &writer->palettes[c];
		for (unsigned i = 0; i < palette->n && has_tiles(writer, c) && r == 0; i++) {
			const struct plane plane = {
				.colour = picture_colours[palette->by],
				.source_id = writer->sources.items[source],
				.category = i,
				.counts = plane_at(writer, source, writer->first_plane[c] + i),
			};
			r = write_plane(writer, &plane);
		}
	}
	return r;
}

static int write_strip(struct writer *writer)
{
	size_t n = (size_t)writer->sources.n * writer->n_planes * PICTURE_GRID_ROWS *
		   writer->n_columns;

	memset(writer->counts, 0, n * sizeof(*writer->counts));
	int r = count_strip(writer);
	for (unsigned source = 0; source < writer->sources.n && r == 0; source++)
		r = write_source(writer, source);
	return r;
}

static int read_palette(struct writer *writer, enum picture_by by, struct picture_palette *palette)
{
	struct picture picture = {
		.request = { .run_id = writer->process->run_id,
			     .process_id = writer->process->process_id,
			     .by = by },
	};
	struct picture_job job = { .store = writer->store, .picture = &picture };
	int r = picture_palette_read(&job);

	*palette = job.palette;
	return r;
}

/* As many columns at a time as there is memory for. */
static int plan_strips(struct writer *writer)
{
	int r = read_palette(writer, PICTURE_BY_SOURCE, &writer->sources);

	for (unsigned c = 0; c < N_COLOURS && r == 0; c++) {
		r = read_palette(writer, colours[c].by, &writer->palettes[c]);
		writer->first_plane[c] = writer->n_planes;
		if (has_tiles(writer, c))
			writer->n_planes += (unsigned)writer->palettes[c].n;
	}
	if (r < 0)
		return r;
	size_t column_bytes =
		writer->sources.n * writer->n_planes * PICTURE_GRID_ROWS * sizeof(*writer->counts);
	writer->n_columns = PICTURE_GRID_COLUMNS;
	while (writer->n_columns > PICTURE_TILE && writer->n_columns * column_bytes > PLANES_BYTES)
		writer->n_columns /= 2;
	writer->counts = malloc(writer->n_columns * column_bytes + 1);
	return writer->counts ? 0 : -ENOMEM;
}

static int write_touches(struct writer *writer)
{
	int r = writer->process->n_touches ? plan_strips(writer) : 0;

	for (unsigned i = 0; r == 0 && writer->counts && i < PICTURE_GRID_COLUMNS;
	     i += writer->n_columns) {
		writer->first_column = i;
		r = write_strip(writer);
	}
	free(writer->counts);
	writer->counts = NULL;
	return r;
}

/* ---- Blocks ---- */

static int write_shares(struct writer *writer, const uint8_t *occupancy)
{
	size_t n = (size_t)PICTURE_GRID_COLUMNS * PICTURE_GRID_ROWS;

	writer->first_column = 0;
	writer->n_columns = PICTURE_GRID_COLUMNS;
	writer->counts = malloc(n * sizeof(*writer->counts));
	for (size_t i = 0; i < n && writer->counts; i++)
		writer->counts[i] = occupancy[i];
	const struct plane plane = { .colour = PICTURE_BLOCKS, .counts = writer->counts };
	return writer->counts ? write_plane(writer, &plane) : -ENOMEM;
}

/* The grid is a picture of the whole process. */
static int write_blocks(struct writer *writer)
{
	struct picture_job job = {
		.store = writer->store,
		.process = writer->process,
		.is_first_slice = true,
		.block_stride = 1,
	};
	auto_free uint8_t *occupancy = calloc(PICTURE_GRID_COLUMNS, PICTURE_GRID_ROWS);
	auto_free struct picture_block *blocks = calloc(PICTURE_BLOCKS_KEPT, sizeof(*blocks));
	struct picture picture = {
		.request = {
			.from_ns = writer->process->from_ns,
			.to_ns = writer->process->to_ns,
			.high = writer->process->height,
			.width = PICTURE_GRID_COLUMNS,
			.height = PICTURE_GRID_ROWS,
		},
		.occupancy = occupancy,
		.blocks = blocks,
	};

	if (!occupancy || !blocks)
		return -ENOMEM;
	job.picture = &picture;
	job.slice = picture.request;
	int r = picture_canvas_init(&job.canvas, &picture, 0, PICTURE_GRID_ROWS);
	r = r ?: picture_blocks_draw(&job);
	if (r == 0)
		picture_canvas_settle_occupancy(&job.canvas);
	picture_canvas_finish(&job.canvas);
	return r < 0 ? r : write_shares(writer, occupancy);
}

/* ---- Processes ---- */

/* Whether a picture of all of it would look at too many one by one. */
static bool has_many_touches(const struct picture_process *process)
{
	return process->n_touches > PICTURE_MOST_TOUCHES;
}

static bool has_many_blocks(const struct picture_process *process)
{
	return process->n_blocks > PICTURE_MOST_BLOCKS;
}

static int write_process(struct picture_store *store, int64_t run_id, int64_t process_id)
{
	auto_writer struct writer writer = { .store = store, .encoder = chunk_encoder_open() };
	struct picture_process *process;
	int r = picture_store_process(store, run_id, process_id, &process);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	writer.process = process;
	r = picture_grid_cells(process, &writer.columns, &writer.rows);
	if (r < 0 || !writer.encoder)
		return r < 0 ? r : -ENOMEM;
	r = statement_insert(store->db,
			     "picture_tile(run_id, process_id, colour, source_id, number, n, data)",
			     7, &writer.insert);
	if (r == 0 && has_many_touches(process))
		r = write_touches(&writer);
	if (r == 0 && has_many_blocks(process))
		r = write_blocks(&writer);
	return r;
}

/*
 * Whether one of a run's processes may be large enough. The axes of damaged runs, which are small,
 * cannot be read.
 */
static bool has_large(struct db *db, int64_t run_id)
{
	return db_integer_of(db, 0,
			     "SELECT max(max(n_blocks, n_touches)) FROM picture WHERE run_id = ?1",
			     "i", run_id) > PICTURE_MOST_BLOCKS;
}

int picture_grid_write(struct db *db, int64_t run_id)
{
	auto_picture_store struct picture_store *store = NULL;
	int r = has_large(db, run_id) ? picture_store_open(db_handle(db), &store) : -ENODATA;

	if (r < 0)
		return r == -ENODATA ? 0 : r;
	for (size_t i = 0; i < store->n_processes && r == 0; i++) {
		const struct picture_process *process = &store->processes[i];
		bool is_large = has_many_touches(process) || has_many_blocks(process);
		if (process->run_id == run_id && is_large)
			r = write_process(store, run_id, process->process_id);
	}
	return r;
}

/* ---- Reading ---- */

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

static void finish_reader(struct reader *reader)
{
	picture_cells_finish(&reader->columns);
	picture_cells_finish(&reader->rows);
	free(reader->shares);
}
#define auto_reader __attribute__((cleanup(finish_reader)))

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

static int init_reader(struct reader *reader, struct picture_job *job)
{
	int r = picture_grid_cells(job->process, &reader->columns, &reader->rows);

	reader->job = job;
	if (r < 0)
		return r;
	map_cells(&reader->columns, &job->canvas.times, reader->column_of);
	map_cells(&reader->rows, &job->canvas.places, reader->row_of);
	return 0;
}

/* ---- Tiles that are read ---- */

static bool meets(const struct reader *reader)
{
	const struct picture_request *slice = &reader->job->slice;
	const struct picture_cells *x = &reader->columns, *y = &reader->rows;
	unsigned column = reader->first_column, row = reader->first_row;

	return x->from + x->edges[column] < picture_time(slice->to_ns) &&
	       x->from + x->edges[column + PICTURE_TILE] > picture_time(slice->from_ns) &&
	       y->edges[row] < slice->high && y->edges[row + PICTURE_TILE] > slice->low;
}

static int read_cells(struct reader *reader, sqlite3_stmt *row)
{
	const void *bytes = sqlite3_column_blob(row, 1);
	size_t n = (size_t)sqlite3_column_bytes(row, 1);
	const struct chunk_wanted wanted = { reader->cells, NULL, PICTURE_TILE_CELLS };
	struct chunk_outline outline;
	int r = bytes ? chunk_column_check(bytes, n, &outline) : -EBADMSG;

	if (r == 0 && outline.n_rows != PICTURE_TILE_CELLS)
		r = -EBADMSG;
	return r < 0 ? r : chunk_column_values(reader->job->store->decoder, bytes, n, &wanted);
}

/* Read a row's cells. Returns 1; 0: the tile is not in the slice; -ENOMEM or -EPROTO. */
static int read_tile(struct reader *reader, sqlite3_stmt *row)
{
	uint64_t number = (uint64_t)sqlite3_column_int64(row, 0) / PICTURE_MAX_CATEGORIES;

	if (number >= PICTURE_TILE_COLUMNS * PICTURE_TILE_ROWS)
		return -EPROTO;
	reader->first_row = (unsigned)number / PICTURE_TILE_COLUMNS * PICTURE_TILE;
	reader->first_column = (unsigned)number % PICTURE_TILE_COLUMNS * PICTURE_TILE;
	if (!meets(reader))
		return 0;
	int r = read_cells(reader, row);
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

/* ---- Touches from tiles ---- */

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
		picture_canvas_count(canvas, y, x, category, n);
		reader->job->picture->n_touches += n;
	}
	return 0;
}

int picture_grid_count(struct picture_job *job)
{
	auto_reader struct reader reader = { 0 };
	const struct picture_palette *palette = &job->palette;
	bool has_tiles = palette->by != PICTURE_BY_SOURCE && palette->n > 1;
	int r = init_reader(&reader, job);

	return r < 0 ? r
		     : for_tiles(&reader,
				 picture_colours[has_tiles ? palette->by : PICTURE_BY_DIRECTION],
				 job->slice.source_id, add_tile);
}

/* ---- Blocks from tiles ---- */

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
	int r = init_reader(&reader, job);

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
