#include "store/totals/stacks.h"

#include <stdlib.h>

#include "common/array.h"
#include "store/database.h"
#include "store/statement.h"

void stack_totals_finish(struct stack_totals *totals)
{
	key_map_finish(&totals->numbers);
	free(totals->items);
	*totals = (struct stack_totals){ 0 };
}

static int add_item(struct stack_totals *totals, enum source_measures measures, int64_t stack_id)
{
	int r = grow_array(&totals->items, totals->n, &totals->n_allocated, sizeof(*totals->items));

	r = r ?: key_map_put(&totals->numbers, (uint64_t)stack_id, measures, totals->n + 1);
	if (r == 0)
		totals->items[totals->n++] =
			(struct stack_total){ .measures = measures, .stack_id = stack_id };
	return r;
}

int stack_totals_at(struct stack_totals *totals, enum source_measures measures, int64_t stack_id,
		    struct stack_total **ret_item)
{
	uint64_t number = key_map_get(&totals->numbers, (uint64_t)stack_id, measures);
	int r = number ? 0 : add_item(totals, measures, stack_id);

	if (r == 0)
		*ret_item = &totals->items[number ? number - 1 : totals->n - 1];
	return r;
}

int stack_totals_add(struct stack_totals *totals, enum source_measures measures, int64_t stack_id,
		     int64_t weight)
{
	struct stack_total *item;
	int r = stack_id ? stack_totals_at(totals, measures, stack_id, &item) : 0;

	if (r < 0 || stack_id == 0)
		return r;
	item->n++;
	/* Unsigned: a damaged weight may be anything. */
	item->weight = (int64_t)((uint64_t)item->weight + (uint64_t)weight);
	return 0;
}

int stack_totals_write(const struct stack_totals *totals, struct db *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *insert = NULL;
	int r = statement_prepare(db_handle(db),
				  "INSERT INTO sample_stack(run_id, measures, stack_id, n, weight)"
				  " VALUES(?, ?, ?, ?, ?)",
				  &insert);

	for (size_t i = 0; i < totals->n && r == 0; i++) {
		const struct stack_total *item = &totals->items[i];
		statement_integer(insert, 1, run_id);
		statement_text(insert, 2, source_measures_word(item->measures));
		statement_integer(insert, 3, item->stack_id);
		statement_integer(insert, 4, (int64_t)item->n);
		statement_integer(insert, 5, item->weight);
		r = statement_run(insert);
	}
	return r;
}
