#include "analyze/live/regions.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/components.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "store/block-weight.h"
#include "store/database.h"
#include "store/row-writer.h"

#define MAX_THREAD (1u << 24) /* a number beyond it is damage */
#define NEAR_BYTES 8192u /* on a stack that is not the thread's own */

/* What a region counts. */
struct counts {
	int64_t wall_ns;
	double n_blocks; /* not whole where blocks were picked */
	uint64_t bytes;
	uint64_t n_samples;
	uint64_t time_ns;
	uint64_t n_faults;
	struct own_taken taken; /* by us, of wall_ns */
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
	uint64_t number; /* grows with each trip of the run */
	uint32_t path;
	int64_t row; /* 0: beyond the bound */
	uint32_t open; /* number of the running function; 0: a region of the program */
	bool is_inner; /* and it was running already */
	bool is_probed; /* no hook of ours has seen it */
	uint64_t slot;
	int64_t start_ns;
	int64_t end_ns;
	enum region_ending ending;
	struct counts own; /* so far; wall_ns: of the regions inside it, to be taken off */
	struct counts inside;
};

/* A function that a thread is in so many times. */
struct open {
	uint32_t n;
};

struct stack {
	struct trip *trips;
	size_t n;
	size_t n_allocated;
	uint64_t n_too_deep; /* open beyond REGIONS_MAX_DEPTH */
	bool has_begun; /* the last of trips, with the last note */
	uint64_t last_slot; /* where it last called a function, or came back; 0: nowhere */
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
	struct open *opens; /* number - 1 */
	size_t n_opens;
	size_t n_opens_allocated;
	struct key_map by_thread; /* (place, text) -> number of an open one */
	struct stack *stacks; /* by place of the thread */
	size_t n_stacks;
	size_t n_stacks_allocated;
	uint64_t *n_trips; /* by number of the text: functions whose calls are only counted */
	size_t n_counted;
	size_t n_counted_allocated;
	struct own_time *own;
	struct components *components;
	uint64_t n_begun; /* trips */
	struct rows *rows;
	int64_t first_row;
	uint64_t n_rows;
	struct regions_losses losses;
};

static const struct rows_table region_table = {
	.name = "region",
	.columns = "id, run_id, thread_id, parent_id, name, start_ns, end_ns, path_id, ending,"
		   " n_blocks, bytes, n_samples, time_ns, n_faults, cost_ns",
	.types = "nnnitnnnnnnnnnn",
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
	regions->own = own_time_create(tasks);
	regions->components = components_create(texts, db, run_id);
	int r = regions->own && regions->components ? rows_open(db, &region_table, &regions->rows)
						    : -ENOMEM;
	if (r < 0)
		return regions_close(regions), r;
	*ret_regions = regions;
	return 0;
}

struct regions *regions_close(struct regions *regions)
{
	if (!regions)
		return NULL;
	array_free(regions->stacks, regions->n_stacks, it, free(it->trips));
	free_all(regions->paths, regions->opens, regions->n_trips);
	own_time_destroy(regions->own);
	components_destroy(regions->components);
	key_map_finish(&regions->by_thread);
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

/*
 * From here on a thread is its place, which it has from before its record came. Nobody is in a
 * region where none has begun.
 */
static uint32_t place_of(const struct regions *regions, uint32_t thread)
{
	return regions->n_begun ? tasks_place(regions->tasks, thread) : UINT32_MAX;
}

static struct stack *stack_of(struct regions *regions, uint32_t thread)
{
	if (thread >= MAX_THREAD)
		return NULL;
	while (regions->n_stacks <= thread) {
		if (grow_one(&regions->stacks, regions->n_stacks, &regions->n_stacks_allocated) < 0)
			return NULL;
		regions->stacks[regions->n_stacks++] = (struct stack){ 0 };
	}
	return &regions->stacks[thread];
}

/* Where its bounds are not known all is: of a program without our library. */
static bool is_own_stack(const struct regions *regions, uint32_t thread, uint64_t slot)
{
	const struct task_thread *task = tasks_thread_of(regions->tasks, thread);

	return task &&
	       (!task->stack_end || slot - task->stack_start < task->stack_end - task->stack_start);
}

/* Do calls at the two addresses lie on one stack? */
static bool is_one_stack(const struct regions *regions, uint32_t thread, uint64_t a, uint64_t b)
{
	bool is_own = is_own_stack(regions, thread, a);

	if (is_own != is_own_stack(regions, thread, b))
		return false;
	return is_own || (a > b ? a - b : b - a) < NEAR_BYTES;
}

/*
 * The innermost of the first n regions that is around what happens at `slot`: on the same stack; on
 * that of a coroutine where nothing has begun, what the thread's own stack is in. Other coroutines
 * wait meanwhile. slot 0: not known where.
 */
static struct trip *around(const struct regions *regions, uint32_t thread, size_t n, uint64_t slot)
{
	struct trip *trips = regions->stacks[thread].trips;
	struct trip *own = NULL;

