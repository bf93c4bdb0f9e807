#include "analyze/picture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/picture-canvas.h"
#include "analyze/picture-store.h"
#include "analyze/statement.h"
#include "common/cleanup.h"

struct picture *picture_free(struct picture *picture)
{
	if (!picture)
		return NULL;
	free(picture->counts);
	free(picture->category);
	free(picture->occupancy);
	free(picture->blocks);
	free(picture->points);
	free(picture);
	return NULL;
}

static void cleanup_picture(struct picture **picture)
{
	*picture = picture_free(*picture);
}
#define auto_picture __attribute__((cleanup(cleanup_picture)))

/* Fill in what was left open, and clip to what there is. Returns 0 or -EINVAL. */
static int settle_request(struct picture_request *request, const struct picture_process *process)
{
	request->process_id = process->process_id;
	if (request->width < 1 || request->width > PICTURE_MAX_CELLS || request->height < 1 ||
	    request->height > PICTURE_MAX_CELLS || request->by >= PICTURE_BY_COUNT)
		return -EINVAL;
	if (request->to_ns == 0) {
		request->from_ns = process->from_ns;
		request->to_ns = process->to_ns;
	}
	if (request->high == 0) {
		request->low = 0;
		request->high = process->height;
	}
	if (request->from_ns < process->from_ns)
		request->from_ns = process->from_ns;
	if (!request->is_whole && request->to_ns > process->to_ns)
		request->to_ns = process->to_ns;
	if (!request->is_whole && request->high > process->height)
		request->high = process->height;
	return request->from_ns < request->to_ns && request->low < request->high ? 0 : -EINVAL;
}

static int allocate(struct picture *picture)
{
	size_t n = (size_t)picture->request.width * picture->request.height;

	picture->stride = 1;
	picture->counts = calloc(n, sizeof(*picture->counts));
	picture->category = calloc(n, 1);
	picture->occupancy = calloc(n, 1);
	picture->blocks = calloc(PICTURE_MAX_BLOCKS, sizeof(*picture->blocks));
	picture->points = calloc(PICTURE_MAX_POINTS, sizeof(*picture->points));
	return picture->counts && picture->category && picture->occupancy && picture->blocks &&
			       picture->points
		       ? 0
		       : -ENOMEM;
}

static void set_categories(struct picture *picture)
{
	static const char *const names[] = { "read", "write", "unknown" };

	picture->n_categories = 3;
	for (int i = 0; i < 3; i++) {
		picture->categories[i].id = i < 2 ? i : -1;
		snprintf(picture->categories[i].name, sizeof(picture->categories[i].name), "%s",
			 names[i]);
	}
}

static int read_touches(struct picture_store *store, const struct picture_process *process,
			struct picture_canvas *canvas)
{
	struct picture *picture = canvas->picture;
	const struct picture_request *request = &picture->request;
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(
		store->db,
		"SELECT sample.id, time_ns, address, coalesce(is_write, -1), coalesce(thread_id, 0)"
		" FROM touch JOIN sample ON sample.id = sample_id WHERE process_id = ?1 AND address IS NOT NULL"
		" AND time_ns >= ?2 AND time_ns < ?3 AND (?4 = 0 OR source_id = ?4)",
		&row);

