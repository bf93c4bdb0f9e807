#pragma once
/*
 * What figures are drawn on: a page in points (1/72 inch) from its upper left corner. SVG is
 * written by ourselves, with text as text; PNG and PDF by cairo, where memsight was built with it.
 * The same drawing gives the same bytes: nothing of the clock, the host or the order of memory gets
 * into a file.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum canvas_format { CANVAS_SVG, CANVAS_PNG, CANVAS_PDF, CANVAS_FORMAT_COUNT };

struct canvas_size {
	double width; /* points */
	double height;
	double dpi; /* of PNG */
	int64_t unix_ns; /* of the run that is shown: PDF wants a date */
	const char *title; /* of the document; may be NULL */
};

struct canvas_point {
	double x;
	double y;
};

struct canvas_rect {
	double x;
	double y;
	double width;
	double height;
};

#define CANVAS_NO_COLOUR UINT32_MAX

/* How a path is drawn; colours are 0xRRGGBB. */
struct canvas_pen {
	uint32_t stroke; /* CANVAS_NO_COLOUR: none */
	double width; /* points */
	double dash; /* length of dashes and gaps; 0: a solid line */
	uint32_t fill; /* CANVAS_NO_COLOUR: none */
};

enum canvas_anchor { CANVAS_START, CANVAS_MIDDLE, CANVAS_END };

struct canvas_label {
	struct canvas_point at; /* on the base line */
	double size; /* points */
	enum canvas_anchor anchor;
	bool is_upright; /* turned: read from below */
	uint32_t colour;
	const char *text; /* any bytes; what is no UTF-8 or a control character is replaced */
};

/* Cells of one colour each, row by row from the top. */
struct canvas_raster {
	unsigned width;
	unsigned height;
	const uint32_t *colours; /* CANVAS_NO_COLOUR: the page is seen */
};

struct canvas;

/* Whether this memsight can write the format. */
bool canvas_can(enum canvas_format format);

/*
 * A page that canvas_close() writes to the stream, which stays the caller's. Returns 0, -ENOTSUP
 * for a format that this memsight was built without, -ENOMEM.
 */
int canvas_open(enum canvas_format format, FILE *out, const struct canvas_size *size,
		struct canvas **ret_canvas);

/* Finish the file and free the canvas; NULL is accepted. Returns 0, -EIO or -ENOMEM. */
int canvas_close(struct canvas *canvas);

/* Lines from point to point; a pen that fills closes the path. */
void canvas_path(struct canvas *canvas, const struct canvas_point *points, size_t n,
		 const struct canvas_pen *pen);
void canvas_line(struct canvas *canvas, struct canvas_point from, struct canvas_point to,
		 const struct canvas_pen *pen);
void canvas_box(struct canvas *canvas, struct canvas_rect rect, const struct canvas_pen *pen);
void canvas_text(struct canvas *canvas, const struct canvas_label *label);
void canvas_cells(struct canvas *canvas, struct canvas_rect rect,
		  const struct canvas_raster *raster);

/* About how wide a text will be: for margins. The font may be another where the file is read. */
double canvas_text_width(const char *text, double size);

/* ---- What a format is made of: a table for each, in a file of its own ---- */

struct canvas_kind {
	/* The state of a page, or NULL: no memory. */
	void *(*open)(enum canvas_format format, FILE *out, const struct canvas_size *size);
	int (*close)(void *page);
	void (*path)(void *page, const struct canvas_point *points, size_t n,
		     const struct canvas_pen *pen);
	void (*text)(void *page, const struct canvas_label *label); /* the text is clean */
	void (*cells)(void *page, struct canvas_rect rect, const struct canvas_raster *raster);
};

extern const struct canvas_kind canvas_cairo; /* only where HAVE_CAIRO is defined */
