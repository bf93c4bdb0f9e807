/* The repetitions of each PROGRAM.MODE as boxes, from the values that `report --stat` tells. */
#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/statistics.h"
#include "common/text-stream.h"
#include "report/plot/figure.h"
#include "report/plot/plot.h"
#include "report/queries.h"
#include "store/query-value.h"
#include "store/statement.h"

struct series_box {
	char *program;
	char *mode;
	bool is_natural; /* nothing was recorded */
	double *values; /* of repetitions that succeeded, sorted */
	size_t n;
	size_t n_allocated;
	size_t n_failed;
	double quartiles[3];
	double whiskers[2]; /* the furthest values within Tukey's fences */
	double interval[2]; /* 95 %, of the median */
	bool has_interval;
};

struct series {
	struct series_box *boxes; /* by program, the natural mode first, then by name */
	size_t n;
	char unit[24]; /* of the values */
};

#define auto_series __attribute__((cleanup(series_finish)))

enum {
	COLUMN_PROGRAM,
	COLUMN_MODE,
	COLUMN_NATURAL,
	COLUMN_NUMBER,
	COLUMN_NAME,
	COLUMN_UNIT,
	COLUMN_VALUE
};

static void series_finish(struct series *series)
{
	array_free(series->boxes, series->n, it, free(it->program), free(it->mode),
		   free(it->values));
	*series = (struct series){ 0 };
}

/* The box of the row: rows of one follow each other. */
static struct series_box *box_of(struct series *series, size_t *n_allocated, sqlite3_stmt *stmt)
{
	const char *program = statement_string(stmt, COLUMN_PROGRAM),
		   *mode = statement_string(stmt, COLUMN_MODE);
	struct series_box *last = series->n ? &series->boxes[series->n - 1] : NULL;

	if (last && strcmp(last->program, program) == 0 && strcmp(last->mode, mode) == 0)
		return last;
	if (grow_one(&series->boxes, series->n, n_allocated) < 0)
		return NULL;
	struct series_box *box = &series->boxes[series->n++];
	*box = (struct series_box){ .program = strdup(program), .mode = strdup(mode) };
	box->is_natural = sqlite3_column_int(stmt, COLUMN_NATURAL);
	snprintf(series->unit, sizeof(series->unit), "%s", statement_string(stmt, COLUMN_UNIT));
	return box->program && box->mode ? box : NULL;
}

static int add_value(struct series_box *box, sqlite3_stmt *stmt)
{
	if (sqlite3_column_type(stmt, COLUMN_VALUE) == SQLITE_NULL) {
		box->n_failed++;
		return 0;
	}
	return array_add(box->values, box->n, box->n_allocated,
			 sqlite3_column_double(stmt, COLUMN_VALUE));
}

static int take_row(struct series *series, size_t *n_allocated, sqlite3_stmt *stmt)
{
	struct series_box *box = box_of(series, n_allocated, stmt);

	return box ? add_value(box, stmt) : -ENOMEM;
}

static int read_rows(sqlite3_stmt *stmt, const char *program, const char *metric,
		     struct series *series)
{
	size_t n_allocated = 0, n_rows = 0;
	int code, r = 0;

	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		n_rows++;
		if (strcmp(statement_string(stmt, COLUMN_NAME), metric) == 0 &&
		    (!program || strcmp(statement_string(stmt, COLUMN_PROGRAM), program) == 0))
			r = take_row(series, &n_allocated, stmt);
	}
	if (r < 0)
		return r;
	if (code != SQLITE_DONE)
		return -EPROTO;
	return series->n ? 0 : n_rows ? -ENXIO : -ENOENT;
}

static void summarise(struct series_box *box)
{
	double low, high;

	if (box->n == 0)
		return;
	statistics_sort(box->values, box->n);
	for (int i = 0; i < 3; i++)
		box->quartiles[i] = statistics_quantile(box->values, box->n, 0.25 * (i + 1));
	statistics_fences(box->values, box->n, &low, &high);
	box->whiskers[0] = box->quartiles[0];
	box->whiskers[1] = box->quartiles[2];
	for (size_t i = 0; i < box->n; i++) {
		double value = box->values[i];
		if (value >= low && value < box->whiskers[0])
			box->whiskers[0] = value;
		if (value <= high && value > box->whiskers[1])
			box->whiskers[1] = value;
	}
	box->has_interval = box->n >= STATISTICS_INTERVAL_VALUES;
	if (box->has_interval)
		statistics_interval(box->values, box->n, &box->interval[0], &box->interval[1]);
}

/*
 * Of the program of a run, 0: of all. Returns 0, -ENXIO when no run has a value of that name,
 * -ENOENT without runs, -ENOMEM, -EPROTO. To be finished in each case.
 */
