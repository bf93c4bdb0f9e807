#include "store/selection/stretches.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/database.h"
#include "store/selection/count.h"
#include "store/statement.h"
#include "store/touch.h"

int stretches_find(struct db *db, int64_t run_id, int64_t from_ns, int64_t to_ns,
		   struct stretches *ret_stretches)
{
	auto_statement sqlite3_stmt *row = NULL;
	struct stretches found = { .run_id = run_id, .have_touches = true };
	int r = statement_prepare(db_handle(db),
				  "SELECT from_ns, to_ns, touches IS NOT NULL FROM main.stretch"
				  " WHERE run_id = ?1 AND from_ns >= ?2 AND to_ns <= ?3"
				  " ORDER BY from_ns",
				  &row);
	if (r < 0)
		return r;
	statement_integer(row, 1, run_id);
	statement_integer(row, 2, from_ns);
	statement_integer(row, 3, to_ns);
	while ((r = statement_step(row)) == 1) {
		int64_t begin_ns = sqlite3_column_int64(row, 0);
		bool is_first = found.to_ns == found.from_ns;
		if (!is_first && begin_ns != found.to_ns)
			return -EBADMSG;
		found.from_ns = is_first ? begin_ns : found.from_ns;
		found.to_ns = sqlite3_column_int64(row, 1);
		found.have_touches &= sqlite3_column_int(row, 2) != 0;
		if (found.to_ns <= begin_ns)
			return -EBADMSG;
	}
	if (r == 0)
		*ret_stretches = found;
	return r;
}

int stretches_add(struct db *db, const struct stretches *stretches, enum sums_of of,
		  struct sums *sums)
{
	static const char *const sql[] = {
		[SUMS_OF_BLOCKS] = "SELECT blocks FROM main.stretch WHERE run_id = ?1 AND from_ns"
				   " >= ?2 AND to_ns <= ?3 ORDER BY from_ns",
		[SUMS_OF_TOUCHES] = "SELECT touches FROM main.stretch WHERE run_id = ?1 AND from_ns"
				    " >= ?2 AND to_ns <= ?3 ORDER BY from_ns",
	};
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(db), sql[of], &row);

	if (r < 0)
		return r;
	statement_integer(row, 1, stretches->run_id);
	statement_integer(row, 2, stretches->from_ns);
	statement_integer(row, 3, stretches->to_ns);
	while (r >= 0 && (r = statement_step(row)) == 1)
		r = sums_add(sums, of, sqlite3_column_blob(row, 0),
			     (size_t)sqlite3_column_bytes(row, 0));
	return r;
}
