#pragma once
/*
 * The chunks of one table, as they lie in two tables of the database:
 *
 *	NAME_chunk a row for each chunk: run, series, rows, and what each column holds at least and
 *		     at most (struct chunk_head and struct chunk_range)
 *	NAME_column id = chunk * 256 + frame: a piece of each column, with a uint32_t before each
 *		     that has its size (store/columns/column.h)
 *
 * Row ids ascend within a series, and its chunks do not overlap: series 0 are the rows in their
 * order, series 1 those that came too late for it.
 *
 * Rows lie in frames within a chunk: rows of a process that lie near each other in address, blocks
 * of about one size and life, in the order of their ids. The chunk's head tells what each of them
 * can have: so pictures read the frames that they show.
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

#define CHUNK_FRAMES 256u /* of a chunk, at most */

/*
 * What a frame holds; as stored in NAME_chunk.head, behind the ranges. A touch has a size and life
 * of 1; those that no picture has (PICTURE_NOWHERE) are not told of.
 */
struct chunk_frame {
	int64_t process_low; /* process.id */
	int64_t process_high;
	int64_t from_ns; /* the first allocation */
	int64_t to_ns; /* the last end of those that were freed; without any INT64_MIN */
	uint64_t low; /* the lowest byte */
	uint64_t high; /* the highest */
	int64_t max_size;
	int64_t max_life_ns; /* of those that were freed */
	uint32_t zero;
	uint16_t n_rows;
	uint16_t n_alive; /* of them, that were not freed */
};
_Static_assert(sizeof(struct chunk_frame) == 72, "what is on disk stays");

struct chunk_head {
	int64_t id;
	int64_t first_row; /* row ids */
	int64_t last_row;
	uint32_t n_rows;
	uint32_t n_columns; /* of the table */
	struct chunk_range *ranges; /* n_columns */
	struct chunk_frame *frames; /* one behind the other */
	uint32_t n_frames;
};

/* All chunks of a series in the order of their rows. */
struct chunk_series {
	struct chunk_head *heads;
	size_t n;
	size_t n_allocated;
};

struct chunk_store;

/* The table whose chunks are meant. */
struct chunk_table {
	const char *schema; /* "main", or the name of an attached database */
	const char *name;
	unsigned n_columns;
	unsigned id_column;
};

/* keep_bytes: of decoded columns that nobody uses at the moment. NULL without memory. */
struct chunk_store *chunk_store_open(sqlite3 *db, const struct chunk_table *table,
				     size_t keep_bytes);
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

/* Frames of a chunk as they are stored, one behind the other. */
struct chunk_bytes {
	char *at;
	size_t n_allocated;
	size_t ends[CHUNK_FRAMES];
};

/* Read some of its frames. Returns 0; -EBADMSG: the chunk lacks one; or a negative errno. */
int chunk_store_fetch(struct chunk_store *store, const struct chunk_head *head, uint32_t first,
		      uint32_t n, struct chunk_bytes *bytes);

/* A frame whose columns are read. */
struct chunk_reading {
	const char *bytes;
	size_t n_bytes;
	uint32_t n_rows; /* as the chunk's head says */
	const uint32_t *rows; /* that are wanted, ascending; NULL: all */
	uint32_t n_chosen; /* of rows */
	const int64_t *values[CHUNK_COLUMNS]; /* that were read, of these rows; NULL: not yet */
};

/* The frame number i of those that were fetched, of which all rows are wanted. */
struct chunk_reading chunk_reading_of(const struct chunk_bytes *bytes, uint32_t i, uint32_t n_rows);

/* Read a column, unless it was. Any thread. Returns 0, or -EBADMSG: it is damaged. */
int chunk_read_column(struct chunk_decoder *decoder, struct chunk_reading *reading, unsigned column,
		      int64_t *to);

/*
 * Where rows belong that are stored with these ids, if not where they are. Returns 1; 0: they are
 * in order; -EBADMSG: they cannot be ids of a chunk; or -ENOMEM.
 */
#define CHUNK_SPREAD (32 * (int64_t)CHUNK_ROWS) /* ids out of order, less than that apart */
int chunk_places(const int64_t *ids, uint32_t n, uint16_t *places);

/* A column of a chunk that was read, in the order of ids. */
struct chunk_column {
	int64_t key; /* of the store; < 0: none any more */
	uint64_t used; /* when it was put back last */
	unsigned n_taken;
	uint32_t n;
	bool has_null; /* then CHUNK_NULL is NULL; otherwise it is a value as all others */
	bool is_ascending; /* no NULL, and no value less than the one before it */
	int64_t values[];
};

/* The value of row i < n; false: it is NULL. */
static inline bool chunk_column_get(const struct chunk_column *column, uint32_t i,
				    int64_t *ret_value)
{
	*ret_value = column->values[i];
	return !column->has_null || *ret_value != CHUNK_NULL;
}

/* Take one, to be put back. Returns 0; -EBADMSG: it is damaged; or another errno. */
int chunk_store_take(struct chunk_store *store, const struct chunk_head *head, unsigned column,
		     struct chunk_column **ret_column);
void chunk_store_put(struct chunk_store *store, struct chunk_column *column); /* NULL is fine */
