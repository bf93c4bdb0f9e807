#pragma once
/*
 * Rows of a prepared statement as text, CSV or JSON on a stream that the caller owns.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/human-number.h"

enum table_format {
	TABLE_TEXT, /* aligned columns, for a person */
	TABLE_CSV, /* RFC 4180 with a head line; numbers raw */
	TABLE_JSON, /* an array of objects; numbers raw; text as valid UTF-8 */
	TABLE_FORMAT_COUNT
};

/* How a column is shown as text; CSV and JSON always give the raw value. */
enum table_kind {
	TABLE_PLAIN,
	TABLE_COUNT,
	TABLE_BYTES,
	TABLE_DURATION, /* ns */
	TABLE_TIME, /* ns since the run's start, shown in s */
	TABLE_PERCENT, /* 0 to 1 */
	TABLE_SHARE, /* 0 to 1; the next two columns are its ends: one cell, as format_share() */
	TABLE_SHARE_HALF, /* the same, and the next column is half of its interval */
	TABLE_WITH_INTERVAL, /* a number; likewise, as format_with_interval() */
	TABLE_BYTES_ESTIMATE, /* likewise, as format_estimate() */
	TABLE_COUNT_ESTIMATE,
	TABLE_PERCENT_CHANGE, /* -1 and above, shown with its sign */
	TABLE_BAR, /* 0 to 1, in the last column: drawn so that 1 takes all the room there is */
};

struct table_style {
	enum table_format format;
	const enum table_kind *kinds; /* one for each of the first n_kinds columns */
	size_t n_kinds;
	unsigned width; /* that lines of text have at most; 0: as many as they need */
	bool is_silent_when_empty; /* text: no head line over no rows */
	void (*on_row)(void *context); /* CSV, JSON: behind each row; may be NULL */
	void *context;
	enum table_kind rest; /* of columns beyond n_kinds */
};

/* A number of bytes, of ns, or of things, rounded. */
struct format_text table_value_text(double value, enum table_kind kind);

/* The format of a name ("text", "table", "csv", "json"), or -EINVAL. */
int table_format_parse(const char *name, enum table_format *ret_format);

/*
 * Step through the statement and write its rows. CSV and JSON need constant memory; text keeps the
 * first 1,000 rows to find the widths of its columns. ret_n_rows may be NULL. Returns 0, -EIO when
 * the stream failed, or -EPROTO when SQLite failed (sqlite3_errmsg() of the statement's handle).
 */
int table_write(FILE *out, sqlite3_stmt *stmt, const struct table_style *style, size_t *ret_n_rows);
