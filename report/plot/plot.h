#pragma once
/* Figures for print: one of a run or of a series, as SVG, PNG or PDF. The database is only read. */
#include <sqlite3.h>
#include <stdio.h>

#include "report/callgraph/profile.h"
#include "report/chart/heatmap-request.h"
#include "report/plot/canvas.h"
#include "report/plot/figure.h"

enum plot_kind {
	PLOT_HEATMAP,
	PLOT_TIMELINE,
	PLOT_SERIES,
	PLOT_FLAME,
	PLOT_SHARING,
	PLOT_RESIDENT,
	PLOT_KIND_COUNT
};

struct plot_request {
	enum plot_kind kind;
	enum canvas_format format;
	struct canvas_size size;
	double font; /* points */
	const char *title; /* over the figure; NULL: none */
	bool has_no_notes; /* nothing stands under the figure */
	enum profile_metric by; /* of a flame graph */
	int64_t run_id; /* series: of the program that is shown; 0: all programs */
	struct heat_request heat; /* what a heatmap shows; cells that are not given are chosen */
	const char *metric; /* of a series */
};

/*
 * The handle needs report_functions_register(). What is said beside the figure, and why there is
 * none.
 */
struct plot_result {
	char *losses; /* lines; to be freed; NULL: nothing */
	unsigned wanted[2]; /* of -E2BIG: cells of the asked size */
	char *detail; /* of -EINVAL: what there is, to be freed */
};

#define PLOT_MAX_PROGRAMS 6

/*
 * Write the figure to the stream. Returns 0; what heat_make() returns for a heatmap; -ENOENT:
 * nothing to show; -ENXIO: a series has no such metric (detail names those it has); -E2BIG of a
 * series: more programs than PLOT_MAX_PROGRAMS; -ENOSPC: the figure is too small for its text;
 * -ENOTSUP: the format was not built in; -EIO, -ENOMEM, -EPROTO.
 */
int plot_write(FILE *out, sqlite3 *db, const struct plot_request *request,
	       struct plot_result *result);

/* ---- Each kind is a file of its own ---- */

struct plot {
	sqlite3 *db;
	const struct plot_request *request;
	struct plot_result *result;
	struct figure figure;
};

/* Title and, unless the request has none, notes: both take from the figure's body. */
static inline void plot_frame(struct plot *plot, const char *notes)
{
	figure_frame(&plot->figure, plot->request->title, plot->request->has_no_notes ? "" : notes);
}

int plot_heatmap(struct plot *plot);
int plot_timeline(struct plot *plot);
int plot_series(struct plot *plot);
int plot_flame(struct plot *plot);
int plot_sharing(struct plot *plot);
int plot_resident(struct plot *plot);
