/* Rows of a report as bars: what resident memory is, and which lines threads share. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/human-number.h"
#include "report/plot/figure.h"
#include "report/plot/plot.h"
#include "report/queries.h"
#include "store/query-value.h"
#include "store/statement.h"

#define MOST_BARS  60u
#define ROW	   1.5 /* height, of the font: at least */
#define MOST_ROW   2.4
#define NAME_SHARE 0.55 /* of the width, at most, for names */
#define BAR_HEIGHT 0.66 /* of a row */

/* A figure: rows of name and two parts of a bar, the biggest first. */
struct bars_kind {
	const char *sql; /* with %s for the report's */
	const char *report_sql;
	const char *names[2]; /* of the parts */
	const char *title; /* of the axis */
	enum axis_unit unit;
	const char *notes;
};

static const struct bars_kind resident = {
	"WITH part AS (SELECT * FROM (%s)) SELECT iif(kind = 'heap' OR instr(what, '/') = 0, what,"
	" substr(what, 1, instr(what, '/') - 1) || replace(what, rtrim(what, replace(what, '/',"
	" '')), '')), rss - coalesce(beside, 0),"
	" coalesce(beside, 0) FROM part WHERE process = (SELECT process FROM part GROUP BY process"
	" ORDER BY sum(rss) DESC LIMIT 1) AND rss > 0",
	report_resident_sql,
	{ "its own", "free beside its blocks" },
	"resident",
	AXIS_BYTES,
	"of the process with most resident memory, at the look at its pages that found most",
};

static const struct bars_kind sharing = {
	"SELECT coalesce(object, '?') || ' \u2026' || substr(line, -4),"
	" iif(sharing = 'different bytes', changes, 0),"
	" iif(sharing = 'different bytes', 0, changes) FROM (%s) WHERE changes > 0"
	" ORDER BY changes DESC",
	report_sharing_sql,
	{ "different bytes (false sharing)", "same bytes" },
	"changes of the thread",
	AXIS_COUNT,
	"lines of 64 bytes that several threads touched; changes: samples of a thread that follow"
	" one of another",
};

static const uint32_t colours[2] = { PALETTE_BLUE, PALETTE_ORANGE };

struct bar {
	char *name;
	double parts[2];
};

struct bars {
	const struct bars_kind *kind;
	struct bar items[MOST_BARS];
	size_t n;
	size_t n_rows; /* of the report */
	double whole; /* of all rows */
	double parts[2];
};

static void finish_bars(struct bars *bars)
{
	for (size_t i = 0; i < bars->n; i++)
		free(bars->items[i].name);
}
#define auto_bars __attribute__((cleanup(finish_bars)))

static int read_bars(const struct plot *plot, struct bars *bars)
{
	char *sql = sqlite3_mprintf(bars->kind->sql, bars->kind->report_sql);
	auto_statement sqlite3_stmt *row =
		sql ? report_sql_prepare(plot->db, sql, plot->request->run_id, -1) : NULL;
	int code = SQLITE_DONE;

	sqlite3_free(sql);
	while (row && (code = statement_advance(row)) == SQLITE_ROW) {
		const double parts[2] = { sqlite3_column_double(row, 1),
					  sqlite3_column_double(row, 2) };
		bars->n_rows++;
		bars->whole += parts[0] + parts[1];
		for (int i = 0; i < 2; i++)
			bars->parts[i] += parts[i];
		if (bars->n == MOST_BARS)
			continue;
		char *name = strdup(statement_string(row, 0));
		if (!name)
			return -ENOMEM;
		bars->items[bars->n++] = (struct bar){ name, { parts[0], parts[1] } };
	}
	return row && code == SQLITE_DONE ? 0 : -EPROTO;
}

/* ---- Drawing ---- */

/* Over the bars, which it must not cover. */
static void draw_legend(struct plot *plot, const struct bars *bars)
{
	struct figure *figure = &plot->figure;
	double font = figure->font, x = figure->body.x;

	for (int i = 0; i < 2; i++) {
		if (bars->parts[i] <= 0)
			continue;
		canvas_box(figure->canvas,
			   (struct canvas_rect){ x, figure->body.y + 0.3 * font, 0.8 * font,
						 0.8 * font },
			   &(struct canvas_pen){ CANVAS_NO_COLOUR, 0, 0, colours[i] });
		figure_text(figure,
			    &(struct figure_text){ x + 1.1 * font, figure->body.y + font,
						   CANVAS_START, 0.9, PALETTE_BLACK },
			    bars->kind->names[i]);
		x += 2.2 * font + canvas_text_width(bars->kind->names[i], 0.9 * font);
	}
	figure->body.y += 1.6 * font;
	figure->body.height -= 1.6 * font;
}

