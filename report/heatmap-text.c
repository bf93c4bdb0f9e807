#include "report/queries.h"

#include <errno.h>
#include <math.h>

#include "common/cleanup.h"
#include "common/human-number.h"
#include "report/chart/heatmap-request.h"
#include "report/chart/palette.h"
#include "store/selection/selection.h"
#include "store/statement.h"

/* Cells of csv and json, where --cells does not say. */
#define DEFAULT_WIDTH  100
#define DEFAULT_HEIGHT 50

static const char heatmap_sql[] =
	"SELECT \"column\", row, from_ns, to_ns, low, high, kind, name, touches, source, occupancy,"
	" written, touched, untouched FROM temp.heatmap ORDER BY row, \"column\" LIMIT :limit";

/* clang-format off */
static const char create_sql[] =
	"CREATE TEMP TABLE IF NOT EXISTS heatmap(\"column\", row, from_ns, to_ns, low, high, kind,"
	" name, touches, source, occupancy, written, touched, untouched);DELETE FROM temp.heatmap";
/* clang-format on */
static const char insert_sql[] =
	"INSERT INTO temp.heatmap VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
	" ?14)";

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
	for (int layer = 0; layer < PICTURE_PAGE_LAYERS && heat->pages.shares[layer]; layer++)
		sqlite3_bind_double(stmt, 12 + layer, heat->pages.shares[layer][i] / 255.0);
	return sqlite3_step(stmt) == SQLITE_DONE ? 0 : -EPROTO;
}

static bool has_something(const struct heat *heat, size_t i)
{
	return heat->picture->counts[i] || heat->picture->occupancy[i] ||
	       heat_page_layer(heat, i) >= 0;
}

static int insert_cells(sqlite3 *db, const struct heat *heat)
{
	const struct picture *picture = heat->picture;
	const struct picture_request *part = &picture->request;
	auto_statement sqlite3_stmt *stmt = NULL;
	int r = sqlite3_prepare_v2(db, insert_sql, -1, &stmt, NULL) == SQLITE_OK ? 0 : -EPROTO;

	for (unsigned y = 0; r == 0 && y < part->height; y++) {
		struct row row = row_of(heat, y);
		for (unsigned x = 0; r == 0 && x < part->width; x++) {
			size_t i = (size_t)y * part->width + x;
			if (has_something(heat, i))
				r = insert_cell(stmt, heat, &row, x);
		}
	}
	return r;
}

/* What of a run is asked for; cells that are not given are 0. */
static struct heat_request report_heatmap_part(const struct report_request *request)
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

/* Whether an error of heat_make() says that nothing lies there: that is no failure of a report. */
static bool report_heatmap_is_nothing(int error)
{
	return error == -ENOENT || error == -ERANGE || error == -EADDRNOTAVAIL || error == -ESRCH;
}

/* CSV and JSON list the cells that are not empty. */
static int prepare(sqlite3 *db, const struct report_request *request)
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

#define LABEL_COLUMNS	29
#define DEFAULT_COLUMNS 100
#define MOST_COLUMNS	400
#define LEAST_COLUMNS	8
#define N_LINES		24
#define N_SHADES	4
#define NOTHING		(-1)

/* Of what lies in a block, untouched. */
static const unsigned char greys[N_SHADES] = { 236, 238, 240, 242 };
static const char *const shades[N_SHADES] = { "░", "▒", "▓", "█" };

unsigned report_heatmap_level(uint32_t number, uint32_t most, unsigned n)
{
	if (number <= 1 || n < 2)
		return 0;
	if (most <= n)
		return number - 1;
	double level = ceil(log(number) / log(most) * n - 1e-9) - 1;
	return level < 0 ? 0 : level < n ? (unsigned)level : n - 1;
}

/* What --source pages knows of a cell that no sample has met: its sign, or its colour. */
static const struct {
	const char *sign;
	int colour;
	const char *about;
} page_signs[PICTURE_PAGE_LAYERS] = {
	[PICTURE_PAGES_WRITTEN] = { "w", TERMINAL_ORANGE, "written" },
	[PICTURE_PAGES_TOUCHED] = { "t", TERMINAL_YELLOW, "all of a mapping touched" },
	[PICTURE_PAGES_UNTOUCHED] = { "-", TERMINAL_SKY, "none of its resident pages touched" },
};

/* What is drawn: cells, and how. */
struct drawing {
	const struct heat *heat;
	bool is_coloured; /* two cells a line, as half blocks */
	FILE *out;
};

static size_t index_of(const struct heat *heat, unsigned x, unsigned y)
{
	return (size_t)y * heat->picture->request.width + x;
}

