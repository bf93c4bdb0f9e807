#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "schemas/trace-format.h"
#include "store/columns/column.h"
#include "store/database.h"
#include "store/heatmap/address-axis.h"
#include "store/heatmap/categories.h"
#include "store/heatmap/curves.h"
#include "store/heatmap/heatmap.h"
#include "store/heatmap/parts.h"
#include "store/heatmap/draw.h"
#include "store/row-scan.h"
#include "store/site-map.h"
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
	struct picture_slabs *slabs;
	struct site_map sites; /* of blocks: 1 + stack.id */
	struct key_map named; /* of object_name.id: allocation.id */
	struct picture_regions *regions;
	struct picture_levels levels;
	int64_t time_source; /* source.id whose samples are of CPU time; 0: none */
	struct picture_row_touch last; /* that was put into a part, ... */
	int64_t last_sample; /* ... of this one */
	double share; /* of the sample at hand: its rows of time so far */
	int64_t sample;
};

static void finish(struct build *build)
{
	for (size_t i = 0; i < build->n_processes; i++) {
		picture_ranges_finish(&build->processes[i].ranges);
		picture_categories_finish(&build->processes[i].categories);
	}
	free(build->processes);
	key_map_finish(&build->numbers);
	picture_slabs_close(build->slabs);
	site_map_finish(&build->sites);
	key_map_finish(&build->named);
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

/* For touches of it. */
static int keep_site(struct build *build, const struct picture_row_block *block)
{
	bool fits = block->stack_id >= 0 && block->stack_id < UINT32_MAX;

	return site_map_put(&build->sites, block->id, fits ? (uint32_t)block->stack_id + 1 : 1);
}

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
	if (r == 0)
		r = keep_site(build, block);
	return r;
}

static int count(struct process *process, const struct picture_item *item)
{
	static const struct {
		enum picture_by by;
		enum picture_touch_column column;
	} colours[] = {
		{ PICTURE_BY_DIRECTION, PICTURE_TOUCH_DIRECTION },
		{ PICTURE_BY_THREAD, PICTURE_TOUCH_THREAD },
		{ PICTURE_BY_LEVEL, PICTURE_TOUCH_LEVEL },
		{ PICTURE_BY_LATENCY, PICTURE_TOUCH_LATENCY },
		{ PICTURE_BY_SOURCE, PICTURE_TOUCH_SOURCE },
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]) && r == 0; i++)
		r = picture_categories_add(&process->categories, colours[i].by,
					   item->values[colours[i].column]);
	return r;
}

static enum picture_holding holding_of(const struct picture_row_touch *touch)
{
	return touch->owner_kind == OWNER_stack	 ? PICTURE_HOLDS_STACK
	       : touch->owner_kind == OWNER_tool ? PICTURE_HOLDS_TOOL
						 : PICTURE_HOLDS_REST;
}

