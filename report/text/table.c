#include "report/text/table.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/human-number.h"
#include "common/text-stream.h"
#include "common/text.h"
#include "report/text/fit-text.h"
#include "report/text/json.h"
#include "store/statement.h"

#define LOOK_AHEAD_ROWS 1000u
#define MIN_CUT_COLUMNS 12u
#define LEAST_LAST	44u /* columns for a text, with less it goes below the numbers */
#define BELOW_INDENT	4u
#define SHORT_TEXT	16u /* columns of a text that is not cut for others: an address, a kind */
#define MAX_BAR		40u
#define WIDTH		100u /* of what is no terminal */

/* Cells of the rows that were read ahead; a cell is an allocated text. */
struct cells {
	char **texts;
	size_t n;
	size_t capacity;
};

static void cells_finish(struct cells *cells)
{
	array_free(cells->texts, cells->n, it, free(*it));
}

#define auto_cells __attribute__((cleanup(cells_finish)))

static enum table_kind kind_of(const struct table_style *style, int column)
{
	return (size_t)column < style->n_kinds ? style->kinds[column] : style->rest;
}

static struct format_text format_time(int64_t ns)
{
	struct format_text out;

	snprintf(out.text, sizeof(out.text), "%.3f s", (double)ns / 1e9);
	return out;
}

struct format_text table_value_text(double value, enum table_kind kind)
{
	int64_t number = (int64_t)llround(value);

	return kind == TABLE_BYTES	? format_bytes(number)
	       : kind == TABLE_DURATION ? format_duration(number)
					: format_count(number);
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
	case TABLE_BAR: /* drawn when its room is known */
		snprintf(out.text, sizeof(out.text), "%.6f", sqlite3_column_double(stmt, column));
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

static bool is_estimate(enum table_kind kind)
{
	return kind == TABLE_BYTES_ESTIMATE || kind == TABLE_COUNT_ESTIMATE;
}

/* How many of the columns behind one of this kind are in its cell. */
static int joined_by(enum table_kind kind)
{
	return kind == TABLE_SHARE || kind == TABLE_WITH_INTERVAL || is_estimate(kind)
		       ? 2
		       : kind == TABLE_SHARE_HALF;
}

static bool is_joined(const struct table_style *style, int column)
{
	return (column > 0 && joined_by(kind_of(style, column - 1)) > 0) ||
	       (column > 1 && joined_by(kind_of(style, column - 2)) > 1);
}

/* A value with its interval; "-" where that is not known. */
static struct format_text format_joined(sqlite3_stmt *stmt, int column, enum table_kind kind)
{
	bool is_known = sqlite3_column_type(stmt, column) != SQLITE_NULL;
	double value = is_known ? sqlite3_column_double(stmt, column) : -1;
	double low = sqlite3_column_double(stmt, column + 1);
	double high = sqlite3_column_double(stmt, column + joined_by(kind));

