#pragma once
/* Rows as struct-of-arrays: {"n": 2, "columns": {"id": [1, 2], "name": ["a", "b"]}}. */
#include "view/json.h"

#define COLUMNS_MAX 32u

/*
 * The columns that are being filled; names are not copied. Begin with columns_begin(), put one
 * value into each column and count a row, then columns_write() or columns_drop().
 */
struct columns {
	size_t n_columns;
	size_t n_rows;
	const char *names[COLUMNS_MAX];
	struct json values[COLUMNS_MAX];
};

/* With the names of n columns, at most COLUMNS_MAX. */
void columns_begin(struct columns *columns, const char *const *names, size_t n);

/* Where the next value of a column goes: json_integer(columns_at(&columns, 0), id). */
static inline struct json *columns_at(struct columns *columns, size_t i)
{
	return &columns->values[i];
}

static inline void columns_end_row(struct columns *columns)
{
	columns->n_rows++;
}

/* Write it as one value, and free it. */
void columns_write(struct columns *columns, struct json *json);
void columns_drop(struct columns *columns);
#define auto_columns __attribute__((cleanup(columns_drop)))

/*
 * Step through a statement and write all its rows. ret_n_rows may be NULL. Returns 0 or -EPROTO,
 * with the error in sqlite3_errmsg(); errors of the JSON stick there.
 */
int columns_of(struct json *json, sqlite3_stmt *stmt, size_t *ret_n_rows);
