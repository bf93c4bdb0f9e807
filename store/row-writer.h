#pragma once
/*
 * Rows of numbers into a table, fast: filled in place, and taken over in batches by threads
 * (writer-thread.h). Of a table with chunks (compact.h) one makes chunks of the batch. Where the
 * table is a real one, another puts the same batch into it with INSERT ... SELECT from an
 * in-process virtual table: no bind and step per row.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;
struct rows;

#define ROWS_NULL INT64_MIN

/* A column's value; which member holds is said by rows_table.types. */
union rows_cell {
	int64_t integer; /* ROWS_NULL: NULL */
	double real;
	const char *text; /* NULL: NULL; must live until rows_flush() or rows_close() */
};

/* Which table, and which of its columns in which order. */
struct rows_table {
	const char *name;
	const char *columns; /* "id, run_id, ..." as in an INSERT */
	const char *types; /* one letter for each: i integer, n integer that is never NULL, r real,
			    * t text; behind them those of the hidden columns (compact.h) */
	unsigned tables; /* of these the one of that name; 0: there is none */
};

/* All columns of the tables whose rows are in chunks, in their order. */
#define ROWS_ALLOCATION                                                                            \
	"id, run_id, process_id, thread_id, address, size, allocated_ns, freed_ns,"                \
	" freed_thread_id, stack_id, call, end_kind, previous_allocation_id, free_call, kind,"     \
	" stands_for, within_id, pool_id"
#define ROWS_TOUCH                                                                                 \
	"sample_id, run_id, role, share, address, size, is_write, owner_kind, owner_id, phase,"    \
	" frame_id, data_src"

/* table must live as long as the rows. Returns 0 or a negative errno. */
int rows_open(struct db *db, const struct rows_table *table, struct rows **ret_rows);

/* Whether they go anywhere: a virtual table may show what the chunks of another one have. */
bool rows_are_stored(const struct rows *rows);

/* Give up what was not flushed. Accepts NULL, returns NULL. */
struct rows *rows_close(struct rows *rows);

/*
 * The next row, to be filled in before the next call: one cell for each column. NULL when the
 * database failed; rows_error() says how, and stays.
 */
union rows_cell *rows_add(struct rows *rows);

/*
 * Rows that the threads make, behind all before: each asks for at most n of them from *at on (0 at
 * first; the maker moves it), again and again until it gets none, while the caller goes on. What
 * came by the call before is stored when this one returns. Returns 0 or rows_error().
 */
typedef size_t (*rows_maker)(const void *context, size_t *at, union rows_cell *cells, size_t n);
int rows_make(struct rows *rows, rows_maker make, const void *context);

/* A cell with a number or a text, as its type says. */
#define CELL(value)                                                                                \
	_Generic((value), char *: rows_text, const char *: rows_text, default: rows_integer)(value)
static inline union rows_cell rows_integer(int64_t value)
{
	return (union rows_cell){ .integer = value };
}
static inline union rows_cell rows_text(const char *text)
{
	return (union rows_cell){ .text = text };
}

/* Add a row: rows_put(rows, CELL(id), CELL(name)). Returns 0 or rows_error(). */
#define rows_put(rows, ...)                                                                        \
	rows_put_cells(rows, (const union rows_cell[]){ __VA_ARGS__ },                             \
		       sizeof((const union rows_cell[]){ __VA_ARGS__ }) / sizeof(union rows_cell))
int rows_put_cells(struct rows *rows, const union rows_cell *cells, size_t n);

/*
 * No row follows: the writer stores what is filled, and encodes the last chunk, while the caller
 * goes on. rows_flush() waits for that. Returns 0 or a negative errno.
 */
int rows_end(struct rows *rows);

/* Store what is filled. Returns 0 or a negative errno. */
int rows_flush(struct rows *rows);

/*
 * The ids that follow ascend again from the start: they are ids that were left out. To be called
 * once at most. Returns 0 or a negative errno.
 */
int rows_start_again(struct rows *rows);

/* The first failure, as a negative errno; 0: none. */
int rows_error(const struct rows *rows);

/*
 * Of the rows of all tables, since it was asked last. SQLite then has ended the transaction of all,
 * and whatever else is done fails for another reason: this is the one to be told.
 */
int rows_take_error(struct db *db);
