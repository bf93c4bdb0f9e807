#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "schemas/trace-format.h"
#include "store/columns/column.h"
#include "store/block-weight.h"
#include "store/database-internal.h"
#include "store/end-queue.h"
#include "store/heatmap/address-axis.h"
#include "store/heatmap/categories.h"
#include "store/heatmap/curves.h"
#include "store/heatmap/heatmap.h"
#include "store/heatmap/draw.h"
#include "store/row-scan.h"
#include "store/statement.h"
#include "store/touch.h"

/* A process while its picture is made. */
struct process {
	int64_t id;
	int64_t end_ns;
	bool has_left; /* blocks that nobody freed */
	int64_t from_ns; /* of what it has; from > to: nothing */
	int64_t to_ns;
	uint64_t n_blocks;
	uint64_t n_touches;
	struct picture_ranges ranges;
	struct picture_categories categories;
};

struct processes {
	struct process *items;
	size_t n;
	size_t n_allocated;
	struct key_map numbers; /* of process.id: 1 + place in items */
	size_t last; /* of these numbers, the one that was asked for last; 0: none yet */
};

/* Blocks are told by one thread, and touches by another one. */
struct picture_build {
	struct db *db;
	int64_t run_id;
	int64_t duration_ns;
	bool has_blocks; /* all of them */
	struct processes blocks;
	struct picture_curves *curves;
	struct picture_regions *regions;
	char apart[128]; /* neither waits for the other's cache line */
	struct processes touches;
	struct picture_levels levels;
};

static void finish_processes(struct processes *processes)
{
	array_free(processes->items, processes->n, it, picture_ranges_finish(&it->ranges),
		   picture_categories_finish(&it->categories));
	key_map_finish(&processes->numbers);
	*processes = (struct processes){ 0 };
}

struct picture_build *picture_build_close(struct picture_build *build)
{
	if (!build)
		return NULL;
	picture_curves_close(build->curves);
	finish_processes(&build->blocks);
	finish_processes(&build->touches);
	picture_regions_close(build->regions);
	picture_levels_finish(&build->levels);
	free(build);
	return NULL;
}

struct picture_build *picture_build_open(void)
{
	struct picture_build *build = calloc(1, sizeof(*build));

	if (!build)
		return NULL;
	build->curves = picture_curves_open();
	return build->curves ? build : picture_build_close(build);
}

/* ---- Processes ---- */

static int64_t end_of_process(const struct picture_build *build, int64_t process_id)
{
	return picture_held_ns(db_integer_of(build->db, build->duration_ns,
					     "SELECT end_ns FROM process WHERE id = ?1", "i",
					     process_id));
}

static int add_process(struct processes *processes, int64_t process_id)
{
	int r = array_add(processes->items, processes->n, processes->n_allocated,
			  (struct process){ .id = process_id });

	if (r < 0)
		return r;
	picture_ranges_init(&processes->items[processes->n - 1].ranges);
	return key_map_put(&processes->numbers, (uint64_t)process_id, 0, processes->n);
}

static int find_process(struct processes *processes, int64_t process_id,
			struct process **ret_process)
{
	if (!processes->last || processes->items[processes->last - 1].id != process_id)
		processes->last = key_map_get(&processes->numbers, (uint64_t)process_id, 0);
	if (!processes->last) {
		int r = add_process(processes, process_id);
		if (r < 0)
			return r;
		processes->last = processes->n;
	}
	*ret_process = &processes->items[processes->last - 1];
	return 0;
}

/* The axis of time reaches over all that there is. */
static void widen(struct process *process, int64_t from_ns, int64_t to_ns)
{
	process->from_ns = from_ns < process->from_ns ? from_ns : process->from_ns;
	process->to_ns = to_ns > process->to_ns ? to_ns : process->to_ns;
}

/* ---- Blocks ---- */