static int series_read(sqlite3 *db, long long run_id, const char *metric, struct series *series)
{
	auto_free char *program =
		run_id ? report_sql_text(db, "SELECT program FROM run WHERE id = :run", run_id)
		       : NULL;
	sqlite3_stmt *stmt = report_sql_prepare(db, report_stat_values_sql, 0, -1);

	*series = (struct series){ 0 };
	if (!stmt)
		return -EPROTO;
	int r = read_rows(stmt, program, metric, series);
	sqlite3_finalize(stmt);
	for (size_t i = 0; r == 0 && i < series->n; i++)
		summarise(&series->boxes[i]);
	return r;
}

/* The names that series_read() knows, with commas; to be freed; NULL: no memory, or none. */
static char *series_metrics(sqlite3 *db)
{
	sqlite3_stmt *stmt = report_sql_prepare(db, report_stat_values_sql, 0, -1);
	sqlite3_str *text = sqlite3_str_new(db);
	auto_free char *seen = strdup(",");

	while (stmt && seen && sqlite3_step(stmt) == SQLITE_ROW) {
		auto_free char *name = NULL;
		char *longer = NULL;
		if (asprintf(&name, ",%s,", statement_string(stmt, COLUMN_NAME)) < 0 ||
		    strstr(seen, name))
			continue;
		if (asprintf(&longer, "%s%s,", seen, statement_string(stmt, COLUMN_NAME)) < 0)
			break;
		free(seen);
		seen = longer;
		sqlite3_str_appendf(text, "%s%s", sqlite3_str_length(text) ? ", " : "",
				    statement_string(stmt, COLUMN_NAME));
	}
	sqlite3_finalize(stmt);
	char *list = sqlite3_str_finish(text);
	char *copy = list ? strdup(list) : NULL;
	sqlite3_free(list);
	return copy;
}

#define BOX_SHARE 0.5 /* of the room of a mode */
#define POINT	  1.1 /* half the size of an outlier's mark */

static const struct canvas_pen thin = { PALETTE_BLACK, FIGURE_LINE, 0, CANVAS_NO_COLOUR };
static const struct canvas_pen median_pen = { PALETTE_BLACK, 1.2, 0, CANVAS_NO_COLOUR };
static const struct canvas_pen interval_pen = { PALETTE_VERMILION, 2.2, 0, CANVAS_NO_COLOUR };
static const struct canvas_pen dry_pen = { PALETTE_GREY, FIGURE_LINE, 2.5, CANVAS_NO_COLOUR };

/* The modes of one program, with an axis of their own. */
struct group {
	const struct series_box *boxes;
	size_t n;
	struct panel panel;
};

struct groups {
	struct group items[PLOT_MAX_PROGRAMS];
	size_t n;
	double label_height;
	bool is_upright; /* names of modes: they are wider than their room */
};

static int find_groups(const struct series *series, struct groups *groups)
{
	for (size_t i = 0; i < series->n; i++) {
		bool is_new = i == 0 ||
			      strcmp(series->boxes[i].program, series->boxes[i - 1].program) != 0;
		if (is_new && groups->n == PLOT_MAX_PROGRAMS)
			return -E2BIG;
		if (is_new)
			groups->items[groups->n++] = (struct group){ .boxes = &series->boxes[i] };
		groups->items[groups->n - 1].n++;
	}
	return 0;
}

static enum axis_unit unit_of(const struct series *series)
{
	return strcmp(series->unit, "ns") == 0	    ? AXIS_TIME
	       : strcmp(series->unit, "bytes") == 0 ? AXIS_BYTES
						    : AXIS_COUNT;
}

/* From the least to the greatest value, with some room. */
static void make_axis(const struct plot *plot, struct group *group, enum axis_unit unit)
{
	double ends[2] = { INFINITY, -INFINITY };

	for (size_t i = 0; i < group->n; i++) {
		const struct series_box *box = &group->boxes[i];
		if (box->n) {
			ends[0] = fmin(ends[0], box->values[0]);
			ends[1] = fmax(ends[1], box->values[box->n - 1]);
		}
	}
	if (!isfinite(ends[0]))
		ends[0] = ends[1] = 0;
	double room = ends[1] > ends[0] ? 0.06 * (ends[1] - ends[0]) : fmax(0.05 * ends[1], 1);
	ends[0] = fmax(ends[0] - room, 0);
	ends[1] += room;
	axis_make(unit, ends, 2 + (unsigned)(group->panel.rect.height / (2.2 * plot->figure.font)),
		  &group->panel.y);
}

/* ---- One box ---- */

