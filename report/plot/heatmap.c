#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "report/plot/figure.h"
#include "report/plot/plot.h"
#include "store/query-value.h"
#include "store/statement.h"

#define DEFAULT_WIDTH  200 /* cells: 0.25 mm in a column of a paper */
#define DEFAULT_HEIGHT 120
#define LABEL_SCALE    0.75 /* of the font, for addresses */
#define MOST_BLOCKS    8u /* that are named */
#define NAME_WIDTH     10 /* ems of a label, at most */
#define NAME_HEIGHT    1.85 /* ems of a label from a range's begin to the top of its name */

static const struct canvas_pen thin = { PALETTE_BLACK, FIGURE_LINE, 0, CANVAS_NO_COLOUR };

/* What --source pages knows of a cell: where no sample has met it. */
static const uint32_t page_colours[PICTURE_PAGE_LAYERS] = {
	[PICTURE_PAGES_WRITTEN] = PALETTE_ORANGE,
	[PICTURE_PAGES_TOUCHED] = PALETTE_YELLOW,
	[PICTURE_PAGES_UNTOUCHED] = PALETTE_LIGHT_BLUE,
};
static const char page_words[] =
	"orange: pages written; yellow: all pages of a mapping touched; light blue: none of its "
	"resident pages touched (--source pages, exact)\n";

/* A share of a colour in 255ths, on white. */
static uint32_t tint(uint32_t colour, unsigned part)
{
	uint32_t mixed = 0;

	for (unsigned shift = 0; shift < 24; shift += 8)
		mixed |= (255 - (255 - (colour >> shift & 255)) * part / 255) << shift;
	return mixed;
}

static uint32_t colour_of(const struct heat *heat, size_t i)
{
	uint32_t count = heat->picture->counts[i];
	unsigned part = heat->picture->occupancy[i];
	int layer = heat_page_layer(heat, i);

	if (layer >= 0)
		return tint(page_colours[layer], heat->pages.shares[layer][i]);

	if (count && heat->most > 1)
		return palette_level(
			(unsigned)(log(count) / log(heat->most) * (PALETTE_LEVELS - 1)));
	if (count)
		return palette_level(PALETTE_LEVELS - 1);
	if (part == 0)
		return CANVAS_NO_COLOUR;
	return heat->most || heat_has_pages(heat)
		       ? palette_occupied(part)
		       : palette_level(part * (PALETTE_LEVELS - 1) / 255);
}

/* The picture's first row has the lowest addresses, the page's is at the top. */
static int draw_cells(struct plot *plot, const struct heat *heat, struct canvas_rect rect)
{
	const struct picture_request *part = &heat->picture->request;
	auto_free uint32_t *colours = calloc((size_t)part->width * part->height, sizeof(*colours));

	if (!colours)
		return -ENOMEM;
	for (unsigned y = 0; y < part->height; y++)
		for (unsigned x = 0; x < part->width; x++)
			colours[(size_t)(part->height - 1 - y) * part->width + x] =
				colour_of(heat, (size_t)y * part->width + x);
	canvas_cells(plot->figure.canvas, rect,
		     &(struct canvas_raster){ part->width, part->height, colours });
	return 0;
}

/* ---- The scale of colours ---- */

static void draw_scale_tick(struct plot *plot, struct canvas_rect rect, double place,
			    const char *text)
{
	double y = rect.y + rect.height * (1 - place);
	double right = rect.x + rect.width;

	canvas_line(plot->figure.canvas, (struct canvas_point){ right, y },
		    (struct canvas_point){ right + 2, y }, &thin);
	figure_text(&plot->figure,
		    &(struct figure_text){ right + 3, y + 0.3 * plot->figure.font, CANVAS_START,
					   LABEL_SCALE, PALETTE_BLACK },
		    text);
}

