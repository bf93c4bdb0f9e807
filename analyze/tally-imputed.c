/* Shares that could not be resolved, given to those whom the same instruction accesses otherwise. */
#include <stdlib.h>

#include "analyze/db.h"
#include "analyze/grow.h"
#include "analyze/samples.h"
#include "analyze/statement.h"
#include "analyze/tally.h"

void unresolved_finish(struct unresolved_shares *shares)
{
	key_map_finish(&shares->numbers);
	free(shares->items);
	*shares = (struct unresolved_shares){ 0 };
}

int unresolved_add(struct unresolved_shares *shares, int64_t frame, enum trace_role role, double n)
{
	uint64_t number = key_map_get(&shares->numbers, (uint64_t)frame, role);
	int r = 0;

	if (!number) {
		r = grow_array(&shares->items, shares->n, &shares->n_allocated,
			       sizeof(*shares->items));
		if (r == 0)
			r = key_map_put(&shares->numbers, (uint64_t)frame, role, shares->n + 1);
		if (r < 0)
			return r;
		shares->items[shares->n++] = (struct unresolved_share){ frame, role, 0 };
		number = shares->n;
	}
	shares->items[number - 1].n += n;
	return 0;
}

static struct imputed *find(struct tally *tally, int64_t kind, int64_t id)
{
	if (kind != OWNER_heap) {
		uint64_t number =
			key_map_get(&tally->objects.numbers, (uint64_t)kind, (uint64_t)id);

		return number ? &tally->objects.items[number - 1].imputed : NULL;
	}
	if ((size_t)id >= tally->n_stacks || tally->site_of_stack[id] == 0)
		return NULL;
	return &tally->sites[tally->site_of_stack[id]].imputed;
}

static int distribute(struct tally *tally, sqlite3_stmt *row, const struct unresolved_share *share)
{
	int r;

	sqlite3_reset(row);
	statement_integer(row, 2, share->frame);
	while ((r = statement_step(row)) == 1) {
		struct imputed *imputed =
			find(tally, sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1));
		double n = share->n * sqlite3_column_double(row, 2);

		if (imputed && share->role == TRACE_ROLE_STALL)
			imputed->n_stalls += n;
		else if (imputed)
			imputed->n += n;
	}
	return r;
}

int tally_impute(struct tally *tally, struct db *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(db),
				  "SELECT owner_kind, owner_id, share FROM main.instruction_owner"
				  " WHERE run_id = ?1 AND frame_id = ?2"
				  " ORDER BY owner_kind, owner_id",
				  &row);

	if (r == 0)
		statement_integer(row, 1, run_id);
	for (size_t i = 0; r == 0 && i < tally->unresolved.n; i++)
		r = distribute(tally, row, &tally->unresolved.items[i]);
	unresolved_finish(&tally->unresolved);
	return r;
}
