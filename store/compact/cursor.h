#pragma once
/*
 * Rows of a compact table in the order of their ids, both series merged. Columns are decoded when
 * they are asked for.
 */
#include <stdbool.h>
#include <stdint.h>

#include "store/compact/chunk-store.h"
#include "store/compact/filter.h"

struct chunk_cursor;

/* Which rows of chunks a table shows: each number of a row once. */
struct chunk_view {
	unsigned row_id; /* the column of these numbers, which ascend */
	unsigned tables; /* the column that has ... */
	int64_t bit; /* ... this bit; 0: all are shown */
};

/* The store must outlive it. NULL: no memory. */
struct chunk_cursor *chunk_cursor_open(struct chunk_store *store, const struct chunk_view *view);
struct chunk_cursor *chunk_cursor_close(struct chunk_cursor *cursor); /* accepts NULL */

/*
 * Go to the first row that fits, or the last one, if is_descending. Returns 0, also without such a
 * row; -EBADMSG: what is stored is damaged; or another negative errno.
 */
int chunk_cursor_start(struct chunk_cursor *cursor, const struct chunk_filters *filters,
		       bool is_descending);

/* To the next row. Returns as chunk_cursor_start(). */
int chunk_cursor_next(struct chunk_cursor *cursor);

bool chunk_cursor_is_at_end(const struct chunk_cursor *cursor);

/* What the row holds; not at the end. Returns 1; 0: NULL; or as chunk_cursor_start(). */
int chunk_cursor_value(struct chunk_cursor *cursor, unsigned column, int64_t *ret_value);
/* Its id. Returns as chunk_cursor_start(). */
int chunk_cursor_row(struct chunk_cursor *cursor, int64_t *ret_row);

/* The chunk that was read last: after -EBADMSG the damaged one; 0: the list of chunks is. */
int64_t chunk_cursor_chunk(const struct chunk_cursor *cursor);