	for (size_t i = n; i-- > 0;) {
		if (!slot || !trips[i].open || is_one_stack(regions, thread, trips[i].slot, slot))
			return &trips[i];
		if (!own && is_own_stack(regions, thread, trips[i].slot))
			own = &trips[i];
	}
	return own && !is_own_stack(regions, thread, slot) ? own : NULL;
}

/* The region that a thread is in; NULL: none. */
static struct trip *innermost(const struct regions *regions, uint32_t thread)
{
	if (thread >= regions->n_stacks || regions->stacks[thread].n == 0)
		return NULL;
	return around(regions, thread, regions->stacks[thread].n,
		      regions->stacks[thread].last_slot);
}

void regions_allocated(struct regions *regions, uint32_t thread, const struct block_weight *weight)
{
	struct trip *trip = innermost(regions, place_of(regions, thread));

	if (trip) {
		trip->own.n_blocks += weight->n;
		trip->own.bytes += weight->bytes;
	}
}

void regions_sample(struct regions *regions, uint32_t thread, int64_t weight, int64_t time_ns)
{
	components_sampled(regions->components, tasks_place(regions->tasks, thread), time_ns);

	struct trip *trip = innermost(regions, place_of(regions, thread));

	if (trip) {
		trip->own.n_samples++;
		trip->own.time_ns += (uint64_t)weight;
	}
}

void regions_fault(struct regions *regions, uint32_t thread)
{
	struct trip *trip = innermost(regions, place_of(regions, thread));

	if (trip)
		trip->own.n_faults++;
}

int regions_component(struct regions *regions, struct component_reading *reading)
{
	reading->thread = tasks_place(regions->tasks, reading->thread);
	const struct stack *stack =
		reading->thread < regions->n_stacks ? &regions->stacks[reading->thread] : NULL;
	const struct trip *begun =
		stack && stack->has_begun && stack->n ? &stack->trips[stack->n - 1] : NULL;

	const struct task_thread *task = tasks_thread_of(regions->tasks, reading->thread);
	reading->thread_row = task ? task->row : 0;
	if (reading->when == TRACE_ASKED_SAMPLE)
		begun = innermost(regions, reading->thread);
	reading->trip = begun ? begun->number : 0;
	reading->path = begun ? begun->path : 0;
	return components_take(regions->components, reading);
}

/* A note of a thread comes, and what was read before it belongs to it. NULL: see ret. Its place. */
static struct stack *begin_note(struct regions *regions, uint32_t *thread, int *ret)
{
	*thread = tasks_place(regions->tasks, *thread);

	struct stack *stack = stack_of(regions, *thread);

