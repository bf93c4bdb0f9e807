#include "analyze/object-totals.h"

#include <stdlib.h>

#include "analyze/db.h"
#include "analyze/grow.h"
#include "analyze/samples.h"

void object_totals_finish(struct object_totals *totals)
{
	key_map_finish(&totals->numbers);
	free(totals->items);
	totals->items = NULL;
}

static int add_item(struct object_totals *totals, int64_t kind, int64_t id)
{
	int r = grow_array(&totals->items, totals->n, &totals->n_allocated, sizeof(*totals->items));

	if (r == 0)
		r = key_map_put(&totals->numbers, (uint64_t)kind, (uint64_t)id, totals->n + 1);
	if (r == 0)
		totals->items[totals->n++] = (struct object_total){
			.owner_kind = kind,
			.owner_id = id,
			.first_touch_ns = INT64_MAX,
			.last_touch_ns = INT64_MIN,
		};
	return r;
}

int object_totals_at(struct object_totals *totals, int64_t kind, int64_t id,
		     struct object_total **ret_item)
{
	uint64_t number = key_map_get(&totals->numbers, (uint64_t)kind, (uint64_t)id);
	int r = number ? 0 : add_item(totals, kind, id);

	if (r == 0)
		*ret_item = &totals->items[number ? number - 1 : totals->n - 1];
	return r;
}

static void settle(struct object_total *item)
{
	item->n_samples_sq += item->sample_share * item->sample_share;
	item->sample_share = 0;
}

static void add_time(struct object_total *item, const struct sample_touch *touch)
{
	if (item->sample != touch->sample)
		settle(item);
	item->sample = touch->sample;
	item->sample_share += touch->share;
	item->n_samples += touch->share;
	item->time_ns += touch->share * (double)touch->weight;
}

int object_totals_add(struct object_totals *totals, const struct sample_touch *touch)
{
	struct object_total *item;
	int r = object_totals_at(totals, touch->owner.kind, touch->owner.id, &item);

	if (r < 0)
		return r;
	if (touch->time_ns < item->first_touch_ns)
		item->first_touch_ns = touch->time_ns;
	if (touch->time_ns > item->last_touch_ns)
		item->last_touch_ns = touch->time_ns;
	item->n_faults += touch->role == TRACE_ROLE_FAULT;
	if (touch->role == TRACE_ROLE_WINDOW)
		add_time(item, touch);
	if (touch->role == TRACE_ROLE_STALL)
		share_total_add(&item->stalls, touch->sample, touch->share);
	return 0;
}

int object_totals_write(struct object_totals *totals, struct db *db, int64_t run_id)
{
	int r = 0;

	for (size_t i = 0; i < totals->n && r == 0; i++) {
		struct object_total *item = &totals->items[i];
		settle(item);
		share_total_settle(&item->stalls);
		r = db_run(db,
			   "INSERT INTO object_total(run_id, owner_kind, owner_id, n_samples,"
			   " n_samples_sq, time_ns, n_faults, first_touch_ns, last_touch_ns,"
			   " n_stalls, n_stalls_sq, n_imputed, n_stalls_imputed)"
			   " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
			   "nnnrrrnnnrrrr", run_id, item->owner_kind, item->owner_id,
			   item->n_samples, item->n_samples_sq, item->time_ns,
			   (int64_t)item->n_faults, item->first_touch_ns, item->last_touch_ns,
			   item->stalls.n, item->stalls.n_sq, item->imputed.n,
			   item->imputed.n_stalls);
	}
	return r;
}
