#include "report/plot/plot.h"

#include "store/statement.h"

static int (*const kinds[PLOT_KIND_COUNT])(struct plot *plot) = {
	[PLOT_HEATMAP] = plot_heatmap, [PLOT_TIMELINE] = plot_timeline,
	[PLOT_SERIES] = plot_series,   [PLOT_FLAME] = plot_flame,
	[PLOT_SHARING] = plot_sharing, [PLOT_RESIDENT] = plot_resident,
};

int plot_write(FILE *out, sqlite3 *db, const struct plot_request *request,
	       struct plot_result *result)
{
	double margin = 0.5 * request->font;
	struct plot plot = { .db = db, .request = request, .result = result };

	*result = (struct plot_result){ 0 };
	plot.figure.font = request->font;
	plot.figure.body = (struct canvas_rect){ margin, margin, request->size.width - 2 * margin,
						 request->size.height - 2 * margin };
	int r = canvas_open(request->format, out, &request->size, &plot.figure.canvas);
	if (r < 0)
		return r;
	r = kinds[request->kind](&plot);
	int closed = canvas_close(plot.figure.canvas);
	return statement_verdict(db, r < 0 ? r : closed);
}
