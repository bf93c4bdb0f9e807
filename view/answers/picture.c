/* Time x address: requests "bands" and "picture" (store/heatmap/heatmap.h). */
#include "view/answers/internal.h"

#include <errno.h>
#include <string.h>

#include "report/text/json.h"
#include "store/heatmap/heatmap.h"
#include "store/statement.h"

#define DEFAULT_WIDTH  512
#define DEFAULT_HEIGHT 256

static const char *const by_names[PICTURE_BY_COUNT] = {
	[PICTURE_BY_DIRECTION] = "direction", [PICTURE_BY_THREAD] = "thread",
	[PICTURE_BY_LEVEL] = "level",	      [PICTURE_BY_LATENCY] = "latency",
	[PICTURE_BY_SOURCE] = "source",
};

int view_bands(struct view_question *question)
{
	static const char *const names[] = { "start", "end", "y", "kind", "name" };
	struct picture_store *store = NULL;
	const struct picture_band *bands = NULL;
	size_t n = 0;

	int r = view_context_pictures(question->context, &store);
	if (r == 0)
		r = picture_bands(store, question->run, view_value(question, VIEW_PROCESS, 0),
				  &bands, &n);
	if (r < 0)
		return r;
	auto_columns struct columns columns;
	columns_begin(&columns, names, 5);
	for (size_t i = 0; i < n; i++) {
		json_integer(columns_at(&columns, 0), (int64_t)bands[i].start);
		json_integer(columns_at(&columns, 1), (int64_t)bands[i].end);
		json_integer(columns_at(&columns, 2), (int64_t)bands[i].y);
		json_text(columns_at(&columns, 3), bands[i].kind);
		json_text(columns_at(&columns, 4), bands[i].name);
		columns_end_row(&columns);
	}
	columns_write(&columns, &question->json);
	return 0;
}

static void write_categories(struct json *json, const struct picture *picture)
{
	static const char *const names[] = { "id", "name", "n" };
	auto_columns struct columns columns;

	columns_begin(&columns, names, 3);
	for (size_t i = 0; i < picture->n_categories; i++) {
		const struct picture_category *category = &picture->categories[i];
		json_integer(columns_at(&columns, 0), category->id);
		json_text(columns_at(&columns, 1), category->name);
		json_integer(columns_at(&columns, 2), (int64_t)category->n);
		columns_end_row(&columns);
	}
	columns_set(json, "categories", &columns);
}

static void integer_or_null(struct json *json, int64_t value, bool is_known)
{
	if (is_known)
		json_integer(json, value);
	else
		json_null(json);
}

static void write_blocks(struct json *json, const struct picture *picture, size_t n)
{
	static const char *const names[] = { "id", "from_ns", "to_ns", "y", "size", "site" };
	auto_columns struct columns columns;

	columns_begin(&columns, names, 6);
	for (size_t i = 0; i < n; i++) {
		const struct picture_block *block = &picture->blocks[i];
		json_integer(columns_at(&columns, 0), block->id);
		json_integer(columns_at(&columns, 1), block->from_ns);
		integer_or_null(columns_at(&columns, 2), block->to_ns, block->to_ns != INT64_MAX);
		json_integer(columns_at(&columns, 3), (int64_t)block->y);
		json_integer(columns_at(&columns, 4), (int64_t)block->size);
		json_integer(columns_at(&columns, 5), block->site);
		columns_end_row(&columns);
	}
	columns_set(json, "blocks", &columns);
}

static void write_points(struct json *json, const struct picture *picture, size_t n)
{
	static const char *const names[] = { "sample",	 "time_ns", "y",   "category",
					     "is_write", "thread",  "site" };
	auto_columns struct columns columns;

	columns_begin(&columns, names, 7);
	for (size_t i = 0; i < n; i++) {
		const struct picture_point *point = &picture->points[i];
		json_integer(columns_at(&columns, 0), point->sample);
		json_integer(columns_at(&columns, 1), point->time_ns);
		json_integer(columns_at(&columns, 2), (int64_t)point->y);
		json_integer(columns_at(&columns, 3), point->category);
		integer_or_null(columns_at(&columns, 4), point->is_write, point->is_write >= 0);
		integer_or_null(columns_at(&columns, 5), point->thread, point->thread != 0);
		integer_or_null(columns_at(&columns, 6), point->site, point->site != 0);
		columns_end_row(&columns);
	}
	columns_set(json, "points", &columns);
}

static void write_cells(struct json *json, const struct picture *picture, bool is_short)
{
	size_t n = (size_t)picture->request.width * picture->request.height;

	json_name(json, "counts");
	packed_write_u16(json, picture->counts, n, is_short);
	json_name(json, "category");
	packed_write_u8(json, picture->category, n, is_short);
	json_name(json, "occupancy");
	packed_write_u8(json, picture->occupancy, n, is_short);
}

