#include "store/totals/objects.h"

#include <stdlib.h>

#include "common/array.h"
#include "store/database.h"
#include "store/statement.h"
#include "store/totals/totals.h"
#include "store/touch.h"

void object_totals_finish(struct object_totals *totals)
{
	key_map_finish(&totals->numbers);
	free(totals->items);
	*totals = (struct object_totals){ 0 };
}

static int add_item(struct object_totals *totals, int64_t kind, int64_t id)
{
	int r = grow_array(&totals->items, totals->n, &totals->n_allocated, sizeof(*totals->items));

	r = r ?: key_map_put(&totals->numbers, (uint64_t)kind, (uint64_t)id, totals->n + 1);
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

int object_totals_add(struct object_totals *totals, const struct touch *touch, uint32_t *ret_index)
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
	*ret_index = (uint32_t)(item - totals->items);
	return 0;
}

static int write_item(const struct tally *tally, const struct object_total *item,
		      sqlite3_stmt *statement)
{
	const struct share_sum *time = &item->shares.of[SHARE_TIME];
	const struct share_sum *stalls = &item->shares.of[SHARE_STALL];

	statement_integer(statement, 2, item->owner_kind);
	statement_integer(statement, 3, item->owner_id);
	statement_real(statement, 4, time->n);
	statement_real(statement, 5, time->n_sq);
	statement_real(statement, 6, time->time);
	statement_integer(statement, 7, (int64_t)item->n_faults);
	statement_integer(statement, 8, item->first_touch_ns);
	statement_integer(statement, 9, item->last_touch_ns);
	statement_real(statement, 10, stalls->n);
	statement_real(statement, 11, stalls->n_sq);
	statement_real(statement, 12, item->shares.imputed[SHARE_TIME].n);
	statement_real(statement, 13, item->shares.imputed[SHARE_STALL].n);
	tally_bind_answers(statement, 14, tally, &item->shares);
	return statement_run(statement);
}

int object_totals_write(const struct tally *tally, struct db *db, int64_t run_id)
{
	const struct object_totals *totals = &tally->objects;
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(
		db_handle(db),
		"INSERT INTO object_total(run_id, owner_kind, owner_id, n_samples, n_samples_sq,"
		" time_ns, n_faults, first_touch_ns, last_touch_ns, n_stalls, n_stalls_sq,"
		" n_imputed, n_stalls_imputed, share, share_low, share_high, stall_share,"
		" stall_low, stall_high) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,"
		" ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
		&statement);

	if (r == 0)
		statement_integer(statement, 1, run_id);
	for (size_t i = 0; i < totals->n && r == 0; i++)
		r = write_item(tally, &totals->items[i], statement);
	return r;
}
