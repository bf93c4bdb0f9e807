#pragma once
/*
 * The chunks of one compact table, as they lie in two tables of the database:
 *
 *	NAME_chunk a row for each chunk: run, series, rows, and what each column holds at least and
 *		     at most (struct chunk_head and struct chunk_range)
 *	NAME_column  id = chunk * 64 + column: the bytes of store/columns/column.h
 *
 * Row ids ascend within a series, and its chunks do not overlap: series 0 are the rows in their
 * order, series 1 those that came too late for it. Decoded columns are kept, up to a bound.
 *
 * SQLite is used by the names of its C interface only, so that the extension can be built from it.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/columns/column.h"

#define CHUNK_SERIES 2u

/* What a column of a chunk holds; as stored in NAME_chunk.head. */
struct chunk_range {
	int64_t min; /* of what is not NULL; without any min > max */
	int64_t max;
	uint32_t n_null;
	uint32_t is_ascending; /* no NULL, none less than the one before */
};

struct chunk_head {
	int64_t id;
	int64_t first_row; /* row ids */
	int64_t last_row;
	uint32_t n_rows;
	uint32_t n_columns; /* of the table */
	struct chunk_range *ranges; /* n_columns */
};

/* All chunks of a series in the order of their rows. */
struct chunk_series {
	struct chunk_head *heads;
	size_t n;
	size_t n_allocated;
};

struct chunk_store;

/* schema: "main" or the name of an attached database. NULL without memory. */
struct chunk_store *chunk_store_open(sqlite3 *db, const char *schema, const char *table,
				     unsigned n_columns, size_t keep_bytes);
struct chunk_store *chunk_store_close(struct chunk_store *store); /* accepts NULL */

/*
 * Begin to read: the heads are read anew if the database has changed since, unless somebody else
 * is reading. They stay until chunk_store_end(). Returns 0, -EBADMSG: they are damaged, or a
 * negative errno; then there is nothing to end.
 */
int chunk_store_begin(struct chunk_store *store);
void chunk_store_end(struct chunk_store *store);

const struct chunk_series *chunk_store_series(const struct chunk_store *store, unsigned number);
int64_t chunk_store_n_rows(const struct chunk_store *store);

/* The stored form of a column. */
struct chunk_bytes {
	const void *at; /* valid until the next call for the store */
	size_t n;
	int other; /* column that it is written relative to, a lower one; -1: none */
};

/* Read a column. Returns 0; -EBADMSG: it is damaged; or a negative errno. */
int chunk_store_bytes(struct chunk_store *store, const struct chunk_head *head, unsigned column,
		      struct chunk_bytes *ret_bytes);

/* A column of a chunk, to be put back. Returns 0; -EBADMSG: it is damaged; or another errno. */
int chunk_store_take(struct chunk_store *store, const struct chunk_head *head, unsigned column,
		     const struct chunk_column **ret_column);
void chunk_store_put(struct chunk_store *store,
		     const struct chunk_column *column); /* NULL is fine */