int picture_build_born(void *context, const struct picture_row_block *block)
{
	struct picture_build *build = context;
	struct process *process;
	int64_t time_ns = picture_held_ns(block->allocated_ns);
	int r = find_process(&build->blocks, block->process_id, &process);

	r = r
		    ?: picture_curves_born(build->curves, (uint32_t)block->stack_id,
					   block_weigh(block->weight, (uint64_t)block->size).bytes,
					   block->allocated_ns);
	if (r < 0)
		return r;
	widen(process, time_ns, time_ns);
	process->n_blocks++;
	return picture_ranges_add(&process->ranges, block->address, (uint64_t)block->size,
				  PICTURE_HOLDS_BLOCKS);
}

/* What its end tells, in any order. */
static int end_block(struct picture_build *build, const struct picture_row_block *block)
{
	struct process *process;
	int r = find_process(&build->blocks, block->process_id, &process);

	if (r == 0 && block->freed_ns == INT64_MAX)
		process->has_left = true;
	else if (r == 0)
		widen(process, process->from_ns, picture_held_ns(block->freed_ns));
	return r;
}

int picture_build_ended(void *context, const struct picture_row_block *block)
{
	struct picture_build *build = context;
	int r = end_block(build, block);

	if (r < 0 || block->freed_ns == INT64_MAX)
		return r;
	return picture_curves_freed(build->curves, (uint32_t)block->stack_id,
				    block_weigh(block->weight, (uint64_t)block->size).bytes,
				    block->freed_ns);
}

/* ---- Rows ---- */

struct block_scan {
	struct picture_build *build;
	struct end_queue ends;
};

static int end_until(struct block_scan *scan, int64_t time_ns)
{
	struct block_end end;
	int r = 0;

	while (r == 0 && (r = end_queue_take(&scan->ends, time_ns, &end)) == 1)
		r = picture_curves_freed(scan->build->curves, end.site,
					 block_weigh(end.weight, end.size).bytes, end.time_ns);
	return r;
}

/* What ends at a moment ends before what is allocated. */
static int add_block(void *context, const struct picture_row_block *block)
{
	struct block_scan *scan = context;
	int64_t time_ns = block->allocated_ns > 0 ? block->allocated_ns : 0;
	struct picture_row_block numbered = *block;
	uint32_t site;
	int r = end_until(scan, time_ns)
			?: picture_curves_site(scan->build->curves, block->stack_id, &site);

	if (r < 0)
		return r;
	numbered.stack_id = site;
	r = picture_build_born(scan->build, &numbered) ?: end_block(scan->build, block);
	if (r < 0 || block->freed_ns == INT64_MAX)
		return r;
	const struct block_end end = {
		.time_ns = block->freed_ns > time_ns ? block->freed_ns : time_ns,
		.size = (uint64_t)block->size,
		.site = site,
		.weight = block->weight,
	};
	return end_queue_push(&scan->ends, &end);
}

static int scan_blocks(struct picture_build *build)
{
	struct block_scan scan = { .build = build };
	int r = end_queue_init(&scan.ends, build->duration_ns);

	r = r ?: picture_scan_blocks(db_handle(build->db), build->run_id, add_block, &scan);
	r = r ?: end_until(&scan, INT64_MAX);
	end_queue_finish(&scan.ends);
	return r;
}

/* ---- Touches ---- */

static int count(struct process *process, const struct touch *touch, int level)
{
	const int64_t items[PICTURE_BY_COUNT] = {
		[PICTURE_BY_DIRECTION] = touch->picture,
		[PICTURE_BY_THREAD] = touch->thread_row,
		[PICTURE_BY_LEVEL] = level,
		[PICTURE_BY_LATENCY] = picture_latency(touch->latency),
		[PICTURE_BY_SOURCE] = touch->source_row,
	};
	int r = 0;

	for (unsigned by = 0; by < PICTURE_BY_COUNT && r == 0; by++)
		r = picture_categories_add(&process->categories, (enum picture_by)by, items[by]);
	process->n_touches++;
	return r;
}

static enum picture_holding holding_of(const struct touch *touch)
{
	return touch->owner.kind == OWNER_stack	 ? PICTURE_HOLDS_STACK
	       : touch->owner.kind == OWNER_tool ? PICTURE_HOLDS_TOOL
						 : PICTURE_HOLDS_REST;
}

