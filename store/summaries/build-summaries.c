#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/worker-thread.h"
#include "schemas/trace-format.h"
#include "store/columns/column.h"
#include "store/database-internal.h"
#include "store/heatmap/address-axis.h"
#include "store/heatmap/categories.h"
#include "store/heatmap/curves.h"
#include "store/heatmap/heatmap.h"
#include "store/heatmap/draw.h"
#include "store/row-scan.h"
#include "store/selection/stretches.h"
#include "store/statement.h"
#include "store/touch.h"

/* A process while its picture is made. */
struct process {
	int64_t id;
	int64_t end_ns;
	int64_t from_ns; /* of what it has; from > to: nothing */
	int64_t to_ns;
	uint64_t n_blocks;
	uint64_t n_touches;
	struct picture_ranges ranges;
	struct picture_categories categories;
};

struct build {
	struct db *db;
	int64_t run_id;
	int64_t duration_ns;
	struct process *processes;
	size_t n_processes;
	size_t n_allocated;
	struct key_map numbers; /* of process.id: 1 + place in processes */
	struct picture_regions *regions;
	struct picture_curves *curves;
	struct picture_levels levels;
};

static void finish(struct build *build)
{
	picture_curves_close(build->curves);
	array_free(build->processes, build->n_processes, it, picture_ranges_finish(&it->ranges),
		   picture_categories_finish(&it->categories));
	key_map_finish(&build->numbers);
	picture_regions_close(build->regions);
	picture_levels_finish(&build->levels);
}
#define auto_build __attribute__((cleanup(finish)))

/* ---- Processes ---- */

static int64_t end_of_process(const struct build *build, int64_t process_id)
{
	return picture_held_ns(db_integer_of(build->db, build->duration_ns,
					     "SELECT end_ns FROM process WHERE id = ?1", "i",
					     process_id));
}

static int add_process(struct build *build, int64_t process_id)
{
	int r = grow_array(&build->processes, build->n_processes, &build->n_allocated,
			   sizeof(*build->processes));

	if (r < 0)
		return r;
	struct process *process = &build->processes[build->n_processes];
	*process = (struct process){
		.id = process_id,
		.end_ns = end_of_process(build, process_id),
		.from_ns = 0,
		.to_ns = build->duration_ns,
	};
	build->n_processes++;
	picture_ranges_init(&process->ranges);
	return key_map_put(&build->numbers, (uint64_t)process_id, 0, build->n_processes);
}

static int find_process(struct build *build, int64_t process_id, struct process **ret_process)
{
	uint64_t number = key_map_get(&build->numbers, (uint64_t)process_id, 0);

	if (!number) {
		int r = add_process(build, process_id);
		if (r < 0)
			return r;
		number = build->n_processes;
	}
	*ret_process = &build->processes[number - 1];
	return 0;
}

/* The axis of time reaches over all that there is. */
static void widen(struct process *process, int64_t from_ns, int64_t to_ns)
{
	process->from_ns = from_ns < process->from_ns ? from_ns : process->from_ns;
	process->to_ns = to_ns > process->to_ns ? to_ns : process->to_ns;
}

/* ---- Rows ---- */

static int add_block(void *context, const struct picture_row_block *block)
{
	struct build *build = context;
	struct process *process;
	bool is_freed = block->freed_ns != INT64_MAX;
	int64_t allocated_ns = picture_held_ns(block->allocated_ns);
	int r = find_process(build, block->process_id, &process);

	if (r < 0)
		return r;
	int64_t life_ns =
		picture_life_ns(allocated_ns, is_freed ? block->freed_ns : process->end_ns);
	widen(process, allocated_ns, allocated_ns + life_ns);
	process->n_blocks++;
	r = picture_ranges_add(&process->ranges, block->address, (uint64_t)block->size,
			       PICTURE_HOLDS_BLOCKS);
	return r < 0 ? r : picture_curves_add(build->curves, block);
}

static int count(struct process *process, const struct picture_row_touch *touch, int level)
{
	const int64_t items[PICTURE_BY_COUNT] = {
		[PICTURE_BY_DIRECTION] = touch->picture,
		[PICTURE_BY_THREAD] = touch->sample.thread_id,
		[PICTURE_BY_LEVEL] = level,
		[PICTURE_BY_LATENCY] = picture_latency(touch->latency),
		[PICTURE_BY_SOURCE] = touch->sample.source_id,
	};
	int r = 0;

	for (unsigned by = 0; by < PICTURE_BY_COUNT && r == 0; by++)
		r = picture_categories_add(&process->categories, (enum picture_by)by, items[by]);
	process->n_touches++;
	return r;
}

