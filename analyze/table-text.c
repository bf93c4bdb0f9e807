#include "analyze/table-text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/format.h"
#include "analyze/statement.h"
#include "common/cleanup.h"
#include "common/text.h"

#define LOOK_AHEAD_ROWS 1000u
#define MIN_CUT_COLUMNS 12u

/* Cells of the rows that were read ahead; a cell is an allocated text. */
struct cells {
	char **texts;
	size_t n;
	size_t capacity;
};

static void cells_finish(struct cells *cells)
{
	for (size_t i = 0; i < cells->n; i++)
		free(cells->texts[i]);
	free(cells->texts);
}

#define auto_cells __attribute__((cleanup(cells_finish)))

unsigned table_text_columns(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

void table_text_cut(FILE *out, const char *text, unsigned width)
{
	if (width == 0 || table_text_columns(text) <= width) {
		fputs(text, out);
		return;
	}
	for (unsigned n = 0; *text; text++) {
		n += (*text & 0xc0) != 0x80;
		if (n > width - 3)
			break;
		fputc(*text, out);
	}
	fputs("...", out);
}

static enum table_kind kind_of(const struct table_style *style, int column)
{
	return (size_t)column < style->n_kinds ? style->kinds[column] : TABLE_PLAIN;
}

static struct format_text format_time(int64_t ns)
{
	struct format_text out;

	snprintf(out.text, sizeof(out.text), "%.3f s", (double)ns / 1e9);
	return out;
}

/* A number as its column's kind wants it; plain ones as SQLite gives them. */
static struct format_text format_number(sqlite3_stmt *stmt, int column, enum table_kind kind)
{
	int64_t value = sqlite3_column_int64(stmt, column);
	struct format_text out = { "" };

	switch (kind) {
	case TABLE_COUNT:
		return format_count(value);
	case TABLE_BYTES:
		return format_bytes(value);
	case TABLE_DURATION:
		return format_duration(value);
	case TABLE_TIME:
		return format_time(value);
	case TABLE_PERCENT_CHANGE:
		snprintf(out.text, sizeof(out.text), "%+.1f %%",
			 100 * sqlite3_column_double(stmt, column));
		return out;
	case TABLE_PERCENT:
		return format_percent(sqlite3_column_double(stmt, column));
	default:
		snprintf(out.text, sizeof(out.text), "%s", statement_string(stmt, column));
		return out;
	}
}

static bool is_number(sqlite3_stmt *stmt, int column)
{
	int type = sqlite3_column_type(stmt, column);

	return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

/* Control characters would break the lines of the table, or drive the terminal. */
static char *clean_copy(const char *text)
{
	return text_hide_controls(strdup(text));
}

static char *cell_text(sqlite3_stmt *stmt, int column, const struct table_style *style)
{
	switch (sqlite3_column_type(stmt, column)) {
	case SQLITE_NULL:
		return strdup("-");
	case SQLITE_BLOB:
		return sqlite3_column_bytes(stmt, column) ? strdup("(binary)") : strdup("");
	case SQLITE_TEXT:
		return clean_copy(statement_string(stmt, column));
	default:
		return strdup(format_number(stmt, column, kind_of(style, column)).text);
	}
}

static int cells_add(struct cells *cells, char *text)
{
	if (!text)
		return -ENOMEM;
	if (cells->n == cells->capacity) {
		size_t capacity = cells->capacity ? 2 * cells->capacity : 256;
		char **texts = realloc(cells->texts, capacity * sizeof(*texts));
		if (!texts) {
			free(text);
			return -ENOMEM;
		}
		cells->texts = texts;
		cells->capacity = capacity;
	}
	cells->texts[cells->n++] = text;
	return 0;
}

/* What the columns look like once the first rows are known. */
struct layout {
	int n_columns;
	unsigned *widths;
	bool *is_right; /* numbers align to the right */
};

static void layout_grow(struct layout *layout, int column, const char *text)
{
	unsigned columns = table_text_columns(text);

	if (columns > layout->widths[column])
		layout->widths[column] = columns;
}

static unsigned width_left(const struct layout *layout, unsigned width)
{
	unsigned used = 0;

	for (int i = 0; i + 1 < layout->n_columns; i++)
		used += layout->widths[i] + 2;
	return width == 0 ? 0 : width > used + MIN_CUT_COLUMNS ? width - used : MIN_CUT_COLUMNS;
}

static void write_cell(FILE *out, const struct layout *layout, int column, const char *text,
		       unsigned width)
{
	bool is_last = column + 1 == layout->n_columns;
	unsigned columns = table_text_columns(text);
	int pad = columns < layout->widths[column] ? (int)(layout->widths[column] - columns) : 0;

	if (column)
		fputs("  ", out);
	if (layout->is_right[column])
		fprintf(out, "%*s", pad, "");
	if (is_last)
		table_text_cut(out, text, width_left(layout, width));
	else
		fputs(text, out);
	if (!layout->is_right[column] && !is_last)
		fprintf(out, "%*s", pad, "");
}

/* Read up to LOOK_AHEAD_ROWS rows; *ret_code is SQLite's last answer. */
static int read_ahead(sqlite3_stmt *stmt, const struct table_style *style, struct layout *layout,
		      struct cells *cells, int *ret_code)
{
	size_t n_rows = 0;

	while (n_rows < LOOK_AHEAD_ROWS && (*ret_code = statement_advance(stmt)) == SQLITE_ROW) {
		for (int i = 0; i < layout->n_columns; i++) {
			layout->is_right[i] |= is_number(stmt, i);
			int r = cells_add(cells, cell_text(stmt, i, style));
			if (r < 0)
				return r;
			layout_grow(layout, i, cells->texts[cells->n - 1]);
		}
		n_rows++;
	}
	return 0;
}

static void write_head(FILE *out, sqlite3_stmt *stmt, const struct layout *layout, unsigned width)
{
	for (int i = 0; i < layout->n_columns; i++)
		write_cell(out, layout, i, sqlite3_column_name(stmt, i), width);
	fputc('\n', out);
}

static void write_cells(FILE *out, const struct cells *cells, const struct layout *layout,
			unsigned width)
{
	for (size_t i = 0; i < cells->n; i++) {
		int column = (int)(i % (size_t)layout->n_columns);
		write_cell(out, layout, column, cells->texts[i], width);
		if (column + 1 == layout->n_columns)
			fputc('\n', out);
	}
}

/* Behind the rows that set the widths, one row at a time. */
static int write_rest(FILE *out, sqlite3_stmt *stmt, const struct table_style *style,
		      const struct layout *layout, size_t *n_rows)
{
	int code = 0;

	while ((code = statement_advance(stmt)) == SQLITE_ROW && !ferror(out)) {
		for (int i = 0; i < layout->n_columns; i++) {
			auto_free char *text = cell_text(stmt, i, style);
			write_cell(out, layout, i, text ? text : "?", style->width);
		}
		fputc('\n', out);
		(*n_rows)++;
	}
	return code;
}

int table_text_write(FILE *out, sqlite3_stmt *stmt, const struct table_style *style,
		     size_t *ret_n_rows)
{
	int n_columns = sqlite3_column_count(stmt);
	auto_free unsigned *widths = calloc((size_t)n_columns + 1, sizeof(*widths));
	auto_free bool *is_right = calloc((size_t)n_columns + 1, sizeof(*is_right));
	auto_cells struct cells cells = { 0 };
	struct layout layout = { n_columns, widths, is_right };
	int code = SQLITE_DONE;

	if (!widths || !is_right)
		return -ENOMEM;
	for (int i = 0; i < n_columns; i++)
		layout_grow(&layout, i, sqlite3_column_name(stmt, i));

	int r = read_ahead(stmt, style, &layout, &cells, &code);
	if (r < 0)
		return r;

	size_t n_rows = n_columns ? cells.n / (size_t)n_columns : 0;
	if (n_columns > 0 && (n_rows > 0 || !style->is_silent_when_empty))
		write_head(out, stmt, &layout, style->width);
	write_cells(out, &cells, &layout, style->width);
	if (code == SQLITE_ROW)
		code = write_rest(out, stmt, style, &layout, &n_rows);
	*ret_n_rows = n_rows;
	return ferror(out) ? -EIO : code == SQLITE_DONE ? 0 : -EPROTO;
}