	if (r < 0)
		return -EPROTO;
	statement_integer(row, 1, request->process_id);
	statement_integer(row, 2, request->from_ns);
	statement_integer(row, 3, request->to_ns);
	statement_integer(row, 4, request->source_id);
	while ((r = statement_step(row)) > 0) {
		uint64_t y, time = picture_time(sqlite3_column_int64(row, 1));
		int is_write = sqlite3_column_int(row, 3);
		unsigned category = is_write < 0 ? 2 : is_write > 0;
		if (!picture_place(process->bands, process->n_bands,
				   (uint64_t)sqlite3_column_int64(row, 2), &y) ||
		    y < request->low || y >= request->high)
			continue;
		picture_canvas_count(canvas,
				     (size_t)picture_cell_of(&canvas->places, y) * request->width +
					     picture_cell_of(&canvas->times, time),
				     category, 1);
		if (picture->n_touches++ >= PICTURE_MAX_POINTS)
			continue;
		picture->points[picture->n_points++] = (struct picture_point){
			.sample = sqlite3_column_int64(row, 0),
			.time_ns = sqlite3_column_int64(row, 1),
			.y = y,
			.thread = sqlite3_column_int64(row, 4),
			.category = (uint8_t)category,
			.is_write = (int8_t)is_write,
		};
	}
	if (picture->n_touches > PICTURE_MAX_POINTS)
		picture->n_points = 0;
	return r < 0 ? -EPROTO : 0;
}

static int read_blocks(struct picture_store *store, const struct picture_process *process,
		       struct picture_canvas *canvas)
{
	struct picture *picture = canvas->picture;
	const struct picture_request *request = &picture->request;
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(
		store->db,
		"SELECT id, address, max(size, 1), birth_ns, coalesce(death_ns, 9223372036854775807),"
		" coalesce(stack_id, 0) FROM allocation WHERE process_id = ?1",
		&row);

	if (r < 0)
		return -EPROTO;
	statement_integer(row, 1, request->process_id);
	while ((r = statement_step(row)) > 0) {
		struct picture_block block = {
			.id = sqlite3_column_int64(row, 0),
			.from_ns = sqlite3_column_int64(row, 3),
			.to_ns = sqlite3_column_int64(row, 4),
			.size = (uint64_t)sqlite3_column_int64(row, 2),
			.site = sqlite3_column_int64(row, 5),
		};
		int64_t to_ns = block.to_ns == INT64_MAX ? process->end_ns : block.to_ns;
		if (to_ns <= block.from_ns)
			to_ns = block.from_ns + 1;
		if (!picture_place(process->bands, process->n_bands,
				   (uint64_t)sqlite3_column_int64(row, 1), &block.y) ||
		    block.from_ns >= request->to_ns || to_ns <= request->from_ns ||
		    block.y >= request->high || block.y + block.size <= request->low)
			continue;
		struct picture_area area = {
			.from_ns = picture_time(block.from_ns),
			.to_ns = picture_time(to_ns),
			.low = block.y,
			.high = block.y + block.size,
			.weight = 1,
		};
		picture->n_blocks++;
		picture_canvas_block(canvas, &area);
		if ((double)(to_ns - block.from_ns) * canvas->times.per_unit >= 2 &&
		    (double)block.size * canvas->places.per_unit >= 1 &&
		    picture->n_drawn_blocks < PICTURE_MAX_BLOCKS)
			picture->blocks[picture->n_drawn_blocks++] = block;
	}
	return r < 0 ? -EPROTO : 0;
}

int picture_make(struct picture_store *store, const struct picture_request *request,
		 struct picture **ret_picture)
{
	struct picture_canvas canvas = { 0 };
	struct picture_process *process;
	int r = picture_store_process(store, request->run_id, request->process_id, &process);

	if (r < 0)
		return r;
	auto_picture struct picture *picture = calloc(1, sizeof(*picture));
	if (!picture)
		return -ENOMEM;
	picture->request = *request;
	r = settle_request(&picture->request, process);
	if (r == 0)
		r = allocate(picture);
	if (r < 0)
		return r;
	set_categories(picture);
	r = picture_canvas_init(&canvas, picture, 0, picture->request.height);
	if (r == 0)
		r = read_touches(store, process, &canvas);
	if (r == 0)
		r = read_blocks(store, process, &canvas);
	if (r == 0)
		picture_canvas_settle(&canvas, false);
	picture_canvas_finish(&canvas);
	if (r == 0)
		*ret_picture = steal_ptr(&picture);
	return r;
}
