#include "analyze/live/regions.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/hash-map.h"
#include "store/block-weight.h"
#include "store/database.h"
#include "store/row-writer.h"

#define MAX_THREAD (1u << 24) /* a number beyond it is damage */

/* What a region counts. */
struct counts {
	int64_t wall_ns;
	double n_blocks; /* not whole where blocks were picked */
	uint64_t bytes;
	uint64_t n_samples;
	uint64_t time_ns;
	uint64_t n_faults;
};

/* A path of regions, and its sums: of the regions themselves, and with those inside. */
struct path {
	uint32_t parent; /* number; 0: outermost */
	uint32_t text;
	uint32_t depth;
	uint64_t n_trips;
	uint64_t n_left_open;
	struct counts own;
	struct counts all;
};

/* A region that a thread is in. */
struct trip {
	uint32_t path;
	int64_t row; /* 0: beyond the bound */
	int64_t start_ns;
	struct counts own; /* so far; wall_ns: of the regions inside it, to be taken off */
	struct counts inside;
};

struct stack {
	struct trip *trips;
	size_t n;
	size_t n_allocated;
	uint64_t n_too_deep; /* open beyond REGIONS_MAX_DEPTH */
};

struct regions {
	int64_t run_id;
	const struct tasks *tasks;
	const struct texts *texts;
	struct db *db;
	struct path *paths; /* number - 1 */
	size_t n_paths;
	size_t n_paths_allocated;
	struct key_map by_name; /* (parent, text) -> number */
	struct stack *stacks; /* by number of the thread */
	size_t n_stacks;
	size_t n_stacks_allocated;
	struct rows *rows;
	int64_t first_row;
	uint64_t n_rows;
	struct regions_losses losses;
};

static const struct rows_table region_table = {
	.name = "region",
	.columns = "id, run_id, thread_id, parent_id, name, start_ns, end_ns, path_id, ending,"
		   " n_blocks, bytes, n_samples, time_ns, n_faults",
	.types = "nnnitnnnnnnnnn",
};

int regions_open(struct db *db, int64_t run_id, const struct tasks *tasks,
		 const struct texts *texts, struct regions **ret_regions)
{
	struct regions *regions = calloc(1, sizeof(*regions));

	if (!regions)
		return -ENOMEM;
	*regions = (struct regions){
		.run_id = run_id,
		.tasks = tasks,
		.texts = texts,
		.db = db,
		.first_row = db_integer(db, "SELECT max(id) FROM region", 0) + 1,
	};
	int r = rows_open(db, &region_table, &regions->rows);
	if (r < 0) {
		regions_close(regions);
		return r;
	}
	*ret_regions = regions;
	return 0;
}

struct regions *regions_close(struct regions *regions)
{
	if (!regions)
		return NULL;
	for (size_t i = 0; i < regions->n_stacks; i++)
		free(regions->stacks[i].trips);
	free(regions->stacks);
	free(regions->paths);
	key_map_finish(&regions->by_name);
	rows_close(regions->rows);
	free(regions);
	return NULL;
}

const struct regions_losses *regions_losses(const struct regions *regions)
{
	return &regions->losses;
}

/* ---- Who is where ---- */

static struct stack *stack_of(struct regions *regions, uint32_t thread)
{
	if (thread >= MAX_THREAD)
		return NULL;
	while (regions->n_stacks <= thread) {
		if (grow_array(&regions->stacks, regions->n_stacks, &regions->n_stacks_allocated,
			       sizeof(*regions->stacks)) < 0)
			return NULL;
		regions->stacks[regions->n_stacks++] = (struct stack){ 0 };
	}
	return &regions->stacks[thread];
}

/* The region that a thread is in; NULL: none. */
static struct trip *innermost(const struct regions *regions, uint32_t thread)
{
	if (thread >= regions->n_stacks || regions->stacks[thread].n == 0)
		return NULL;
	return &regions->stacks[thread].trips[regions->stacks[thread].n - 1];
}

void regions_allocated(struct regions *regions, uint32_t thread, const struct block_weight *weight)
{
	struct trip *trip = innermost(regions, thread);

	if (trip) {
		trip->own.n_blocks += weight->n;
		trip->own.bytes += weight->bytes;
	}
}

