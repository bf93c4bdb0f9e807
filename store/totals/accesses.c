#include "store/totals/accesses.h"

#include <stdlib.h>

#include "common/array.h"
#include "store/database.h"
#include "store/statement.h"
#include "store/touch.h"

/* Sources are few, kinds of owners fewer, and rows never 2^46. */
#define SOURCE_SHIFT 52
#define KIND_SHIFT   46

void access_totals_finish(struct access_totals *totals)
{
	key_map_finish(&totals->numbers);
	free(totals->items);
	*totals = (struct access_totals){ 0 };
}

static int add_item(struct access_totals *totals, const struct access_total *like, uint64_t key)
{
	int r = grow_array(&totals->items, totals->n, &totals->n_allocated, sizeof(*totals->items));

	r = r ?: key_map_put(&totals->numbers, key, (uint64_t)like->data_src, totals->n + 1);
	if (r == 0)
		totals->items[totals->n++] = (struct access_total){
			.source_row = like->source_row,
			.owner_kind = like->owner_kind,
			.owner_id = like->owner_id,
			.data_src = like->data_src,
		};
	return r;
}

int access_totals_at(struct access_totals *totals, const struct access_total *like,
		     struct access_total **ret_item)
{
	uint64_t key = (uint64_t)like->source_row << SOURCE_SHIFT |
		       (uint64_t)like->owner_kind << KIND_SHIFT | (uint64_t)like->owner_id;
	uint64_t number = key_map_get(&totals->numbers, key, (uint64_t)like->data_src);
	int r = number ? 0 : add_item(totals, like, key);

	if (r == 0)
		*ret_item = &totals->items[number ? number - 1 : totals->n - 1];
	return r;
}

int access_totals_add(struct access_totals *totals, const struct touch *touch, int64_t owner_id)
{
	const struct access_total like = {
		.source_row = touch->source_row,
		.owner_kind = touch->owner.kind,
		.owner_id = owner_id,
		.data_src = touch->data_src,
	};
	struct access_total *item;
	int r = access_totals_at(totals, &like, &item);

	if (r < 0)
		return r;
	item->n++;
	item->n_writes += touch->is_write > 0;
	item->n_latencies += touch->latency > 0;
	item->latency += touch->latency;
	item->latency_sq += (double)touch->latency * (double)touch->latency;
	return 0;
}

/* Parsing takes ten times as long as a row: one statement for all. */
static int write_items(const struct access_totals *totals, struct db *db, int64_t run_id,
		       const char *sql)
{
	auto_statement sqlite3_stmt *insert = NULL;
	int r = statement_prepare(db_handle(db), sql, &insert);
	int n_columns = r == 0 ? sqlite3_bind_parameter_count(insert) : 0;

	for (size_t i = 0; i < totals->n && r == 0; i++) {
		const struct access_total *item = &totals->items[i];
		const int64_t values[] = {
			run_id,
			item->source_row,
			item->owner_kind,
			item->owner_id,
			item->data_src,
			(int64_t)item->n,
			(int64_t)item->n_writes,
			(int64_t)item->n_latencies,
			(int64_t)item->latency,
		};

		for (int k = 0; k < n_columns && k < 9; k++)
			statement_integer(insert, k + 1, values[k]);
		if (n_columns > 9)
			statement_real(insert, 10, item->latency_sq);
		r = statement_run(insert);
	}
	return r;
}

int access_totals_write(const struct access_totals *totals, struct db *db, int64_t run_id)
{
	return write_items(totals, db, run_id,
			   "INSERT INTO access_total(run_id, source_id, owner_kind, owner_id,"
			   " data_src, n, n_writes, n_latencies, latency, latency_sq)"
			   " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)");
}

int access_totals_write_nodes(const struct access_totals *totals, struct db *db, int64_t run_id)
{
	return write_items(totals, db, run_id,
			   "INSERT INTO fault_node(run_id, source_id, owner_kind, owner_id, node,"
			   " n) VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
}
