#pragma once
/*
 * Rows into the chunks of a compact table (chunk-store.h): collected as columns, encoded and stored
 * when a chunk is full. How each column is best narrowed is tried on some rows now and then. One
 * thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/row-writer.h"

struct db;
struct chunk_writer;

/*
 * rows_table has all columns of the table, in its order. Returns 0; -EINVAL: it does not, or has
 * text; or another negative errno.
 */
int chunk_writer_open(struct db *db, const struct rows_table *rows,
		      struct chunk_writer **ret_writer);
struct chunk_writer *chunk_writer_close(struct chunk_writer *writer); /* accepts NULL */

/* Add n rows, one cell for each column of rows_table. Returns 0 or a negative errno. */
int chunk_writer_add(struct chunk_writer *writer, const union rows_cell *cells, size_t n);

/* Store what is there as a chunk, though it is not full. Returns 0 or a negative errno. */
int chunk_writer_flush(struct chunk_writer *writer);

/*
 * What follows belongs to the next series: its ids are behind those of no chunk but its own.
 * Returns 0 or a negative errno.
 */
int chunk_writer_next_series(struct chunk_writer *writer);
