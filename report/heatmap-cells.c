#include <errno.h>

#include "report/chart/heatmap-request.h"
#include "report/heatmap-text.h"
#include "report/selection/selection.h"

/* Cells of csv and json, where --cells does not say. */
#define DEFAULT_WIDTH  100
#define DEFAULT_HEIGHT 50

const char report_heatmap_sql[] =
	"SELECT \"column\", row, from_ns, to_ns, low, high, kind, name, touches, source, occupancy"
	" FROM temp.heatmap ORDER BY row, \"column\" LIMIT :limit";

/* clang-format off */
static const char create_sql[] =
	"CREATE TEMP TABLE IF NOT EXISTS heatmap(\"column\", row, from_ns, to_ns, low, high,"
	" kind, name,"
	" touches, source, occupancy);"
	"DELETE FROM temp.heatmap";
/* clang-format on */
static const char insert_sql[] =
	"INSERT INTO temp.heatmap VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

/*
 * A row's piece of the axis: addresses of its first and behind its last byte, and what it begins
 * in.
 */
struct row {
	unsigned y;
	uint64_t low;
	uint64_t high;
	const struct picture_band *band;
};

static struct row row_of(const struct heat *heat, unsigned y)
{
	const struct picture_request *part = &heat->picture->request;
	double bytes = (double)(part->high - part->low) / part->height;
	uint64_t first = part->low + (uint64_t)(bytes * y);
	uint64_t last = part->low + (uint64_t)(bytes * (y + 1));
	struct row row = { .y = y };

	last = last > first ? last - 1 : first;
	for (size_t i = 0; i < heat->n_bands && heat->bands[i].y <= first; i++)
		row.band = &heat->bands[i];
	picture_address(heat->bands, heat->n_bands, first, &row.low);
	if (picture_address(heat->bands, heat->n_bands, last, &row.high))
		row.high++;
	return row;
}

static int insert_cell(sqlite3_stmt *stmt, const struct heat *heat, const struct row *row,
		       unsigned x)
{
	const struct picture *picture = heat->picture;
	const struct picture_request *part = &picture->request;
	size_t i = (size_t)row->y * part->width + x;
	unsigned category = picture->category[i];
	double ns = (double)(part->to_ns - part->from_ns) / part->width;

	sqlite3_reset(stmt);
	sqlite3_bind_int64(stmt, 1, x);
	sqlite3_bind_int64(stmt, 2, row->y);
	sqlite3_bind_int64(stmt, 3, part->from_ns + (int64_t)(ns * x));
	sqlite3_bind_int64(stmt, 4, part->from_ns + (int64_t)(ns * (x + 1)));
	sqlite3_bind_int64(stmt, 5, (int64_t)row->low);
	sqlite3_bind_int64(stmt, 6, (int64_t)row->high);
	sqlite3_bind_text(stmt, 7, row->band ? row->band->kind : "", -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 8, row->band ? row->band->name : "", -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 9, picture->counts[i]);
	if (picture->counts[i] && category < picture->n_categories)
		sqlite3_bind_text(stmt, 10, picture->categories[category].name, -1, SQLITE_STATIC);
	else
		sqlite3_bind_null(stmt, 10);
	sqlite3_bind_double(stmt, 11, picture->occupancy[i] / 255.0);
	return sqlite3_step(stmt) == SQLITE_DONE ? 0 : -EPROTO;
}

static int insert_cells(sqlite3 *db, const struct heat *heat)
{
	const struct picture *picture = heat->picture;
	const struct picture_request *part = &picture->request;
	sqlite3_stmt *stmt = NULL;
	int r = sqlite3_prepare_v2(db, insert_sql, -1, &stmt, NULL) == SQLITE_OK ? 0 : -EPROTO;

	for (unsigned y = 0; r == 0 && y < part->height; y++) {
		struct row row = row_of(heat, y);
		for (unsigned x = 0; r == 0 && x < part->width; x++) {
			size_t i = (size_t)y * part->width + x;
			if (picture->counts[i] || picture->occupancy[i])
				r = insert_cell(stmt, heat, &row, x);
		}
	}
	sqlite3_finalize(stmt);
	return r;
}

struct heat_request report_heatmap_part(const struct report_request *request)
{
	const struct selection all = { .to_ns = INT64_MAX };
	const struct selection *selection = request->selection ? request->selection : &all;

	return (struct heat_request){
		.run_id = request->run_id,
		.pid = selection->pid,
		.source = request->source,
		.from_ns = selection->from_ns,
		.to_ns = selection->to_ns,
		.low = selection->low,
		.high = selection->high,
		.width = request->cells[0],
		.height = request->cells[1],
	};
}

int report_heatmap_prepare(sqlite3 *db, const struct report_request *request)
{
	struct heat_request part = report_heatmap_part(request);
	auto_heat struct heat heat = { 0 };

	if (request->format == TABLE_TEXT)
		return 0;
	if (sqlite3_exec(db, create_sql, NULL, NULL, NULL) != SQLITE_OK)
		return -EPROTO;
	if (!part.width)
		part.width = DEFAULT_WIDTH;
	if (!part.height)
		part.height = DEFAULT_HEIGHT;
	int r = heat_make(db, &part, &heat);
	return report_heatmap_is_nothing(r) ? 0 : r < 0 ? r : insert_cells(db, &heat);
}

bool report_heatmap_is_nothing(int error)
{
	return error == -ENOENT || error == -ERANGE || error == -EADDRNOTAVAIL || error == -ESRCH;
}
