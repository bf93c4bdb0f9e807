#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/human-number.h"
#include "common/text-stream.h"
#include "report/chart/curves.h"
#include "report/plot/figure.h"
#include "report/plot/plot.h"
#include "report/text/sampling-notes.h"

#define N_COLUMNS  600
#define GAP	   0.7 /* between panels, of the font */
#define NAME_SCALE 0.9

/* A panel has up to two curves of one unit. */
static const struct look {
	const char *title; /* of the axis */
	enum axis_unit unit;
	enum curve_id curves[2];
	const char *names[2]; /* the second NULL: one curve */
	double share; /* of the height */
} looks[] = {
	{ "", AXIS_BYTES, { CURVE_LIVE, CURVE_RSS }, { "live", "resident" }, 1.8 },
	{ "/s", AXIS_COUNT, { CURVE_ALLOCATIONS, CURVE_ALLOCATIONS }, { "allocations", NULL }, 1 },
	{ "/s", AXIS_COUNT, { CURVE_SAMPLES, CURVE_SAMPLES }, { "samples", NULL }, 1 },
	{ "/s", AXIS_COUNT, { CURVE_FAULTS, CURVE_FAULTS }, { "page faults", NULL }, 1 },
};
#define N_PANELS (sizeof(looks) / sizeof(looks[0]))

static const struct canvas_pen pens[2] = {
	{ PALETTE_BLUE, FIGURE_CURVE, 0, CANVAS_NO_COLOUR },
	{ PALETTE_VERMILION, FIGURE_CURVE, 2, CANVAS_NO_COLOUR },
};

static double most_of(const struct curves *curves, const struct look *look)
{
	return fmax(curves->of[look->curves[0]].most, curves->of[look->curves[1]].most);
}

/* A step for each column; where nothing is known the line is broken. */
static void draw_curve(struct plot *plot, const struct panel *panel, const struct curves *curves,
		       enum curve_id id, const struct canvas_pen *pen)
{
	struct canvas_point points[2 * N_COLUMNS];
	double width = (panel->x.high - panel->x.low) / curves->n_columns;
	size_t n = 0;

	for (unsigned i = 0; i <= curves->n_columns; i++) {
		double value = i < curves->n_columns ? curves->of[id].values[i] : NAN;
		if (isnan(value)) {
			canvas_path(plot->figure.canvas, points, n, pen);
			n = 0;
			continue;
		}
		double y = panel_y(panel, value);
		points[n++] = (struct canvas_point){ panel_x(panel, panel->x.low + i * width), y };
		points[n++] =
			(struct canvas_point){ panel_x(panel, panel->x.low + (i + 1) * width), y };
	}
}

/* The value that a curve ends with; NAN: it has none. */
static double last_of(const struct curves *curves, enum curve_id id)
{
	for (unsigned i = curves->n_columns; i-- > 0;)
		if (!isnan(curves->of[id].values[i]))
			return curves->of[id].values[i];
	return NAN;
}

static bool has_curve(const struct look *look, const struct curves *curves, int i)
{
	return look->names[i] && curves->of[look->curves[i]].most > 0;
}

/* Beside the end of each curve, in its colour and as it is drawn. */
static void draw_names(struct plot *plot, const struct panel *panel, const struct look *look,
		       const struct curves *curves)
{
	double font = plot->figure.font, x = panel->rect.x + panel->rect.width + 0.4 * font;
	double bottom = panel->rect.y + panel->rect.height, y[2];

	for (int i = 0; i < 2; i++)
		y[i] = panel_y(panel, has_curve(look, curves, i) ? last_of(curves, look->curves[i])
								 : panel->y.low);
	bool is_close = has_curve(look, curves, 0) && has_curve(look, curves, 1) &&
			fabs(y[0] - y[1]) < 1.2 * font;
	if (is_close) {
		double middle = (y[0] + y[1]) / 2, side = y[0] <= y[1] ? -0.6 : 0.6;
		middle = fmin(fmax(middle, panel->rect.y + 0.9 * font), bottom - 0.9 * font);
		y[0] = middle + side * font;
		y[1] = middle - side * font;
	}
	for (int i = 0; i < 2; i++) {
		if (!has_curve(look, curves, i) || isnan(y[i]))
			continue;
		canvas_line(plot->figure.canvas, (struct canvas_point){ x, y[i] },
			    (struct canvas_point){ x + font, y[i] }, &pens[i]);
		figure_text(&plot->figure,
			    &(struct figure_text){ x + 1.3 * font, y[i] + 0.3 * font, CANVAS_START,
						   NAME_SCALE, pens[i].stroke },
			    look->names[i]);
	}
}

/* What the names of all panels need at their right. */
static double names_width(const struct plot *plot, const struct curves *curves)
{
	double font = plot->figure.font, widest = 0;

	for (size_t k = 0; k < N_PANELS; k++)
		for (int i = 0; i < 2; i++)
			if (has_curve(&looks[k], curves, i))
				widest = fmax(widest, canvas_text_width(looks[k].names[i],
									NAME_SCALE * font));
	return widest + 1.9 * font;
}

