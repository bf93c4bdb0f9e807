#pragma once
/*
 * Rows of `allocation`, and of `touch` with their samples and details, are in chunks
 * (chunk-store.h) in every database. In a compact one these tables themselves are virtual
 * (virtual-table.h), with the names and columns of the plain schema. In a plain one they are real
 * and hold the same rows once more, for programs that know nothing of chunks.
 *
 * Chunks of `touch` have more columns than the table. `sample` and `access_detail` show rows of
 * these chunks, too: of each sample its first touch, or, where it has none, a row that is no touch.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;

/*
 * What only chunks of `touch` have.
 * id: the number of the touch. site_id: the stack.id of the heap block; NULL: it is none. picture:
 * enum picture_direction. tables: those that show the row, enum touch_shown. What follows is of
 * the sample and its access_detail, in its first row only. The others are those of the sample.
 */
#define COMPACT_HIDDEN_TOUCH                                                                       \
	"id, process_id, thread_id, source_id, time_ns, weight, stack_id, site_id, latency, node," \
	" picture, tables, sample_frame_id, is_kernel, latency_2, latency_3, physical_address,"    \
	" page_bytes"

/* All columns of the chunks of this name, as a list: NULL: there are none such. */
const char *compact_columns(const char *chunks);

/* Names in a list "a, b, c", and the place of one (which may be followed by others); -1: none. */
unsigned compact_n_names(const char *list);
int compact_find_name(const char *list, const char *name);

/* Whether a table of the database is virtual. */
bool compact_is(sqlite3 *db, const char *table);

/* Whether the database is: all of the tables, or none, are. */
bool compact_is_database(sqlite3 *db);

/*
 * Add tables for chunks to the plain ones, which must be empty; is_compact: put virtual tables in
 * their place. 0 or a negative errno.
 */
int compact_make(struct db *db, bool is_compact);

/* Delete a run's chunks of a table. 0 or a negative errno. */
int compact_delete_run(struct db *db, const char *table, int64_t run_id);