static void draw_bar(struct plot *plot, const struct panel *panel, const struct bar *bar,
		     double top, double height)
{
	double font = plot->figure.font;
	double x = panel->rect.x;
	char name[200];

	figure_cut(name, sizeof(name), bar->name, panel->rect.x - plot->figure.body.x - 0.5 * font,
		   0.85 * font);
	figure_text(&plot->figure,
		    &(struct figure_text){ panel->rect.x - 0.4 * font,
					   top + 0.5 * height + 0.3 * font, CANVAS_END, 0.85,
					   PALETTE_BLACK },
		    name);
	for (int i = 0; i < 2; i++) {
		double width = panel_x(panel, bar->parts[i]) - panel->rect.x;
		canvas_box(plot->figure.canvas,
			   (struct canvas_rect){ x, top + (1 - BAR_HEIGHT) / 2 * height, width,
						 BAR_HEIGHT * height },
			   &(struct canvas_pen){ CANVAS_NO_COLOUR, 0, 0, colours[i] });
		x += width;
	}
}

/* Names need what the longest of those that are shown needs, up to their share. */
static double name_width(const struct plot *plot, const struct bars *bars, size_t n)
{
	double widest = 0;

	for (size_t i = 0; i < n; i++)
		widest = fmax(widest,
			      canvas_text_width(bars->items[i].name, 0.85 * plot->figure.font));
	return fmin(widest + plot->figure.font, NAME_SHARE * plot->figure.body.width);
}

static int make_notes(const struct bars *bars, size_t n_shown, char **ret_notes)
{
	double shown = 0;

	for (size_t i = 0; i < n_shown; i++)
		shown += bars->items[i].parts[0] + bars->items[i].parts[1];
	double rest = bars->whole - shown;
	auto_free char *more = NULL;
	if (bars->n_rows > n_shown &&
	    asprintf(&more, "; %zu more rows with %s are not drawn", bars->n_rows - n_shown,
		     bars->kind->unit == AXIS_BYTES ? format_bytes(llround(rest)).text
						    : format_count(llround(rest)).text) < 0)
		return -ENOMEM;
	return asprintf(ret_notes, "%s%s\n", bars->kind->notes, more ? more : "") < 0 ? -ENOMEM : 0;
}

static size_t n_fitting(const struct plot *plot, const struct bars *bars, double height)
{
	double n = (height - figure_x_axis_height(&plot->figure)) / (ROW * plot->figure.font);

	return n < 1 ? 0 : n < (double)bars->n ? (size_t)n : bars->n;
}

static int draw(struct plot *plot, const struct bars *bars)
{
	struct figure *figure = &plot->figure;
	auto_free char *notes = NULL;
	/* As many as fit beside the longest notes: those name the rest. */
	size_t n = n_fitting(plot, bars, figure->body.height - 8 * figure->font);
	int r = n ? make_notes(bars, n, &notes) : -ENOSPC;

	if (r < 0)
		return r;
	plot_frame(plot, notes);
	draw_legend(plot, bars);
	double left = name_width(plot, bars, n), most = 0;
	double height = fmin((figure->body.height - figure_x_axis_height(figure)) / (double)n,
			     MOST_ROW * figure->font);
	struct panel panel = { .rect = { figure->body.x + left, figure->body.y,
					 figure->body.width - left - figure->font,
					 (double)n * height } };
	if (figure->body.height < (ROW + 3) * figure->font || panel.rect.width < 6 * figure->font)
		return -ENOSPC;
	for (size_t i = 0; i < n; i++)
		most = fmax(most, bars->items[i].parts[0] + bars->items[i].parts[1]);
	double ends[2] = { 0, most * 1.02 };
	axis_make(bars->kind->unit, ends, 2 + (unsigned)(panel.rect.width / (5 * figure->font)),
		  &panel.x);
	for (size_t i = 0; i < n; i++)
		draw_bar(plot, &panel, &bars->items[i], panel.rect.y + (double)i * height, height);
	figure_x_axis(figure, &panel, bars->kind->title);
	return 0;
}

static int plot_bars(struct plot *plot, const struct bars_kind *kind)
{
	auto_bars struct bars bars = { .kind = kind };
	int r = read_bars(plot, &bars);

	if (r < 0)
		return r;
	return bars.n ? draw(plot, &bars) : -ENOENT;
}

int plot_resident(struct plot *plot)
{
	return plot_bars(plot, &resident);
}

int plot_sharing(struct plot *plot)
{
	return plot_bars(plot, &sharing);
}
