#include "store/heatmap/memory-levels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/database.h"
#include "store/statement.h"
#include "store/totals/timeline.h"

int picture_levels_init(struct picture_levels *levels, struct db *db, int64_t run_id)
{
	*levels = (struct picture_levels){ .db = db, .run_id = run_id, .n = 1 };
	levels->interval_ns = db_integer_of(
		db, 0, "SELECT max(interval_ns) FROM timeline WHERE run_id = ?1", "i", run_id);
	levels->counts = calloc(TIMELINE_MAX * PICTURE_MAX_LEVELS, sizeof(*levels->counts));
	levels->names[0] = strdup("");
	if (!levels->counts || !levels->names[0])
		return -ENOMEM;
	return statement_prepare(db_handle(db), "SELECT level FROM data_source WHERE data_src = ?",
				 &levels->name_of);
}

void picture_levels_finish(struct picture_levels *levels)
{
	for (unsigned i = 0; i < levels->n; i++)
		free(levels->names[i]);
	sqlite3_finalize(levels->name_of);
	key_map_finish(&levels->numbers);
	free(levels->counts);
	*levels = (struct picture_levels){ 0 };
}

/* The number of a name; beyond what there is room for, that of none. */
static int number_of(struct picture_levels *levels, const char *name)
{
	for (unsigned i = 0; i < levels->n; i++) {
		if (strcmp(levels->names[i], name) == 0)
			return (int)i;
	}
	if (levels->n == PICTURE_MAX_LEVELS)
		return 0;
	levels->names[levels->n] = strdup(name);
	return levels->names[levels->n] ? (int)levels->n++ : -ENOMEM;
}

static int read_level(struct picture_levels *levels, int64_t data_src)
{
	statement_integer(levels->name_of, 1, data_src);
	int r = statement_step(levels->name_of);
	const char *name = r > 0 ? statement_string_or_null(levels->name_of, 0) : NULL;

	if (r >= 0)
		r = number_of(levels, name ? name : "");
	sqlite3_reset(levels->name_of);
	if (r < 0)
		return r;
	int put = key_map_put(&levels->numbers, (uint64_t)data_src, 0, (uint64_t)r + 1);
	return put < 0 ? put : r;
}

int picture_levels_add(struct picture_levels *levels, const struct picture_row_touch *touch)
{
	if (!touch->data_src)
		return 0;
	uint64_t known = key_map_get(&levels->numbers, (uint64_t)touch->data_src, 0);
	int level = known ? (int)known - 1 : read_level(levels, touch->data_src);
	if (level < 0 || touch->role != 0 || levels->interval_ns <= 0)
		return level;
	int64_t slot =
		touch->sample->time_ns > 0 ? touch->sample->time_ns / levels->interval_ns : 0;
	if (slot >= TIMELINE_MAX)
		slot = TIMELINE_MAX - 1;
	levels->counts[(size_t)slot * PICTURE_MAX_LEVELS + (size_t)level]++;
	return level;
}

int picture_levels_write(const struct picture_levels *levels)
{
	int r = 0;

	for (size_t i = 0; i < TIMELINE_MAX * PICTURE_MAX_LEVELS && r == 0; i++) {
		if (levels->counts[i] > 0)
			r = db_run(levels->db,
				   "INSERT INTO timeline_level(run_id, time_ns, level, n)"
				   " VALUES(?1, ?2, ?3, ?4)",
				   "nntn", levels->run_id,
				   (int64_t)(i / PICTURE_MAX_LEVELS) * levels->interval_ns,
				   levels->names[i % PICTURE_MAX_LEVELS],
				   (int64_t)levels->counts[i]);
	}
	return r;
}
