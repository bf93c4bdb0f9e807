#include "report/plot/figure.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TICK	 2.5 /* points */
#define MAX_LINE 400

static const struct canvas_pen thin = { PALETTE_BLACK, FIGURE_LINE, 0, CANVAS_NO_COLOUR };

double panel_x(const struct panel *panel, double value)
{
	return panel->rect.x +
	       (value - panel->x.low) / (panel->x.high - panel->x.low) * panel->rect.width;
}

double panel_y(const struct panel *panel, double value)
{
	return panel->rect.y + panel->rect.height -
	       (value - panel->y.low) / (panel->y.high - panel->y.low) * panel->rect.height;
}

void figure_text(const struct figure *figure, const struct figure_text *place, const char *text)
{
	canvas_text(figure->canvas,
		    &(struct canvas_label){
			    .at = { place->x, place->y },
			    .size = figure->font * (place->scale ? place->scale : 1),
			    .anchor = place->anchor,
			    .colour = place->colour,
			    .text = text,
		    });
}

/* The part of a line that fits, up to a blank where there is one. */
static size_t fitting(const char *line, size_t length, double width, double size)
{
	char text[MAX_LINE];
	size_t fits = 0;

	for (size_t n = 1; n <= length && n < sizeof(text); n++) {
		bool is_end = n == length || line[n] == ' ';
		if (!is_end)
			continue;
		memcpy(text, line, n);
		text[n] = '\0';
		if (fits && canvas_text_width(text, size) > width)
			break;
		fits = n;
	}
	return fits ? fits : length < sizeof(text) ? length : sizeof(text) - 1;
}

/* Draw the notes, or with is_drawn = false only count their lines. */
static unsigned write_notes(const struct figure *figure, const char *notes, double top,
			    bool is_drawn)
{
	double size = figure->font * FIGURE_NOTE_SCALE;
	unsigned n_lines = 0;

	while (*notes) {
		size_t length = strcspn(notes, "\n");
		while (length > 0) {
			size_t n = fitting(notes, length, figure->body.width, size);
			char text[MAX_LINE];
			snprintf(text, sizeof(text), "%.*s", (int)n, notes);
			n_lines++;
			if (is_drawn)
				figure_text(figure,
					    &(struct figure_text){ figure->body.x,
								   top + 1.2 * size * n_lines,
								   CANVAS_START, FIGURE_NOTE_SCALE,
								   PALETTE_BLACK },
					    text);
			n += n < length && notes[n] == ' ';
			notes += n;
			length -= n;
		}
		notes += *notes == '\n';
	}
	return n_lines;
}

void figure_frame(struct figure *figure, const char *title, const char *notes)
{
	struct canvas_rect *body = &figure->body;

	if (title) {
		figure_text(figure,
			    &(struct figure_text){ body->x + body->width / 2,
						   body->y + 1.2 * figure->font, CANVAS_MIDDLE, 1.2,
						   PALETTE_BLACK },
			    title);
		body->y += 1.9 * figure->font;
		body->height -= 1.9 * figure->font;
	}
	double height =
		1.2 * figure->font * FIGURE_NOTE_SCALE * write_notes(figure, notes, 0, false) +
		0.4 * figure->font;
	body->height -= height;
	write_notes(figure, notes, body->y + body->height + 0.2 * figure->font, true);
}

double figure_x_axis_height(const struct figure *figure)
{
	return TICK + 2.6 * figure->font;
}

double figure_y_axis_width(const struct figure *figure, const struct axis *axis)
{
	double widest = 0;

	for (size_t i = 0; i < axis->n_ticks; i++)
		widest = fmax(widest, canvas_text_width(axis->ticks[i].text, figure->font));
	return widest + TICK + 2.1 * figure->font;
}

/* "time (ms)", "10^3/s", "1/s" */
static void title_of(char *text, size_t n_bytes, const char *title, const struct axis *axis)
{
	if (*title == '/')
		snprintf(text, n_bytes, "%s%s", *axis->unit ? axis->unit : "1", title);
	else
		snprintf(text, n_bytes, *title && *axis->unit ? "%s (%s)" : "%s%s", title,
			 axis->unit);
}

void figure_x_axis(const struct figure *figure, const struct panel *panel, const char *title)
{
	double bottom = panel->rect.y + panel->rect.height;
	char text[128];

	canvas_box(figure->canvas, panel->rect, &thin);
	for (size_t i = 0; i < panel->x.n_ticks; i++) {
		double x = panel_x(panel, panel->x.ticks[i].value);
		canvas_line(figure->canvas, (struct canvas_point){ x, bottom },
			    (struct canvas_point){ x, bottom + TICK }, &thin);
		if (title)
			figure_text(figure,
				    &(struct figure_text){ x, bottom + TICK + figure->font,
							   CANVAS_MIDDLE, 1, PALETTE_BLACK },
				    panel->x.ticks[i].text);
	}
	if (!title)
		return;
	title_of(text, sizeof(text), title, &panel->x);
	figure_text(figure,
		    &(struct figure_text){ panel->rect.x + panel->rect.width / 2,
					   bottom + TICK + 2.25 * figure->font, CANVAS_MIDDLE, 1,
					   PALETTE_BLACK },
		    text);
}

void figure_y_axis(const struct figure *figure, const struct panel *panel, const char *title)
{
	double left = panel->rect.x;
	char text[128];

	canvas_box(figure->canvas, panel->rect, &thin);
	for (size_t i = 0; i < panel->y.n_ticks; i++) {
		double y = panel_y(panel, panel->y.ticks[i].value);
		canvas_line(figure->canvas, (struct canvas_point){ left - TICK, y },
			    (struct canvas_point){ left, y }, &thin);
		figure_text(figure,
			    &(struct figure_text){ left - 1.4 * TICK, y + 0.36 * figure->font,
						   CANVAS_END, 1, PALETTE_BLACK },
			    panel->y.ticks[i].text);
	}
	if (!title)
		return;
	title_of(text, sizeof(text), title, &panel->y);
	canvas_text(figure->canvas,
		    &(struct canvas_label){
			    .at = { panel->title_x, panel->rect.y + panel->rect.height / 2 },
			    .size = figure->font,
			    .anchor = CANVAS_MIDDLE,
			    .is_upright = true,
			    .colour = PALETTE_BLACK,
			    .text = text,
		    });
}

void figure_cut(char *ret_text, size_t n_bytes, const char *text, double width, double size)
{
	static const char dots[] = "\u2026";
	int n = snprintf(ret_text, n_bytes - sizeof(dots), "%s", text);
	bool is_cut = n >= (int)(n_bytes - sizeof(dots));

	n = (int)strlen(ret_text);
	while (n > 0 && (is_cut || canvas_text_width(ret_text, size) > width)) {
		do
			n--;
		while (n > 0 && ((unsigned char)ret_text[n] & 0xc0) == 0x80);
		memcpy(ret_text + n, dots, sizeof(dots));
		is_cut = false;
	}
	if (n < 2 && strlen(text) > 2)
		*ret_text = '\0';
}

int figure_check(const struct figure *figure, struct canvas_rect rect)
{
	double least = 3 * figure->font;

	return rect.width < 2 * least || rect.height < least ? -ENOSPC : 0;
}
