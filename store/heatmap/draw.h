#pragma once
/* A picture while it is made, from points and from the grid; shared by the files of the engine. */
#include "store/heatmap/cells.h"
#include "store/heatmap/lookup.h"

/* Touches and blocks that a picture may look at one by one: about a tenth of a second. */
#define PICTURE_MOST_TOUCHES 1600000u
#define PICTURE_MOST_BLOCKS  800000u

/* What touches are coloured by: items and their places among the picture's categories. */
struct picture_palette {
	enum picture_by by;
	size_t n;
	int64_t items[PICTURE_MAX_CATEGORIES];
	unsigned others; /* what is none of them */
};

struct picture_job {
	struct picture_store *store;
	const struct picture_process *process;
	struct picture *picture;
	struct picture_palette palette;
	struct picture_canvas canvas; /* of the slice of rows at hand */
	struct picture_request slice; /* the request, with these rows only */
	bool is_first_slice;
	unsigned touch_stride; /* 0: they are counted from the grid */
	unsigned block_stride;
	double least_area; /* of the drawn blocks, once there are enough; 0: there is room */
};

/* Drawn blocks that are kept until the smaller half of them goes. */
#define PICTURE_BLOCKS_KEPT (2u * PICTURE_MAX_BLOCKS)

/* Fill in the picture's categories. Returns 0, -ENOMEM, -EPROTO. */
int picture_palette_read(struct picture_job *job);

static inline unsigned picture_palette_find(const struct picture_palette *palette, int64_t item)
{
	for (unsigned i = 0; i < palette->n; i++) {
		if (palette->items[i] == item)
			return i;
	}
	return palette->others;
}

/* Touches, or blocks, of the slice into the canvas. Return 0, -ENOMEM, -EPROTO. */
int picture_touches_count(struct picture_job *job);
int picture_blocks_draw(struct picture_job *job);

/* All touches one by one, when there are few. */
int picture_touches_list(struct picture_job *job);

/* The drawn blocks in their order; those beyond what there is room for go. */
void picture_blocks_settle(struct picture_job *job);

/* ---- The grid ---- */

/*
 * Counts of a whole process in a grid of cells over both axes, for pictures of more than can be
 * looked at one by one. A tile is 64 x 64 cells, the rows with low addresses first, as one column
 * of store/columns/column.h: how many touches of a category each cell has, or how much of it lay in
 * blocks, 255 being all.
 */
#define PICTURE_GRID_COLUMNS 2048u
#define PICTURE_GRID_ROWS    1024u
#define PICTURE_TILE	     64u /* cells each way */
#define PICTURE_TILE_CELLS   (PICTURE_TILE * PICTURE_TILE)
#define PICTURE_TILE_COLUMNS (PICTURE_GRID_COLUMNS / PICTURE_TILE)
#define PICTURE_TILE_ROWS    (PICTURE_GRID_ROWS / PICTURE_TILE)
#define PICTURE_BLOCKS	     "blocks" /* picture_tile.colour of blocks */

/* Its axes for a process. Returns 0 or -ENOMEM; finish both in any case. */
int picture_grid_cells(const struct picture_process *process, struct picture_cells *columns,
		       struct picture_cells *rows);

struct db;

/*
 * Write the grids of a run's processes that are large enough for one, from the frames. Returns 0
 * or a negative errno.
 */
int picture_grid_write(struct db *db, int64_t run_id);

/*
 * Touches of the slice into the canvas, or occupancy into the picture. Return 0, -ENOMEM, -EPROTO.
 */
int picture_grid_count(struct picture_job *job);
int picture_grid_occupy(struct picture_job *job);