/* From 0 up to below 1, by the sample. splitmix64's mixing, as in statistics.c. */
static double draw_of(int64_t sample)
{
	uint64_t z = (uint64_t)sample * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/*
 * Whether a touch counts as one. A sample of CPU time is told several times over (exact accesses,
 * what was waited for, the mix of its loop) and has parts of different size: it counts once, at one
 * of the places that its time is charged to, drawn by their shares. What has no address takes part:
 * then the sample counts nowhere.
 */
static bool does_count(struct build *build, const struct picture_row_touch *touch)
{
	if (touch->sample->source_id != build->time_source)
		return true;
	if (touch->role != TRACE_ROLE_WINDOW)
		return false;
	if (build->sample != touch->sample->id)
		build->share = 0;
	build->sample = touch->sample->id;
	double before = build->share, drawn = draw_of(touch->sample->id);
	build->share += touch->share;
	return before <= drawn && drawn < build->share;
}

/* What does not count is kept where it says which samples touched a call site's blocks. */
static bool is_kept(struct build *build, const struct picture_row_touch *touch, int64_t site)
{
	return site > 0 && (build->last_sample != touch->sample->id ||
			    build->last.owner_kind != touch->owner_kind ||
			    build->last.owner_id != touch->owner_id);
}

/* The stack of the heap block that a touch is of, named ones too; -1, 0: there is none. */
static int64_t site_of(const struct build *build, const struct picture_row_touch *touch)
{
	int64_t id = touch->owner_kind == OWNER_heap ? touch->owner_id : 0;

	if (touch->owner_kind == OWNER_named)
		id = (int64_t)key_map_get(&build->named, (uint64_t)touch->owner_id, 0);
	return id ? (int64_t)site_map_get(&build->sites, id) - 1 : -1;
}

static int64_t direction_of(const struct picture_row_touch *touch)
{
	if (touch->role == TRACE_ROLE_FAULT)
		return PICTURE_TOUCH_FAULT;
	return touch->is_write < 0 ? PICTURE_TOUCH_UNKNOWN : touch->is_write > 0;
}

static int add_touch(void *context, const struct picture_row_touch *touch)
{
	struct build *build = context;
	struct process *process;
	bool counts = does_count(build, touch);
	int64_t time_ns = picture_held_ns(touch->sample->time_ns);
	int level = picture_levels_add(&build->levels, touch);
	int64_t site = site_of(build, touch);

	if (level < 0 || !touch->has_address || !touch->sample->process_id)
		return level < 0 ? level : 0;
	int r = find_process(build, touch->sample->process_id, &process);
	if (r < 0)
		return r;
	struct picture_item item = { .values = {
					     [PICTURE_TOUCH_TIME] = time_ns,
					     [PICTURE_TOUCH_ADDRESS] = (int64_t)touch->address,
					     [PICTURE_TOUCH_DIRECTION] =
						     counts ? direction_of(touch)
							    : PICTURE_TOUCH_NO_COUNT,
					     [PICTURE_TOUCH_SOURCE] = touch->sample->source_id,
					     [PICTURE_TOUCH_THREAD] = touch->sample->thread_id,
					     [PICTURE_TOUCH_LEVEL] = level,
					     [PICTURE_TOUCH_LATENCY] =
						     picture_latency(touch->sample->latency),
					     [PICTURE_TOUCH_SITE] = site > 0 ? site : 0,
					     [PICTURE_TOUCH_SAMPLE] = touch->sample->id,
				     } };
	widen(process, time_ns, time_ns);
	process->n_touches += counts;
	r = picture_ranges_add(&process->ranges, touch->address, 1, holding_of(touch));
	if (r == 0 && counts)
		r = count(process, &item);
	if (r < 0 || (!counts && !is_kept(build, touch, site)))
		return r;
	build->last = *touch;
	build->last_sample = touch->sample->id;
	return picture_slabs_touch(build->slabs, process->id, &item);
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

	if (r == 0)
		r = picture_bands_write(&process->ranges, build->regions, process->id, &height);
	if (r == 0)
		r = picture_categories_write(&process->categories, &rows);
	if (r == 0)
		r = db_run(build->db,
			   "INSERT INTO picture(run_id, process_id, from_ns, to_ns, end_ns, height,"
			   " n_blocks, n_touches) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
			   "nnnnnnnn", build->run_id, process->id, process->from_ns,
			   process->to_ns + 1, process->end_ns, (int64_t)height,
			   (int64_t)process->n_blocks, (int64_t)process->n_touches);
	return r;
}

static int open_parts(struct build *build)
{
	int r = picture_slabs_open(build->db, build->run_id, &build->slabs);

	build->time_source = db_integer_of(build->db, 0,
					   "SELECT id FROM source WHERE run_id = ?1 AND"
					   " measures = 'time' AND error = 0",
					   "i", build->run_id);
	return r < 0 ? r : picture_levels_init(&build->levels, build->db, build->run_id);
}

static int read_named(struct build *build)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(build->db),
				  "SELECT id, allocation_id FROM object_name"
				  " WHERE allocation_id IS NOT NULL",
				  &row);

	while (r >= 0 && (r = statement_step(row)) > 0)
		r = key_map_put(&build->named, (uint64_t)sqlite3_column_int64(row, 0), 0,
				(uint64_t)sqlite3_column_int64(row, 1));
	return r;
}

static int scan(struct build *build)
{
	sqlite3 *db = db_handle(build->db);
	const struct picture_touch_visitor visitor = {
		.touch = add_touch, .context = build, .from_ns = INT64_MIN, .to_ns = INT64_MAX
	};

	struct picture_curves *curves =
		picture_curves_begin(build->db, build->run_id, build->duration_ns);
	int r = curves ? picture_scan_blocks(db, build->run_id, add_block, build) : -ENOMEM;
	int end = picture_curves_end(curves);
	if (r == 0)
		r = end;
	if (r == 0)
		r = read_named(build);
	if (r == 0)
		r = picture_scan_touches(db, build->run_id, &visitor);
	if (r == 0)
		r = picture_slabs_flush(build->slabs);
	build->slabs = picture_slabs_close(build->slabs);
	return r < 0 ? r : picture_levels_write(&build->levels);
}

static int delete_old(struct db *db, int64_t run_id)
{
	static const char *const tables[] = {
		"band",		"site_curve",	"timeline_level",   "picture_part",
		"picture_data", "picture_tile", "picture_category", "picture",
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
	r = open_parts(&build);
	if (r == 0)
		r = scan(&build);
	if (r == 0)
		r = picture_regions_open(db, run_id, &build.regions);
	for (size_t i = 0; i < build.n_processes && r == 0; i++)
		r = write_process(&build, &build.processes[i]);
	return r < 0 ? r : picture_grid_write(db, run_id);
}
