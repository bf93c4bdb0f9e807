#include "store/heatmap/curves.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "perf/data-source.h"
#include "store/database.h"
#include "store/statement.h"
#include "store/totals/totals.h"
#include "store/touch.h"

#define SLOTS 32u
/*
 * How long a run lasts is known at its end: until then slots are of 2^n ns, and are joined two by
 * two when there are too many.
 */
#define FINE_SLOTS 128u
#define FIRST_LOG2 10u

struct site {
	uint64_t live_bytes;
	uint64_t most; /* since the slot at hand began */
};

struct picture_curves {
	struct site *sites; /* from 1 on */
	size_t n_sites_allocated;
	int64_t *keys; /* of them */
	size_t n_keys; /* that are in use, with [0] */
	size_t n_keys_allocated;
	struct key_map numbers; /* of keys: places in sites */
	unsigned slot_log2; /* how long one is */
	unsigned slot; /* at hand */
	uint64_t *most[FINE_SLOTS]; /* of the slots before it, by site */
	size_t n_most[FINE_SLOTS];
};

/* ---- Sites ---- */

/* What a site holds when a slot begins is the most of it so far. */
static int next_slot(struct picture_curves *curves)
{
	size_t n = curves->n_sites_allocated;
	uint64_t *most = calloc(n + 1, sizeof(*most));

	if (!most)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		most[i] = curves->sites[i].most;
		curves->sites[i].most = curves->sites[i].live_bytes;
	}
	curves->most[curves->slot] = most;
	curves->n_most[curves->slot++] = n;
	return 0;
}

/* All slots are used: the later one of two knows at least as many sites. */
static void join_slots(struct picture_curves *curves)
{
	curves->slot = FINE_SLOTS / 2;
	curves->slot_log2++;
	for (unsigned i = 0; i < FINE_SLOTS / 2; i++) {
		uint64_t *before = curves->most[2 * i], *most = curves->most[2 * i + 1];

		for (size_t k = 0; k < curves->n_most[2 * i]; k++)
			most[k] = before[k] > most[k] ? before[k] : most[k];
		free(before);
		curves->most[2 * i] = curves->most[2 * i + 1] = NULL;
		curves->most[i] = most;
		curves->n_most[i] = curves->n_most[2 * i + 1];
	}
}

static int reach(struct picture_curves *curves, uint64_t time)
{
	int r = 0;

	while (r == 0 && time >> curves->slot_log2 > curves->slot) {
		r = next_slot(curves);
		if (curves->slot == FINE_SLOTS)
			join_slots(curves);
	}
	return r;
}

int picture_curves_site(struct picture_curves *curves, int64_t key, uint32_t *ret_number)
{
	uint64_t number = key_map_get(&curves->numbers, (uint64_t)key, 0);

	if (!number) {
		number = curves->n_keys;
		int r = array_add(curves->keys, curves->n_keys, curves->n_keys_allocated, key);
		r = r ?: key_map_put(&curves->numbers, (uint64_t)key, 0, number);
		if (r < 0)
			return r;
	}
	*ret_number = (uint32_t)number;
	return 0;
}

int picture_curves_born(struct picture_curves *curves, uint32_t number, uint64_t bytes,
			int64_t time_ns)
{
	int r = grow_array_to(&curves->sites, number, &curves->n_sites_allocated,
			      sizeof(*curves->sites));

	r = r ?: reach(curves, time_ns > 0 ? (uint64_t)time_ns : 0);
	if (r < 0)
		return r;
	struct site *site = &curves->sites[number];
	site->live_bytes += bytes;
	site->most = site->live_bytes > site->most ? site->live_bytes : site->most;
	return 0;
}

int picture_curves_freed(struct picture_curves *curves, uint32_t number, uint64_t bytes,
			 int64_t time_ns)
{
	int r = reach(curves, time_ns > 0 ? (uint64_t)time_ns : 0);

	if (r == 0)
		curves->sites[number].live_bytes -= bytes;
	return r;
}

struct picture_curves *picture_curves_open(void)
{
	struct picture_curves *curves = calloc(1, sizeof(*curves));

	if (!curves)
		return NULL;
	curves->slot_log2 = FIRST_LOG2;
	return array_add(curves->keys, curves->n_keys, curves->n_keys_allocated, 0) == 0
		       ? curves
		       : picture_curves_close(curves);
}

struct picture_curves *picture_curves_close(struct picture_curves *curves)
{
	if (!curves)
		return NULL;
	for (unsigned i = 0; i < FINE_SLOTS; i++)
		free(curves->most[i]);
	free_all(curves->sites, curves->keys);
	key_map_finish(&curves->numbers);
	free(curves);
	return NULL;
}

/* In a part of the run, to the next borders of slots. */
static uint64_t most_of(const struct picture_curves *curves, size_t number, uint64_t from,
			uint64_t to)
{
	uint64_t most = 0;

	unsigned log2 = curves->slot_log2;

	for (uint64_t i = from >> log2; i < curves->slot && i << log2 < to; i++) {
		if (number < curves->n_most[i] && curves->most[i][number] > most)
			most = curves->most[i][number];
	}
	return most;
}

