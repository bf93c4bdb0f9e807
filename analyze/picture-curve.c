#include "analyze/picture-curve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/db.h"
#include "analyze/grow.h"
#include "analyze/key-map.h"
#include "analyze/statement.h"
#include "common/cleanup.h"

#define SLOTS	32u
#define BUCKETS 65u

struct death {
	uint64_t time;
	uint32_t site;
	uint64_t size;
};

/* Deaths whose times differ from `now` first in the same bit. */
struct bucket {
	struct death *items;
	size_t n;
	size_t n_allocated;
};

struct site {
	int64_t stack_id;
	uint64_t live_bytes;
	unsigned slot; /* of its last change */
	uint64_t most[SLOTS];
};

/*
 * The heap is a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990): times that are taken never go
 * back, so an item moves to lower buckets only.
 */
struct picture_curves {
	uint64_t duration;
	uint64_t now; /* time of the last death that was taken */
	struct bucket buckets[BUCKETS];
	uint64_t least[BUCKETS]; /* time in each bucket */
	struct site *sites;
	size_t n_sites;
	size_t n_sites_allocated;
	struct key_map numbers; /* of stack_id: 1 + place in sites */
};

struct picture_curves *picture_curves_close(struct picture_curves *curves)
{
	if (!curves)
		return NULL;
	for (unsigned i = 0; i < BUCKETS; i++)
		free(curves->buckets[i].items);
	free(curves->sites);
	key_map_finish(&curves->numbers);
	free(curves);
	return NULL;
}

struct picture_curves *picture_curves_open(int64_t duration_ns)
{
	struct picture_curves *curves = calloc(1, sizeof(*curves));

	if (!curves)
		return NULL;
	curves->duration = duration_ns > 0 ? (uint64_t)duration_ns : 1;
	memset(curves->least, 0xff, sizeof(curves->least));
	return curves;
}

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

static void change(const struct picture_curves *curves, struct site *site, uint64_t time,
		   int64_t by)
{
	reach(site, slot_of(curves, time));
	site->live_bytes += (uint64_t)by;
	if (site->live_bytes > site->most[site->slot])
		site->most[site->slot] = site->live_bytes;
}

static int find_site(struct picture_curves *curves, int64_t stack_id, uint32_t *ret_site)
{
	uint64_t number = key_map_get(&curves->numbers, (uint64_t)stack_id, 0);

	if (!number) {
		int r = grow_array(&curves->sites, curves->n_sites, &curves->n_sites_allocated,
				   sizeof(*curves->sites));
		if (r == 0)
			r = key_map_put(&curves->numbers, (uint64_t)stack_id, 0,
					curves->n_sites + 1);
		if (r < 0)
			return r;
		curves->sites[curves->n_sites] = (struct site){ .stack_id = stack_id };
		number = ++curves->n_sites;
	}
	*ret_site = (uint32_t)(number - 1);
	return 0;
}

/* ---- Deaths ---- */

static unsigned bucket_of(const struct picture_curves *curves, uint64_t time)
{
	uint64_t bits = time ^ curves->now;

	return bits ? 64 - (unsigned)__builtin_clzll(bits) : 0;
}

static int push(struct picture_curves *curves, const struct death *death)
{
	unsigned i = bucket_of(curves, death->time);
	struct bucket *bucket = &curves->buckets[i];
	int r = grow_array(&bucket->items, bucket->n, &bucket->n_allocated, sizeof(*bucket->items));

	if (r < 0)
		return r;
	bucket->items[bucket->n++] = *death;
	if (death->time < curves->least[i])
		curves->least[i] = death->time;
	return 0;
}

/* The least time of a bucket becomes `now`, and its items go where they then belong. */
static int spread(struct picture_curves *curves, unsigned i)
{
	struct bucket bucket = curves->buckets[i];
	int r = 0;

	curves->now = curves->least[i];
	curves->buckets[i] = (struct bucket){ 0 };
	curves->least[i] = UINT64_MAX;
	for (size_t j = 0; j < bucket.n && r == 0; j++)
		r = push(curves, &bucket.items[j]);
	if (!curves->buckets[i].items) { /* its memory serves again */
		bucket.n = 0;
		curves->buckets[i] = bucket;
	} else {
		free(bucket.items);
	}
	return r;
}

/* Let all deaths happen up to a time. */
static int take(struct picture_curves *curves, uint64_t until)
{
	for (;;) {
		unsigned i = 0;
		while (i < BUCKETS && curves->buckets[i].n == 0)
			i++;
		if (i == BUCKETS || curves->least[i] > until)
			return 0;
		if (i > 0) {
			int r = spread(curves, i);
			if (r < 0)
				return r;
		}
		struct bucket *bucket = &curves->buckets[0];
		for (size_t j = 0; j < bucket->n; j++) {
			const struct death *death = &bucket->items[j];
			change(curves, &curves->sites[death->site], death->time,
			       (int64_t)(0 - death->size));
		}
		bucket->n = 0;
		curves->least[0] = UINT64_MAX;
	}
}

int picture_curves_add(struct picture_curves *curves, const struct picture_row_block *block)
{
	uint64_t birth = block->birth_ns > 0 ? (uint64_t)block->birth_ns : 0;
	struct death death = { .size = (uint64_t)block->size };
	int r = take(curves, birth);

	if (r == 0)
		r = find_site(curves, block->stack_id, &death.site);
	if (r < 0)
		return r;
	if (birth < curves->now)
		birth = curves->now;
	change(curves, &curves->sites[death.site], birth, block->size);
	if (block->death_ns == INT64_MAX)
		return 0;
	death.time = block->death_ns > (int64_t)birth ? (uint64_t)block->death_ns : birth;
	return push(curves, &death);
}

static int write_site(struct site *site, sqlite3_stmt *insert)
{
	reach(site, SLOTS - 1);
	statement_integer(insert, 2, site->stack_id);
	sqlite3_bind_blob(insert, 3, site->most, sizeof(site->most), SQLITE_STATIC);
	return statement_run(insert);
}

int picture_curves_write(struct picture_curves *curves, struct db *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *insert = NULL;
	int r = take(curves, UINT64_MAX);

	if (r == 0)
		r = statement_prepare(
			db_handle(db),
			"INSERT INTO site_curve(run_id, stack_id, live_bytes) VALUES(?, ?, ?)",
			&insert);
	if (r < 0)
		return r;
	statement_integer(insert, 1, run_id);
	for (size_t i = 0; i < curves->n_sites && r == 0; i++)
		r = write_site(&curves->sites[i], insert);
	return r;
}
