#pragma once
/* A picture while it is made; shared by the files of the engine. */
#include "store/heatmap/cells.h"
#include "store/heatmap/lookup.h"

/* Items that one picture may look at one by one: what takes about a tenth of a second. */
#define PICTURE_BUDGET 1600000u

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

/* Pieces of a part that a stride looks at, and for how many each item stands. */
static inline unsigned picture_n_pieces(const struct picture_part *part, unsigned stride)
{
	return part->n <= PICTURE_SMALL_PART ? 1 : stride == 1 ? 3 : stride == 4 ? 2 : 1;
}

static inline unsigned picture_weight(const struct picture_part *part, unsigned stride)
{
	return part->n <= PICTURE_SMALL_PART ? 1 : stride;
}

/* Touches, or blocks, of the slice into the canvas. Return 0, -ENOMEM, -EPROTO. */
int picture_touches_count(struct picture_job *job);
int picture_blocks_draw(struct picture_job *job);

/* All touches one by one, when there are few. */
int picture_touches_list(struct picture_job *job);
/* The drawn blocks in their order. */
void picture_blocks_settle(struct picture_job *job);