void regions_sample(struct regions *regions, uint32_t thread, int64_t weight)
{
	struct trip *trip = innermost(regions, thread);

	if (trip) {
		trip->own.n_samples++;
		trip->own.time_ns += (uint64_t)weight;
	}
}

void regions_fault(struct regions *regions, uint32_t thread)
{
	struct trip *trip = innermost(regions, thread);

	if (trip)
		trip->own.n_faults++;
}

uint32_t regions_where(const struct regions *regions, uint32_t thread, uint32_t *ret_path)
{
	const struct trip *trip = innermost(regions, thread);

	*ret_path = trip ? trip->path : 0;
	return trip && regions->stacks[thread].n_too_deep == 0 ? (uint32_t)regions->stacks[thread].n
							       : 0;
}

/* ---- Push ---- */

/* The path of a region inside another (0: none). Returns its number, or 0 without memory. */
static uint32_t path_of(struct regions *regions, uint32_t parent, uint32_t text)
{
	uint32_t number = (uint32_t)key_map_get(&regions->by_name, parent, text);

	if (number)
		return number;
	if (grow_array(&regions->paths, regions->n_paths, &regions->n_paths_allocated,
		       sizeof(*regions->paths)) < 0 ||
	    key_map_put(&regions->by_name, parent, text, regions->n_paths + 1) < 0)
		return 0;
	regions->paths[regions->n_paths] = (struct path){
		.parent = parent,
		.text = text,
		.depth = parent ? regions->paths[parent - 1].depth + 1 : 1,
	};
	return (uint32_t)++regions->n_paths;
}

int regions_push(struct regions *regions, uint32_t thread, uint32_t text, int64_t time_ns)
{
	struct stack *stack = stack_of(regions, thread);

	if (!stack)
		return thread >= MAX_THREAD ? 0 : -ENOMEM;
	if (stack->n >= REGIONS_MAX_DEPTH) {
		stack->n_too_deep++;
		regions->losses.n_too_deep++;
		return 0;
	}
	const struct trip *around = innermost(regions, thread);
	uint32_t path = path_of(regions, around ? around->path : 0, text);
	if (!path ||
	    grow_array(&stack->trips, stack->n, &stack->n_allocated, sizeof(*stack->trips)) < 0)
		return -ENOMEM;
	struct trip trip = { .path = path, .start_ns = time_ns };
	if (regions->n_rows < REGIONS_MAX_ROWS)
		trip.row = regions->first_row + (int64_t)regions->n_rows++;
	else
		regions->losses.n_rows++;
	stack->trips[stack->n++] = trip;
	return 0;
}

/* ---- Pop ---- */

static void add(struct counts *to, const struct counts *more)
{
	to->wall_ns += more->wall_ns;
	to->n_blocks += more->n_blocks;
	to->bytes += more->bytes;
	to->n_samples += more->n_samples;
	to->time_ns += more->time_ns;
	to->n_faults += more->n_faults;
}

static int write_row(struct regions *regions, uint32_t thread, const struct trip *trip,
		     int64_t end_ns, enum region_ending ending)
{
	const struct task_thread *task = tasks_thread(regions->tasks, thread);
	const struct trip *around = innermost(regions, thread);
	union rows_cell *cells = trip->row && task ? rows_add(regions->rows) : NULL;

	if (!cells)
		return trip->row && task ? rows_error(regions->rows) : 0;
	cells[0].integer = trip->row;
	cells[1].integer = regions->run_id;
	cells[2].integer = task->row;
	cells[3].integer = around && around->row ? around->row : ROWS_NULL;
	cells[4].text = texts_get(regions->texts, regions->paths[trip->path - 1].text);
	cells[5].integer = trip->start_ns;
	cells[6].integer = end_ns;
	cells[7].integer = trip->path;
	cells[8].integer = ending;
	cells[9].integer = llround(trip->own.n_blocks);
	cells[10].integer = (int64_t)trip->own.bytes;
	cells[11].integer = (int64_t)trip->own.n_samples;
	cells[12].integer = (int64_t)trip->own.time_ns;
	cells[13].integer = (int64_t)trip->own.n_faults;
	return 0;
}

