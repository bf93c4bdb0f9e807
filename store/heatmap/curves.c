#include "store/heatmap/curves.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "store/block-weight.h"
#include "store/database.h"
#include "store/end-queue.h"
#include "store/statement.h"
#include "store/totals/timeline.h"

#define SLOTS 32u
struct site {
	int64_t stack_id;
	uint64_t live_bytes;
	unsigned slot; /* of its last change */
	uint64_t most[SLOTS];
};

struct picture_curves {
	struct db *db;
	int64_t run_id;
	uint64_t duration;
	struct site *sites;
	size_t n_sites;
	size_t n_sites_allocated;
	struct key_map numbers; /* of stack_id: 1 + place in sites */
	struct end_queue ends;
	uint64_t now; /* time of the last end that was taken */
};

/* ---- Sites ---- */

static unsigned slot_of(const struct picture_curves *curves, uint64_t time)
{
	uint64_t slot = (uint64_t)((unsigned __int128)time * SLOTS / curves->duration);

	return slot < SLOTS ? (unsigned)slot : SLOTS - 1;
}

/* What it held since its last change was the most of all slots since that one. */
static void reach(struct site *site, unsigned slot)
{
	for (; site->slot < slot; site->slot++)
		site->most[site->slot + 1] = site->live_bytes;
}

/* by: what is added, or 0 less what is taken off. */
static void change(const struct picture_curves *curves, struct site *site, uint64_t time,
		   uint64_t by)
{
	reach(site, slot_of(curves, time));
	site->live_bytes += by;
	if (site->live_bytes > site->most[site->slot])
		site->most[site->slot] = site->live_bytes;
}

static int find_site(struct picture_curves *curves, int64_t stack_id, uint32_t *ret_site)
{
	uint64_t number = key_map_get(&curves->numbers, (uint64_t)stack_id, 0);

	if (!number) {
		int r = grow_array(&curves->sites, curves->n_sites, &curves->n_sites_allocated,
				   sizeof(*curves->sites));
		r = r ?: key_map_put(&curves->numbers, (uint64_t)stack_id, 0, curves->n_sites + 1);
		if (r < 0)
			return r;
		curves->sites[curves->n_sites] = (struct site){ .stack_id = stack_id };
		number = ++curves->n_sites;
	}
	*ret_site = (uint32_t)(number - 1);
	return 0;
}

static int end_until(struct picture_curves *curves, int64_t time_ns)
{
	struct block_end end;
	int r;

	while ((r = end_queue_take(&curves->ends, time_ns, &end)) == 1) {
		curves->now = (uint64_t)end.time_ns;
		change(curves, &curves->sites[end.site], curves->now,
		       0 - block_weigh(end.weight, end.size).bytes);
	}
	return r;
}

/* What ends at a moment ends before what is allocated. */
int picture_curves_add(struct picture_curves *curves, const struct picture_row_block *block)
{
	uint64_t time = block->allocated_ns > 0 ? (uint64_t)block->allocated_ns : 0;
	uint32_t site = 0;
	int r = end_until(curves, (int64_t)time) ?: find_site(curves, block->stack_id, &site);
	if (r < 0)
		return r;
	time = time < curves->now ? curves->now : time;
	change(curves, &curves->sites[site], time,
	       block_weigh(block->weight, (uint64_t)block->size).bytes);
	if (block->freed_ns == INT64_MAX)
		return 0;
	const struct block_end end = {
		.time_ns = block->freed_ns > (int64_t)time ? block->freed_ns : (int64_t)time,
		.size = (uint64_t)block->size,
		.site = site,
		.weight = block->weight,
	};
	return end_queue_push(&curves->ends, &end);
}

struct picture_curves *picture_curves_open(struct db *db, int64_t run_id, int64_t duration_ns)
{
	struct picture_curves *curves = calloc(1, sizeof(*curves));

	if (!curves)
		return NULL;
	curves->db = db;
	curves->run_id = run_id;
	curves->duration = duration_ns > 0 ? (uint64_t)duration_ns : 1;
	return end_queue_init(&curves->ends, duration_ns) < 0 ? picture_curves_close(curves)
							      : curves;
}

struct picture_curves *picture_curves_close(struct picture_curves *curves)
{
	if (!curves)
		return NULL;
	free(curves->sites);
	key_map_finish(&curves->numbers);
	end_queue_finish(&curves->ends);
	free(curves);
	return NULL;
}

static int write_site(struct site *site, sqlite3_stmt *insert)
{
	uint8_t bytes[SLOTS * sizeof(uint64_t)];
	uint64_t bits = 1;

	reach(site, SLOTS - 1);
	for (unsigned i = 0; i < SLOTS; i++)
		bits |= site->most[i];
	unsigned width = (64 - (unsigned)__builtin_clzll(bits) + 7) / 8;
	for (unsigned i = 0; i < SLOTS * width; i++)
		bytes[i] = (uint8_t)(site->most[i / width] >> i % width * 8);
	statement_integer(insert, 2, site->stack_id);
	sqlite3_bind_blob(insert, 3, bytes, (int)(SLOTS * width), SQLITE_STATIC);
	return statement_run(insert);
}

int picture_curves_write(struct picture_curves *curves)
{
	auto_statement sqlite3_stmt *insert = NULL;
	int r = end_until(curves, INT64_MAX);

	if (r == 0)
		r = statement_prepare(
			db_handle(curves->db),
			"INSERT INTO site_curve(run_id, stack_id, live_bytes) VALUES(?, ?, ?)",
			&insert);
	if (r < 0)
		return r;
	statement_integer(insert, 1, curves->run_id);
	for (size_t i = 0; i < curves->n_sites && r == 0; i++)
		r = write_site(&curves->sites[i], insert);
	return r;
}

/* ---- Levels ---- */

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
	int64_t slot = touch->sample.time_ns > 0 ? touch->sample.time_ns / levels->interval_ns : 0;
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
