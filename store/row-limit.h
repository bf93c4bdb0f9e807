#pragma once
/*
 * Ids of rows are given out one by one, so that arrays hold what is known of them. Somebody else's
 * database may have any: this is what an id must be below, so that an array's memory follows from
 * the rows that there are.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Some times the number of rows of a table of ours (with its schema), as there are gaps where
 * somebody deleted rows. What fails sticks to the connection (statement_kept()).
 */
int64_t row_limit(sqlite3 *db, const char *table);

/* Whether there can be such a row; 0, which stands for none, can. */
static inline bool row_is_below(int64_t id, int64_t limit)
{
	return id >= 0 && id < limit;
}
