#pragma once
/*
 * JSON into memory: commas and quoting are looked after, numbers are raw, text becomes valid UTF-8.
 * An error sticks: what is written afterwards is left out, and json_finish() tells. One thread at a
 * time.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_MAX_BYTES ((size_t)64 << 20) /* of one text for the page */

/* All zero is empty. */
struct json {
	char *bytes;
	size_t n_bytes;
	size_t n_allocated;
	int error; /* negative errno */
	bool needs_comma;
	bool is_plain; /* for no page: '<' stays as it is, and any size is right */
};

/* Begin an object or array with '{' or '[', and end it with '}' or ']'. */
void json_open(struct json *json, char bracket);
void json_close(struct json *json, char bracket);

/*
 * The name of the value that comes next. NULL is what SQLite names a column without memory:
 * -ENOMEM.
 */
void json_name(struct json *json, const char *name);

void json_integer(struct json *json, int64_t value);
void json_real(struct json *json, double value); /* null where it is not finite */
void json_text(struct json *json, const char *text); /* NULL: null */
void json_null(struct json *json);

/* Bytes as text in base64 (RFC 4648, with padding). */
void json_base64(struct json *json, const void *bytes, size_t n_bytes);

/* Bytes as text of two hexadecimal digits each. */
void json_hex(struct json *json, const void *bytes, size_t n_bytes);

/* A value that was written elsewhere; empty: null. */
void json_raw(struct json *json, const struct json *value);

/* A column of the statement's row, as its type says; a blob as base64. */
void json_column(struct json *json, sqlite3_stmt *stmt, int column);

/* A named value. */
void json_set_open(struct json *json, const char *name, char bracket); /* closed as others are */
void json_set_integer(struct json *json, const char *name, int64_t value);
void json_set_real(struct json *json, const char *name, double value);
void json_set_text(struct json *json, const char *name, const char *text);
void json_set_null(struct json *json, const char *name);

/*
 * Hand out the text, NUL-terminated; the caller frees it. Returns 0, -ENOMEM, or -EFBIG above
 * JSON_MAX_BYTES. json is empty again.
 */
int json_finish(struct json *json, char **ret_bytes, size_t *ret_n_bytes);

/* Free it. */
void json_drop(struct json *json);
#define auto_json __attribute__((cleanup(json_drop)))

/*
 * Arrays of small numbers as text. Served: base64 of little-endian numbers. In a file that holds
 * its answers they are shorter: '!' and base64 of runs (PackBits), numbers of two bytes as all low
 * bytes, then all high bytes. A byte c below 128 stands before c + 1 bytes as they are, one above
 * before a byte that comes c - 126 times.
 */

/* Write as a value. is_short: in runs. */
void packed_write_u8(struct json *json, const uint8_t *numbers, size_t n, bool is_short);

/* The same of numbers of two bytes; 65535: that many or more. */
void packed_write_u16(struct json *json, const uint32_t *numbers, size_t n, bool is_short);

/* Rows as struct-of-arrays: {"n": 2, "columns": {"id": [1, 2], "name": ["a", "b"]}}. */

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

/* Write it as one value, and free it; the second has a name. */
void columns_write(struct columns *columns, struct json *json);
void columns_set(struct json *json, const char *name, struct columns *columns);
void columns_drop(struct columns *columns);
#define auto_columns __attribute__((cleanup(columns_drop)))

/*
 * Step through a statement and write all its rows. ret_n_rows may be NULL. Returns 0 or -EPROTO,
 * with the error in sqlite3_errmsg(); errors of the JSON stick there.
 */
int columns_of(struct json *json, sqlite3_stmt *stmt, size_t *ret_n_rows);