static int write_site(const struct picture_curves *curves, size_t number, uint64_t duration,
		      sqlite3_stmt *insert)
{
	uint8_t bytes[SLOTS * sizeof(uint64_t)];
	uint64_t most[SLOTS], bits = 1;

	for (uint64_t i = 0; i < SLOTS; i++) {
		uint64_t from = (uint64_t)((unsigned __int128)duration * i / SLOTS);
		uint64_t to = (uint64_t)((unsigned __int128)duration * (i + 1) / SLOTS);

		most[i] = most_of(curves, number, from, i + 1 < SLOTS ? to : UINT64_MAX);
		bits |= most[i];
	}
	unsigned width = (64 - (unsigned)__builtin_clzll(bits) + 7) / 8;
	for (unsigned i = 0; i < SLOTS * width; i++)
		bytes[i] = (uint8_t)(most[i / width] >> i % width * 8);
	statement_integer(insert, 2, curves->keys[number]);
	sqlite3_bind_blob(insert, 3, bytes, (int)(SLOTS * width), SQLITE_STATIC);
	return statement_run(insert);
}

int picture_curves_name(struct picture_curves *curves, const struct tally *tally)
{
	int r = 0;

	for (size_t i = 1; i < tally->n_sites && r == 0; i++)
		r = array_add(curves->keys, curves->n_keys, curves->n_keys_allocated,
			      tally->sites[i].stack_id);
	return r;
}

int picture_curves_write(struct picture_curves *curves, struct db *db, int64_t run_id,
			 int64_t duration_ns)
{
	uint64_t duration = duration_ns > 0 ? (uint64_t)duration_ns : 1;
	auto_statement sqlite3_stmt *insert = NULL;
	int r = statement_prepare(
		db_handle(db),
		"INSERT INTO site_curve(run_id, stack_id, live_bytes) VALUES(?, ?, ?)", &insert);

	r = r ?: reach(curves, duration) ?: next_slot(curves);
	if (r == 0)
		statement_integer(insert, 1, run_id);
	for (size_t i = 1; i < curves->n_keys && r == 0; i++)
		r = write_site(curves, i, duration, insert);
	return r;
}

/* ---- Levels ---- */

#define LEVEL_COUNTS ((size_t)TIMELINE_MAX * PICTURE_MAX_LEVELS)

void picture_levels_finish(struct picture_levels *levels)
{
	for (unsigned i = 0; i < levels->n; i++)
		free(levels->names[i]);
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

/* The first one finds all zero. */
static int begin_levels(struct picture_levels *levels)
{
	levels->interval_ns = TIMELINE_FIRST_NS;
	levels->counts = calloc(LEVEL_COUNTS, sizeof(*levels->counts));
	return levels->counts ? number_of(levels, "") : -ENOMEM;
}

static int read_level(struct picture_levels *levels, int64_t data_src)
{
	struct data_source told;
	int r = levels->n ? 0 : begin_levels(levels);

	if (r < 0)
		return r;
	data_source_decode((uint64_t)data_src, &told);
	r = number_of(levels, told.level);
	int put = r < 0 ? r : key_map_put(&levels->numbers, (uint64_t)data_src, 0, (uint64_t)r + 1);
	return put < 0 ? put : r;
}

/* As timeline.c does: two intervals become one. */
static void double_interval(struct picture_levels *levels)
{
	uint64_t *counts = levels->counts;
	const size_t n = PICTURE_MAX_LEVELS;

	for (size_t i = 0; i < LEVEL_COUNTS / 2; i++)
		counts[i] = counts[i / n * 2 * n + i % n] + counts[(i / n * 2 + 1) * n + i % n];
	memset(counts + LEVEL_COUNTS / 2, 0, LEVEL_COUNTS / 2 * sizeof(*counts));
	levels->interval_ns *= 2;
}

int picture_levels_add(struct picture_levels *levels, const struct touch *touch)
{
	int64_t time_ns = touch->time_ns > 0 ? touch->time_ns : 0;

	if (!touch->data_src)
		return 0;
	uint64_t known = key_map_get(&levels->numbers, (uint64_t)touch->data_src, 0);
	int level = known ? (int)known - 1 : read_level(levels, touch->data_src);
	if (level < 0 || touch->role != TRACE_ROLE_EXACT)
		return level;
	while (time_ns / levels->interval_ns >= TIMELINE_MAX)
		double_interval(levels);
	levels->counts[time_ns / levels->interval_ns * PICTURE_MAX_LEVELS + level]++;
	return level;
}

int picture_levels_write(struct picture_levels *levels, struct db *db, int64_t run_id)
{
	int64_t interval_ns = db_integer_of(
		db, 0, "SELECT max(interval_ns) FROM timeline WHERE run_id = ?1", "i", run_id);
	int r = 0;

	if (!levels->counts || interval_ns <= 0)
		return 0;
	while (levels->interval_ns < interval_ns)
		double_interval(levels);
	for (size_t i = 0; i < LEVEL_COUNTS && r == 0; i++) {
		if (levels->counts[i] > 0)
			r = db_insert(
				db, "timeline_level(run_id, time_ns, level, n)", "nntn", run_id,
				(int64_t)(i / PICTURE_MAX_LEVELS) * levels->interval_ns,
				levels->names[i % PICTURE_MAX_LEVELS], (int64_t)levels->counts[i]);
	}
	return r;
}
