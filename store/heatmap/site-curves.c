#include "store/heatmap/site-curves.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "store/database.h"
#include "store/statement.h"

#define SLOTS 32u
struct site {
	int64_t stack_id;
	uint64_t live_bytes;
	unsigned slot; /* of its last change */
	uint64_t most[SLOTS];
};

struct picture_curves {
	uint64_t duration;
	struct site *sites;
	size_t n_sites;
	size_t n_sites_allocated;
	struct key_map numbers; /* of stack_id: 1 + place in sites */
};

struct picture_curves *picture_curves_close(struct picture_curves *curves)
{
	if (!curves)
		return NULL;
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

int picture_curves_change(struct picture_curves *curves, int64_t stack_id, uint64_t time,
			  int64_t by)
{
	uint32_t site;
	int r = find_site(curves, stack_id, &site);

	if (r == 0)
		change(curves, &curves->sites[site], time, by);
	return r;
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
	int r = statement_prepare(
		db_handle(db),
		"INSERT INTO site_curve(run_id, stack_id, live_bytes) VALUES(?, ?, ?)", &insert);

	if (r < 0)
		return r;
	statement_integer(insert, 1, run_id);
	for (size_t i = 0; i < curves->n_sites && r == 0; i++)
		r = write_site(&curves->sites[i], insert);
	return r;
}
