#pragma once
/*
 * Counts of a whole process in a grid of cells over both axes, for pictures of more than can be
 * looked at one by one. A tile is 64 x 64 cells, the rows with low addresses first, as one column
 * of store/columns/column.h: how many touches of a category each cell has, or how much of it lay in
 * blocks, 255 being all.
 */
#include <stdint.h>

#define PICTURE_GRID_COLUMNS 2048u
#define PICTURE_GRID_ROWS    1024u
#define PICTURE_TILE	     64u /* cells each way */
#define PICTURE_TILE_CELLS   (PICTURE_TILE * PICTURE_TILE)
#define PICTURE_TILE_COLUMNS (PICTURE_GRID_COLUMNS / PICTURE_TILE)
#define PICTURE_TILE_ROWS    (PICTURE_GRID_ROWS / PICTURE_TILE)
#define PICTURE_BLOCKS	     "blocks" /* picture_tile.colour of blocks */

struct db;

/*
 * Write the grids of a run's processes that are large enough for one, from their parts. Returns 0
 * or a negative errno.
 */
int picture_grid_write(struct db *db, int64_t run_id);

struct picture_job;

/*
 * Touches of the slice into the canvas, or occupancy into the picture. Return 0, -ENOMEM, -EPROTO.
 */
int picture_grid_count(struct picture_job *job);
int picture_grid_occupy(struct picture_job *job);
