#include <errno.h>
#include <string.h>

#include "store/heatmap/draw-job.h"

static const enum picture_touch_column columns_by[PICTURE_BY_COUNT] = {
	[PICTURE_BY_DIRECTION] = PICTURE_TOUCH_DIRECTION,
	[PICTURE_BY_THREAD] = PICTURE_TOUCH_THREAD,
	[PICTURE_BY_LEVEL] = PICTURE_TOUCH_LEVEL,
	[PICTURE_BY_LATENCY] = PICTURE_TOUCH_LATENCY,
	[PICTURE_BY_SOURCE] = PICTURE_TOUCH_SOURCE,
};

#define BIT(column) (1u << (column))
/* clang-format off */
#define PLACES (BIT(PICTURE_TOUCH_TIME) | BIT(PICTURE_TOUCH_ADDRESS) | BIT(PICTURE_TOUCH_DIRECTION))
/* clang-format on */

/* Run through the parts of touches that meet the slice. */
static const struct picture_part *next_part(const struct picture_job *job,
					    const struct picture_part *part)
{
	const struct picture_process *process = job->process;
	size_t i = part ? (size_t)(part - process->parts) + 1 : 0;

	for (; i < process->n_parts; i++) {
		part = &process->parts[i];
		if (!part->is_blocks && picture_part_meets(part, &job->slice))
			return part;
	}
	return NULL;
}

/* Put what was fetched into cells. Returns how many touches lay in the slice. */
static uint64_t count_piece(struct picture_job *job, const struct picture_part *part)
{
	const struct picture_columns *columns = &job->store->columns;
	const int64_t *colours = columns->values[columns_by[job->palette.by]];
	const int64_t *sources = columns->values[PICTURE_TOUCH_SOURCE];
	const int64_t *directions = columns->values[PICTURE_TOUCH_DIRECTION];
	struct picture_canvas *canvas = &job->canvas;
	struct picture_placer placer = picture_placer_of(job->process);
	int64_t last_colour = colours[0], source_id = job->slice.source_id;
	unsigned category = picture_palette_find(&job->palette, last_colour);
	uint64_t n = 0;

	(void)part;
	for (uint32_t i = 0; i < columns->n; i++) {
		uint64_t time = picture_time(columns->values[PICTURE_TOUCH_TIME][i]);
		uint64_t y = picture_placer_at(&placer,
					       (uint64_t)columns->values[PICTURE_TOUCH_ADDRESS][i]);
		if (time < canvas->times.from || time >= canvas->times.to ||
		    y < canvas->places.from || y >= canvas->places.to ||
		    directions[i] == PICTURE_TOUCH_NO_COUNT ||
		    (source_id && sources[i] != source_id))
			continue;
		if (colours[i] != last_colour) {
			last_colour = colours[i];
			category = picture_palette_find(&job->palette, last_colour);
		}
		size_t row = picture_cell_of(&canvas->places, y);
		picture_canvas_count(canvas,
				     row * canvas->times.n + picture_cell_of(&canvas->times, time),
				     category, 1);
		n++;
	}
	return n;
}

int picture_touches_count(struct picture_job *job)
{
	unsigned wanted = PLACES | BIT(columns_by[job->palette.by]);
	const struct picture_part *part = NULL;

	if (job->slice.source_id)
		wanted |= BIT(PICTURE_TOUCH_SOURCE);
	while ((part = next_part(job, part))) {
		unsigned n_pieces = picture_n_pieces(part, job->touch_stride);
		for (unsigned piece = 0; piece < n_pieces; piece++) {
			int r = picture_store_fetch(job->store, part, piece, wanted);
			if (r < 0)
				return r;
			if (r > 0)
				job->picture->n_touches += count_piece(job, part) *
							   picture_weight(part, job->touch_stride);
		}
	}
	return 0;
}

/* ---- One by one ---- */

static void list_piece(struct picture_job *job)
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
		    values[PICTURE_TOUCH_DIRECTION] == PICTURE_TOUCH_NO_COUNT ||
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
			.is_write = values[PICTURE_TOUCH_DIRECTION] == 2
					    ? -1
					    : (int8_t)values[PICTURE_TOUCH_DIRECTION],
		};
	}
}

int picture_touches_list(struct picture_job *job)
{
	const struct picture_part *part = NULL;

	while ((part = next_part(job, part)) && job->picture->n_points < job->picture->n_touches) {
		for (unsigned piece = 0; piece < picture_n_pieces(part, 1); piece++) {
			int r = picture_store_fetch(job->store, part, piece,
						    (1u << PICTURE_TOUCH_COLUMNS) - 1);
			if (r < 0)
				return r;
			if (r > 0)
				list_piece(job);
		}
	}
	return 0;
}