struct place {
	struct canvas *canvas;
	const struct panel *panel;
	double x; /* the middle */
	double half; /* of the width */
};

static void draw_level(const struct place *place, double value, double part,
		       const struct canvas_pen *pen)
{
	double y = panel_y(place->panel, value);

	canvas_line(place->canvas, (struct canvas_point){ place->x - part * place->half, y },
		    (struct canvas_point){ place->x + part * place->half, y }, pen);
}

static void draw_span(const struct place *place, double low, double high,
		      const struct canvas_pen *pen)
{
	canvas_line(place->canvas, (struct canvas_point){ place->x, panel_y(place->panel, low) },
		    (struct canvas_point){ place->x, panel_y(place->panel, high) }, pen);
}

static void draw_outlier(const struct place *place, double value)
{
	double y = panel_y(place->panel, value);

	canvas_box(place->canvas,
		   (struct canvas_rect){ place->x - POINT, y - POINT, 2 * POINT, 2 * POINT },
		   &(struct canvas_pen){ PALETTE_BLACK, FIGURE_LINE, 0, CANVAS_NO_COLOUR });
}

static void draw_box(const struct place *place, const struct series_box *box)
{
	double top = panel_y(place->panel, box->quartiles[2]);
	double bottom = panel_y(place->panel, box->quartiles[0]);

	draw_span(place, box->whiskers[0], box->quartiles[0], &thin);
	draw_span(place, box->quartiles[2], box->whiskers[1], &thin);
	draw_level(place, box->whiskers[0], 0.5, &thin);
	draw_level(place, box->whiskers[1], 0.5, &thin);
	canvas_box(
		place->canvas,
		(struct canvas_rect){ place->x - place->half, top, 2 * place->half, bottom - top },
		&(struct canvas_pen){ PALETTE_BLACK, FIGURE_LINE, 0,
				      box->is_natural ? PALETTE_LIGHT : PALETTE_LIGHT_BLUE });
	if (box->has_interval)
		draw_span(place, box->interval[0], box->interval[1], &interval_pen);
	draw_level(place, box->quartiles[1], 1, &median_pen);
	for (size_t i = 0; i < box->n; i++)
		if (box->values[i] < box->whiskers[0] || box->values[i] > box->whiskers[1])
			draw_outlier(place, box->values[i]);
}

/* ---- Names under the boxes ---- */

static void name_box(char *text, size_t n_bytes, const struct series_box *box)
{
	snprintf(text, n_bytes, "%s, n = %zu", box->mode, box->n);
}

static void draw_name(const struct plot *plot, const struct groups *groups,
		      const struct place *place, const struct series_box *box)
{
	double font = plot->figure.font;
	double y = place->panel->rect.y + place->panel->rect.height + 3;
	char text[160];

	if (groups->is_upright) {
		name_box(text, sizeof(text), box);
		canvas_text(place->canvas, &(struct canvas_label){ { place->x + 0.3 * font, y },
								   font,
								   CANVAS_END,
								   true,
								   PALETTE_BLACK,
								   text });
		return;
	}
	figure_text(&plot->figure,
		    &(struct figure_text){ place->x, y + font, CANVAS_MIDDLE, 1, PALETTE_BLACK },
		    box->mode);
	snprintf(text, sizeof(text), "n = %zu", box->n);
	figure_text(&plot->figure,
		    &(struct figure_text){ place->x, y + 2.1 * font, CANVAS_MIDDLE, 0.85,
					   PALETTE_BLACK },
		    text);
}

static void draw_group(const struct plot *plot, const struct groups *groups,
		       const struct group *group)
{
	const struct canvas_rect *rect = &group->panel.rect;
	double room = rect->width / (double)group->n;

	for (size_t i = 0; i < group->n; i++) {
		const struct series_box *box = &group->boxes[i];
		struct place place = { plot->figure.canvas, &group->panel,
				       rect->x + room * ((double)i + 0.5), room * BOX_SHARE / 2 };
		if (box->is_natural && box->n) {
			double y = panel_y(&group->panel, box->quartiles[1]);
			canvas_line(plot->figure.canvas, (struct canvas_point){ rect->x, y },
				    (struct canvas_point){ rect->x + rect->width, y }, &dry_pen);
		}
		if (box->n)
			draw_box(&place, box);
		draw_name(plot, groups, &place, box);
	}
}

/* ---- Where the panels are ---- */

static void measure_names(const struct plot *plot, const struct series *series,
			  struct groups *groups)
{
	double font = plot->figure.font;
	double room = (plot->figure.body.width - 5 * font * (double)groups->n) / (double)series->n;
	double widest = 0, upright = 0;
	char text[160];