/* Powers of ten, and the most. */
static void draw_count_ticks(struct plot *plot, const struct heat *heat, struct canvas_rect rect)
{
	char text[24];
	double most = heat->most;

	for (double value = 1; value * 1.5 < most; value *= 10) {
		snprintf(text, sizeof(text), "%.0f", value);
		draw_scale_tick(plot, rect, log(value) / log(most), text);
	}
	snprintf(text, sizeof(text), "%.0f", most);
	draw_scale_tick(plot, rect, 1, text);
}

static void draw_scale(struct plot *plot, const struct heat *heat, struct canvas_rect rect)
{
	double font = plot->figure.font;
	uint32_t levels[PALETTE_LEVELS];

	for (unsigned i = 0; i < PALETTE_LEVELS; i++)
		levels[i] = palette_level(PALETTE_LEVELS - 1 - i);
	canvas_cells(plot->figure.canvas, rect,
		     &(struct canvas_raster){ 1, PALETTE_LEVELS, levels });
	canvas_box(plot->figure.canvas, rect, &thin);
	if (heat->most) {
		draw_count_ticks(plot, heat, rect);
	} else {
		draw_scale_tick(plot, rect, 0, "0 %");
		draw_scale_tick(plot, rect, 1, "100 %");
	}
	canvas_text(plot->figure.canvas,
		    &(struct canvas_label){
			    .at = { plot->figure.body.x + plot->figure.body.width,
				    rect.y + rect.height / 2 },
			    .size = font,
			    .anchor = CANVAS_MIDDLE,
			    .is_upright = true,
			    .colour = PALETTE_BLACK,
			    .text = heat->most ? "touches per cell" : "of the cell in blocks",
		    });
}

/* ---- The axis of addresses ---- */

/* A block that is high enough for its name; places on the axis. */
struct named_block {
	uint64_t low, high;
	char name[80];
};

struct labels {
	struct heat_tick ticks[HEAT_MAX_TICKS];
	size_t n;
	struct named_block blocks[MOST_BLOCKS];
	size_t n_blocks;
	double width;
};

/* The variable that is assigned, or the function, and the line: there is little room. */
static const char blocks_sql[] =
	"SELECT address, size, coalesce((SELECT iif(instr(call, ' = '), substr(call, 1,"
	"  instr(call, ' = ') - 1), frame_line.function) || ':' || line FROM stack"
	"  JOIN stack AS user ON user.id = stack.user_id JOIN frame ON frame.id = user.frame_id"
	"  JOIN frame_line ON frame_line.frame_id = frame.id AND frame_line.depth = user_depth"
	"  WHERE stack.id = stack_id), site_name(stack_id, 1, 0)) FROM allocation"
	" JOIN process ON process.id = process_id WHERE allocation.run_id = :run AND pid = ?2"
	" AND size >= ?3 ORDER BY size DESC, allocation.id LIMIT :limit";

/* Where an address lies on the axis; false: on none of its ranges. */
static bool place_of(const struct heat *heat, uint64_t address, uint64_t *ret_y)
{
	for (size_t i = 0; i < heat->n_bands; i++) {
		const struct picture_band *band = &heat->bands[i];
		if (address < band->start || address >= band->end)
			continue;
		*ret_y = band->y + (address - band->start);
		return true;
	}
	return false;
}

/* Those that begin within the picture, and not where another one is that is as big or bigger. */
static void add_block(const struct heat *heat, struct labels *labels, sqlite3_stmt *row)
{
	const struct picture_request *part = &heat->picture->request;
	struct named_block block;
	bool is_free = place_of(heat, (uint64_t)sqlite3_column_int64(row, 0), &block.low);

	block.high = block.low + (uint64_t)sqlite3_column_int64(row, 1);
	for (size_t i = 0; is_free && i < labels->n_blocks; i++)
		is_free =
			block.high <= labels->blocks[i].low || block.low >= labels->blocks[i].high;
	if (!is_free || block.low < part->low || block.high > part->high)
		return;
	snprintf(block.name, sizeof(block.name), "%s", statement_string(row, 2));
	labels->blocks[labels->n_blocks++] = block;
}

