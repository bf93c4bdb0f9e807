#include "store/heatmap/draw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/columns/column.h"

/* ---- Blocks ---- */

#define BIT(column) (1u << (column))
#define BLOCK_PLACES                                                                               \
	(BIT(PICTURE_BLOCK_ALLOCATED) | BIT(PICTURE_BLOCK_ADDRESS) | BIT(PICTURE_BLOCK_SIZE) |     \
	 BIT(PICTURE_BLOCK_LIFE))
#define BLOCK_NAMES (BIT(PICTURE_BLOCK_ID) | BIT(PICTURE_BLOCK_SITE))

/* Least size and life of what is drawn by itself: one cell high, two wide. */
struct least {
	double size;
	double life_ns;
};

static struct least least_of(const struct picture_request *request)
{
	return (struct least){
		.size = (double)(request->high - request->low) / request->height,
		.life_ns = 2.0 * (double)(request->to_ns - request->from_ns) / request->width,
	};
}

/* How much of a picture a block covers. */
static double area_of(const struct picture_block *block, const struct picture_job *job)
{
	const struct picture_request *request = &job->picture->request;
	int64_t to_ns = block->to_ns == INT64_MAX ? job->process->end_ns : block->to_ns;
	int64_t from_ns = block->from_ns > request->from_ns ? block->from_ns : request->from_ns;
	uint64_t low = block->y > request->low ? block->y : request->low;
	uint64_t high = block->y + block->size;

	to_ns = to_ns < request->to_ns ? to_ns : request->to_ns;
	high = high < request->high ? high : request->high;
	return (double)((uint64_t)to_ns - (uint64_t)from_ns) * (double)(high - low);
}

static int compare(const void *a, const void *b, void *context)
{
	const struct picture_block *left = a, *right = b;
	double left_area = area_of(left, context), right_area = area_of(right, context);

	if (left_area != right_area)
		return left_area > right_area ? -1 : 1;
	return left->id < right->id ? -1 : left->id > right->id;
}

/* The largest first, and those beyond what there is room for go. */
void picture_blocks_settle(struct picture_job *job)
{
	struct picture *picture = job->picture;

	if (picture->n_drawn_blocks > 1)
		qsort_r(picture->blocks, picture->n_drawn_blocks, sizeof(*picture->blocks), compare,
			job);
	if (picture->n_drawn_blocks < PICTURE_MAX_BLOCKS)
		return;
	picture->n_drawn_blocks = PICTURE_MAX_BLOCKS;
	job->least_area = area_of(&picture->blocks[PICTURE_MAX_BLOCKS - 1], job);
}

static void keep(struct picture_job *job, const struct picture_block *block)
{
	struct picture *picture = job->picture;

	if (job->least_area > 0 && area_of(block, job) < job->least_area)
		return;
	if (picture->n_drawn_blocks == PICTURE_BLOCKS_KEPT)
		picture_blocks_settle(job);
	picture->blocks[picture->n_drawn_blocks++] = *block;
}

/* What is done with the blocks of a part. */
struct use {
	unsigned weight; /* 0: they are in the grid already */
	bool is_drawn; /* some may be large enough */
	struct least least;
};

static void use_block(struct picture_job *job, const struct use *use,
		      const struct picture_area *area, uint32_t i)
{
	const struct picture_columns *columns = &job->store->columns;
	double size = (double)(area->high - area->low);
	bool is_new = area->low >= job->slice.low || job->is_first_slice;

	if (use->weight) {
		picture_canvas_block(&job->canvas, area);
		job->picture->n_blocks += is_new ? use->weight : 0;
	}
	if (!use->is_drawn || !is_new || size < use->least.size ||
	    (double)(area->to_ns - area->from_ns) < use->least.life_ns)
		return;
	bool is_freed = columns->values[PICTURE_BLOCK_LIFE][i] != CHUNK_NULL;
	const struct picture_block block = {
		.id = columns->values[PICTURE_BLOCK_ID][i],
		.from_ns = picture_ns(area->from_ns),
		.to_ns = is_freed ? picture_ns(area->to_ns) : INT64_MAX,
		.y = area->low,
		.size = area->high - area->low,
		.site = columns->values[PICTURE_BLOCK_SITE][i],
	};
	keep(job, &block);
}

/*
 * A block that was not freed lives as long as its process, and each for 1 ns at least, and not for
 * ever.
 */