	*ret = stack || *thread >= MAX_THREAD ? 0 : -ENOMEM;
	if (stack)
		stack->has_begun = false;
	return stack;
}

/* ---- Push ---- */

/* The path of a region inside another (0: none). Returns its number, or 0 without memory. */
static uint32_t path_of(struct regions *regions, uint32_t parent, uint32_t text)
{
	uint32_t depth = parent ? regions->paths[parent - 1].depth + 1 : 1;
	const struct path *path =
		key_map_item(&regions->by_name, parent, text, regions->paths, regions->n_paths,
			     regions->n_paths_allocated,
			     (struct path){ .parent = parent, .text = text, .depth = depth });

	return path ? (uint32_t)(path - regions->paths) + 1 : 0;
}

static int push(struct regions *regions, struct stack *stack, struct trip trip)
{
	if (grow_one(&stack->trips, stack->n, &stack->n_allocated) < 0)
		return -ENOMEM;
	if (regions->n_rows < REGIONS_MAX_ROWS)
		trip.row = regions->first_row + (int64_t)regions->n_rows++;
	else
		regions->losses.n_rows++;
	trip.number = ++regions->n_begun;
	stack->trips[stack->n++] = trip;
	stack->has_begun = true;
	return 0;
}

/* Of the program's own regions. */
static bool is_too_deep(const struct stack *stack)
{
	size_t n = 0;

	for (size_t i = 0; stack->n >= REGIONS_MAX_DEPTH && i < stack->n; i++)
		n += !stack->trips[i].open;
	return n >= REGIONS_MAX_DEPTH;
}

int regions_push(struct regions *regions, uint32_t thread, uint32_t text, int64_t time_ns)
{
	int r;
	struct stack *stack = begin_note(regions, &thread, &r);

	if (!stack)
		return r;
	if (is_too_deep(stack)) {
		stack->n_too_deep++;
		regions->losses.n_too_deep++;
		return 0;
	}
	const struct trip *outer = innermost(regions, thread);
	uint32_t path = path_of(regions, outer ? outer->path : 0, text);
	if (!path)
		return -ENOMEM;
	return push(regions, stack, (struct trip){ .path = path, .start_ns = time_ns });
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
	own_taken_add(&to->taken, &more->taken);
}

/* Of what was measured in whole: never more than there is. */
static int64_t cost_of(const struct regions *regions, const struct counts *counts)
{
	double ns = own_time_of(regions->own, &counts->taken);

	return ns < (double)counts->wall_ns ? llround(ns) : counts->wall_ns;
}

/* all: of the trip, with what was inside. */
static int write_row(struct regions *regions, uint32_t thread, const struct trip *trip,
		     const struct trip *outer, const struct counts *all)
{
	const struct task_thread *task = tasks_thread_of(regions->tasks, thread);
	union rows_cell *cells = trip->row && task ? rows_add(regions->rows) : NULL;

	if (!cells)
		return trip->row && task ? rows_error(regions->rows) : 0;
	cells[0].integer = trip->row;
	cells[1].integer = regions->run_id;
	cells[2].integer = task->row;
	cells[3].integer = outer && outer->row ? outer->row : ROWS_NULL;
	cells[4].text = texts_get(regions->texts, regions->paths[trip->path - 1].text);
	cells[5].integer = trip->start_ns;
	cells[6].integer = trip->end_ns;
	cells[7].integer = trip->path;
	cells[8].integer = trip->ending;
	cells[9].integer = llround(trip->own.n_blocks);
	cells[10].integer = (int64_t)trip->own.bytes;
	cells[11].integer = (int64_t)trip->own.n_samples;
	cells[12].integer = (int64_t)trip->own.time_ns;
	cells[13].integer = (int64_t)trip->own.n_faults;
	cells[14].integer = cost_of(regions, all);
	return 0;
}

/* A hook takes its part of a region's time. 0 or -ENOMEM. */
static int take_off(struct regions *regions, uint32_t thread, struct counts *counts,
		    enum own_cost cost)
{
	counts->taken.n[cost]++;
	return own_time_count(regions->own, thread, cost);
}

/*
 * Region i of a thread ends: it becomes a part of the one around it. It need not be the innermost:
 * the program's regions and its functions need not end in each other's order, nor do coroutines.
 */
static int end_trip(struct regions *regions, uint32_t thread, size_t i, int64_t time_ns,
		    enum region_ending ending)
{
	struct stack *stack = &regions->stacks[thread];
	struct trip trip = stack->trips[i];
	struct trip *outer = around(regions, thread, i, trip.slot);
	struct path *path = &regions->paths[trip.path - 1];
	struct counts all = trip.inside;

