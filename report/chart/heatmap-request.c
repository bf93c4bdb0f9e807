#include "report/chart/heatmap-request.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/human-number.h"
#include "common/text-stream.h"
#include "common/text.h"
#include "report/text/sampling-notes.h"
#include "store/database.h"
#include "store/query-value.h"
#include "store/source-measures.h"
#include "store/statement.h"

/* Of the images of a pid the one that did most. */
/* clang-format off */
static const char process_sql[] =
	"SELECT process.id FROM process WHERE run_id = ?1 AND pid = ?2 ORDER BY"
	" (SELECT sum(n_events) FROM thread WHERE process_id = process.id) DESC, process.id"
	" LIMIT 1";
/* clang-format on */
static const char source_sql[] =
	"SELECT id FROM source WHERE run_id = ?1 AND name = ?2 AND error = 0 ORDER BY id LIMIT 1";

void heat_finish(struct heat *heat)
{
	picture_pages_finish(&heat->pages);
	heat->picture = picture_free(heat->picture);
	heat->store = picture_store_close(heat->store);
	*heat = (struct heat){ 0 };
}

/* One id by a number or a name; `missing` when there is none. */
static int find_id(sqlite3 *db, const char *sql, const struct heat_request *request,
		   int64_t *ret_id)
{
	auto_statement sqlite3_stmt *stmt = NULL;
	int r = -EPROTO;

	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK) {
		sqlite3_bind_int64(stmt, 1, request->run_id);
		if (sql == process_sql)
			sqlite3_bind_int64(stmt, 2, request->pid);
		else
			sqlite3_bind_text(stmt, 2, request->source, -1, SQLITE_STATIC);
		int code = sqlite3_step(stmt);
		r = code == SQLITE_ROW ? 0 : code == SQLITE_DONE ? -ENOENT : -EPROTO;
		if (r == 0)
			*ret_id = sqlite3_column_int64(stmt, 0);
	}
	return r;
}

static int find_ids(sqlite3 *db, const struct heat_request *request, struct picture_request *asked)
{
	int r = request->pid ? find_id(db, process_sql, request, &asked->process_id) : 0;

	if (r == -ENOENT)
		return -ESRCH;
	if (r == 0 && request->source)
		r = find_id(db, source_sql, request, &asked->source_id);
	return r == -ENOENT ? -ENXIO : r;
}

/* The part of the axis that lies in a range of addresses: from the first band in it to the last. */
static int place_range(const struct heat *heat, const struct heat_request *request,
		       struct picture_request *asked)
{
	bool is_found = false;

	for (size_t i = 0; i < heat->n_bands; i++) {
		const struct picture_band *band = &heat->bands[i];
		uint64_t low = band->start > request->low ? band->start : request->low;
		uint64_t high = band->end < request->high ? band->end : request->high;

		if (low >= high)
			continue;
		if (!is_found)
			asked->low = band->y + (low - band->start);
		asked->high = band->y + (high - band->start);
		is_found = true;
	}
	return is_found ? 0 : -EADDRNOTAVAIL;
}

static int count_cells(double span, double cell, unsigned *ret_n)
{
	double n = ceil(span / cell - 1e-9);

	*ret_n = n < 1 ? 1 : n > 1e9 ? 1000000000 : (unsigned)n;
	return *ret_n > PICTURE_MAX_CELLS ? -E2BIG : 0;
}

/* Cells of a size that is given: as many as the part has, the last one reaching beyond it. */
static int size_cells(struct heat *heat, const struct heat_request *request,
		      struct picture_request *asked)
{
	int r = 0, r_bytes = 0;