static uint64_t end_of(const struct picture_process *process, int64_t allocated_ns, int64_t life_ns)
{
	if (life_ns == CHUNK_NULL)
		life_ns = (int64_t)((uint64_t)process->end_ns - (uint64_t)allocated_ns);
	uint64_t begin = picture_time(allocated_ns);
	uint64_t end = begin + (life_ns > 0 ? (uint64_t)life_ns : 1);
	return end > begin ? end : UINT64_MAX;
}

static void use_part(struct picture_job *job, const struct use *use)
{
	const struct picture_columns *columns = &job->store->columns;
	struct picture_placer placer = picture_placer_of(job->process);

	for (uint32_t i = 0; i < columns->n; i++) {
		int64_t allocated_ns = columns->values[PICTURE_BLOCK_ALLOCATED][i];
		uint64_t low = picture_placer_at(
			&placer, (uint64_t)columns->values[PICTURE_BLOCK_ADDRESS][i]);
		struct picture_area area = {
			.from_ns = picture_time(allocated_ns),
			.to_ns = end_of(job->process, allocated_ns,
					columns->values[PICTURE_BLOCK_LIFE][i]),
			.low = low,
			.high = low + (uint64_t)columns->values[PICTURE_BLOCK_SIZE][i],
			.weight = use->weight,
		};
		if (area.high < low || area.high > job->process->height)
			area.high = job->process->height;
		if (area.from_ns < job->canvas.times.to && area.to_ns > job->canvas.times.from &&
		    area.low < job->canvas.places.to && area.high > job->canvas.places.from)
			use_block(job, use, &area, i);
	}
}

/* Blocks that are not looked at one by one: those of a part that should lie in the slice. */
static double share_of(const struct picture_part *part, const struct picture_request *request)
{
	uint64_t from = picture_time(request->from_ns), to = picture_time(request->to_ns);
	uint64_t low = request->low, high = request->high;
	double all = (double)(part->to - part->from) * (double)(part->high - part->low);

	from = part->from > from ? part->from : from;
	to = part->to < to ? part->to : to;
	low = part->low > low ? part->low : low;
	high = part->high < high ? part->high : high;
	return all > 0 && to > from && high > low ? (double)(to - from) * (double)(high - low) / all
						  : 0;
}

static int read_part(struct picture_job *job, const struct picture_part *part, struct use *use)
{
	struct picture_look look = {
		.stride = use->is_drawn || job->block_stride == 0 ? 1 : job->block_stride,
		.wanted = use->is_drawn ? BLOCK_PLACES | BLOCK_NAMES : BLOCK_PLACES,
		.within = &job->slice,
	};
	int r = picture_store_read(job->store, job->process, part, &look);

	use->weight = job->block_stride == 0 ? 0 : picture_weight(part, look.stride);
	if (r > 0)
		use_part(job, use);
	return r;
}

int picture_blocks_draw(struct picture_job *job)
{
	const struct picture_part *part = NULL;
	struct use use = { .least = least_of(&job->picture->request) };
	int r = 0;

	while (r >= 0 &&
	       (part = picture_part_next(job->process, part, PICTURE_KIND_BLOCKS, &job->slice))) {
		use.is_drawn = (double)part->max_size >= use.least.size &&
			       (double)part->max_life_ns >= use.least.life_ns;
		if (job->block_stride == 0)
			job->picture->n_blocks += (uint64_t)(part->n * share_of(part, &job->slice));
		if (job->block_stride > 0 || use.is_drawn)
			r = read_part(job, part, &use);
	}
	return r < 0 ? r : 0;
}

/* ---- Touches ---- */

static const enum picture_touch_column columns_by[PICTURE_BY_COUNT] = {
	[PICTURE_BY_DIRECTION] = PICTURE_TOUCH_DIRECTION,
	[PICTURE_BY_THREAD] = PICTURE_TOUCH_THREAD,
	[PICTURE_BY_LEVEL] = PICTURE_TOUCH_LEVEL,
	[PICTURE_BY_LATENCY] = PICTURE_TOUCH_LATENCY,
	[PICTURE_BY_SOURCE] = PICTURE_TOUCH_SOURCE,
};

#define TOUCH_PLACES                                                                               \
	(BIT(PICTURE_TOUCH_TIME) | BIT(PICTURE_TOUCH_ADDRESS) | BIT(PICTURE_TOUCH_DIRECTION))