static enum picture_holding holding_of(const struct picture_row_touch *touch)
{
	return touch->owner_kind == OWNER_stack	 ? PICTURE_HOLDS_STACK
	       : touch->owner_kind == OWNER_tool ? PICTURE_HOLDS_TOOL
						 : PICTURE_HOLDS_REST;
}

static int add_touch(void *context, const struct picture_row_touch *touch)
{
	struct build *build = context;
	struct process *process;
	int64_t time_ns = picture_held_ns(touch->sample.time_ns);
	int level = picture_levels_add(&build->levels, touch);

	if (level < 0 || !touch->has_address || !touch->sample.process_id)
		return level < 0 ? level : 0;
	int r = find_process(build, touch->sample.process_id, &process);
	if (r < 0)
		return r;
	widen(process, time_ns, time_ns);
	r = picture_ranges_add(&process->ranges, touch->address, 1, holding_of(touch));
	return r < 0 || touch->picture == PICTURE_NOWHERE ? r : count(process, touch, level);
}

/* ---- Writing ---- */

static int write_process(struct build *build, struct process *process)
{
	const struct picture_category_rows rows = {
		.db = build->db,
		.run_id = build->run_id,
		.process_id = process->id,
		.level_names = build->levels.names,
	};
	uint64_t height = 0;
	int r = picture_ranges_settle(&process->ranges);

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

static int scan(struct build *build)
{
	sqlite3 *db = db_handle(build->db);
	const struct picture_touch_visitor visitor = {
		.touch = add_touch, .context = build, .from_ns = INT64_MIN, .to_ns = INT64_MAX
	};

	build->curves = picture_curves_open(build->db, build->run_id, build->duration_ns);
	int r = build->curves ? picture_scan_blocks(db, build->run_id, add_block, build) : -ENOMEM;
	r = r ?: picture_curves_write(build->curves);
	r = r ?: picture_scan_touches(db, build->run_id, &visitor);
	return r < 0 ? r : picture_levels_write(&build->levels);
}

static int delete_old(struct db *db, int64_t run_id)
{
	static const char *const tables[] = {
		"band",		"site_curve",	    "timeline_level",
		"picture_tile", "picture_category", "picture",
	};
	size_t n = sizeof(tables) / sizeof(tables[0]);
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		char *sql = sqlite3_mprintf("DELETE FROM %s WHERE run_id = %lld", tables[i],
					    (long long)run_id);
		r = sql ? db_exec(db, sql) : -ENOMEM;
		sqlite3_free(sql);
	}
	return r;
}

/* run.duration_ns; -1: the run has no rows that a picture could be of. */
static int64_t duration_of(struct db *db, int64_t run_id)
{
	return picture_held_ns(db_integer_of(
		db, -1, "SELECT duration_ns FROM run WHERE id = ?1 AND detail = 'full'", "i",
		run_id));
}

int picture_write(struct db *db, int64_t run_id)
{
	auto_build struct build build = {
		.db = db,
		.run_id = run_id,
		.duration_ns = duration_of(db, run_id),
	};
	int r = delete_old(db, run_id);

	if (r < 0 || build.duration_ns < 0)
		return r;
	r = picture_levels_init(&build.levels, db, run_id) ?: scan(&build);
	r = r ?: picture_regions_open(db, run_id, &build.regions);
	for (size_t i = 0; i < build.n_processes && r == 0; i++)
		r = write_process(&build, &build.processes[i]);
	return r < 0 ? r : picture_grid_write(db, run_id);
}

/* ---- Sums beside them ---- */

/* On a thread of its own: neither reads what the other one writes. */
struct beside {
	struct db db; /* with a last statement of its own */
	int64_t run_id;
	int result;
};

static void *run_beside(void *context)
{
	struct beside *beside = context;

	beside->result = stretches_write(&beside->db, beside->run_id, 0);
	db_forget_last(&beside->db);
	return NULL;
}

int summaries_write(struct db *db, int64_t run_id)
{
	struct beside beside = { .db = { .handle = db->handle }, .run_id = run_id };
	pthread_t thread;
	bool has_thread = quiet_thread_start(&thread, run_beside, &beside) == 0;
	int r = picture_write(db, run_id);

	if (has_thread)
		pthread_join(thread, NULL);
	else if (r == 0)
		run_beside(&beside);
	return r < 0 ? r : beside.result;
}
