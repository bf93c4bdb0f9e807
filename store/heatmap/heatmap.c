#include "store/heatmap/heatmap.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "store/heatmap/draw.h"
#include "store/statement.h"

struct picture *picture_free(struct picture *picture)
{
	if (!picture)
		return NULL;
	free_all(picture->counts, picture->category, picture->occupancy, picture->blocks,
		 picture->points, picture);
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
	return request->from_ns < request->to_ns && request->from_ns < process->to_ns &&
			       request->low < request->high && request->low < process->height
		       ? 0
		       : -EINVAL;
}

static int allocate(struct picture *picture)
{
	size_t n = (size_t)picture->request.width * picture->request.height;

	picture->counts = calloc(n, sizeof(*picture->counts));
	picture->category = calloc(n, 1);
	picture->occupancy = calloc(n, 1);
	picture->blocks = calloc(PICTURE_BLOCKS_KEPT, sizeof(*picture->blocks));
	picture->points = calloc(PICTURE_MAX_POINTS, sizeof(*picture->points));
	bool is_there = picture->counts && picture->category && picture->occupancy &&
			picture->blocks && picture->points;
	return is_there ? 0 : -ENOMEM;
}

/* ---- What to look at ---- */

/* Items of the request's parts that a stride looks at: of touches, or of blocks. */
static uint64_t cost_of(const struct picture_job *job, enum picture_kind kind, unsigned stride)
{
	uint64_t cost = 0;

	for (size_t i = 0; i < job->process->n_parts; i++) {
		const struct picture_part *part = &job->process->parts[i];
		if (part->kind == kind && picture_part_meets(part, &job->picture->request))
			cost += part->n / picture_weight(part, stride);
	}
	return cost;
}

/* A cell of the grid, in units of its axis, rounded up. */
static uint64_t grid_cell(uint64_t span, unsigned n)
{
	return span / n + (span % n > 0);
}

/* Whether the grid is about as fine as what is asked for. */
static bool is_grid_fine(const struct picture_job *job)
{
	const struct picture_request *request = &job->picture->request;
	double time_span = (double)(job->process->to_ns - job->process->from_ns);
	double grid_ns = time_span / PICTURE_GRID_COLUMNS;
	double grid_bytes = (double)job->process->height / PICTURE_GRID_ROWS;

	return grid_ns * request->width <= 1.5 * (double)(request->to_ns - request->from_ns) &&
	       grid_bytes * request->height <= 1.5 * (double)(request->high - request->low);
}

/* The least stride that can be paid; 0: the grid. Frames are read as a whole. */
static unsigned choose_stride(const struct picture_job *job, enum picture_kind kind)
{
	static const unsigned strides[] = { 1, 4, 16 };
	const uint64_t most =
		kind == PICTURE_KIND_BLOCKS ? PICTURE_MOST_BLOCKS : PICTURE_MOST_TOUCHES;

	for (unsigned i = 0; i < 3; i++) {
		bool is_dear = cost_of(job, kind, 1) > 4 * most;
		if (i > 0 && job->process->has_grid && (is_dear || is_grid_fine(job)))
			break;
		if (cost_of(job, kind, strides[i]) <= most)
			return strides[i];
	}
	return job->process->has_grid ? 0 : 16;
}

/* Move to the next edge of the grid: down, or up. */
static uint64_t snap(const struct picture_cells *cells, uint64_t place, bool is_up)
{
	if (place >= cells->to)
		return cells->to;
	uint64_t edge = cells->from + cells->edges[picture_cell_of(cells, place)];

	return is_up && edge < place ? cells->from + cells->edges[picture_cell_of(cells, place) + 1]
				     : edge;
}

static unsigned cells_between(const struct picture_cells *cells, uint64_t from, uint64_t to)
{
	return picture_cell_of(cells, to - 1) - picture_cell_of(cells, from) + 1;
}

/* What is counted in cells of the grid is answered in them, where they are coarser. */
static int fit_to_grid(struct picture_job *job)
{
	struct picture_request *request = &job->picture->request;
	struct picture_cells columns = { 0 }, rows = { 0 };
	int r = picture_grid_cells(job->process, &columns, &rows);

	if (r == 0 && job->picture->cell_ns) {
		uint64_t from = snap(&columns, picture_time(request->from_ns), false);
		uint64_t to = snap(&columns, picture_time(request->to_ns), true);
		request->from_ns = picture_ns(from);
		request->to_ns = picture_ns(to);
		request->width = cells_between(&columns, from, to);
	}
	if (r == 0 && job->picture->cell_bytes) {
		request->low = snap(&rows, request->low, false);
		request->high = snap(&rows, request->high, true);
		request->height = cells_between(&rows, request->low, request->high);
	}
	picture_cells_finish(&columns);
	picture_cells_finish(&rows);
	return r;
}