/* Put what was read into cells. Returns how many touches lay in the slice. */
static uint64_t count_part(struct picture_job *job)
{
	const struct picture_columns *columns = &job->store->columns;
	const int64_t *colours = columns->values[columns_by[job->palette.by]];
	const int64_t *sources = columns->values[PICTURE_TOUCH_SOURCE];
	struct picture_canvas *canvas = &job->canvas;
	struct picture_placer placer = picture_placer_of(job->process);
	int64_t last_colour = colours[0], source_id = job->slice.source_id;
	unsigned category = picture_palette_find(&job->palette, last_colour);
	uint64_t n = 0;

	for (uint32_t i = 0; i < columns->n; i++) {
		uint64_t time = picture_time(columns->values[PICTURE_TOUCH_TIME][i]);
		uint64_t y = picture_placer_at(&placer,
					       (uint64_t)columns->values[PICTURE_TOUCH_ADDRESS][i]);
		if (time < canvas->times.from || time >= canvas->times.to ||
		    y < canvas->places.from || y >= canvas->places.to ||
		    (source_id && sources[i] != source_id))
			continue;
		if (colours[i] != last_colour) {
			last_colour = colours[i];
			category = picture_palette_find(&job->palette, last_colour);
		}
		picture_canvas_count(canvas, picture_cell_of(&canvas->places, y),
				     picture_cell_of(&canvas->times, time), category, 1);
		n++;
	}
	return n;
}

int picture_touches_count(struct picture_job *job)
{
	const struct picture_look look = {
		.stride = job->touch_stride,
		.wanted = TOUCH_PLACES | BIT(columns_by[job->palette.by]) |
			  (job->slice.source_id ? BIT(PICTURE_TOUCH_SOURCE) : 0),
		.within = &job->slice,
	};
	const struct picture_part *part = NULL;
	int r = 0;

	while (r >= 0 &&
	       (part = picture_part_next(job->process, part, PICTURE_KIND_TOUCHES, &job->slice))) {
		r = picture_store_read(job->store, job->process, part, &look);
		if (r > 0)
			job->picture->n_touches +=
				count_part(job) * picture_weight(part, job->touch_stride);
	}
	return r < 0 ? r : 0;
}

/* ---- One by one ---- */

static void list_part(struct picture_job *job)
{
	const struct picture_columns *columns = &job->store->columns;
	const struct picture_request *request = &job->slice;
	struct picture_placer placer = picture_placer_of(job->process);
	struct picture *picture = job->picture;

	for (uint32_t i = 0; i < columns->n && picture->n_points < PICTURE_MAX_POINTS; i++) {
		int64_t values[PICTURE_COLUMNS];
		for (unsigned c = 0; c < PICTURE_TOUCH_COLUMNS; c++)
			values[c] = columns->values[c][i];
		uint64_t y = picture_placer_at(&placer, (uint64_t)values[PICTURE_TOUCH_ADDRESS]);
		int64_t time_ns = values[PICTURE_TOUCH_TIME];
		if (time_ns < request->from_ns || time_ns >= request->to_ns || y < request->low ||
		    y >= request->high ||
		    (request->source_id && values[PICTURE_TOUCH_SOURCE] != request->source_id))
			continue;
		picture->points[picture->n_points++] = (struct picture_point){
			.sample = values[PICTURE_TOUCH_SAMPLE],
			.time_ns = time_ns,
			.y = y,
			.thread = values[PICTURE_TOUCH_THREAD],
			.site = values[PICTURE_TOUCH_SITE],
			.category = (uint8_t)picture_palette_find(
				&job->palette, values[columns_by[job->palette.by]]),
			.is_write = values[PICTURE_TOUCH_DIRECTION] >= PICTURE_UNKNOWN
					    ? -1
					    : (int8_t)values[PICTURE_TOUCH_DIRECTION],
		};
	}
}

int picture_touches_list(struct picture_job *job)
{
	const struct picture_look look = { .stride = 1,
					   .wanted = BIT(PICTURE_TOUCH_COLUMNS) - 1,
					   .within = &job->slice };
	const struct picture_part *part = NULL;
	int r = 0;

	while (r >= 0 && job->picture->n_points < job->picture->n_touches &&
	       (part = picture_part_next(job->process, part, PICTURE_KIND_TOUCHES, &job->slice))) {
		r = picture_store_read(job->store, job->process, part, &look);
		if (r > 0)
			list_part(job);
	}
	return r < 0 ? r : 0;
}