	if (sqlite3_column_type(stmt, column + 1) == SQLITE_NULL ||
	    (kind == TABLE_SHARE_HALF && !is_known))
		return format_percent(kind == TABLE_WITH_INTERVAL ? -1 : value);
	if (is_estimate(kind))
		return format_estimate(value, low, high, kind == TABLE_BYTES_ESTIMATE);
	if (kind == TABLE_SHARE_HALF)
		return format_share(value, value - low, value + low);
	return kind == TABLE_SHARE ? format_share(value, low, high)
				   : format_with_interval(value, low, high);
}

static char *cell_text(sqlite3_stmt *stmt, int column, const struct table_style *style)
{
	if (joined_by(kind_of(style, column)))
		return strdup(format_joined(stmt, column, kind_of(style, column)).text);
	switch (sqlite3_column_type(stmt, column)) {
	case SQLITE_NULL:
		return strdup("-");
	case SQLITE_BLOB:
		return sqlite3_column_bytes(stmt, column) ? strdup("(binary)") : strdup("");
	case SQLITE_TEXT:
		/* Control characters would break the lines of the table, or drive the terminal. */
		return text_hide_controls(strdup(statement_string(stmt, column)));
	default:
		return strdup(format_number(stmt, column, kind_of(style, column)).text);
	}
}

static int cells_add(struct cells *cells, char *text)
{
	if (!text)
		return -ENOMEM;
	if (grow_one(&cells->texts, cells->n, &cells->capacity) < 0)
		return free(text), -ENOMEM;
	cells->texts[cells->n++] = text;
	return 0;
}

/* Where a column is shown. */
enum place {
	IN_ITSELF,
	IN_ANOTHER, /* in the cell of a column before it */
	ONCE, /* below the rows, as all say the same */
	BELOW, /* under the others, behind its name */
};

/* What the columns look like once the first rows are known. */
struct layout {
	int n_columns;
	unsigned *widths;
	bool *is_right; /* numbers align to the right */
	enum place *places;
	bool is_whole; /* all rows were read ahead */
	bool has_bar; /* in the last column */
	bool is_fitted; /* texts are cut at the widths */
	bool is_below; /* the last column has lines of its own, under those of the others */
	bool is_apart; /* likewise under those of columns that are below */
	const struct cells *heads;
};

static void layout_grow(struct layout *layout, int column, const char *text)
{
	unsigned columns = fit_columns(text);

	if (columns > layout->widths[column])
		layout->widths[column] = columns;
}

/* All bars have the same scale; what is not nothing shows at least a dot. */
static void write_bar(FILE *out, double share, unsigned room)
{
	unsigned n = (unsigned)(fmin(fmax(share, 0), 1) * room + 0.5);

	for (unsigned i = 0; i < n; i++)
		fputc('#', out);
	fputs(n == 0 && share > 0 ? "." : "", out);
}

/* Texts give way, the widest first; numbers do not. */
static unsigned *widest_text(const struct layout *layout, int n_columns)
{
	unsigned *widest = NULL;

	for (int i = 0; i < n_columns; i++) {
		unsigned *width = &layout->widths[i];
		if (layout->places[i] == IN_ITSELF && !layout->is_right[i] &&
		    *width > MIN_CUT_COLUMNS && (!widest || *width >= *widest))
			widest = width;
	}
	return widest;
}

/* What the columns but the last take: as they are, or with their texts as short as can be. */
static unsigned columns_before_last(const struct layout *layout, bool is_least)
{
	unsigned used = 0;

	for (int i = 0; i + 1 < layout->n_columns; i++) {
		bool is_short =
			is_least && !layout->is_right[i] && layout->widths[i] > MIN_CUT_COLUMNS;
		if (layout->places[i] == IN_ITSELF)
			used += 2 + (is_short ? MIN_CUT_COLUMNS : layout->widths[i]);
	}
	return used;
}

static unsigned width_left(const struct layout *layout, unsigned width)
{
	unsigned used = columns_before_last(layout, false);

	return width > used + MIN_CUT_COLUMNS ? width - used : MIN_CUT_COLUMNS;
}

static char *cut_text(const char *text, unsigned room)
{
	char *cut = NULL;
	size_t n = 0;
	FILE *out = text_stream_open(&cut, &n);

	if (!out)
		return NULL;
	fit_write(out, text, room);
	text_stream_close(out, &cut);
	return cut;
}

/*
 * Do differing texts of the last column read the same in so many columns, in rows side by side?
 * 1, 0 or -ENOMEM.
 */
static int are_alike_when_cut(const struct cells *cells, const struct layout *layout, unsigned room)
{
	size_t n_columns = (size_t)layout->n_columns;

	for (size_t i = 2 * n_columns - 1; i < cells->n; i += n_columns) {
		const char *before = cells->texts[i - n_columns], *text = cells->texts[i];
		if (strcmp(before, text) == 0 || fit_columns(text) <= room)
			continue;
		auto_free char *cut_before = cut_text(before, room);
		auto_free char *cut = cut_text(text, room);
		if (!cut_before || !cut)
			return -ENOMEM;
		if (strcmp(cut_before, cut) == 0)
			return 1;
	}
	return 0;
}

/* Whether the last column, where it is a text that has to be cut, goes below: 1, 0 or -ENOMEM. */
static int goes_below(const struct layout *layout, const struct cells *cells, unsigned width)
{
	int last = layout->n_columns - 1;
	unsigned least = columns_before_last(layout, true);

	if (last == 0 || layout->is_right[last] || layout->has_bar ||
	    least + layout->widths[last] <= width)
		return 0;
	return least + LEAST_LAST > width ? 1 : are_alike_when_cut(cells, layout, width - least);
}

/* Columns that say the same in all rows make room for others; the first and the last one stay. */
static void leave_out_common(const struct layout *layout, const struct cells *cells)
{
	size_t n_columns = (size_t)layout->n_columns;

	for (size_t i = 1; layout->is_whole && cells->n > n_columns && i + 1 < n_columns; i++) {
		size_t at = i + n_columns;

		while (at < cells->n && strcmp(cells->texts[at], cells->texts[i]) == 0)
			at += n_columns;
		if (at >= cells->n && layout->places[i] == IN_ITSELF)
			layout->places[i] = ONCE;
	}
}

/* What the columns below take, with their names. */
static unsigned columns_below(const struct layout *layout)
{
	unsigned used = 0;

	for (int i = 0; i < layout->n_columns; i++) {
		if (layout->places[i] == BELOW)
			used += fit_columns(layout->heads->texts[i]) + 1 + layout->widths[i] + 2;
	}
	return used;
}

/* Behind its name a column is as wide as its widest value. */
static void set_below(struct layout *layout, const struct cells *cells, int column)
{
	layout->places[column] = BELOW;
	layout->widths[column] = 0;
	for (size_t i = (size_t)column; i < cells->n; i += (size_t)layout->n_columns)
		layout_grow(layout, column, cells->texts[i]);
}

/* Numbers that have no room beside the others go below, the last first. */
static void put_below(struct layout *layout, const struct cells *cells, unsigned width)
{
	unsigned most = width + 2, used = 0;

	for (int i = 0; i + 1 < layout->n_columns; i++) {
		bool is_long = !layout->is_right[i] && layout->widths[i] > SHORT_TEXT;
		if (layout->places[i] == IN_ITSELF)
			used += 2 + (is_long ? SHORT_TEXT : layout->widths[i]);
	}
	for (int i = layout->n_columns - 2; i > 0 && used > most; i--) {
		if (layout->places[i] != IN_ITSELF)
			continue;
		used -= 2 + layout->widths[i];
		set_below(layout, cells, i);
	}
	unsigned below = columns_below(layout) + BELOW_INDENT;
	layout->is_apart = below + LEAST_LAST > width;
	if (!layout->is_apart)
		layout->widths[layout->n_columns - 1] = width - below;
}

/* Have rows fit: what has no room beside the others, or too little to be told apart, goes below. */
static int layout_fit(struct layout *layout, const struct cells *cells, unsigned width)
{
	int last = layout->n_columns - 1;

	if (width == 0 || last < 0)
		return 0;

	unsigned *widths = layout->widths;
	unsigned before = 0;

	layout->is_fitted = true;
	int below = goes_below(layout, cells, width);
	if (below > 0) {
		leave_out_common(layout, cells);
		below = goes_below(layout, cells, width);
	}
	if (below < 0)
		return below;
	layout->is_below = below;
	if (layout->is_below) {
		widths[last] = width > BELOW_INDENT ? width - BELOW_INDENT : 1;
		put_below(layout, cells, width);
	}
	if (layout->has_bar && widths[last] < MIN_CUT_COLUMNS)
		widths[last] = MIN_CUT_COLUMNS;
	while ((before = columns_before_last(layout, false)) +
		       (layout->is_below ? 0 : widths[last]) >
	       width + (layout->is_below ? 2 : 0)) {
		unsigned *widest = widest_text(layout, layout->n_columns - layout->is_below);
		if (!widest)
			break;
		(*widest)--;
	}
	return 0;
}

/* Whether a column begins the lines under the others. */
static bool is_first_below(const struct layout *layout, int column)
{
	for (int i = 0; i < column; i++) {
		if (layout->places[i] == BELOW)
			return layout->is_apart && column + 1 == layout->n_columns;
	}
	return layout->places[column] == BELOW ||
	       (layout->is_below && column + 1 == layout->n_columns);
}

/* Whether nothing stands behind a column in its line. */
static bool is_last_of_line(const struct layout *layout, int column)
{
	for (int i = column + 1; i < layout->n_columns; i++) {
		if (layout->places[i] == IN_ITSELF || layout->places[i] == BELOW)
			return is_first_below(layout, i);
	}
	return true;
}

static void write_cell(FILE *out, const struct layout *layout, int column, const char *text)
{
	bool is_right = layout->is_right[column];
	unsigned columns = fit_columns(text);
	unsigned width = layout->widths[column];
	if (layout->places[column] != IN_ITSELF && layout->places[column] != BELOW)
		return;
	int pad = columns < width ? (int)(width - columns) : 0;

	if (is_first_below(layout, column))
		fprintf(out, "\n%*s", (int)BELOW_INDENT, "");
	else if (column)
		fputs("  ", out);
	if (layout->places[column] == BELOW)
		fprintf(out, "%s ", layout->heads->texts[column]);
	if (is_right)
		fprintf(out, "%*s", pad, "");
	fit_write(out, text, layout->is_fitted && !is_right ? width : 0);
	if (!is_right && !is_last_of_line(layout, column))
		fprintf(out, "%*s", pad, "");
}

/* Read up to LOOK_AHEAD_ROWS rows; *ret_code is SQLite's last answer. */
static int read_ahead(sqlite3_stmt *stmt, const struct table_style *style, struct layout *layout,
		      struct cells *cells, int *ret_code)
{
	size_t n_rows = 0;