int picture_build_touched(struct picture_build *build, const struct touch *touch)
{
	struct process *process;
	int64_t time_ns = picture_held_ns(touch->time_ns);
	int level = picture_levels_add(&build->levels, touch);

	if (level < 0 || !touch->is_resolved || !touch->process_row)
		return level < 0 ? level : 0;
	int r = find_process(&build->touches, touch->process_row, &process);
	if (r < 0)
		return r;
	widen(process, time_ns, time_ns);
	r = picture_ranges_add(&process->ranges, touch->address, 1, holding_of(touch));
	return r < 0 || touch->picture == PICTURE_NOWHERE ? r : count(process, touch, level);
}

/* What touches tell of processes to what blocks do. */
static int join_touches(struct picture_build *build)
{
	int r = 0;

	for (size_t i = 0; i < build->touches.n && r == 0; i++) {
		struct process *from = &build->touches.items[i], *to;
		r = find_process(&build->blocks, from->id, &to);
		if (r < 0)
			return r;
		widen(to, from->from_ns, from->to_ns);
		to->n_touches = from->n_touches;
		to->categories = from->categories;
		from->categories = (struct picture_categories){ 0 };
		r = picture_ranges_join(&to->ranges, &from->ranges);
	}
	return r;
}

/* ---- Writing ---- */

static int write_process(struct picture_build *build, struct process *process)
{
	const struct picture_category_rows rows = {
		.db = build->db,
		.run_id = build->run_id,
		.process_id = process->id,
		.level_names = build->levels.names,
	};
	uint64_t height = 0;
	int r = picture_ranges_settle(&process->ranges);

	process->end_ns = end_of_process(build, process->id);
	widen(process, 0, build->duration_ns);
	if (process->has_left)
		widen(process, process->from_ns, process->end_ns);

	r = r ?: picture_bands_write(&process->ranges, build->regions, process->id, &height);
	r = r ?: picture_categories_write(&process->categories, &rows);
	if (r == 0)
		r = db_run(build->db,
			   "INSERT INTO picture(run_id, process_id, from_ns, to_ns, end_ns, height,"
			   " n_blocks, n_touches) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
			   "nnnnnnnn", build->run_id, process->id, process->from_ns,
			   process->to_ns + 1, process->end_ns, (int64_t)height,
			   (int64_t)process->n_blocks, (int64_t)process->n_touches);
	return r;
}

/* run.duration_ns; -1: the run has no rows that a picture could be of. */
static int64_t duration_of(struct db *db, int64_t run_id)
{
	return picture_held_ns(db_integer_of(
		db, -1, "SELECT duration_ns FROM run WHERE id = ?1 AND detail = 'full'", "i",
		run_id));
}

/* Those that came were not all, or not in order. */
static int read_blocks(struct picture_build *build)
{
	finish_processes(&build->blocks);
	picture_curves_close(build->curves);
	build->curves = picture_curves_open();
	return build->curves ? scan_blocks(build) : -ENOMEM;
}

int picture_build_name(struct picture_build *build, const struct tally *tally)
{
	build->has_blocks = true;
	return picture_curves_name(build->curves, tally);
}

int picture_build_write(struct picture_build *build, struct db *db, int64_t run_id)
{
	build->db = db;
	build->run_id = run_id;
	build->duration_ns = duration_of(db, run_id);
	if (build->duration_ns < 0)
		return 0;
	int r = build->has_blocks ? 0 : read_blocks(build);
	r = r ?: join_touches(build);
	r = r ?: picture_curves_write(build->curves, db, run_id, build->duration_ns);
	r = r ?: picture_levels_write(&build->levels, db, run_id);
	r = r ?: picture_regions_open(db, run_id, &build->regions);
	for (size_t i = 0; i < build->blocks.n && r == 0; i++)
		r = write_process(build, &build->blocks.items[i]);
	return r < 0 ? r : picture_grid_write(db, run_id);
}
