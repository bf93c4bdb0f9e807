#include "report/plot/canvas.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/utf8.h"

/*
 * SVG 1.1. Text stays text, so that it can be searched, copied and edited: the reader's font
 * decides how it looks, and the families name what is near everywhere.
 */
#define FONTS "DejaVu Sans, Helvetica, Arial, sans-serif"

struct page {
	FILE *out;
	bool has_failed; /* no memory for some of it */
};

/* A stream in memory that cannot grow says so here only, and goes on with what follows. */
__attribute__((format(printf, 2, 3))) static void put(struct page *page, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	page->has_failed |= vfprintf(page->out, format, arguments) < 0;
	va_end(arguments);
}

/* Without what nobody sees: two decimals, no trailing zeros, no sign of zero. */
struct number {
	char text[32];
};

static struct number number_of(double value)
{
	struct number number;
	double rounded = round(value * 100) / 100;

	snprintf(number.text, sizeof(number.text), "%.2f", rounded == 0 ? 0.0 : rounded);
	char *end = number.text + strlen(number.text) - 1;
	while (*end == '0')
		*end-- = '\0';
	if (*end == '.')
		*end = '\0';
	return number;
}

static void write_escaped(struct page *page, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			put(page, "&lt;");
		else if (*text == '&')
			put(page, "&amp;");
		else if (*text == '>')
			put(page, "&gt;");
		else
			put(page, "%c", *text);
	}
}

static void *svg_open(enum canvas_format format, FILE *out, const struct canvas_size *size)
{
	struct page *page = calloc(1, sizeof(*page));

	(void)format;
	if (!page)
		return NULL;
	page->out = out;
	put(page,
	    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	    "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%spt\" "
	    "height=\"%spt\" "
	    "viewBox=\"0 0 %s %s\" font-family=\"" FONTS "\">\n",
	    number_of(size->width).text, number_of(size->height).text, number_of(size->width).text,
	    number_of(size->height).text);
	if (size->title) {
		put(page, "<title>");
		write_escaped(page, size->title);
		put(page, "</title>\n");
	}
	put(page, "%s", "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
	return page;
}

static int svg_close(void *data)
{
	struct page *page = data;

	put(page, "</svg>\n");
	bool is_written = fflush(page->out) == 0 && !ferror(page->out);
	int r = !is_written ? -EIO : page->has_failed ? -ENOMEM : 0;
	free(page);
	return r;
}

static void write_colour(struct page *page, const char *attribute, uint32_t colour)
{
	if (colour == CANVAS_NO_COLOUR)
		put(page, " %s=\"none\"", attribute);
	else
		put(page, " %s=\"#%06x\"", attribute, (unsigned)colour);
}

static void svg_path(void *data, const struct canvas_point *points, size_t n,
		     const struct canvas_pen *pen)
{
	struct page *page = data;

	put(page, "<path d=\"");
	for (size_t i = 0; i < n; i++)
		put(page, "%s%s %s", i ? "L" : "M", number_of(points[i].x).text,
		    number_of(points[i].y).text);
	put(page, "%s", pen->fill == CANVAS_NO_COLOUR ? "\"" : "Z\"");
	write_colour(page, "fill", pen->fill);
	if (pen->stroke != CANVAS_NO_COLOUR) {
		write_colour(page, "stroke", pen->stroke);
		put(page, " stroke-width=\"%s\" stroke-linejoin=\"round\"",
		    number_of(pen->width).text);
	}
	if (pen->dash > 0)
		put(page, " stroke-dasharray=\"%s\"", number_of(pen->dash).text);
	put(page, "/>\n");
}

static void svg_text(void *data, const struct canvas_label *label)
{
	static const char *const anchors[] = { "start", "middle", "end" };
	struct page *page = data;
	struct number x = number_of(label->at.x), y = number_of(label->at.y);

	put(page, "<text x=\"%s\" y=\"%s\" font-size=\"%s\" text-anchor=\"%s\"", x.text, y.text,
	    number_of(label->size).text, anchors[label->anchor]);
	write_colour(page, "fill", label->colour);
	if (label->is_upright)
		put(page, " transform=\"rotate(-90 %s %s)\"", x.text, y.text);
	put(page, "%c", '>');
	write_escaped(page, label->text);
	put(page, "</text>\n");
}

/* One path for each colour, in units of cells: a run of equal cells in a row is a piece of it. */
static void write_colour_cells(struct page *page, const struct canvas_raster *raster,
			       uint32_t colour)
{
	put(page, "<path");
	write_colour(page, "fill", colour);
	put(page, " d=\"");
	for (unsigned y = 0; y < raster->height; y++) {
		const uint32_t *row = raster->colours + (size_t)y * raster->width;
		for (unsigned x = 0; x < raster->width;) {
			unsigned end = x;
			while (end < raster->width && row[end] == colour)
				end++;
			if (end > x)
				put(page, "M%u %uh%uv1h-%uz", x, y, end - x, end - x);
			x = end > x ? end : x + 1;
		}
	}
	put(page, "\"/>\n");
}

DEFINE_ORDER(compare_colours, uint32_t, ORDER(*a, *b));

static void svg_cells(void *data, struct canvas_rect rect, const struct canvas_raster *raster)
{
	struct page *page = data;
	size_t n = (size_t)raster->width * raster->height;
	uint32_t *colours = calloc(n, sizeof(*colours));

	if (!colours) {
		page->has_failed = true;
		return;
	}
	memcpy(colours, raster->colours, n * sizeof(*colours));
	qsort(colours, n, sizeof(*colours), compare_colours);
	put(page,
	    "<g shape-rendering=\"crispEdges\" transform=\"translate(%s %s) scale(%.6f %.6f)\">\n",
	    number_of(rect.x).text, number_of(rect.y).text, rect.width / raster->width,
	    rect.height / raster->height);
	for (size_t i = 0; i < n; i++)
		if (colours[i] != CANVAS_NO_COLOUR && (i == 0 || colours[i] != colours[i - 1]))
			write_colour_cells(page, raster, colours[i]);
	put(page, "</g>\n");
	free(colours);
}

static const struct canvas_kind canvas_svg = {
	.open = svg_open,
	.close = svg_close,
	.path = svg_path,
	.text = svg_text,
	.cells = svg_cells,
};

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
	if (!canvas->page)
		return free(canvas), -ENOMEM;
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
