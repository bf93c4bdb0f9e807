#pragma once
/* What all figures have: a title, notes under them, and panels with axes. Lengths in points. */
#include <stddef.h>
#include <stdint.h>

#include "report/chart/axis.h"
#include "report/chart/palette.h"
#include "report/plot/canvas.h"

struct figure {
	struct canvas *canvas;
	double font; /* size of text */
	struct canvas_rect body; /* what is left for panels */
};

/* Lines and text that have no meaning of their own are thin and grey or black. */
#define FIGURE_NOTE_SCALE 0.8
#define FIGURE_LINE	  0.5
#define FIGURE_CURVE	  0.9

/* A rectangle between two axes. */
struct panel {
	struct canvas_rect rect;
	struct axis x;
	struct axis y;
	double title_x; /* where the title of the axis of values stands */
};

/* Title at the top (NULL: none), notes (lines) at the bottom, wrapped. Both take from the body. */
void figure_frame(struct figure *figure, const char *title, const char *notes);

/*
 * How high the texts under an axis of time are; how wide the texts of an axis are, with its title.
 */
double figure_x_axis_height(const struct figure *figure);
double figure_y_axis_width(const struct figure *figure, const struct axis *axis);

/*
 * Frame, ticks and their texts. A title gets the axis' unit behind it, "memory (MiB)", or before it
 * where it begins with a slash, "10^6/s"; NULL: none (and of time no texts either).
 */
void figure_x_axis(const struct figure *figure, const struct panel *panel, const char *title);
void figure_y_axis(const struct figure *figure, const struct panel *panel, const char *title);

/* Where a value lies. */
double panel_x(const struct panel *panel, double value);
double panel_y(const struct panel *panel, double value);

struct figure_text {
	double x;
	double y; /* of the base line */
	enum canvas_anchor anchor;
	double scale; /* of the font; 0: 1 */
	uint32_t colour;
};
void figure_text(const struct figure *figure, const struct figure_text *place, const char *text);

/* Copy what of a text is so many points wide in a size, its end "…"; "": hardly any is. */
void figure_cut(char *ret_text, size_t n_bytes, const char *text, double width, double size);

/* Whether a panel is big enough to be read: -ENOSPC or 0. */
int figure_check(const struct figure *figure, struct canvas_rect rect);