/* Blocks are in grey where something else has the colours. */
static bool has_greys(const struct heat *heat)
{
	return heat->most || heat_has_pages(heat);
}

/* Colour of a cell; NOTHING: the terminal's own. */
static int colour_of(const struct heat *heat, unsigned x, unsigned y)
{
	size_t i = index_of(heat, x, y);
	uint32_t count = heat->picture->counts[i];
	unsigned part = heat->picture->occupancy[i];
	int layer = heat_page_layer(heat, i);

	if (count)
		return (int)palette_terminal(
			report_heatmap_level(count, heat->most, TERMINAL_LEVELS));
	if (layer >= 0)
		return page_signs[layer].colour;
	if (part == 0)
		return NOTHING;
	return has_greys(heat) ? greys[part * N_SHADES / 256]
			       : (int)palette_terminal(part * TERMINAL_LEVELS / 256);
}

static const char *shade_of(const struct heat *heat, unsigned x, unsigned y)
{
	size_t i = index_of(heat, x, y);
	uint32_t count = heat->picture->counts[i];
	unsigned part = heat->picture->occupancy[i];
	int layer = heat_page_layer(heat, i);

	if (count)
		return shades[report_heatmap_level(count, heat->most, N_SHADES)];
	if (layer >= 0)
		return page_signs[layer].sign;
	if (part == 0)
		return " ";
	return has_greys(heat) ? "·" : shades[part * N_SHADES / 256];
}

static void draw_halves(FILE *out, int upper, int lower)
{
	if (upper == NOTHING && lower == NOTHING)
		fputs(" ", out);
	else if (lower == NOTHING)
		fprintf(out, "\033[38;5;%dm▀\033[0m", upper);
	else if (upper == NOTHING)
		fprintf(out, "\033[38;5;%dm▄\033[0m", lower);
	else
		fprintf(out, "\033[38;5;%d;48;5;%dm▀\033[0m", upper, lower);
}

static void draw_cells(const struct drawing *drawing, unsigned line)
{
	const struct heat *heat = drawing->heat;
	unsigned width = heat->picture->request.width;

	for (unsigned x = 0; x < width; x++) {
		if (!drawing->is_coloured)
			fputs(shade_of(heat, x, line), drawing->out);
		else
			draw_halves(drawing->out,
				    2 * line + 1 < heat->picture->request.height
					    ? colour_of(heat, x, 2 * line + 1)
					    : NOTHING,
				    colour_of(heat, x, 2 * line));
	}
	fputc('\n', drawing->out);
}

/* The lowest addresses are at the bottom, where a diagram has them. */
static int draw_lines(const struct drawing *drawing, unsigned n_lines)
{
	const struct picture_request *part = &drawing->heat->picture->request;
	struct heat_tick ticks[HEAT_MAX_TICKS];
	uint64_t line_bytes = (part->high - part->low + n_lines - 1) / n_lines;
	int n_ticks = heat_ticks(drawing->heat, line_bytes ? line_bytes : 1, ticks);
	size_t tick = n_ticks > 0 ? (size_t)n_ticks : 0;

	for (unsigned line = n_lines; line-- > 0;) {
		double below = (double)(part->high - part->low) * line / n_lines;
		const struct heat_tick *found = NULL;
		while (tick > 0 && (double)(ticks[tick - 1].y - part->low) >= below) {
			if (!found || ticks[tick - 1].is_band)
				found = &ticks[tick - 1];
			tick--;
		}
		if (!found)
			fprintf(drawing->out, "%*s│", LABEL_COLUMNS - 1, "");
		else
			fprintf(drawing->out, "%-13.13s %14s┤", found->name, found->text);
		draw_cells(drawing, line);
	}
	return n_ticks < 0 ? n_ticks : 0;
}

/* ---- Legend ---- */

/*
 * The least number above which the level begins: the inverse of report_heatmap_level(), by trying.
 */
static void write_range(FILE *out, unsigned level, uint32_t most, unsigned n)
{
	uint32_t low = 1, high = most;

	while (low < most && report_heatmap_level(low, most, n) < level) {
		uint32_t step = 1;
		while (low + 2 * step < most &&
		       report_heatmap_level(low + 2 * step, most, n) < level)
			step *= 2;
		low += step;
	}
	while (high > low && report_heatmap_level(high, most, n) > level) {
		uint32_t step = 1;
		while (high - low > 2 * step &&
		       report_heatmap_level(high - 2 * step, most, n) > level)
			step *= 2;
		high -= step;
	}
	fprintf(out, low == high ? " %s" : " %s-", format_count(low).text);
	if (low != high)
		fputs(format_count(high).text, out);
}

