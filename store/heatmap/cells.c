#include "store/heatmap/cells.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "store/heatmap/lookup.h"

#define ONE_BITS 24 /* a cell's side is 2^24 */
#define ONE	 (INT64_C(1) << ONE_BITS)
#define SMALL	 3 /* a block over no more borders of cells is added cell by cell */

int picture_cells_init(struct picture_cells *cells, uint64_t from, uint64_t to, unsigned n)
{
	if (to <= from || n == 0)
		return -EINVAL;
	uint64_t *edges = calloc(n + 1, sizeof(*edges));
	if (!edges)
		return -ENOMEM;
	for (unsigned i = 0; i <= n; i++)
		edges[i] = (uint64_t)(((unsigned __int128)(to - from) * i + n - 1) / n);
	*cells = (struct picture_cells){
		.from = from,
		.to = to,
		.n = n,
		.per_unit = n / (double)(to - from),
		.edges = edges,
	};
	return 0;
}

void picture_cells_finish(struct picture_cells *cells)
{
	free(cells->edges);
	cells->edges = NULL;
}

void picture_canvas_finish(struct picture_canvas *canvas)
{
	picture_cells_finish(&canvas->times);
	picture_cells_finish(&canvas->places);
	free_all(canvas->counts, canvas->is_touched, canvas->areas, canvas->changes);
	*canvas = (struct picture_canvas){ 0 };
}

/* Where the first cell of a row begins, in bytes; as picture_cells_init() has it for all rows. */
static uint64_t edge_of(const struct picture_request *request, unsigned row)
{
	uint64_t span = request->high - request->low;

	return request->low +
	       (uint64_t)(((unsigned __int128)span * row + request->height - 1) / request->height);
}

/* The rows of the canvas have the edges that they have in the whole picture. */
static int init_places(struct picture_canvas *canvas, unsigned last_row)
{
	const struct picture_request *request = &canvas->picture->request;
	struct picture_cells *places = &canvas->places;
	uint64_t from = edge_of(request, canvas->first_row);
	uint64_t to = edge_of(request, last_row);
	unsigned n = last_row - canvas->first_row;

	places->edges = calloc(n + 1, sizeof(*places->edges));
	if (!places->edges)
		return -ENOMEM;
	for (unsigned i = 0; i <= n; i++)
		places->edges[i] = edge_of(request, canvas->first_row + i) - from;
	places->from = from;
	places->to = to;
	places->n = n;
	places->per_unit = request->height / (double)(request->high - request->low);
	return 0;
}

int picture_canvas_init(struct picture_canvas *canvas, struct picture *picture, unsigned first_row,
			unsigned last_row)
{
	const struct picture_request *request = &picture->request;
	unsigned n_rows = last_row - first_row;

	*canvas = (struct picture_canvas){
		.picture = picture,
		.first_row = first_row,
		.n_categories = (unsigned)picture->n_categories,
	};
	int r = picture_cells_init(&canvas->times, picture_time(request->from_ns),
				   picture_time(request->to_ns), request->width);
	r = r ?: init_places(canvas, last_row);
	if (r < 0)
		return r;
	size_t n = (size_t)request->width * n_rows;
	canvas->counts = calloc(n * canvas->n_categories + 1, sizeof(*canvas->counts));
	canvas->areas = calloc(n, sizeof(*canvas->areas));
	canvas->changes = calloc((request->width + 2ul) * (n_rows + 2ul), sizeof(*canvas->changes));
	canvas->is_touched = calloc(n_rows, sizeof(*canvas->is_touched));
	return canvas->counts && canvas->is_touched && canvas->areas && canvas->changes ? 0
											: -ENOMEM;
}

/* ---- Blocks ---- */

/*
 * A side of a block, clipped: from cell to cell, and how much of the first and the last it covers.
 */
struct side {
	unsigned first;
	unsigned last;
	int64_t in_first;
	int64_t in_last; /* 0 where first is last */
};

static int64_t fixed(const struct picture_cells *cells, uint64_t place)
{
	int64_t most = (int64_t)cells->n << ONE_BITS;
	double at = (double)(place - cells->from) * cells->per_unit * (double)ONE;

	return at < (double)most ? (int64_t)at : most;
}

static struct side side_of(const struct picture_cells *cells, uint64_t from, uint64_t to)
{
	int64_t a = fixed(cells, from > cells->from ? from : cells->from);
	int64_t b = fixed(cells, to < cells->to ? to : cells->to);
	struct side side = { .first = (unsigned)(a >> ONE_BITS) };

	if (side.first >= cells->n)
		side.first = cells->n - 1;
	side.last = (unsigned)(b >> ONE_BITS);
	if (side.last >= cells->n)
		side.last = cells->n - 1;
	if (side.first == side.last) {
		side.in_first = b - a;
		return side;
	}
	side.in_first = ONE - (a & (ONE - 1));
	side.in_last = b - ((int64_t)side.last << ONE_BITS);
	return side;
}