	heat->wanted_width = asked->width;
	heat->wanted_height = asked->height;
	if (request->time_unit_ns) {
		r = count_cells((double)(asked->to_ns - asked->from_ns),
				(double)request->time_unit_ns, &heat->wanted_width);
		asked->width = heat->wanted_width;
		asked->to_ns = asked->from_ns + asked->width * request->time_unit_ns;
		asked->is_whole = true;
	}
	if (request->block_bits) {
		double cell = exp2(request->block_bits);
		r_bytes =
			count_cells((double)(asked->high - asked->low), cell, &heat->wanted_height);
		asked->height = heat->wanted_height;
		asked->high = asked->low + (uint64_t)(asked->height * cell);
		asked->is_whole = true;
	}
	return r < 0 ? r : r_bytes;
}

static void measure(struct heat *heat)
{
	const struct picture_request *shown = &heat->picture->request;
	size_t n = (size_t)shown->width * shown->height;

	heat->cell_ns = (double)(shown->to_ns - shown->from_ns) / shown->width;
	heat->cell_bytes = (double)(shown->high - shown->low) / shown->height;
	for (size_t i = 0; i < n; i++)
		if (heat->picture->counts[i] > heat->most)
			heat->most = heat->picture->counts[i];
}

/*
 * The whole, with what was left out filled in, and then the part in cells of the size that is
 * wanted.
 */
static int make_part(struct heat *heat, const struct heat_request *request,
		     struct picture_request *asked)
{
	int64_t end_ns = heat->picture->request.to_ns;

	if (request->from_ns >= end_ns)
		return -ERANGE;
	asked->process_id = heat->picture->request.process_id;
	asked->from_ns = request->from_ns;
	asked->to_ns = request->to_ns < end_ns ? request->to_ns : end_ns;
	asked->low = heat->picture->request.low;
	asked->high = heat->picture->request.high;
	asked->width = request->width;
	asked->height = request->height;
	int r = picture_bands(heat->store, asked->run_id, asked->process_id, &heat->bands,
			      &heat->n_bands);
	if (r == 0 && request->high)
		r = place_range(heat, request, asked);
	r = r ?: size_cells(heat, request, asked);
	heat->picture = picture_free(heat->picture);
	return r < 0 ? r : picture_make(heat->store, asked, &heat->picture);
}

static int name_process(sqlite3 *db, struct heat *heat)
{
	const struct picture_request *shown = &heat->picture->request;
	auto_free char *exe =
		report_sql_text(db, "SELECT exe FROM process WHERE id = :run", shown->process_id);

	heat->pid =
		report_sql_number(db, "SELECT pid FROM process WHERE id = :run", shown->process_id);
	heat->n_processes = report_sql_number(
		db, "SELECT count(*) FROM process WHERE run_id = :run", shown->run_id);
	snprintf(heat->program, sizeof(heat->program), "%.47s", exe ? text_base_name(exe) : "");
	return 0;
}

int heat_make(sqlite3 *db, const struct heat_request *request, struct heat *heat)
{
	struct picture_request asked = {
		.run_id = request->run_id, .by = PICTURE_BY_SOURCE, .width = 1, .height = 1
	};

	*heat = (struct heat){ 0 };
	int r = find_ids(db, request, &asked) ?: picture_store_open(db, &heat->store);
	r = r == -ENODATA ? -ENOENT : r;
	r = r ?: picture_make(heat->store, &asked, &heat->picture);
	r = r ?: make_part(heat, request, &asked);
	r = r ?: picture_pages_read(db, heat->store, heat->picture, &heat->pages);
	if (r < 0)
		return r;
	measure(heat);
	return name_process(db, heat);
}

int heat_page_layer(const struct heat *heat, size_t cell)
{
	for (int i = 0; i < PICTURE_PAGE_LAYERS && heat->pages.shares[i]; i++)
		if (!heat->picture->counts[cell] && heat->pages.shares[i][cell])
			return i;
	return -1;
}

/* ---- Notes ---- */