static void draw_panel(struct plot *plot, struct panel *panel, const struct look *look,
		       const struct curves *curves)
{
	for (int i = look->names[1] ? 1 : 0; i >= 0; i--)
		draw_curve(plot, panel, curves, look->curves[i], &pens[i]);
	figure_y_axis(&plot->figure, panel, look->title);
	draw_names(plot, panel, look, curves);
}

/* ---- Where the panels are ---- */

struct layout {
	struct panel panels[N_PANELS];
	bool is_shown[N_PANELS];
	size_t last;
};

static void make_axes(const struct plot *plot, const struct curves *curves, struct layout *layout)
{
	double room = plot->figure.body.height - figure_x_axis_height(&plot->figure);
	double shares = 0;

	for (size_t i = 0; i < N_PANELS; i++) {
		layout->is_shown[i] = most_of(curves, &looks[i]) > 0;
		shares += layout->is_shown[i] ? looks[i].share : 0;
	}
	for (size_t i = 0; i < N_PANELS; i++) {
		double ends[2] = { 0, 1.05 * most_of(curves, &looks[i]) };
		if (!layout->is_shown[i])
			continue;
		layout->last = i;
		layout->panels[i].rect.height =
			room * looks[i].share / shares - GAP * plot->figure.font;
		axis_make(looks[i].unit, ends,
			  1 + (unsigned)fmax(
				      layout->panels[i].rect.height / (1.7 * plot->figure.font), 1),
			  &layout->panels[i].y);
	}
}

static int place_panels(const struct plot *plot, const struct curves *curves, struct layout *layout)
{
	const struct figure *figure = &plot->figure;
	double left = 0, top = figure->body.y + 0.3 * figure->font;
	double ends[2] = { (double)curves->from_ns, (double)curves->to_ns };
	int r = 0;

	for (size_t i = 0; i < N_PANELS; i++)
		if (layout->is_shown[i])
			left = fmax(left, figure_y_axis_width(figure, &layout->panels[i].y));
	for (size_t i = 0; i < N_PANELS; i++) {
		struct panel *panel = &layout->panels[i];
		if (!layout->is_shown[i])
			continue;
		panel->rect.x = figure->body.x + left;
		panel->title_x = figure->body.x + figure->font;
		panel->rect.width = figure->body.width - left - names_width(plot, curves);
		panel->rect.y = top;
		top += panel->rect.height + GAP * figure->font;
		axis_make(AXIS_TIME, ends, 2 + (unsigned)(panel->rect.width / (5 * figure->font)),
			  &panel->x);
		if (panel->rect.height < 2 * figure->font ||
		    figure_check(&plot->figure, panel->rect) < 0)
			r = -ENOSPC;
	}
	return r;
}

/* ---- Notes ---- */

static int write_losses(const struct plot *plot, FILE *out)
{
	int64_t run_id = plot->request->run_id;
	auto_free char *stop = report_stop_text(plot->db, run_id);

	if (stop)
		fprintf(out, "%s\n", stop);
	return report_sampling_foot(out, plot->db, run_id);
}

static int make_notes(const struct plot *plot, const struct curves *curves, char **ret_notes)
{
	size_t n_bytes;
	char *losses = NULL, *notes = NULL;
	FILE *out = text_stream_open(&losses, &n_bytes);
	int r = out ? write_losses(plot, out) : -ENOMEM;

	if (out && text_stream_close(out, &losses) < 0)
		r = -ENOMEM;
	plot->result->losses = losses;
	if (r == 0 &&
	    asprintf(&notes,
		     "live: the most of the interval, of %s allocations; resident: sampled, all "
		     "processes; n = %s samples, %s page faults\n%s",
		     format_count(curves->of[CURVE_ALLOCATIONS].n).text,
		     format_count(curves->of[CURVE_SAMPLES].n).text,
		     format_count(curves->of[CURVE_FAULTS].n).text, losses) < 0)
		r = -ENOMEM;
	if (r == 0)
		*ret_notes = notes;
	return r;
}

static int draw(struct plot *plot, const struct curves *curves)
{
	struct layout layout = { 0 };
	auto_free char *notes = NULL;
	int r = make_notes(plot, curves, &notes);

	if (r < 0)
		return r;
	plot_frame(plot, notes);
	make_axes(plot, curves, &layout);
	r = place_panels(plot, curves, &layout);
	for (size_t i = 0; r == 0 && i < N_PANELS; i++) {
		if (!layout.is_shown[i])
			continue;
		draw_panel(plot, &layout.panels[i], &looks[i], curves);
		figure_x_axis(&plot->figure, &layout.panels[i], i == layout.last ? "time" : NULL);
	}
	return r;
}

int plot_timeline(struct plot *plot)
{
	auto_curves struct curves curves = { 0 };
	int r = curves_read(plot->db, plot->request->run_id, N_COLUMNS, &curves);
	double most = 0;

	if (r < 0)
		return r == -ENODATA ? -ENOENT : r;
	for (size_t i = 0; i < N_PANELS; i++)
		most = fmax(most, most_of(&curves, &looks[i]));
	return most > 0 ? draw(plot, &curves) : -ENOENT;
}
