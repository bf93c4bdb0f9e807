#include "analyze/plot/canvas.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * SVG 1.1. Text stays text, so that it can be searched, copied and edited: the reader's font decides how
 * it looks, and the families name what is near everywhere.
 */
#define FONTS "DejaVu Sans, Helvetica, Arial, sans-serif"

struct page {
	FILE *out;
	bool has_failed; /* no memory for some cells */
};

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

static void write_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else if (*text == '>')
			fputs("&gt;", out);
		else
			fputc(*text, out);
	}
}

static void *svg_open(enum canvas_format format, FILE *out, const struct canvas_size *size)
{
	struct page *page = calloc(1, sizeof(*page));

	(void)format;
	if (!page)
		return NULL;
	page->out = out;
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%spt\" height=\"%spt\" "
		"viewBox=\"0 0 %s %s\" font-family=\"" FONTS "\">\n",
		number_of(size->width).text, number_of(size->height).text,
		number_of(size->width).text, number_of(size->height).text);
	if (size->title) {
		fputs("<title>", out);
		write_escaped(out, size->title);
		fputs("</title>\n", out);
	}
	fputs("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n", out);
	return page;
}

static int svg_close(void *data)
{
	struct page *page = data;

	fputs("</svg>\n", page->out);
	int r = page->has_failed ? -ENOMEM : fflush(page->out) != 0 || ferror(page->out) ? -EIO : 0;
	free(page);
	return r;
}

static void write_colour(FILE *out, const char *attribute, uint32_t colour)
{
	if (colour == CANVAS_NO_COLOUR)
		fprintf(out, " %s=\"none\"", attribute);
	else
		fprintf(out, " %s=\"#%06x\"", attribute, (unsigned)colour);
}

static void svg_path(void *data, const struct canvas_point *points, size_t n,
		     const struct canvas_pen *pen)
{
	FILE *out = ((struct page *)data)->out;

	fputs("<path d=\"", out);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%s%s %s", i ? "L" : "M", number_of(points[i].x).text,
			number_of(points[i].y).text);
	fputs(pen->fill == CANVAS_NO_COLOUR ? "\"" : "Z\"", out);
	write_colour(out, "fill", pen->fill);
	if (pen->stroke != CANVAS_NO_COLOUR) {
		write_colour(out, "stroke", pen->stroke);
		fprintf(out, " stroke-width=\"%s\" stroke-linejoin=\"round\"",
			number_of(pen->width).text);
	}
	if (pen->dash > 0)
		fprintf(out, " stroke-dasharray=\"%s\"", number_of(pen->dash).text);
	fputs("/>\n", out);
}

static void svg_text(void *data, const struct canvas_label *label)
{
	static const char *const anchors[] = { "start", "middle", "end" };
	FILE *out = ((struct page *)data)->out;
	struct number x = number_of(label->at.x), y = number_of(label->at.y);

	fprintf(out, "<text x=\"%s\" y=\"%s\" font-size=\"%s\" text-anchor=\"%s\"", x.text, y.text,
		number_of(label->size).text, anchors[label->anchor]);
	write_colour(out, "fill", label->colour);
	if (label->is_upright)
		fprintf(out, " transform=\"rotate(-90 %s %s)\"", x.text, y.text);
	fputc('>', out);
	write_escaped(out, label->text);
	fputs("</text>\n", out);
}

/* One path for each colour, in units of cells: a run of equal cells in a row is a piece of it. */
static void write_colour_cells(FILE *out, const struct canvas_raster *raster, uint32_t colour)
{
	fputs("<path", out);
	write_colour(out, "fill", colour);
	fputs(" d=\"", out);
	for (unsigned y = 0; y < raster->height; y++) {
		const uint32_t *row = raster->colours + (size_t)y * raster->width;
		for (unsigned x = 0; x < raster->width;) {
			unsigned end = x;
			while (end < raster->width && row[end] == colour)
				end++;
			if (end > x)
				fprintf(out, "M%u %uh%uv1h-%uz", x, y, end - x, end - x);
			x = end > x ? end : x + 1;
		}
	}
	fputs("\"/>\n", out);
}

static int compare_colours(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void svg_cells(void *data, struct canvas_rect rect, const struct canvas_raster *raster)
{
	FILE *out = ((struct page *)data)->out;
	size_t n = (size_t)raster->width * raster->height;
	uint32_t *colours = calloc(n, sizeof(*colours));

	if (!colours) {
		((struct page *)data)->has_failed = true;
		return;
	}
	memcpy(colours, raster->colours, n * sizeof(*colours));
	qsort(colours, n, sizeof(*colours), compare_colours);
	fprintf(out,
		"<g shape-rendering=\"crispEdges\" transform=\"translate(%s %s) scale(%.6f %.6f)\">\n",
		number_of(rect.x).text, number_of(rect.y).text, rect.width / raster->width,
		rect.height / raster->height);
	for (size_t i = 0; i < n; i++)
		if (colours[i] != CANVAS_NO_COLOUR && (i == 0 || colours[i] != colours[i - 1]))
			write_colour_cells(out, raster, colours[i]);
	fputs("</g>\n", out);
	free(colours);
}

const struct canvas_kind canvas_svg = {
	.open = svg_open,
	.close = svg_close,
	.path = svg_path,
	.text = svg_text,
	.cells = svg_cells,
};