static int find_blocks(const struct plot *plot, const struct heat *heat, uint64_t least,
		       struct labels *labels)
{
	auto_statement sqlite3_stmt *row = report_sql_prepare(
		plot->db, blocks_sql, plot->request->run_id, (int64_t)MOST_BLOCKS);
	int code = SQLITE_DONE;

	if (row) {
		sqlite3_bind_int64(row, 2, heat->pid);
		sqlite3_bind_int64(row, 3, (int64_t)least);
	}
	while (row && (code = statement_advance(row)) == SQLITE_ROW)
		add_block(heat, labels, row);
	return row && code == SQLITE_DONE ? 0 : -EPROTO;
}

static int make_labels(const struct plot *plot, const struct heat *heat, double height,
		       struct labels *labels)
{
	const struct picture_request *part = &heat->picture->request;
	double size = plot->figure.font * LABEL_SCALE;
	double gap = 2.3 * size / height * (double)(part->high - part->low);

	int n = heat_ticks(heat, (uint64_t)gap, labels->ticks);

	if (n < 0)
		return n;
	labels->n = (size_t)n;
	n = find_blocks(plot, heat, (uint64_t)(2 * gap), labels);
	if (n < 0)
		return n;
	labels->width = labels->n_blocks ? NAME_WIDTH * size : 0;
	for (size_t i = 0; i < labels->n; i++) {
		const struct heat_tick *tick = &labels->ticks[i];
		labels->width = fmax(labels->width, canvas_text_width(tick->text, size));
		labels->width = fmax(labels->width,
				     fmin(canvas_text_width(tick->name, size), NAME_WIDTH * size));
	}
	return 0;
}

/* Names are cut to the room there is. */
static void draw_name(struct plot *plot, const char *text, double right, double y)
{
	double size = plot->figure.font * LABEL_SCALE;
	char name[80];

	figure_cut(name, sizeof(name), text, NAME_WIDTH * size, size);
	figure_text(&plot->figure,
		    &(struct figure_text){ right, y, CANVAS_END, LABEL_SCALE, PALETTE_GREY }, name);
}

static double height_of(const struct heat *heat, struct canvas_rect rect, uint64_t y)
{
	const struct picture_request *part = &heat->picture->request;
	double share = (double)(y - part->low) / (double)(part->high - part->low);

	return rect.y + rect.height * (1 - share);
}

/* A bracket along each block that is named. */
static void draw_blocks(struct plot *plot, const struct heat *heat, const struct labels *labels,
			struct canvas_rect rect)
{
	double size = plot->figure.font * LABEL_SCALE;

	for (size_t i = 0; i < labels->n_blocks; i++) {
		const struct named_block *block = &labels->blocks[i];
		double low = height_of(heat, rect, block->low);
		double high = height_of(heat, rect, block->high);
		canvas_line(plot->figure.canvas, (struct canvas_point){ rect.x - 1.5, low - 0.5 },
			    (struct canvas_point){ rect.x - 1.5, high + 0.5 },
			    &(struct canvas_pen){ PALETTE_GREY, 1.2, 0, CANVAS_NO_COLOUR });
		draw_name(plot, block->name, rect.x - 4, (low + high) / 2 + 0.3 * size);
	}
}

/* Where a block's name stands, no round distance does. */
static bool is_covered(const struct heat *heat, const struct labels *labels, uint64_t y,
		       double size, struct canvas_rect rect)
{
	for (size_t i = 0; i < labels->n_blocks; i++) {
		double middle = (height_of(heat, rect, labels->blocks[i].low) +
				 height_of(heat, rect, labels->blocks[i].high)) /
				2;
		if (fabs(middle - height_of(heat, rect, y)) < 1.1 * size)
			return true;
	}
	return false;
}

static void draw_labels(struct plot *plot, const struct heat *heat, const struct labels *labels,
			struct canvas_rect rect)
{
	double size = plot->figure.font * LABEL_SCALE;

