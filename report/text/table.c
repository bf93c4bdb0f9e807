#include "report/text/table.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/utf8.h"
#include "report/text/table-text.h"
#include "store/statement.h"

int table_format_parse(const char *name, enum table_format *ret_format)
{
	static const struct {
		const char *name;
		enum table_format format;
	} formats[] = {
		{ "text", TABLE_TEXT },
		{ "table", TABLE_TEXT },
		{ "csv", TABLE_CSV },
		{ "json", TABLE_JSON },
	};

	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		if (strcmp(name, formats[i].name) == 0) {
			*ret_format = formats[i].format;
			return 0;
		}
	}
	return -EINVAL;
}

static void write_hex(FILE *out, const unsigned char *bytes, int n_bytes)
{
	for (int i = 0; i < n_bytes; i++)
		fprintf(out, "%02x", bytes[i]);
}

/* A field is quoted when a reader could take it for more than one. */
static void write_csv_text(FILE *out, const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static void write_csv_value(FILE *out, sqlite3_stmt *stmt, int column)
{
	switch (sqlite3_column_type(stmt, column)) {
	case SQLITE_NULL:
		break;
	case SQLITE_BLOB:
		write_hex(out, sqlite3_column_blob(stmt, column),
			  sqlite3_column_bytes(stmt, column));
		break;
	default:
		write_csv_text(out, statement_string(stmt, column));
	}
}

/* The names of the columns; a result without rows has them, too. */
static void write_csv_head(FILE *out, sqlite3_stmt *stmt)
{
	int n = sqlite3_column_count(stmt);

	for (int i = 0; i < n; i++) {
		fputs(i ? "," : "", out);
		write_csv_text(out, sqlite3_column_name(stmt, i));
	}
	fputs(n ? "\n" : "", out);
}

static void write_csv_row(FILE *out, sqlite3_stmt *stmt, size_t row)
{
	int n = sqlite3_column_count(stmt);

	if (row == 0)
		write_csv_head(out, stmt);
	for (int i = 0; i < n; i++) {
		fputs(i ? "," : "", out);
		write_csv_value(out, stmt, i);
	}
	fputc('\n', out);
}

static void write_json_text(FILE *out, const char *text)
{
	char letter[8];

	fputc('"', out);
	while (*text)
		fwrite(letter, 1, utf8_json(&text, letter), out);
	fputc('"', out);
}

static void write_json_value(FILE *out, sqlite3_stmt *stmt, int column)
{
	switch (sqlite3_column_type(stmt, column)) {
	case SQLITE_NULL:
		fputs("null", out);
		break;
	case SQLITE_INTEGER:
		fprintf(out, "%lld", sqlite3_column_int64(stmt, column));
		break;
	case SQLITE_FLOAT:
		fprintf(out, "%.15g", sqlite3_column_double(stmt, column));
		break;
	case SQLITE_BLOB:
		fputc('"', out);
		write_hex(out, sqlite3_column_blob(stmt, column),
			  sqlite3_column_bytes(stmt, column));
		fputc('"', out);
		break;
	default:
		write_json_text(out, statement_string(stmt, column));
	}
}

static void write_json_row(FILE *out, sqlite3_stmt *stmt, size_t row)
{
	int n = sqlite3_column_count(stmt);

	fputs(row == 0 ? "[\n{" : ",\n{", out);
	for (int i = 0; i < n; i++) {
		fputs(i ? "," : "", out);
		write_json_text(out, sqlite3_column_name(stmt, i));
		fputc(':', out);
		write_json_value(out, stmt, i);
	}
	fputc('}', out);
}

static void write_json_none(FILE *out, sqlite3_stmt *stmt)
{
	(void)stmt;
	fputs("[]\n", out);
}

/* Formats that need no look ahead. */
static const struct {
	void (*row)(FILE *out, sqlite3_stmt *stmt, size_t row);
	void (*none)(FILE *out, sqlite3_stmt *stmt); /* instead of rows */
	const char *tail; /* behind them */
} streams[TABLE_FORMAT_COUNT] = {
	[TABLE_CSV] = { write_csv_row, write_csv_head, "" },
	[TABLE_JSON] = { write_json_row, write_json_none, "\n]\n" },
};

static int write_stream(FILE *out, sqlite3_stmt *stmt, enum table_format format, size_t *ret_n_rows)
{
	size_t n_rows = 0;
	int code = 0;

	while ((code = statement_advance(stmt)) == SQLITE_ROW && !ferror(out))
		streams[format].row(out, stmt, n_rows++);
	if (n_rows)
		fputs(streams[format].tail, out);
	else if (code == SQLITE_DONE)
		streams[format].none(out, stmt);
	*ret_n_rows = n_rows;
	return ferror(out) ? -EIO : code == SQLITE_DONE ? 0 : -EPROTO;
}

int table_write(FILE *out, sqlite3_stmt *stmt, const struct table_style *style, size_t *ret_n_rows)
{
	size_t n_rows = 0;
	int r = streams[style->format].row ? write_stream(out, stmt, style->format, &n_rows)
					   : table_text_write(out, stmt, style, &n_rows);

	if (ret_n_rows)
		*ret_n_rows = n_rows;
	return r;
}