	memmove(&stack->trips[i], &stack->trips[i + 1], (--stack->n - i) * sizeof(trip));
	trip.ending = ending;
	trip.end_ns = time_ns > trip.start_ns ? time_ns : trip.start_ns;
	trip.own.wall_ns = trip.end_ns - trip.start_ns - trip.inside.wall_ns;
	if (trip.own.wall_ns < 0)
		trip.own.wall_ns = 0; /* what began in it went on longer */
	int r = trip.is_probed
			? 0
			: take_off(regions, thread, &trip.own, trip.open ? OWN_INSIDE : OWN_REGION);
	add(&all, &trip.own);
	path->n_trips++;
	path->n_left_open += ending != REGION_POPPED;
	add(&path->own, &trip.own);
	if (!trip.is_inner)
		add(&path->all, &all);
	if (trip.open)
		regions->opens[trip.open - 1].n--;
	if (outer) {
		add(&outer->inside, &all);
		r = r < 0 || trip.is_probed ? r
					    : take_off(regions, thread, &outer->own,
						       trip.open ? OWN_OUTSIDE : OWN_REGION);
	}
	if (r == 0)
		r = components_end(regions->components, &(struct component_trip){
								.thread = thread,
								.trip = trip.number,
								.around = outer ? outer->number : 0,
								.is_inner = trip.is_inner,
							});
	return r < 0 ? r : write_row(regions, thread, &trip, outer, &all);
}

/* The region that a pop of that name ends; the number of all: there is none. */
static size_t find_region(const struct regions *regions, const struct stack *stack, uint32_t text)
{
	for (size_t i = stack->n; i-- > 0;) {
		const struct trip *trip = &stack->trips[i];

		if (!trip->open && (!text || regions->paths[trip->path - 1].text == text))
			return i;
	}
	return stack->n;
}

int regions_pop(struct regions *regions, uint32_t thread, uint32_t text, int64_t time_ns)
{
	int r;
	struct stack *stack = begin_note(regions, &thread, &r);

	if (!stack)
		return r;
	if (stack->n_too_deep > 0) {
		stack->n_too_deep--;
		return 0;
	}
	size_t to = find_region(regions, stack, text);
	regions->losses.n_pops += to == stack->n;
	for (size_t i = stack->n; r == 0 && i-- > to;)
		if (!stack->trips[i].open)
			r = end_trip(regions, thread, i, time_ns,
				     i == to ? REGION_POPPED : REGION_POPPED_AROUND);
	components_ended(regions->components, thread);
	return r;
}

/* ---- Functions ---- */

/* What was called below the slot is over; at the slot too, where is_reused. */
static int end_below(struct regions *regions, uint32_t thread, uint64_t slot, bool is_reused,
		     int64_t time_ns)
{
	struct stack *stack = &regions->stacks[thread];
	int r = 0;

	for (size_t i = stack->n; r == 0 && i-- > 0;) {
		const struct trip *trip = &stack->trips[i];

		if (!trip->open || !is_one_stack(regions, thread, trip->slot, slot))
			continue;
		if (trip->slot > slot || (trip->slot == slot && !is_reused))
			break;
		r = end_trip(regions, thread, i, time_ns, REGION_POPPED_AROUND);
	}
	return r;
}

/* The running function of a name in a thread; 0: no memory. */
static uint32_t open_of(struct regions *regions, uint32_t thread, uint32_t text)
{
	const struct open *open =
		key_map_item(&regions->by_thread, thread, text, regions->opens, regions->n_opens,
			     regions->n_opens_allocated, (struct open){ 0 });

	return open ? (uint32_t)(open - regions->opens) + 1 : 0;
}

/* The innermost call of the same function that is running on the same stack; NULL: none. */
static const struct trip *outer_call(const struct regions *regions, uint32_t thread,
				     const struct trip *trip)
{
	const struct stack *stack = &regions->stacks[thread];

	if (regions->opens[trip->open - 1].n == 0)
		return NULL;
	for (size_t i = stack->n; i-- > 0;)
		if (stack->trips[i].open == trip->open &&
		    is_one_stack(regions, thread, stack->trips[i].slot, trip->slot))
			return &stack->trips[i];
	return NULL;
}

/* What a probe takes is of the innermost region behind it. 0 or -ENOMEM. */
static int take_probe(struct regions *regions, uint32_t thread, const struct region_call *call)
{
	struct trip *trip = call->is_probed ? innermost(regions, thread) : NULL;

	if (!trip)
		return 0;
	trip->own.taken.ns += call->taken_ns;
	return own_time_measured(regions->own, thread, OWN_UPROBES, call->taken_ns);
}

/* The path of a call inside what the thread is in. 0: no memory. */
static uint32_t path_of_call(struct regions *regions, uint32_t thread, uint32_t text)
{
	const struct trip *outer = innermost(regions, thread);
	uint32_t parent = outer ? outer->path : 0;

	if (regions->n_paths >= REGIONS_MAX_PATHS &&
	    !key_map_get(&regions->by_name, parent, text)) {
		regions->losses.n_paths++;
		parent = 0;
	}
	return path_of(regions, parent, text);
}

int regions_enter(struct regions *regions, uint32_t thread, const struct region_call *call)
{
	int r;
	struct stack *stack = begin_note(regions, &thread, &r);
	struct trip trip = {
		.slot = call->slot,
		.start_ns = call->time_ns,
		.is_probed = call->is_probed,
	};

	if (!stack)
		return r;
	stack->last_slot = call->slot;
	r = end_below(regions, thread, call->slot, true, call->time_ns);
	if (r < 0)
		return r;
	if (stack->n >= REGIONS_MAX_CALLS) {
		regions->losses.n_too_deep++;
		return 0;
	}
	trip.open = open_of(regions, thread, call->text);
	if (!trip.open)
		return -ENOMEM;
	const struct trip *outer = outer_call(regions, thread, &trip);

	trip.is_inner = outer != NULL;
	trip.path = outer ? outer->path : path_of_call(regions, thread, call->text);
	if (!trip.path)
		return -ENOMEM;
	r = push(regions, stack, trip);
	if (r == 0)
		regions->opens[trip.open - 1].n++;
	return r < 0 ? r : take_probe(regions, thread, call);
}

int regions_leave(struct regions *regions, uint32_t thread, const struct region_call *call)
{
	int r;
	struct stack *stack = begin_note(regions, &thread, &r);
	uint32_t number = (uint32_t)key_map_get(&regions->by_thread, thread, call->text);

	if (!stack)
		return r;
	stack->last_slot = call->slot;
	r = end_below(regions, thread, call->slot, false, call->time_ns);
	for (size_t i = number && regions->opens[number - 1].n ? stack->n : 0; r == 0 && i-- > 0;) {
		if (stack->trips[i].open != number || stack->trips[i].slot != call->slot)
			continue;
		r = end_trip(regions, thread, i, call->time_ns, REGION_POPPED);
		break;
	}
	components_ended(regions->components, thread);
	return r < 0 ? r : take_probe(regions, thread, call);
}

int regions_count(struct regions *regions, uint32_t text, uint64_t n)
{
	while (regions->n_counted <= text) {
		if (grow_one(&regions->n_trips, regions->n_counted, &regions->n_counted_allocated) <
		    0)
			return -ENOMEM;
		regions->n_trips[regions->n_counted++] = 0;
	}
	regions->n_trips[text] += n;
	return 0;
}

static int write_count(const struct regions *regions, uint32_t text)
{
	if (regions->n_trips[text] == 0)
		return 0;
	/* Names that were lost are all called so. */
	return db_run(regions->db,
		      "INSERT INTO function_trips(run_id, name, n_trips) VALUES(?1, ?2, ?3)"
		      " ON CONFLICT(run_id, name) DO UPDATE SET n_trips = n_trips + ?3",
		      "ntn", regions->run_id, texts_get(regions->texts, text),
		      (int64_t)regions->n_trips[text]);
}

/* ---- What is ours of the time ---- */

int regions_empty(struct regions *regions, uint32_t thread, const struct own_empty *empty)
{
	return own_time_empty(regions->own, tasks_place(regions->tasks, thread), empty);
}

int regions_hook(struct regions *regions, uint32_t thread, enum own_cost cost)
{
	struct trip *trip = innermost(regions, place_of(regions, thread));

	if (!trip)
		return 0;
	trip->own.taken.n[cost]++;
	return own_time_count(regions->own, place_of(regions, thread), cost);
}

int regions_took(struct regions *regions, uint32_t thread, enum trace_own what, double ns)
{
	struct trip *trip = innermost(regions, place_of(regions, thread));

	if (!trip)
		return 0;
	trip->own.taken.ns += ns;
	return own_time_measured(regions->own, place_of(regions, thread), what, ns);
}

/* ---- End ---- */

/* When a thread ended, as far as anybody told. */
static int64_t end_of(const struct regions *regions, uint32_t thread, int64_t end_ns)
{
	const struct task_thread *task = tasks_thread_of(regions->tasks, thread);

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
	int64_t all_cost_ns = cost_of(regions, all), own_cost_ns = cost_of(regions, own);
	int64_t inside_ns = all->wall_ns - (own->wall_ns - own_cost_ns);

	/* What is inside may have been quicker than an empty one: that is not taken off here. */
	if (all_cost_ns > inside_ns)
		all_cost_ns = inside_ns > 0 ? inside_ns : 0;

	return db_insert(regions->db,
			 "region_total(run_id, id, parent_id, name, depth, n_trips, n_left_open,"
			 " all_ns, own_ns, all_blocks, own_blocks, all_bytes, own_bytes,"
			 " all_samples, own_samples, all_time_ns, own_time_ns, all_faults,"
			 " own_faults, all_cost_ns, own_cost_ns)",
			 "nnitnnnnnnnnnnnnnnnnn", regions->run_id, (int64_t)i + 1,
			 path->parent ? (int64_t)path->parent : INT64_MIN,
			 texts_get(regions->texts, path->text), (int64_t)path->depth,
			 (int64_t)path->n_trips, (int64_t)path->n_left_open,
			 all->wall_ns - all_cost_ns, own->wall_ns - own_cost_ns,
			 llround(all->n_blocks), llround(own->n_blocks), (int64_t)all->bytes,
			 (int64_t)own->bytes, (int64_t)all->n_samples, (int64_t)own->n_samples,
			 (int64_t)all->time_ns, (int64_t)own->time_ns, (int64_t)all->n_faults,
			 (int64_t)own->n_faults, all_cost_ns, own_cost_ns);
}

int regions_finish(struct regions *regions, int64_t end_ns)
{
	int r = 0;

	for (uint32_t thread = 0; thread < regions->n_stacks && r == 0; thread++) {
		while (regions->stacks[thread].n > 0 && r == 0)
			r = end_trip(regions, thread, regions->stacks[thread].n - 1,
				     end_of(regions, thread, end_ns), REGION_LEFT);
	}
	own_time_settle(regions->own);
	for (size_t i = 0; i < regions->n_paths && r == 0; i++)
		r = write_path(regions, i);
	for (uint32_t text = 1; text < regions->n_counted && r == 0; text++)
		r = write_count(regions, text);
	r = r ?: own_time_write(regions->own, regions->db, regions->run_id);
	r = r ?: components_write(regions->components);
	return r < 0 ? r : rows_flush(regions->rows);
}