/* Choose how to look at touches and blocks, and tell how exact that is. */
static int plan(struct picture_job *job)
{
	const struct picture_process *process = job->process;
	struct picture *picture = job->picture;
	struct picture_request *request = &picture->request;

	job->touch_stride = choose_stride(job, PICTURE_KIND_TOUCHES);
	job->block_stride = choose_stride(job, PICTURE_KIND_BLOCKS);
	picture->stride =
		job->touch_stride > job->block_stride ? job->touch_stride : job->block_stride;
	if (picture->stride == 0)
		picture->stride = 1;
	if (job->touch_stride && job->block_stride)
		return 0;
	uint64_t cell_ns =
		grid_cell((uint64_t)(process->to_ns - process->from_ns), PICTURE_GRID_COLUMNS);
	uint64_t cell_bytes = grid_cell(process->height, PICTURE_GRID_ROWS);
	if (cell_ns > (uint64_t)(request->to_ns - request->from_ns) / request->width)
		picture->cell_ns = (int64_t)cell_ns;
	if (cell_bytes > (request->high - request->low) / request->height)
		picture->cell_bytes = cell_bytes;
	return job->touch_stride == 0 ? fit_to_grid(job) : 0;
}

/* ---- Rows of cells, as many at a time as there is memory for ---- */

#define CANVAS_BYTES (UINT64_C(64) << 20)
#define BESIDE_ITEMS 65536u /* of touches and of blocks */

static unsigned rows_at_once(const struct picture *picture)
{
	uint64_t row_bytes = picture->request.width * (4 * picture->n_categories + 16);
	uint64_t n = CANVAS_BYTES / row_bytes;

	return n < picture->request.height ? (unsigned)n : picture->request.height;
}

static int fill_touches(struct picture_job *job)
{
	auto_statement sqlite3_stmt *held = NULL;
	int r = picture_error(statement_hold(job->store->db, &held));

	if (r == 0)
		r = job->touch_stride ? picture_touches_count(job) : picture_grid_count(job);
	if (r == 0)
		picture_canvas_settle_counts(&job->canvas);
	return r;
}

static int fill_blocks(struct picture_job *job)
{
	auto_statement sqlite3_stmt *held = NULL;
	int r = picture_error(statement_hold(job->store->db, &held)) ?: picture_blocks_draw(job);

	if (r == 0 && job->block_stride)
		picture_canvas_settle_occupancy(&job->canvas);
	return r < 0 || job->block_stride ? r : picture_grid_occupy(job);
}

/* Blocks, on a thread of their own: they share no array with touches. */
struct beside {
	struct picture_job job;
	int error;
};

static void *run_beside(void *context)
{
	struct beside *beside = context;

	beside->error = fill_blocks(&beside->job);
	return NULL;
}

/* Whether a thread is worth its start; the grid (stride 0) always is. */
static bool is_much(const struct picture_job *job, enum picture_kind kind, unsigned stride)
{
	return stride == 0 || cost_of(job, kind, stride) > BESIDE_ITEMS;
}

static int fill_slice(struct picture_job *job)
{
	struct beside beside = { .job = *job };
	bool is_beside = is_much(job, PICTURE_KIND_TOUCHES, job->touch_stride) &&
			 is_much(job, PICTURE_KIND_BLOCKS, job->block_stride);
	pthread_t thread;
	int r = is_beside ? picture_store_second(job->store) : 0;

	if (r < 0)
		return r;
	beside.job.store = is_beside ? job->store->second : job->store;
	is_beside = is_beside && pthread_create(&thread, NULL, run_beside, &beside) == 0;
	r = fill_touches(job);
	if (is_beside)
		pthread_join(thread, NULL);
	else if (r == 0)
		run_beside(&beside);
	job->least_area = beside.job.least_area;
	return r < 0 ? r : beside.error;
}

static int fill(struct picture_job *job)
{
	struct picture *picture = job->picture;
	unsigned step = rows_at_once(picture);
	int r = 0;

	for (unsigned row = 0; row < picture->request.height && r == 0; row += step) {
		unsigned left = picture->request.height - row;
		r = picture_canvas_init(&job->canvas, picture, row,
					row + (left < step ? left : step));
		job->slice = picture->request;
		job->slice.low = job->canvas.places.from;
		job->slice.high = job->canvas.places.to;
		job->is_first_slice = row == 0;
		/* Fewer bytes than rows: some rows have none. */
		if (r == 0 && job->slice.low < job->slice.high)
			r = fill_slice(job);
		picture_canvas_finish(&job->canvas);
	}
	job->slice = picture->request;
	return r;
}

static int make(struct picture_job *job)
{
	struct picture *picture = job->picture;
	int r = plan(job) ?: allocate(picture);
	r = r ?: picture_palette_read(job);
	r = r ?: fill(job);
	if (r < 0)
		return r;
	picture_blocks_settle(job);
	if (job->touch_stride == 1 && picture->n_touches <= PICTURE_MAX_POINTS)
		r = picture_touches_list(job);
	return r;
}

int picture_make(struct picture_store *store, const struct picture_request *request,
		 struct picture **ret_picture)
{
	struct picture_process *process;
	int r = picture_store_process(store, request->run_id, request->process_id, &process);

	if (r < 0)
		return r;
	auto_picture struct picture *picture = calloc(1, sizeof(*picture));
	struct picture_job job = { .store = store, .process = process, .picture = picture };
	if (!picture)
		return -ENOMEM;
	picture->request = *request;
	r = settle_request(&picture->request, process) ?: make(&job);
	if (r < 0)
		return r;
	*ret_picture = steal_ptr(&picture);
	return 0;
}
