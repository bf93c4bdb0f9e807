#pragma once
/*
 * The chunks of one compact table, as they lie in two tables of the database:
 *
 *	NAME_chunk a row for each chunk: run, series, rows, and what each column holds at least and
 *		     at most (struct chunk_head and struct chunk_range)
 *	NAME_column id = chunk * 256 + column: the bytes of store/columns/column.h; or + frame:
 *		     a piece of each column, with a uint32_t before each that has its size
 *
 * Row ids ascend within a series, and its chunks do not overlap: series 0 are the rows in their
 * order, series 1 those that came too late for it. Decoded columns are kept, up to a bound.
 *
 * Rows that are blocks or touches lie in frames within a chunk: rows of a process that lie near
 * each other in address, blocks of about one size and life, in the order of their ids. The chunk's
 * head tells what each of them can have: so pictures read the frames that they show.
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

#define CHUNK_FRAME_ROWS 4096u /* of a frame, at most */
#define CHUNK_FRAMES	 256u /* of a chunk, likewise */

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
	struct chunk_frame *frames; /* one behind the other; NULL: rows are in the order of ids */
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
	int id_column; /* -1: none */
};

/* NULL without memory. */
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

/* The stored form of a column. */
struct chunk_bytes {
	const void *at; /* valid until the next call for the store */
	size_t n;
	struct chunk_outline outline;
};

/* Read a column, as it is stored. Returns 0; -EBADMSG: it is damaged; or a negative errno. */
int chunk_store_bytes(struct chunk_store *store, const struct chunk_head *head, unsigned column,
		      struct chunk_bytes *ret_bytes);

/* The bytes of a frame, until the next call; and the piece of the next column taken off them. */
int chunk_store_frame(struct chunk_store *store, const struct chunk_head *head, uint32_t frame,
		      const char **ret_bytes, size_t *ret_n);
int chunk_take_piece(const char **bytes, size_t *n_left, const char **ret_piece, size_t *ret_n);

/* A piece of a column of a frame, as chunk_store_bytes(). */
int chunk_store_piece(struct chunk_store *store, const struct chunk_head *head, uint32_t frame,
		      unsigned column, struct chunk_bytes *ret_bytes);

/*
 * Where rows belong that are stored with these ids, if not where they are. Returns 1; 0: they are
 * in order; -EBADMSG: they cannot be ids of a chunk in frames; or -ENOMEM.
 */
#define CHUNK_SPREAD (32 * (int64_t)CHUNK_ROWS) /* ids of a chunk in frames, less than that apart */
int chunk_places(const int64_t *ids, uint32_t n, uint16_t *places);

/*
 * A column of a chunk in the order of ids, to be put back. Returns 0; -EBADMSG: it is damaged; or
 * another errno.
 */
int chunk_store_take(struct chunk_store *store, const struct chunk_head *head, unsigned column,
		     const struct chunk_column **ret_column);
void chunk_store_put(struct chunk_store *store,
		     const struct chunk_column *column); /* NULL is fine */
