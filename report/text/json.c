#include "report/text/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/utf8.h"
#include "store/statement.h"

/* Room for n_bytes more and a NUL, or NULL. */
static char *reserve(struct json *json, size_t n_bytes)
{
	size_t wanted = json->n_bytes + n_bytes + 1;

	if (json->error)
		return NULL;
	if (!json->is_plain && (n_bytes > JSON_MAX_BYTES || wanted > JSON_MAX_BYTES)) {
		json->error = -EFBIG;
		return NULL;
	}
	json->error =
		grow_array_by(&json->bytes, json->n_bytes, n_bytes + 1, &json->n_allocated, 1);
	return json->error ? NULL : json->bytes + json->n_bytes;
}

static void put(struct json *json, const char *bytes, size_t n_bytes)
{
	char *room = reserve(json, n_bytes);

	if (!room)
		return;
	memcpy(room, bytes, n_bytes);
	json->n_bytes += n_bytes;
}

static void put_value(struct json *json, const char *bytes, size_t n_bytes)
{
	if (json->needs_comma)
		put(json, ",", 1);
	put(json, bytes, n_bytes);
	json->needs_comma = true;
}

void json_open(struct json *json, char bracket)
{
	put_value(json, &bracket, 1);
	json->needs_comma = false;
}

void json_close(struct json *json, char bracket)
{
	put(json, &bracket, 1);
	json->needs_comma = true;
}

static void put_text(struct json *json, const char *text)
{
	char letter[8];

	put_value(json, "\"", 1);
	while (*text) {
		bool is_masked = (*text == '<' || *text == 0x7f) &&
				 !json->is_plain; /* "</script>" ends a page's */
		size_t n = is_masked ? (size_t)snprintf(letter, sizeof(letter), "\\u%04x", *text++)
				     : utf8_json(&text, letter);

		put(json, letter, n);
	}
	put(json, "\"", 1);
}

/* Nothing more is written: json_finish() returns the error, unless there was another one before. */
static void json_fail(struct json *json, int error)
{
	if (!json->error)
		json->error = error;
}

void json_name(struct json *json, const char *name)
{
	if (!name) {
		json_fail(json, -ENOMEM);
		return;
	}
	put_text(json, name);
	put(json, ":", 1);
	json->needs_comma = false;
}

void json_integer(struct json *json, int64_t value)
{
	char text[24];

	put_value(json, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)value));
}

void json_real(struct json *json, double value)
{
	char text[32];

	if (isfinite(value))
		put_value(json, text, (size_t)snprintf(text, sizeof(text), "%.15g", value));
	else
		json_null(json);
}

void json_text(struct json *json, const char *text)
{
	if (text)
		put_text(json, text);
	else
		json_null(json);
}

void json_null(struct json *json)
{
	put_value(json, "null", 4);
}

/* The same with a letter before it; 0: none. */
static void json_base64_marked(struct json *json, char mark, const void *bytes, size_t n_bytes)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *in = bytes;
	size_t n_letters = (n_bytes + 2) / 3 * 4;

	put_value(json, "\"", 1);
	put(json, &mark, mark != '\0');
	char *out = reserve(json, n_letters);
	if (!out)
		return;
	for (size_t i = 0; i < n_bytes; i += 3) {
		unsigned n = n_bytes - i < 3 ? (unsigned)(n_bytes - i) : 3;
		unsigned word = (unsigned)in[i] << 16 | (n > 1 ? (unsigned)in[i + 1] << 8 : 0) |
				(n > 2 ? in[i + 2] : 0);
		*out++ = letters[word >> 18];
		*out++ = letters[word >> 12 & 63];
		*out++ = n > 1 ? letters[word >> 6 & 63] : '=';
		*out++ = n > 2 ? letters[word & 63] : '=';
	}
	json->n_bytes += n_letters;
	put(json, "\"", 1);
}

void json_base64(struct json *json, const void *bytes, size_t n_bytes)
{
	json_base64_marked(json, '\0', bytes, n_bytes);
}

void json_hex(struct json *json, const void *bytes, size_t n_bytes)
{
	const unsigned char *in = bytes;
	char digits[3];

	put_value(json, "\"", 1);
	for (size_t i = 0; i < n_bytes; i++) {
		snprintf(digits, sizeof(digits), "%02x", in[i]);
		put(json, digits, 2);
	}
	put(json, "\"", 1);
}

void json_raw(struct json *json, const struct json *value)
{
	if (value->error)
		json_fail(json, value->error);
	if (value->n_bytes)
		put_value(json, value->bytes, value->n_bytes);
	else
		json_null(json);
}

/* Of a text; NULL is what it is without memory. */
static void json_string(struct json *json, sqlite3_stmt *stmt, int column)
{
	const char *text = (const char *)sqlite3_column_text(stmt, column);

	if (text)
		put_text(json, text);
	else
		json_fail(json, -ENOMEM);
}

void json_column(struct json *json, sqlite3_stmt *stmt, int column)
{
	switch (sqlite3_column_type(stmt, column)) {
	case SQLITE_NULL:
		json_null(json);
		break;
	case SQLITE_INTEGER:
		json_integer(json, sqlite3_column_int64(stmt, column));
		break;
	case SQLITE_FLOAT:
		json_real(json, sqlite3_column_double(stmt, column));
		break;
	case SQLITE_BLOB:
		json_base64(json, sqlite3_column_blob(stmt, column),
			    (size_t)sqlite3_column_bytes(stmt, column));
		break;
	default:
		json_string(json, stmt, column);
	}
}

