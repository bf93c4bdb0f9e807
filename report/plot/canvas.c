#include "report/plot/canvas.h"

#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/utf8.h"

#ifdef HAVE_CAIRO
#define CAIRO_KIND &canvas_cairo
#else
#define CAIRO_KIND NULL
#endif

static const struct canvas_kind *const kinds[CANVAS_FORMAT_COUNT] = {
	[CANVAS_SVG] = &canvas_svg,
	[CANVAS_PNG] = CAIRO_KIND,
	[CANVAS_PDF] = CAIRO_KIND,
};

struct canvas {
	const struct canvas_kind *kind;
	void *page;
	bool has_failed; /* a text that there was no memory for */
};

bool canvas_can(enum canvas_format format)
{
	return kinds[format] != NULL;
}

int canvas_open(enum canvas_format format, FILE *out, const struct canvas_size *size,
		struct canvas **ret_canvas)
{
	if (!canvas_can(format))
		return -ENOTSUP;

	struct canvas *canvas = calloc(1, sizeof(*canvas));
	if (!canvas)
		return -ENOMEM;
	canvas->kind = kinds[format];
	canvas->page = canvas->kind->open(format, out, size);
	if (!canvas->page) {
		free(canvas);
		return -ENOMEM;
	}
	*ret_canvas = canvas;
	return 0;
}

int canvas_close(struct canvas *canvas)
{
	if (!canvas)
		return 0;

	int r = canvas->kind->close(canvas->page);
	if (r == 0 && canvas->has_failed)
		r = -ENOMEM;
	free(canvas);
	return r;
}

void canvas_path(struct canvas *canvas, const struct canvas_point *points, size_t n,
		 const struct canvas_pen *pen)
{
	if (n > 1)
		canvas->kind->path(canvas->page, points, n, pen);
}

void canvas_line(struct canvas *canvas, struct canvas_point from, struct canvas_point to,
		 const struct canvas_pen *pen)
{
	canvas_path(canvas, (const struct canvas_point[]){ from, to }, 2, pen);
}

void canvas_box(struct canvas *canvas, struct canvas_rect rect, const struct canvas_pen *pen)
{
	double right = rect.x + rect.width;
	double bottom = rect.y + rect.height;
	const struct canvas_point points[] = {
		{ rect.x, rect.y }, { right, rect.y },	{ right, bottom },
		{ rect.x, bottom }, { rect.x, rect.y },
	};

	canvas_path(canvas, points, 5, pen);
}

void canvas_text(struct canvas *canvas, const struct canvas_label *label)
{
	struct canvas_label clean = *label;
	auto_free char *text = utf8_copy(label->text);

	if (!text) {
		canvas->has_failed = true;
		return;
	}
	for (char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	clean.text = text;
	canvas->kind->text(canvas->page, &clean);
}

void canvas_cells(struct canvas *canvas, struct canvas_rect rect,
		  const struct canvas_raster *raster)
{
	canvas->kind->cells(canvas->page, rect, raster);
}

double canvas_text_width(const char *text, double size)
{
	double ems = 0;

	/*
	 * DejaVu Sans and Helvetica: digits 0.64 and 0.56 em, letters 0.6 and 0.5, points and
	 * blanks a third.
	 */
	for (; *text; text++)
		if ((*text & 0xc0) != 0x80)
			ems += *text == '.' || *text == ' ' || *text == ',' || *text == 'i' ||
					       *text == 'l'
				       ? 0.32
			       : *text >= 'A' && *text <= 'Z' ? 0.7
							      : 0.62;
	return ems * size;
}
