/* What --source pages knows of the cells of a picture. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "store/heatmap/cells.h"
#include "store/heatmap/heatmap.h"
#include "store/heatmap/lookup.h"
#include "store/statement.h"

/* clang-format off */
#define WITHIN " WHERE run_id = ?1 AND process_id = ?2 AND begin_ns < ?4 AND end_ns > ?3 AND "

/*
 * Of a mapping it is known how many of its pages were touched: which ones, where these are all or
 * none. Touches of files and shared memory may be those of others.
 */
static const char *const layers_sql[PICTURE_PAGE_LAYERS] = {
	[PICTURE_PAGES_WRITTEN] =
		"SELECT begin_ns, end_ns, address, size FROM page_write" WITHIN "state = 'written'",
	[PICTURE_PAGES_TOUCHED] =
		"SELECT begin_ns, end_ns, address, size FROM page_run" WITHIN
		"kind IN ('anonymous', 'stack') AND touched = size",
	[PICTURE_PAGES_UNTOUCHED] =
		"SELECT begin_ns, end_ns, address, size FROM page_run" WITHIN
		"kind NOT IN ('hugetlb', 'tool') AND touched = 0 AND resident > 0",
};
/* clang-format on */

void picture_pages_finish(struct picture_pages *pages)
{
	for (unsigned i = 0; i < PICTURE_PAGE_LAYERS; i++)
		free(pages->shares[i]);
	*pages = (struct picture_pages){ 0 };
}

struct bands {
	const struct picture_band *items;
	size_t n;
};

/* Pages of a row lie in as many places of the axis as bands have them. */
static void draw_row(struct picture_canvas *canvas, const struct bands *bands, sqlite3_stmt *row)
{
	struct picture_area area = {
		.from_ns = picture_time(sqlite3_column_int64(row, 0)),
		.to_ns = picture_time(sqlite3_column_int64(row, 1)),
		.weight = 1,
	};
	uint64_t start = (uint64_t)sqlite3_column_int64(row, 2);
	uint64_t end = start + (uint64_t)sqlite3_column_int64(row, 3);

	for (size_t i = array_n_until(bands->items, bands->n, end, start);
	     end > start && i < bands->n && bands->items[i].start < end; i++) {
		const struct picture_band *band = &bands->items[i];
		uint64_t low = start > band->start ? start : band->start;
		uint64_t high = end < band->end ? end : band->end;

		area.low = band->y + (low - band->start);
		area.high = band->y + (high - band->start);
		if (area.from_ns < area.to_ns)
			picture_canvas_block(canvas, &area);
	}
}

/* Rows of a layer into its cells. 1: it has some, 0, -ENOMEM or -EPROTO. */
static int draw_layer(sqlite3 *db, const char *sql, struct picture *layer,
		      const struct bands *bands)
{
	const struct picture_request *part = &layer->request;
	struct picture_canvas canvas = { 0 };
	auto_statement sqlite3_stmt *row = NULL;
	bool has_some = false;
	int code = SQLITE_ERROR, r = 0;

	if (sqlite3_prepare_v2(db, sql, -1, &row, NULL) != SQLITE_OK)
		return -EPROTO;
	sqlite3_bind_int64(row, 1, part->run_id);
	sqlite3_bind_int64(row, 2, part->process_id);
	sqlite3_bind_int64(row, 3, part->from_ns);
	sqlite3_bind_int64(row, 4, part->to_ns);
	/* Most recordings know nothing of pages. */
	for (; r == 0 && (code = statement_advance(row)) == SQLITE_ROW; has_some = true) {
		if (!has_some)
			r = picture_canvas_init(&canvas, layer, 0, part->height);
		if (r == 0)
			draw_row(&canvas, bands, row);
	}
	if (has_some && code == SQLITE_DONE)
		picture_canvas_settle_occupancy(&canvas);
	picture_canvas_finish(&canvas);
	if (r < 0)
		return r;
	return code == SQLITE_DONE ? has_some : -EPROTO;
}

int picture_pages_read(sqlite3 *db, struct picture_store *store, const struct picture *picture,
		       struct picture_pages *ret_pages)
{
	const struct picture_request *part = &picture->request;
	struct picture_pages pages = { 0 };
	struct bands bands = { 0 };
	bool has_some = false;
	int r = picture_bands(store, part->run_id, part->process_id, &bands.items, &bands.n);

	for (unsigned i = 0; r >= 0 && i < PICTURE_PAGE_LAYERS; i++) {
		struct picture layer = { .request = *part };

		layer.occupancy = pages.shares[i] =
			calloc((size_t)part->width * part->height, sizeof(*layer.occupancy));
		r = layer.occupancy ? draw_layer(db, layers_sql[i], &layer, &bands) : -ENOMEM;
		has_some |= r > 0;
	}
	if (r < 0 || !has_some)
		picture_pages_finish(&pages);
	if (r < 0)
		return r;
	*ret_pages = pages;
	return 0;
}