static void write_cells(FILE *out, const struct heat *heat)
{
	const struct picture *picture = heat->picture;
	uint64_t used = 0;
	char others[96] = "";

	if (heat->n_processes > 1)
		snprintf(others, sizeof(others), ", one of %s process images",
			 format_count(heat->n_processes).text);
	for (size_t i = 0; i < heat->n_bands; i++)
		used += heat->bands[i].end - heat->bands[i].start;
	fprintf(out,
		"process %lld (%s%s), %s blocks; cell: %s x %s; axis: %s of addresses in which "
		"something lay, holes left out\n",
		(long long)heat->pid, heat->program, others,
		format_count((int64_t)picture->n_blocks).text,
		format_duration(llround(heat->cell_ns)).text,
		format_bytes(llround(heat->cell_bytes)).text, format_bytes((int64_t)used).text);
}

/* What a touch of a source is: time is charged to accesses, and no count of them. */
static const char *unit_of(const char *source)
{
	enum source_measures measures = source_measures_of(source);

	if (measures == MEASURES_TIME)
		return " (samples of CPU time, each at an address that it is charged to)";
	return measures == MEASURES_FAULT ? " (page faults)" : " (sampled accesses)";
}

/* Touches are of one source or of several, whose units differ: each with its n. */
static void write_touches(FILE *out, const struct heat *heat)
{
	const struct picture *picture = heat->picture;

	if (picture->n_touches == 0) {
		fputs("no touch was seen in this part: cells show how much of them lay in blocks\n",
		      out);
		return;
	}
	fprintf(out, "touches: n = %s;", format_count((int64_t)picture->n_touches).text);
	for (size_t i = 0, n = 0; i < picture->n_categories; i++) {
		const struct picture_category *category = &picture->categories[i];
		if (category->n)
			fprintf(out, "%s %s %s%s", n++ ? "," : "", category->name,
				format_count((int64_t)category->n).text, unit_of(category->name));
	}
	fputc('\n', out);
}

static int write_losses(FILE *out, sqlite3 *db, const struct heat *heat)
{
	const struct picture *picture = heat->picture;
	int64_t run_id = picture->request.run_id;
	auto_free char *stop = report_stop_text(db, run_id);
	int64_t n_lost = report_sql_number(db,
					   "SELECT coalesce(sum(count), 0) FROM loss"
					   " WHERE run_id = :run",
					   run_id);

	if (picture->stride > 1)
		fprintf(out, "only one touch in %u was looked at; counts are not scaled up\n",
			(unsigned)picture->stride);
	if (picture->cell_ns)
		fprintf(out, "counted in %s x %s, coarser than the cells that were asked for\n",
			format_duration(picture->cell_ns).text,
			format_bytes((int64_t)picture->cell_bytes).text);
	if (stop)
		fprintf(out, "%s\n", stop);
	if (n_lost)
		fprintf(out, "%s losses were counted in this run: memsight report --losses\n",
			format_count(n_lost).text);
	return report_sampling_foot(out, db, run_id);
}

int heat_notes(sqlite3 *db, const struct heat *heat, char **ret_notes, char **ret_losses)
{
	char *notes = NULL, *losses = NULL;
	size_t n_bytes;
	FILE *out = text_stream_open(&losses, &n_bytes);
	int r = out ? write_losses(out, db, heat) : -ENOMEM;

	if (out && text_stream_close(out, &losses) < 0)
		r = -ENOMEM;
	out = r == 0 ? text_stream_open(&notes, &n_bytes) : NULL;
	if (out) {
		write_touches(out, heat);
		write_cells(out, heat);
		fputs(losses, out);
	}
	if (r == 0 && (!out || text_stream_close(out, &notes) < 0))
		r = -ENOMEM;
	if (r < 0)
		return free_all(notes, losses), r;
	*ret_notes = notes;
	*ret_losses = losses;
	return 0;
}

/* What of a band is on the part of the axis that is shown. */
struct shown {
	const struct picture_band *band;
	uint64_t low; /* on the axis */
	uint64_t high;
};

struct ticks {
	struct heat_tick *items;
	size_t n;
	uint64_t gap;
};

