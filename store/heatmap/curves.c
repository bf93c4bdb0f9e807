#include "store/heatmap/curves.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "store/database.h"
#include "store/statement.h"
#include "store/totals/totals.h"

#define SLOTS 32u
struct site {
	int64_t key;
	uint64_t live_bytes;
	unsigned slot; /* of its last change */
	uint64_t most[SLOTS];
};

struct picture_curves {
	uint64_t duration;
	struct site *sites;
	size_t n_sites;
	size_t n_sites_allocated;
	struct key_map numbers; /* of keys: 1 + place in sites */
	uint64_t now; /* time of the last end */
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

int picture_curves_site(struct picture_curves *curves, int64_t key, uint32_t *ret_number)
{
	uint64_t number = key_map_get(&curves->numbers, (uint64_t)key, 0);

	if (!number) {
		int r = grow_array(&curves->sites, curves->n_sites, &curves->n_sites_allocated,
				   sizeof(*curves->sites));
		r = r ?: key_map_put(&curves->numbers, (uint64_t)key, 0, curves->n_sites + 1);
		if (r < 0)
			return r;
		curves->sites[curves->n_sites] = (struct site){ .key = key };
		number = ++curves->n_sites;
	}
	*ret_number = (uint32_t)(number - 1);
	return 0;
}

void picture_curves_born(struct picture_curves *curves, uint32_t number, uint64_t bytes,
			 int64_t time_ns)
{
	uint64_t time = time_ns > 0 ? (uint64_t)time_ns : 0;

	change(curves, &curves->sites[number], time < curves->now ? curves->now : time, bytes);
}

void picture_curves_freed(struct picture_curves *curves, uint32_t number, uint64_t bytes,
			  int64_t time_ns)
{
	curves->now = time_ns > 0 ? (uint64_t)time_ns : 0;
	change(curves, &curves->sites[number], curves->now, 0 - bytes);
}

struct picture_curves *picture_curves_open(int64_t duration_ns)
{
	struct picture_curves *curves = calloc(1, sizeof(*curves));

	if (curves)
		curves->duration = duration_ns > 0 ? (uint64_t)duration_ns : 1;
	return curves;
}

struct picture_curves *picture_curves_close(struct picture_curves *curves)
{
	if (!curves)
		return NULL;
	free(curves->sites);
	key_map_finish(&curves->numbers);
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
	statement_integer(insert, 2, site->key);
	sqlite3_bind_blob(insert, 3, bytes, (int)(SLOTS * width), SQLITE_STATIC);
	return statement_run(insert);
}

void picture_curves_name(struct picture_curves *curves, const struct tally *tally)
{
	for (size_t i = 0; i < curves->n_sites; i++)
		curves->sites[i].key = tally->sites[curves->sites[i].key].stack_id;
}

int picture_curves_write(struct picture_curves *curves, struct db *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *insert = NULL;
	int r = statement_prepare(
		db_handle(db),
		"INSERT INTO site_curve(run_id, stack_id, live_bytes) VALUES(?, ?, ?)", &insert);

	if (r == 0)
		statement_integer(insert, 1, run_id);
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