static int64_t cover(const struct side *side, unsigned i)
{
	return i == side->first ? side->in_first : i == side->last ? side->in_last : ONE;
}

static void add_small(struct picture_canvas *canvas, const struct side *x, const struct side *y,
		      int64_t weight)
{
	for (unsigned j = y->first; j <= y->last; j++) {
		uint64_t *row = canvas->areas + (size_t)j * canvas->times.n;
		int64_t height = cover(y, j) * weight;
		for (unsigned i = x->first; i <= x->last; i++)
			row[i] += (uint64_t)(cover(x, i) * height);
	}
}

/* By how much the cover changes at up to four cells. Returns how many. */
static unsigned changes_of(const struct side *side, unsigned at[4], int64_t by[4])
{
	at[0] = side->first;
	by[0] = side->in_first;
	at[1] = side->first + 1;
	if (side->first == side->last) {
		by[1] = -side->in_first;
		return 2;
	}
	by[1] = ONE - side->in_first;
	at[2] = side->last;
	by[2] = side->in_last - ONE;
	at[3] = side->last + 1;
	by[3] = -side->in_last;
	return 4;
}

static void add_large(struct picture_canvas *canvas, const struct side *x, const struct side *y,
		      int64_t weight)
{
	unsigned x_at[4], y_at[4];
	int64_t x_by[4], y_by[4];
	unsigned n_x = changes_of(x, x_at, x_by);
	unsigned n_y = changes_of(y, y_at, y_by);

	for (unsigned j = 0; j < n_y; j++) {
		uint64_t *row = canvas->changes + (size_t)y_at[j] * (canvas->times.n + 2u);
		for (unsigned i = 0; i < n_x; i++)
			row[x_at[i]] += (uint64_t)(x_by[i] * y_by[j] * weight);
	}
}

void picture_canvas_block(struct picture_canvas *canvas, const struct picture_area *area)
{
	const struct picture_cells *times = &canvas->times, *places = &canvas->places;

	if (area->from_ns >= times->to || area->to_ns <= times->from || area->low >= places->to ||
	    area->high <= places->from)
		return;
	struct side x = side_of(times, area->from_ns, area->to_ns);
	struct side y = side_of(places, area->low, area->high);
	if (x.last - x.first <= SMALL && y.last - y.first <= SMALL)
		add_small(canvas, &x, &y, area->weight);
	else
		add_large(canvas, &x, &y, area->weight);
}

/* ---- The picture ---- */

uint8_t picture_share(double share)
{
	if (share <= 0)
		return 0;
	if (share > 1 - 1.0 / 65536)
		return 255;
	double value = share * 255 + 0.5;
	return value < 1 ? 1 : value > 254 ? 254 : (uint8_t)value;
}

void picture_canvas_settle_occupancy(struct picture_canvas *canvas)
{
	unsigned width = canvas->times.n, n_rows = canvas->places.n;
	uint8_t *occupancy =
		canvas->picture->occupancy + (size_t)canvas->first_row * canvas->times.n;

	uint64_t last = 0; /* most cells are as the one before */
	uint8_t share = 0;

	for (unsigned j = 0; j < n_rows; j++) {
		uint64_t *row = canvas->changes + (size_t)j * (width + 2);
		uint64_t sum = 0;
		for (unsigned i = 0; i < width; i++) {
			size_t cell = (size_t)j * width + i;
			if (j > 0)
				row[i] += row[(int64_t)i - (int64_t)(width + 2)];
			sum += row[i];
			uint64_t area = sum + canvas->areas[cell];
			if (area != last)
				share = picture_share((double)(int64_t)area / ONE / ONE);
			last = area;
			occupancy[cell] = share;
		}
	}
}

static void settle_cell(struct picture_canvas *canvas, size_t cell)
{
	struct picture *picture = canvas->picture;
	size_t at = cell + (size_t)canvas->first_row * canvas->times.n;
	const uint32_t *counts = canvas->counts + cell * canvas->n_categories;
	uint32_t sum = 0;
	unsigned most = 0;

	for (unsigned i = 0; i < canvas->n_categories; i++) {
		sum += counts[i];
		picture->categories[i].n += counts[i];
		most = counts[i] > counts[most] ? i : most;
	}
	picture->counts[at] = sum;
	picture->category[at] = (uint8_t)most;
}

/* Rows without any touch, which are many, are as they were allocated. */
void picture_canvas_settle_counts(struct picture_canvas *canvas)
{
	size_t width = canvas->times.n;

	for (unsigned row = 0; row < canvas->places.n && canvas->n_categories > 0; row++) {
		for (size_t i = 0; i < width && canvas->is_touched[row]; i++)
			settle_cell(canvas, row * width + i);
	}
}