static bool is_free(const struct ticks *ticks, uint64_t y)
{
	for (size_t i = 0; i < ticks->n; i++) {
		uint64_t other = ticks->items[i].y;
		if ((y > other ? y - other : other - y) < ticks->gap)
			return false;
	}
	return ticks->n < HEAT_MAX_TICKS;
}

/* As view/web/map/axis.js calls it. */
static const char *name_of(const struct picture_band *band)
{
	static const struct {
		/* as it is in the database, or how the kernel calls the mapping */
		const char *kind;
		const char *name;
	} names[] = {
		{ "[heap]", "heap (brk)" },
		{ "[stack]", "stack" },
		{ "tool", "memsight" },
	};
	const char *name = *band->name ? text_base_name(band->name) : band->kind;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i].kind) == 0)
			return names[i].name;
	return name;
}

static void add_band(struct ticks *ticks, const struct shown *shown)
{
	const struct picture_band *band = shown->band;
	struct heat_tick tick = { .y = shown->low, .is_band = true };

	if (!is_free(ticks, shown->low))
		return;
	snprintf(tick.text, sizeof(tick.text), "%llx",
		 (unsigned long long)(band->start + (shown->low - band->y)));
	snprintf(tick.name, sizeof(tick.name), "%.39s", name_of(band));
	ticks->items[ticks->n++] = tick;
}

/* Steps are powers of two, so that whole numbers of the unit are told. */
static void name_offset(char *text, size_t n_bytes, uint64_t offset, uint64_t step)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	size_t unit = 0;

	for (; step >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++) {
		step /= 1024;
		offset /= 1024;
	}
	snprintf(text, n_bytes, "+%llu %s", (unsigned long long)offset, units[unit]);
}

/* Round distances from a band's begin, where it is tall enough to need them. */
static void add_offsets(struct ticks *ticks, const struct shown *shown)
{
	uint64_t step = 1, base = shown->band->y;

	while (step < 2 * ticks->gap || step < (shown->high - shown->low) / 8)
		step *= 2;
	for (uint64_t at = ((shown->low - base) / step + 1) * step; base + at < shown->high;
	     at += step) {
		struct heat_tick tick = { .y = base + at };
		if (shown->high - tick.y < ticks->gap / 2 || !is_free(ticks, tick.y))
			continue;
		name_offset(tick.text, sizeof(tick.text), at, step);
		ticks->items[ticks->n++] = tick;
	}
}

/* The tallest first: where there is no room, the small ones go without a name. */
DEFINE_ORDER(compare_heights, struct shown, ORDER(b->high - b->low, a->high - a->low) ?: BY(low));

DEFINE_ORDER(compare_places, struct heat_tick, BY(y));

static size_t find_shown(const struct heat *heat, struct shown *shown)
{
	const struct picture_request *part = &heat->picture->request;
	size_t n = 0;

	for (size_t i = 0; i < heat->n_bands; i++) {
		const struct picture_band *band = &heat->bands[i];
		uint64_t end = band->y + (band->end - band->start);
		uint64_t low = band->y > part->low ? band->y : part->low;
		uint64_t high = end < part->high ? end : part->high;
		if (low < high)
			shown[n++] = (struct shown){ band, low, high };
	}
	qsort(shown, n, sizeof(*shown), compare_heights);
	return n;
}

int heat_ticks(const struct heat *heat, uint64_t gap, struct heat_tick ticks[HEAT_MAX_TICKS])
{
	struct shown *shown = calloc(heat->n_bands + 1, sizeof(*shown));
	struct ticks made = { .items = ticks, .gap = gap ? gap : 1 };

	if (!shown)
		return -ENOMEM;
	size_t n = find_shown(heat, shown);
	for (size_t i = 0; i < n; i++)
		add_band(&made, &shown[i]);
	for (size_t i = 0; i < n; i++)
		add_offsets(&made, &shown[i]);
	free(shown);
	qsort(ticks, made.n, sizeof(*ticks), compare_places);
	return (int)made.n;
}