	for (size_t i = 0; i < series->n; i++) {
		name_box(text, sizeof(text), &series->boxes[i]);
		widest = fmax(widest, canvas_text_width(series->boxes[i].mode, font));
		upright = fmax(upright, canvas_text_width(text, font));
	}
	groups->is_upright = widest > room;
	groups->label_height = groups->is_upright ? upright + font : 2.8 * font;
}

/* Each panel as wide as it has boxes. Programs stand over theirs, where there are several. */
static int place_panels(const struct plot *plot, const struct series *series, struct groups *groups)
{
	const struct figure *figure = &plot->figure;
	double heading = groups->n > 1 ? 1.5 * figure->font : 0.4 * figure->font;
	double x = figure->body.x, axes = 0;

	for (size_t i = 0; i < groups->n; i++) {
		struct group *group = &groups->items[i];
		group->panel.rect.y = figure->body.y + heading;
		group->panel.rect.height = figure->body.height - heading - groups->label_height;
		if (figure_check(&plot->figure,
				 (struct canvas_rect){ 0, 0, 1e9, group->panel.rect.height }) < 0)
			return -ENOSPC;
		make_axis(plot, group, unit_of(series));
		axes += figure_y_axis_width(figure, &group->panel.y) + 0.5 * figure->font;
	}
	for (size_t i = 0; i < groups->n; i++) {
		struct group *group = &groups->items[i];
		group->panel.title_x = x + figure->font;
		group->panel.rect.x = x + figure_y_axis_width(figure, &group->panel.y);
		group->panel.rect.width =
			(figure->body.width - axes) * (double)group->n / (double)series->n;
		x = group->panel.rect.x + group->panel.rect.width + 0.5 * figure->font;
		if (group->panel.rect.width < 1.5 * figure->font * (double)group->n)
			return -ENOSPC;
	}
	return 0;
}

/* ---- The whole ---- */

static char *notes_of(const struct plot *plot, const struct series *series)
{
	size_t n_failed = 0;
	bool has_natural = false;
	char *notes = NULL;
	size_t n_bytes;
	FILE *out = text_stream_open(&notes, &n_bytes);

	if (!out)
		return NULL;
	for (size_t i = 0; i < series->n; i++) {
		n_failed += series->boxes[i].n_failed;
		has_natural = has_natural || series->boxes[i].is_natural;
	}
	fprintf(out,
		"%s; n: repetitions that succeeded. Box: quartiles and median; whiskers: the"
		" furthest within 1.5 of their distance; squares: beyond it; orange: 95 %% interval"
		" of the median (bootstrap), from 6 repetitions on; axes need not begin at 0\n",
		plot->request->metric);
	fputs(has_natural ? "dashed and grey: natural runs, nothing was recorded\n"
			  : "there are no natural runs to compare with\n",
	      out);
	if (n_failed)
		fprintf(out, "%zu repetitions that failed were left out\n", n_failed);
	text_stream_close(out, &notes);
	return notes;
}

static int tell_failed(struct plot *plot, const struct series *series)
{
	size_t n_failed = 0;

	for (size_t i = 0; i < series->n; i++)
		n_failed += series->boxes[i].n_failed;
	if (n_failed && asprintf(&plot->result->losses,
				 "%zu repetitions that failed were left out\n", n_failed) < 0) {
		plot->result->losses = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int draw(struct plot *plot, const struct series *series)
{
	struct figure *figure = &plot->figure;
	struct groups groups = { 0 };
	auto_free char *notes = notes_of(plot, series);
	int r = notes ? find_groups(series, &groups) : -ENOMEM;

	if (r < 0)
		return r;
	plot_frame(plot, notes);
	measure_names(plot, series, &groups);
	r = place_panels(plot, series, &groups);
	for (size_t i = 0; r == 0 && i < groups.n; i++) {
		const struct group *group = &groups.items[i];
		draw_group(plot, &groups, group);
		figure_y_axis(figure, &group->panel, plot->request->metric);
		if (groups.n > 1)
			figure_text(figure,
				    &(struct figure_text){ group->panel.rect.x +
								   group->panel.rect.width / 2,
							   group->panel.rect.y - 0.4 * figure->font,
							   CANVAS_MIDDLE, 1, PALETTE_BLACK },
				    group->boxes->program);
	}
	return r < 0 ? r : tell_failed(plot, series);
}

int plot_series(struct plot *plot)
{
	auto_series struct series series = { 0 };
	int r = series_read(plot->db, plot->request->run_id, plot->request->metric, &series);

	if (r == -ENXIO)
		plot->result->detail = series_metrics(plot->db);
	return r < 0 ? r : draw(plot, &series);
}