void json_set_open(struct json *json, const char *name, char bracket)
{
	json_name(json, name);
	json_open(json, bracket);
}

void json_set_integer(struct json *json, const char *name, int64_t value)
{
	json_name(json, name);
	json_integer(json, value);
}

void json_set_real(struct json *json, const char *name, double value)
{
	json_name(json, name);
	json_real(json, value);
}

void json_set_null(struct json *json, const char *name)
{
	json_name(json, name);
	json_null(json);
}

void json_set_text(struct json *json, const char *name, const char *text)
{
	json_name(json, name);
	json_text(json, text);
}

int json_finish(struct json *json, char **ret_bytes, size_t *ret_n_bytes)
{
	char *end = reserve(json, 0);
	int r = json->error;

	if (r < 0)
		return json_drop(json), r;
	*end = '\0';
	*ret_bytes = json->bytes;
	*ret_n_bytes = json->n_bytes;
	*json = (struct json){ 0 };
	return 0;
}

void json_drop(struct json *json)
{
	free(json->bytes);
	*json = (struct json){ 0 };
}

#define MAX_LITERAL 128u
#define MAX_RUN	    129u
#define MIN_RUN	    3u

static size_t run_at(const uint8_t *bytes, size_t n)
{
	size_t length = 1;

	while (length < n && length < MAX_RUN && bytes[length] == bytes[0])
		length++;
	return length;
}

/* How many bytes come before the next run that is worth it. */
static size_t literal_at(const uint8_t *bytes, size_t n)
{
	size_t length = 0;

	while (length < n && length < MAX_LITERAL && run_at(bytes + length, n - length) < MIN_RUN)
		length++;
	return length;
}

/* out has room for n + n / MAX_LITERAL + 1 bytes. Returns how many it has become. */
static size_t shorten(const uint8_t *bytes, size_t n, uint8_t *out)
{
	size_t n_out = 0;

	for (size_t i = 0; i < n;) {
		size_t run = run_at(bytes + i, n - i);
		size_t literal = run < MIN_RUN ? literal_at(bytes + i, n - i) : 0;
		if (literal) {
			out[n_out++] = (uint8_t)(literal - 1);
			memcpy(out + n_out, bytes + i, literal);
			n_out += literal;
			i += literal;
		} else {
			out[n_out++] = (uint8_t)(run + 126);
			out[n_out++] = bytes[i];
			i += run;
		}
	}
	return n_out;
}

static void write_short(struct json *json, const uint8_t *bytes, size_t n)
{
	auto_free uint8_t *out = malloc(n + n / MAX_LITERAL + 2);

	if (!out) {
		json_fail(json, -ENOMEM);
		return;
	}
	json_base64_marked(json, '!', out, shorten(bytes, n, out));
}

void packed_write_u8(struct json *json, const uint8_t *numbers, size_t n, bool is_short)
{
	if (is_short)
		write_short(json, numbers, n);
	else
		json_base64(json, numbers, n);
}

void packed_write_u16(struct json *json, const uint32_t *numbers, size_t n, bool is_short)
{
	auto_free uint8_t *bytes = malloc(2 * n + 1);

	if (!bytes) {
		json_fail(json, -ENOMEM);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t number = numbers[i] < UINT16_MAX ? numbers[i] : UINT16_MAX;
		bytes[is_short ? i : 2 * i] = (uint8_t)number;
		bytes[is_short ? n + i : 2 * i + 1] = (uint8_t)(number >> 8);
	}
	packed_write_u8(json, bytes, 2 * n, is_short);
}

void columns_begin(struct columns *columns, const char *const *names, size_t n)
{
	memset(columns, 0, sizeof(*columns));
	columns->n_columns = n < COLUMNS_MAX ? n : COLUMNS_MAX;
	memcpy(columns->names, names, columns->n_columns * sizeof(*names));
}

void columns_write(struct columns *columns, struct json *json)
{
	json_open(json, '{');
	json_set_integer(json, "n", (int64_t)columns->n_rows);
	json_set_open(json, "columns", '{');
	for (size_t i = 0; i < columns->n_columns; i++) {
		json_name(json, columns->names[i]);
		json_open(json, '[');
		if (columns->n_rows)
			json_raw(json, &columns->values[i]);
		json_close(json, ']');
	}
	json_close(json, '}');
	json_close(json, '}');
	columns_drop(columns);
}

void columns_set(struct json *json, const char *name, struct columns *columns)
{
	json_name(json, name);
	columns_write(columns, json);
}

void columns_drop(struct columns *columns)
{
	for (size_t i = 0; i < columns->n_columns; i++)
		json_drop(&columns->values[i]);
	columns->n_columns = 0;
}

int columns_of(struct json *json, sqlite3_stmt *stmt, size_t *ret_n_rows)
{
	auto_columns struct columns columns = { 0 };
	int code;

	columns.n_columns = (size_t)sqlite3_column_count(stmt);
	if (columns.n_columns > COLUMNS_MAX)
		columns.n_columns = COLUMNS_MAX;
	for (size_t i = 0; i < columns.n_columns; i++)
		columns.names[i] = sqlite3_column_name(stmt, (int)i);
	while ((code = statement_advance(stmt)) == SQLITE_ROW) {
		for (size_t i = 0; i < columns.n_columns; i++)
			json_column(&columns.values[i], stmt, (int)i);
		columns_end_row(&columns);
	}
	if (ret_n_rows)
		*ret_n_rows = columns.n_rows;
	columns_write(&columns, json);
	return code == SQLITE_DONE ? 0 : -EPROTO;
}
