#include "report/plot/canvas.h"

#include <cairo-pdf.h>
#include <cairo.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/utf8.h"

#define POINTS_PER_INCH 72.0

struct page {
	FILE *out;
	enum canvas_format format;
	cairo_surface_t *surface;
	cairo_t *cairo;
	double scale; /* pixels per point; 1 for PDF */
	bool has_failed;
};

static cairo_status_t write_bytes(void *closure, const unsigned char *bytes, unsigned n)
{
	return fwrite(bytes, 1, n, closure) == n ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

/* cairo would write the time at which the file is made. */
static void set_date(cairo_surface_t *surface, int64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000);
	char text[40];
	struct tm at;

	if (!gmtime_r(&seconds, &at) || !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &at))
		return;
	cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, text);
	cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_MOD_DATE, text);
}

static void open_pdf(struct page *page, const struct canvas_size *size)
{
	auto_free char *title = size->title ? utf8_copy(size->title) : NULL;

	page->scale = 1;
	page->surface = cairo_pdf_surface_create_for_stream(write_bytes, page->out, size->width,
							    size->height);
	set_date(page->surface, size->unix_ns);
	/* cairo writes no file at all where a title is no UTF-8. */
	page->has_failed = size->title && !title;
	if (title)
		cairo_pdf_surface_set_metadata(page->surface, CAIRO_PDF_METADATA_TITLE, title);
}

static void open_png(struct page *page, const struct canvas_size *size)
{
	page->scale = size->dpi / POINTS_PER_INCH;
	page->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24,
						   (int)lround(size->width * page->scale),
						   (int)lround(size->height * page->scale));
}

static void *page_open(enum canvas_format format, FILE *out, const struct canvas_size *size)
{
	struct page *page = calloc(1, sizeof(*page));

	if (!page)
		return NULL;
	page->out = out;
	page->format = format;
	if (format == CANVAS_PDF)
		open_pdf(page, size);
	else
		open_png(page, size);
	page->cairo = cairo_create(page->surface);
	cairo_scale(page->cairo, page->scale, page->scale);
	cairo_set_source_rgb(page->cairo, 1, 1, 1);
	cairo_paint(page->cairo);
	cairo_select_font_face(page->cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
			       CAIRO_FONT_WEIGHT_NORMAL);
	return page;
}

static int page_close(void *data)
{
	struct page *page = data;
	cairo_status_t status = cairo_status(page->cairo);

	cairo_destroy(page->cairo);
	if (status == CAIRO_STATUS_SUCCESS && page->format == CANVAS_PNG)
		status = cairo_surface_write_to_png_stream(page->surface, write_bytes, page->out);
	cairo_surface_finish(page->surface);
	if (status == CAIRO_STATUS_SUCCESS)
		status = cairo_surface_status(page->surface);
	cairo_surface_destroy(page->surface);
	bool has_failed = page->has_failed || status == CAIRO_STATUS_NO_MEMORY;
	bool is_written = fflush(page->out) == 0 && !ferror(page->out);
	free(page);
	return has_failed ? -ENOMEM : status == CAIRO_STATUS_SUCCESS && is_written ? 0 : -EIO;
}

static void set_colour(cairo_t *cairo, uint32_t colour)
{
	cairo_set_source_rgb(cairo, (colour >> 16 & 0xff) / 255.0, (colour >> 8 & 0xff) / 255.0,
			     (colour & 0xff) / 255.0);
}

static void page_path(void *data, const struct canvas_point *points, size_t n,
		      const struct canvas_pen *pen)
{
	cairo_t *cairo = ((struct page *)data)->cairo;

	cairo_new_path(cairo);
	for (size_t i = 0; i < n; i++)
		cairo_line_to(cairo, points[i].x, points[i].y);
	if (pen->fill != CANVAS_NO_COLOUR) {
		cairo_close_path(cairo);
		set_colour(cairo, pen->fill);
		cairo_fill_preserve(cairo);
	}
	if (pen->stroke != CANVAS_NO_COLOUR) {
		set_colour(cairo, pen->stroke);
		cairo_set_line_width(cairo, pen->width);
		cairo_set_line_join(cairo, CAIRO_LINE_JOIN_ROUND);
		cairo_set_dash(cairo, &pen->dash, pen->dash > 0, 0);
		cairo_stroke(cairo);
	}
	cairo_new_path(cairo);
}

static void page_text(void *data, const struct canvas_label *label)
{
	cairo_t *cairo = ((struct page *)data)->cairo;
	cairo_text_extents_t extents;

	cairo_save(cairo);
	cairo_set_font_size(cairo, label->size);
	cairo_text_extents(cairo, label->text, &extents);
	cairo_move_to(cairo, label->at.x, label->at.y);
	if (label->is_upright)
		cairo_rotate(cairo, -acos(-1) / 2);
	cairo_rel_move_to(cairo,
			  label->anchor == CANVAS_START
				  ? 0
				  : -extents.x_advance / (label->anchor == CANVAS_END ? 1 : 2),
			  0);
	set_colour(cairo, label->colour);
	cairo_show_text(cairo, label->text);
	cairo_restore(cairo);
}

/* An image of a pixel for each cell: no seams between cells, whatever the resolution. */
static cairo_surface_t *image_of(const struct canvas_raster *raster)
{
	cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_ARGB32, (int)raster->width,
							    (int)raster->height);

	if (cairo_surface_status(image) != CAIRO_STATUS_SUCCESS)
		return image;
	unsigned char *bytes = cairo_image_surface_get_data(image);
	int stride = cairo_image_surface_get_stride(image);

	for (unsigned y = 0; y < raster->height; y++) {
		uint32_t *row = (uint32_t *)(void *)(bytes + (size_t)stride * y);
		for (unsigned x = 0; x < raster->width; x++) {
			uint32_t colour = raster->colours[(size_t)y * raster->width + x];
			row[x] = colour == CANVAS_NO_COLOUR ? 0 : 0xff000000u | colour;
		}
	}
	cairo_surface_mark_dirty(image);
	return image;
}

static void page_cells(void *data, struct canvas_rect rect, const struct canvas_raster *raster)
{
	struct page *page = data;
	cairo_surface_t *image = image_of(raster);

	if (cairo_surface_status(image) != CAIRO_STATUS_SUCCESS)
		page->has_failed = true;
	cairo_save(page->cairo);
	cairo_rectangle(page->cairo, rect.x, rect.y, rect.width, rect.height);
	cairo_clip(page->cairo);
	cairo_translate(page->cairo, rect.x, rect.y);
	cairo_scale(page->cairo, rect.width / raster->width, rect.height / raster->height);
	cairo_set_source_surface(page->cairo, image, 0, 0);
	cairo_pattern_set_filter(cairo_get_source(page->cairo), CAIRO_FILTER_NEAREST);
	cairo_paint(page->cairo);
	cairo_restore(page->cairo);
	cairo_surface_destroy(image);
}

const struct canvas_kind canvas_cairo = {
	.open = page_open,
	.close = page_close,
	.path = page_path,
	.text = page_text,
	.cells = page_cells,
};