	for (size_t i = 0; i < labels->n; i++) {
		const struct heat_tick *tick = &labels->ticks[i];
		double y = height_of(heat, rect, tick->y);
		if (!tick->is_band && is_covered(heat, labels, tick->y, size, rect))
			continue;
		canvas_line(plot->figure.canvas,
			    (struct canvas_point){ rect.x - (tick->is_band ? 3.5 : 2), y },
			    (struct canvas_point){ rect.x, y }, &thin);
		figure_text(&plot->figure,
			    &(struct figure_text){ rect.x - 4, y + 0.3 * size, CANVAS_END,
						   LABEL_SCALE, PALETTE_BLACK },
			    tick->text);
		if (tick->is_band)
			draw_name(plot, tick->name, rect.x - 4, y - 0.85 * size);
	}
}

static void draw_title(struct plot *plot, struct canvas_rect rect)
{
	canvas_text(plot->figure.canvas, &(struct canvas_label){
						 .at = { plot->figure.body.x + plot->figure.font,
							 rect.y + rect.height / 2 },
						 .size = plot->figure.font,
						 .anchor = CANVAS_MIDDLE,
						 .is_upright = true,
						 .colour = PALETTE_BLACK,
						 .text = "address (holes left out)",
					 });
}

/* ---- The whole ---- */

static int draw(struct plot *plot, const struct heat *heat)
{
	const struct picture_request *part = &heat->picture->request;
	struct figure *figure = &plot->figure;
	struct labels labels = { 0 };
	double font = figure->font;
	double scale_width = heat->most || !heat_has_pages(heat) ? 5.2 * font : font;
	double top = NAME_HEIGHT * LABEL_SCALE * font; /* the last range may be as low as a line */
	double height = figure->body.height - figure_x_axis_height(figure) - top;
	double ends[2] = { (double)part->from_ns, (double)part->to_ns };

	if (height <= 0)
		return -ENOSPC;
	int r = make_labels(plot, heat, height, &labels);
	if (r < 0)
		return r;
	double left = labels.width + 1.5 * font + 6;
	struct panel panel = { .rect = { figure->body.x + left, figure->body.y + top,
					 figure->body.width - left - scale_width, height } };
	r = figure_check(&plot->figure, panel.rect) ?: draw_cells(plot, heat, panel.rect);
	if (r < 0)
		return r;
	axis_make(AXIS_TIME, ends, 2 + (unsigned)(panel.rect.width / (5 * font)), &panel.x);
	figure_x_axis(figure, &panel, "time");
	draw_labels(plot, heat, &labels, panel.rect);
	draw_blocks(plot, heat, &labels, panel.rect);
	draw_title(plot, panel.rect);
	if (heat->most || !heat_has_pages(heat))
		draw_scale(plot, heat,
			   (struct canvas_rect){ panel.rect.x + panel.rect.width + font,
						 panel.rect.y, font, height });
	return 0;
}

static int draw_with_notes(struct plot *plot, const struct heat *heat)
{
	auto_free char *notes = NULL;
	auto_free char *whole = NULL;
	int r = heat_notes(plot->db, heat, &notes, &plot->result->losses);

	if (r < 0)
		return r;
	if (asprintf(
		    &whole, "%s%s%s",
		    heat->most || heat_has_pages(heat)
			    ? "grey: in a block, no touch seen; white: in no block, no touch seen\n"
			    : "white: in no block\n",
		    heat_has_pages(heat) ? page_words : "", notes) < 0) {
		whole = NULL;
		return -ENOMEM;
	}
	plot_frame(plot, whole);
	return draw(plot, heat);
}

int plot_heatmap(struct plot *plot)
{
	struct heat_request request = plot->request->heat;
	auto_heat struct heat heat = { 0 };

	request.run_id = plot->request->run_id;
	if (!request.width)
		request.width = DEFAULT_WIDTH;
	if (!request.height)
		request.height = DEFAULT_HEIGHT;
	int r = heat_make(plot->db, &request, &heat);
	plot->result->wanted[0] = heat.wanted_width;
	plot->result->wanted[1] = heat.wanted_height;
	return r < 0 ? r : draw_with_notes(plot, &heat);
}
