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

#define JSON_MAX_BYTES ((size_t)64 << 20) /* of one text */

/* All zero is empty. */
struct json {
	char *bytes;
	size_t n_bytes;
	size_t n_allocated;
	int error; /* negative errno */
	bool needs_comma;
};

/* Begin an object or array with '{' or '[', and end it with '}' or ']'. */
void json_open(struct json *json, char bracket);
void json_close(struct json *json, char bracket);

/* Nothing more is written: json_finish() returns the error, unless there was another one before. */
void json_fail(struct json *json, int error);

/*
 * The name of the value that comes next. NULL is what SQLite names a column without memory:
 * -ENOMEM.
 */
void json_name(struct json *json, const char *name);

void json_integer(struct json *json, int64_t value);
void json_real(struct json *json, double value); /* null where it is not finite */
void json_text(struct json *json, const char *text); /* NULL: null */
void json_bool(struct json *json, bool value); /* 0 or 1 */
void json_null(struct json *json);

/* Bytes as text in base64 (RFC 4648, with padding). */
void json_base64(struct json *json, const void *bytes, size_t n_bytes);

/* The same with a letter before it; 0: none. */
void json_base64_marked(struct json *json, char mark, const void *bytes, size_t n_bytes);

/* A value that was written elsewhere; empty: null. */
void json_raw(struct json *json, const struct json *value);

/* A column of the statement's row, as its type says; a blob as base64. */
void json_column(struct json *json, sqlite3_stmt *stmt, int column);

/* A named value. */
void json_set_integer(struct json *json, const char *name, int64_t value);
void json_set_real(struct json *json, const char *name, double value);
void json_set_text(struct json *json, const char *name, const char *text);

/*
 * Hand out the text, NUL-terminated; the caller frees it. Returns 0, -ENOMEM, or -EFBIG above
 * JSON_MAX_BYTES. json is empty again.
 */
int json_finish(struct json *json, char **ret_bytes, size_t *ret_n_bytes);

/* Free it. */
void json_drop(struct json *json);
#define auto_json __attribute__((cleanup(json_drop)))