	while (n_rows < LOOK_AHEAD_ROWS && (*ret_code = statement_advance(stmt)) == SQLITE_ROW) {
		for (int i = 0; i < layout->n_columns; i++) {
			enum table_kind kind = kind_of(style, i);
			layout->is_right[i] |=
				joined_by(kind) || (is_number(stmt, i) && kind != TABLE_BAR);
			int r = cells_add(cells, cell_text(stmt, i, style));
			if (r < 0)
				return r;
			if (layout->places[i] == IN_ITSELF)
				layout_grow(layout, i, cells->texts[cells->n - 1]);
		}
		n_rows++;
	}
	return 0;
}

/* A column's name; of one that has its interval in it, too. */
static char *head_text(sqlite3_stmt *stmt, int column, const struct table_style *style)
{
	char *text = NULL;

	return asprintf(&text, "%s%s", sqlite3_column_name(stmt, column),
			joined_by(kind_of(style, column)) ? " \u00b195 %" : "") < 0
		       ? NULL
		       : text;
}

static int read_heads(sqlite3_stmt *stmt, const struct table_style *style, struct layout *layout,
		      struct cells *heads)
{
	for (int i = 0; i < layout->n_columns; i++) {
		int r = cells_add(heads, head_text(stmt, i, style));
		if (r < 0)
			return r;
		layout->places[i] = is_joined(style, i) ? IN_ANOTHER : IN_ITSELF;
		if (layout->places[i] == IN_ITSELF)
			layout_grow(layout, i, heads->texts[i]);
	}
	return 0;
}

static void write_head(FILE *out, const struct cells *heads, const struct layout *layout)
{
	for (int i = 0; i < layout->n_columns; i++) {
		if (layout->is_below && i + 1 == layout->n_columns)
			fprintf(out, "\n%*s%s", (int)BELOW_INDENT, "", heads->texts[i]);
		else if (layout->places[i] != BELOW)
			write_cell(out, layout, i, heads->texts[i]);
	}
	fputc('\n', out);
}

/* A cell of a row: a bar is drawn. */
static void write_value(FILE *out, const struct layout *layout, int column, const char *text,
			unsigned width)
{
	unsigned room = width_left(layout, width ? width : WIDTH);

	if (!layout->has_bar || column + 1 < layout->n_columns) {
		write_cell(out, layout, column, text);
		return;
	}
	fputs(column ? "  " : "", out);
	write_bar(out, strtod(text, NULL), room < MAX_BAR ? room : MAX_BAR);
}

static void write_text_cells(FILE *out, const struct cells *cells, const struct layout *layout,
			     unsigned width)
{
	for (size_t i = 0; i < cells->n; i++) {
		int column = (int)(i % (size_t)layout->n_columns);
		write_value(out, layout, column, cells->texts[i], width);
		if (column + 1 == layout->n_columns)
			fputc('\n', out);
	}
}

/* What all rows say: "in all these rows: swapped 0 B, process 71". */
static void write_common(FILE *out, const struct cells *heads, const struct cells *cells,
			 const struct layout *layout, unsigned width)
{
	unsigned used = 0;

	for (int i = 0; i < layout->n_columns; i++) {
		if (layout->places[i] != ONCE)
			continue;
		unsigned n = fit_columns(heads->texts[i]) + fit_columns(cells->texts[i]) + 3;
		const char *before = used == 0		    ? "in all these rows: "
				     : used + n + 1 > width ? ",\n  "
							    : ", ";
		used = used == 0 || before[1] == '\n' ? (unsigned)strlen(before) : used;
		fprintf(out, "%s%s %s", before, heads->texts[i], cells->texts[i]);
		used += n;
	}
	fputs(used ? "\n" : "", out);
}

/* Behind the rows that set the widths, one row at a time. */
static int write_later_rows(FILE *out, sqlite3_stmt *stmt, const struct table_style *style,
			    const struct layout *layout, size_t *n_rows)
{
	int code = 0;

	while ((code = statement_advance(stmt)) == SQLITE_ROW && !ferror(out)) {
		for (int i = 0; i < layout->n_columns; i++) {
			auto_free char *text = cell_text(stmt, i, style);
			if (!text)
				return SQLITE_NOMEM;
			write_value(out, layout, i, text, style->width);
		}
		fputc('\n', out);
		(*n_rows)++;
	}
	return code;
}

/*
 * The rows of a statement as aligned columns, numbers to the right. Lines have style->width
 * columns: texts are cut as by fit_write(), and the last column, where next to nothing of it would
 * be seen, is under the others, unless columns that say the same in all rows make room for it:
 * those are said once, below the rows. Numbers that have no room even then are under the others,
 * too, each behind its name. Arguments and result as table_write().
 */
static int table_text_write(FILE *out, sqlite3_stmt *stmt, const struct table_style *style,
			    size_t *ret_n_rows)
{
	int n_columns = sqlite3_column_count(stmt);
	auto_free unsigned *widths = calloc((size_t)n_columns + 1, sizeof(*widths));
	auto_free bool *is_right = calloc((size_t)n_columns + 1, sizeof(*is_right));
	auto_free enum place *places = calloc((size_t)n_columns + 1, sizeof(*places));
	auto_cells struct cells heads = { 0 }, cells = { 0 };
	struct layout layout = { n_columns,
				 widths,
				 is_right,
				 places,
				 .has_bar = n_columns > 0 &&
					    kind_of(style, n_columns - 1) == TABLE_BAR,
				 .heads = &heads };
	int code = SQLITE_DONE;

	if (!widths || !is_right || !places)
		return -ENOMEM;
	int r = read_heads(stmt, style, &layout, &heads);
	r = r < 0 ? r : read_ahead(stmt, style, &layout, &cells, &code);
	layout.is_whole = code == SQLITE_DONE;
	r = r < 0 ? r : layout_fit(&layout, &cells, style->width);
	if (r < 0)
		return r;

	size_t n_rows = n_columns ? cells.n / (size_t)n_columns : 0;
	if (n_columns > 0 && (n_rows > 0 || !style->is_silent_when_empty))
		write_head(out, &heads, &layout);
	write_text_cells(out, &cells, &layout, style->width);
	write_common(out, &heads, &cells, &layout, style->width);
	if (code == SQLITE_ROW)
		code = write_later_rows(out, stmt, style, &layout, &n_rows);
	*ret_n_rows = n_rows;
	return ferror(out)	      ? -EIO
	       : code == SQLITE_DONE  ? 0
	       : code == SQLITE_NOMEM ? -ENOMEM
				      : -EPROTO;
}

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

static int write_csv_row(FILE *out, sqlite3_stmt *stmt, size_t row)
{
	int n = sqlite3_column_count(stmt);

	if (row == 0)
		write_csv_head(out, stmt);
	for (int i = 0; i < n; i++) {
		fputs(i ? "," : "", out);
		write_csv_value(out, stmt, i);
	}
	fputc('\n', out);
	return 0;
}

/* As an object; a blob in hexadecimal digits. */
static int write_json_row(FILE *out, sqlite3_stmt *stmt, size_t row)
{
	auto_json struct json json = { .is_plain = true };
	auto_free char *text = NULL;
	size_t n_bytes = 0;

	json_open(&json, '{');
	for (int i = 0; i < sqlite3_column_count(stmt); i++) {
		json_name(&json, sqlite3_column_name(stmt, i));
		if (sqlite3_column_type(stmt, i) == SQLITE_BLOB)
			json_hex(&json, sqlite3_column_blob(stmt, i),
				 (size_t)sqlite3_column_bytes(stmt, i));
		else
			json_column(&json, stmt, i);
	}
	json_close(&json, '}');
	int r = json_finish(&json, &text, &n_bytes);
	if (r == 0)
		fprintf(out, "%s%s", row == 0 ? "[\n" : ",\n", text);
	return r;
}

static void write_json_none(FILE *out, sqlite3_stmt *stmt)
{
	(void)stmt;
	fputs("[]\n", out);
}

/* Formats that need no look ahead. */
static const struct {
	int (*row)(FILE *out, sqlite3_stmt *stmt, size_t row);
	void (*none)(FILE *out, sqlite3_stmt *stmt); /* instead of rows */
	const char *tail; /* behind them */
} streams[TABLE_FORMAT_COUNT] = {
	[TABLE_CSV] = { write_csv_row, write_csv_head, "" },
	[TABLE_JSON] = { write_json_row, write_json_none, "\n]\n" },
};

static int write_stream(FILE *out, sqlite3_stmt *stmt, const struct table_style *style,
			size_t *ret_n_rows)
{
	enum table_format format = style->format;
	size_t n_rows = 0;
	int code = 0, r = 0;

	while (r == 0 && (code = statement_advance(stmt)) == SQLITE_ROW && !ferror(out)) {
		r = streams[format].row(out, stmt, n_rows++);
		if (style->on_row)
			style->on_row(style->context);
	}
	if (n_rows)
		fputs(streams[format].tail, out);
	else if (code == SQLITE_DONE)
		streams[format].none(out, stmt);
	*ret_n_rows = n_rows;
	return r < 0 ? r : ferror(out) ? -EIO : code == SQLITE_DONE ? 0 : -EPROTO;
}

int table_write(FILE *out, sqlite3_stmt *stmt, const struct table_style *style, size_t *ret_n_rows)
{
	size_t n_rows = 0;
	int r = streams[style->format].row ? write_stream(out, stmt, style, &n_rows)
					   : table_text_write(out, stmt, style, &n_rows);

	if (ret_n_rows)
		*ret_n_rows = n_rows;
	return r;
}
