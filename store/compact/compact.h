#pragma once
/*
 * Rows of `allocation`, and of `touch` with their samples and details, are in chunks
 * (chunk-store.h) in every database. In a compact one these tables themselves are virtual
 * (virtual-table.h), with the names and columns of the plain schema, whatever columns it has. In a
 * plain one they are real and hold the same rows once more, for programs that know nothing of
 * chunks.
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
 * id: the number of the touch. site_id: the stack.id of the heap block; NULL: it is none. picture:
 * enum picture_direction. tables: those that show the row, enum touch_shown. What follows is of
 * the sample and its access_detail, in its first row only. The others are those of the sample.
 */
#define COMPACT_HIDDEN_TOUCH                                                                       \
	"id, process_id, thread_id, source_id, time_ns, weight, stack_id, site_id, latency, node," \
	" picture, tables, sample_frame_id, is_kernel, latency_2, latency_3, physical_address,"    \
	" page_bytes"

/* The columns that only a table's chunks have: "" or a list. */
const char *compact_hidden(const char *table);

/* Names in a list "a, b, c", and the place of one of them: -1: it is not there. */
unsigned compact_n_names(const char *list);
int compact_find_name(const char *list, const char *name);

/*
 * All columns of a table's chunks as a list, allocated, and which of them is the number of the row,
 * -1: none. Returns 0, -EINVAL: there is no such table; or a negative errno.
 */
int compact_columns(sqlite3 *db, const char *schema, const char *table, char **ret_list,
		    int *ret_id);

/* Whether there are chunks of this name. */
bool compact_has_chunks(const char *table);

/* Whether a table of the database is virtual. */
bool compact_is(sqlite3 *db, const char *table);

/* Whether a table holds chunks of another one. */
bool compact_is_part(const char *table);

/* Whether the database is: all of the tables, or none, are. */
bool compact_is_database(sqlite3 *db);

/*
 * Add tables for chunks to the plain ones, which must be empty; is_compact: put virtual tables in
 * their place. 0 or a negative errno.
 */
int compact_make(struct db *db, bool is_compact);

/* Delete a run's chunks of a table. 0 or a negative errno. */
int compact_delete_run(struct db *db, const char *table, int64_t run_id);