static void write_page_legend(const struct drawing *drawing)
{
	fputs("pages (--source pages, exact):", drawing->out);
	for (unsigned i = 0; i < PICTURE_PAGE_LAYERS; i++) {
		if (drawing->is_coloured)
			fprintf(drawing->out, "  \033[38;5;%dm█\033[0m", page_signs[i].colour);
		else
			fprintf(drawing->out, "  %s", page_signs[i].sign);
		fprintf(drawing->out, " %s", page_signs[i].about);
	}
	fputc('\n', drawing->out);
}

static void write_legend(const struct drawing *drawing)
{
	unsigned n = drawing->is_coloured ? TERMINAL_LEVELS : N_SHADES;
	uint32_t most = drawing->heat->most;
	FILE *out = drawing->out;

	if (has_greys(drawing->heat) && drawing->is_coloured)
		fprintf(out, "\033[38;5;%dm█\033[0m in a block, no touch seen",
			greys[N_SHADES - 1]);
	else if (has_greys(drawing->heat))
		fputs("· in a block, no touch seen", out);
	if (most)
		fputs("; touches in a cell:", out);
	else if (!has_greys(drawing->heat))
		fputs("of a cell's bytes x time in blocks:", out);
	for (unsigned level = 0;
	     level < n && (most ? level < most : !heat_has_pages(drawing->heat)); level++) {
		if (drawing->is_coloured)
			fprintf(drawing->out, "  \033[38;5;%um█\033[0m", palette_terminal(level));
		else
			fprintf(drawing->out, "  %s", shades[level]);
		if (most)
			write_range(out, level, most, n);
		else
			fprintf(out, " to %u %%", 100 * (level + 1) / n);
	}
	fputc('\n', out);
	if (heat_has_pages(drawing->heat))
		write_page_legend(drawing);
}

static int write_notes(const struct drawing *drawing, sqlite3 *db)
{
	auto_free char *notes = NULL;
	auto_free char *losses = NULL;
	int r = heat_notes(db, drawing->heat, &notes, &losses);

	if (r == 0)
		fputs(notes, drawing->out);
	return r;
}

/* ---- The whole ---- */

static int draw(const struct drawing *drawing, sqlite3 *db, const struct report_request *request)
{
	const struct picture_request *part = &drawing->heat->picture->request;
	unsigned n_lines = drawing->is_coloured ? (part->height + 1) / 2 : part->height;

	fprintf(drawing->out,
		request->is_coloured ? "\033[1m%s\033[0m, process %lld (%s)\n"
				     : "%s, process %lld (%s)\n",
		"Touches and blocks over time and addresses", (long long)drawing->heat->pid,
		drawing->heat->program);
	int r = draw_lines(drawing, n_lines);
	if (r < 0)
		return r;
	report_time_axis_draw(drawing->out,
			      &(struct report_time_axis){ part->from_ns, part->to_ns, LABEL_COLUMNS,
							  part->width });
	write_legend(drawing);
	r = write_notes(drawing, db);
	return r < 0 ? r : ferror(drawing->out) ? -EIO : 0;
}

static int write_nothing(FILE *out, sqlite3 *db, const struct report_request *request, int error)
{
	if (error == -ENOENT)
		return report_why_write(
			out, db, request, REPORT_NEEDS_BLOCKS,
			"There is nothing to draw: no block and no touch has an address.");
	fputs("There is nothing to draw. The reason: a selection (--from, --to, --process, "
	      "--addr) holds none of what was recorded.\n",
	      out);
	return ferror(out) ? -EIO : 0;
}

static int write_heatmap(FILE *out, sqlite3 *db, const struct report_request *request)
{
	struct heat_request part = report_heatmap_part(request);
	unsigned width = request->width ? request->width : DEFAULT_COLUMNS;
	auto_heat struct heat heat = { 0 };

	if (!part.width)
		part.width = width > LABEL_COLUMNS + MOST_COLUMNS    ? MOST_COLUMNS
			     : width > LABEL_COLUMNS + LEAST_COLUMNS ? width - LABEL_COLUMNS
								     : LEAST_COLUMNS;
	if (!part.height)
		part.height = request->is_coloured ? 2 * N_LINES : N_LINES;
	int r = heat_make(db, &part, &heat);
	if (report_heatmap_is_nothing(r))
		return write_nothing(out, db, request, r);
	return r < 0 ? r : draw(&(struct drawing){ &heat, request->is_coloured, out }, db, request);
}

const struct report report_heatmap = {
	.name = "heatmap",
	.scope = REPORT_OF_PICTURE,
	.needs_rows = true,
	.title = "Touches and blocks over time and addresses",
	.prepare = prepare,
	.sql = heatmap_sql,
	.write = write_heatmap,
};