/* The innermost region of a thread ends: it becomes a part of the one around it. */
static int end_trip(struct regions *regions, uint32_t thread, int64_t time_ns,
		    enum region_ending ending)
{
	struct stack *stack = &regions->stacks[thread];
	struct trip trip = stack->trips[--stack->n];
	struct path *path = &regions->paths[trip.path - 1];
	int64_t end_ns = time_ns > trip.start_ns ? time_ns : trip.start_ns;
	struct counts all = trip.inside;

	trip.own.wall_ns = end_ns - trip.start_ns - trip.inside.wall_ns;
	add(&all, &trip.own);
	path->n_trips++;
	path->n_left_open += ending != REGION_POPPED;
	add(&path->own, &trip.own);
	add(&path->all, &all);
	if (stack->n > 0)
		add(&stack->trips[stack->n - 1].inside, &all);
	return write_row(regions, thread, &trip, end_ns, ending);
}

/* How many regions a pop of that name ends; 0: there is none. */
static size_t count_to(const struct regions *regions, const struct stack *stack, uint32_t text)
{
	for (size_t i = stack->n; i-- > 0;) {
		uint32_t path = stack->trips[i].path;

		if (!text || regions->paths[path - 1].text == text)
			return stack->n - i;
	}
	return 0;
}

int regions_pop(struct regions *regions, uint32_t thread, uint32_t text, int64_t time_ns)
{
	struct stack *stack = stack_of(regions, thread);
	int r = 0;

	if (!stack)
		return thread >= MAX_THREAD ? 0 : -ENOMEM;
	if (stack->n_too_deep > 0) {
		stack->n_too_deep--;
		return 0;
	}
	size_t n = count_to(regions, stack, text);
	regions->losses.n_pops += n == 0;
	for (; n > 0 && r == 0; n--)
		r = end_trip(regions, thread, time_ns,
			     n == 1 ? REGION_POPPED : REGION_POPPED_AROUND);
	return r;
}

/* ---- End ---- */

/* When a thread ended, as far as anybody told. */
static int64_t end_of(const struct regions *regions, uint32_t thread, int64_t end_ns)
{
	const struct task_thread *task = tasks_thread(regions->tasks, thread);

	if (task && task->end_ns < end_ns)
		end_ns = task->end_ns;
	if (task && task->image && task->image->end_ns < end_ns)
		end_ns = task->image->end_ns;
	return end_ns;
}

static int write_path(const struct regions *regions, size_t i)
{
	const struct path *path = &regions->paths[i];
	const struct counts *all = &path->all, *own = &path->own;

	return db_run(
		regions->db,
		"INSERT INTO region_total(run_id, id, parent_id, name, depth, n_trips,"
		" n_left_open, all_ns, own_ns, all_blocks, own_blocks, all_bytes, own_bytes,"
		" all_samples, own_samples, all_time_ns, own_time_ns, all_faults, own_faults)"
		" VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,"
		" ?17, ?18, ?19)",
		"nnitnnnnnnnnnnnnnnn", regions->run_id, (int64_t)i + 1,
		path->parent ? (int64_t)path->parent : INT64_MIN,
		texts_get(regions->texts, path->text), (int64_t)path->depth, (int64_t)path->n_trips,
		(int64_t)path->n_left_open, all->wall_ns, own->wall_ns, llround(all->n_blocks),
		llround(own->n_blocks), (int64_t)all->bytes, (int64_t)own->bytes,
		(int64_t)all->n_samples, (int64_t)own->n_samples, (int64_t)all->time_ns,
		(int64_t)own->time_ns, (int64_t)all->n_faults, (int64_t)own->n_faults);
}

int regions_finish(struct regions *regions, int64_t end_ns)
{
	int r = 0;

	for (uint32_t thread = 0; thread < regions->n_stacks && r == 0; thread++) {
		while (regions->stacks[thread].n > 0 && r == 0)
			r = end_trip(regions, thread, end_of(regions, thread, end_ns), REGION_LEFT);
	}
	for (size_t i = 0; i < regions->n_paths && r == 0; i++)
		r = write_path(regions, i);
	return r < 0 ? r : rows_flush(regions->rows);
}
