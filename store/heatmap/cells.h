#pragma once
/*
 * Cells that touches and blocks are put into, one by one or as counts of many: what a picture is
 * made of, whatever its touches and blocks were read from.
 */
#include <stdbool.h>
#include <stdint.h>

#include "store/heatmap/heatmap.h"

/* n cells over an axis: cell i holds what is not below edges[i] and below edges[i + 1]. */
struct picture_cells {
	uint64_t from;
	uint64_t to;
	unsigned n;
	double per_unit; /* cells */
	uint64_t *edges; /* n + 1, from `from` on */
};

/* Returns 0, -EINVAL, -ENOMEM. */
int picture_cells_init(struct picture_cells *cells, uint64_t from, uint64_t to, unsigned n);
void picture_cells_finish(struct picture_cells *cells);

/* The cell of a place that is not below from, and below to. */
static inline unsigned picture_cell_of(const struct picture_cells *cells, uint64_t place)
{
	uint64_t offset = place - cells->from;
	unsigned i = (unsigned)((double)offset * cells->per_unit);

	if (i >= cells->n)
		i = cells->n - 1;
	while (offset < cells->edges[i])
		i--;
	while (offset >= cells->edges[i + 1])
		i++;
	return i;
}

/* Rows first_row to before last_row of a picture. */
struct picture_canvas {
	struct picture *picture;
	struct picture_cells times;
	struct picture_cells places; /* of these rows only */
	unsigned first_row;
	unsigned n_categories;
	uint32_t *counts; /* by cell and category */
	bool *is_touched; /* by row: it has counts */
	/*
	 * What thousands of blocks over each other add up to is damage, and may be any number:
	 * unsigned.
	 */
	uint64_t *areas; /* by cell: of small blocks, in 2^-48 of a cell */
	uint64_t *changes; /* of large ones: from cell to cell, in both directions */
};

/* The request of the picture is filled in, and its arrays are there. 0, -EINVAL or -ENOMEM. */
int picture_canvas_init(struct picture_canvas *canvas, struct picture *picture, unsigned first_row,
			unsigned last_row);
void picture_canvas_finish(struct picture_canvas *canvas);

/* n touches in a cell of the canvas (its first row is row 0). */
static inline void picture_canvas_count(struct picture_canvas *canvas, unsigned row,
					unsigned column, unsigned category, uint32_t n)
{
	size_t cell = (size_t)row * canvas->times.n + column;

	canvas->counts[cell * canvas->n_categories + category] += n;
	canvas->is_touched[row] = true;
}

/* A rectangle that may reach beyond the canvas, as so many of its kind (its weight). */
struct picture_area {
	uint64_t from_ns;
	uint64_t to_ns;
	uint64_t low;
	uint64_t high;
	unsigned weight;
};
void picture_canvas_block(struct picture_canvas *canvas, const struct picture_area *area);

/* Write counts and categories, or how much of each cell lay in blocks, into the picture. */
void picture_canvas_settle_counts(struct picture_canvas *canvas);
void picture_canvas_settle_occupancy(struct picture_canvas *canvas);

/* A share of a cell in 1/255: 0 is none, 255 all of it. */
uint8_t picture_share(double share);
