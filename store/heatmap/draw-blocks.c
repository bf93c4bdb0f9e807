#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/columns/column.h"
#include "store/heatmap/draw-job.h"

#define BIT(column) (1u << (column))
#define PLACES                                                                                     \
	(BIT(PICTURE_BLOCK_ALLOCATED) | BIT(PICTURE_BLOCK_ADDRESS) | BIT(PICTURE_BLOCK_SIZE) |     \
	 BIT(PICTURE_BLOCK_LIFE))
#define NAMES (BIT(PICTURE_BLOCK_ID) | BIT(PICTURE_BLOCK_SITE))

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
static void sort(struct picture_job *job)
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

void picture_blocks_settle(struct picture_job *job)
{
	sort(job);
}

static void keep(struct picture_job *job, const struct picture_block *block)
{
	struct picture *picture = job->picture;

	if (job->least_area > 0 && area_of(block, job) < job->least_area)
		return;
	if (picture->n_drawn_blocks == PICTURE_BLOCKS_KEPT)
		sort(job);
	picture->blocks[picture->n_drawn_blocks++] = *block;
}

/* What is done with the blocks of a piece. */
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

static void use_piece(struct picture_job *job, const struct use *use)
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

static int use_part(struct picture_job *job, const struct picture_part *part, struct use *use)
{
	unsigned stride = use->is_drawn || job->block_stride == 0 ? 1 : job->block_stride;
	unsigned n_pieces = picture_n_pieces(part, stride);

	use->weight = job->block_stride == 0 ? 0 : picture_weight(part, stride);
	for (unsigned piece = 0; piece < n_pieces; piece++) {
		int r = picture_store_fetch(job->store, part, piece,
					    use->is_drawn ? PLACES | NAMES : PLACES);
		if (r < 0)
			return r;
		if (r > 0)
			use_piece(job, use);
	}
	return 0;
}

int picture_blocks_draw(struct picture_job *job)
{
	const struct picture_process *process = job->process;
	struct use use = { .least = least_of(&job->picture->request) };

	for (size_t i = 0; i < process->n_parts; i++) {
		const struct picture_part *part = &process->parts[i];
		if (!part->is_blocks || !picture_part_meets(part, &job->slice))
			continue;
		use.is_drawn = (double)part->max_size >= use.least.size &&
			       (double)part->max_life_ns >= use.least.life_ns;
		if (job->block_stride == 0)
			job->picture->n_blocks += (uint64_t)(part->n * share_of(part, &job->slice));
		if (job->block_stride == 0 && !use.is_drawn)
			continue;
		int r = use_part(job, part, &use);
		if (r < 0)
			return r;
	}
	return 0;
}