static void write_pages(struct json *json, const struct picture_request *part,
			const struct picture_pages *pages, bool is_short)
{
	static const char *const names[PICTURE_PAGE_LAYERS] = {
		[PICTURE_PAGES_WRITTEN] = "written",
		[PICTURE_PAGES_TOUCHED] = "touched",
		[PICTURE_PAGES_UNTOUCHED] = "untouched",
	};

	json_name(json, "pages");
	if (!pages->shares[0]) {
		json_null(json);
		return;
	}
	json_open(json, '{');
	for (unsigned i = 0; i < PICTURE_PAGE_LAYERS; i++) {
		json_name(json, names[i]);
		packed_write_u8(json, pages->shares[i], (size_t)part->width * part->height,
				is_short);
	}
	json_close(json, '}');
}

/*
 * What a touch is one of: a sample of CPU time counts at one of the addresses that it is charged
 * to.
 */
static void write_unit(struct view_question *question, const struct picture *picture)
{
	static const char sql[] = "SELECT CASE WHEN measures = 'time' "
				  "THEN 'samples of CPU time' ELSE unit END "
				  "FROM source WHERE id = :its_source";
	auto_statement sqlite3_stmt *row = NULL;
	const char *unit = NULL;

	if (picture->request.source_id && view_prepare(question, sql, &row) == 0) {
		view_bind(row, ":its_source", picture->request.source_id);
		if (statement_step(row) == 1)
			unit = statement_string_or_null(row, 0);
	}
	json_set_text(&question->json, "unit", unit ? unit : "samples of all sources");
}

static void write_picture(struct view_question *question, const struct picture *picture,
			  const struct picture_pages *pages)
{
	struct json *json = &question->json;
	const struct picture_request *request = &picture->request;
	const struct view_limits *limits = &question->context->limits;
	bool has_points = !limits->n_points || picture->n_points <= limits->n_points;

	json_open(json, '{');
	json_set_integer(json, "run", request->run_id);
	json_set_integer(json, "process", request->process_id);
	json_set_text(json, "by", by_names[request->by]);
	json_set_integer(json, "from", request->from_ns);
	json_set_integer(json, "to", request->to_ns);
	json_set_integer(json, "low", (int64_t)request->low);
	json_set_integer(json, "high", (int64_t)request->high);
	json_set_integer(json, "width", request->width);
	json_set_integer(json, "height", request->height);
	json_set_integer(json, "n_samples", (int64_t)picture->n_touches);
	json_set_integer(json, "n_blocks", (int64_t)picture->n_blocks);
	json_set_integer(json, "stride", picture->stride);
	write_unit(question, picture);
	json_set_integer(json, "cell_ns", picture->cell_ns);
	json_set_integer(json, "cell_bytes", (int64_t)picture->cell_bytes);
	write_categories(json, picture);
	write_cells(json, picture, limits->is_short);
	write_pages(json, request, pages, limits->is_short);
	write_blocks(json, picture,
		     limits->n_blocks && limits->n_blocks < picture->n_drawn_blocks
			     ? limits->n_blocks
			     : picture->n_drawn_blocks);
	write_points(json, picture, has_points ? picture->n_points : 0);
	json_close(json, '}');
}

static int find_by(struct view_question *question, enum picture_by *ret_by)
{
	const char *name = question->values->texts[VIEW_BY];

	for (int i = 0; i < PICTURE_BY_COUNT; i++) {
		if (name && strcmp(by_names[i], name) != 0)
			continue;
		*ret_by = (enum picture_by)i;
		return 0;
	}
	return view_context_refuse(question->context, -EINVAL,
				   "by is none of direction, thread, level, latency and source");
}

static int make_picture(struct view_question *question, const struct picture_request *request)
{
	struct picture_store *store = NULL;
	struct picture *picture = NULL;
	struct picture_pages pages = { 0 };
	int r = view_context_pictures(question->context, &store);

	r = r ?: picture_make(store, request, &picture);
	if (r == -ENOENT)
		return view_context_refuse(question->context, r,
					   "the run has no blocks and samples to draw");
	r = r ?: picture_pages_read(question->db, store, picture, &pages);
	if (r == 0)
		write_picture(question, picture, &pages);
	picture_pages_finish(&pages);
	picture_free(picture);
	return r;
}

int view_picture(struct view_question *question)
{
	struct picture_request request = {
		.run_id = question->run,
		.process_id = view_value(question, VIEW_PROCESS, 0),
		.source_id = view_value(question, VIEW_SOURCE, 0),
		.from_ns = view_value(question, VIEW_FROM, 0),
		.to_ns = view_value(question, VIEW_TO, 0),
		.low = (uint64_t)view_value(question, VIEW_LOW, 0),
		.high = (uint64_t)view_value(question, VIEW_HIGH, 0),
		.width = (unsigned)view_value(question, VIEW_WIDTH, DEFAULT_WIDTH),
		.height = (unsigned)view_value(question, VIEW_HEIGHT, DEFAULT_HEIGHT),
	};
	return find_by(question, &request.by) ?: make_picture(question, &request);
}
