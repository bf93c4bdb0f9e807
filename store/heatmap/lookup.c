#include "store/heatmap/lookup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/columns/column.h"
#include "store/compact/chunk-store.h"
#include "store/compact/scan.h"
#include "store/axis.h"
#include "store/heatmap/address-axis.h"
#include "store/heatmap/categories.h"
#include "store/statement.h"

#define MAX_HEIGHT (UINT64_C(1) << 62) /* bytes of an axis */

/* What was read of it when it was first asked for. */
static void leave_process(struct picture_process *process)
{
	for (unsigned kind = 0; kind < PICTURE_KINDS; kind++)
		process->scans[kind] = scan_close(process->scans[kind]);
	key_map_finish(&process->levels);
	free(process->parts);
	process->parts = NULL;
	free(process->bands);
	process->bands = NULL;
}

struct picture_store *picture_store_close(struct picture_store *store)
{
	if (!store)
		return NULL;
	array_free(store->processes, store->n_processes, it, leave_process(it));
	picture_store_close(store->second);
	chunk_decoder_close(store->decoder);
	free_all(store->columns.values[0], store);
	return NULL;
}

/* Whether what is computed from its axes is a number. */
static bool is_sound(const struct picture_process *process)
{
	return picture_held_ns(process->from_ns) == process->from_ns &&
	       picture_held_ns(process->to_ns - 1) == process->to_ns - 1 &&
	       picture_held_ns(process->end_ns) == process->end_ns &&
	       process->from_ns < process->to_ns && process->height <= MAX_HEIGHT;
}

static int add_process(struct picture_store *store, sqlite3_stmt *row)
{
	int r = grow_array(&store->processes, store->n_processes, &store->n_processes_allocated,
			   sizeof(*store->processes));

	if (r == 0)
		store->processes[store->n_processes++] = (struct picture_process){
			.run_id = sqlite3_column_int64(row, 0),
			.process_id = sqlite3_column_int64(row, 1),
			.from_ns = sqlite3_column_int64(row, 2),
			.to_ns = sqlite3_column_int64(row, 3),
			.end_ns = sqlite3_column_int64(row, 4),
			.height = (uint64_t)sqlite3_column_int64(row, 5),
			.n_blocks = (uint64_t)sqlite3_column_int64(row, 6),
			.n_touches = (uint64_t)sqlite3_column_int64(row, 7),
			.has_grid = sqlite3_column_int(row, 8),
		};
	return r < 0 || is_sound(&store->processes[store->n_processes - 1]) ? r : -EPROTO;
}

static int read_heads(struct picture_store *store)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(
		store->db,
		"SELECT run_id, process_id, from_ns, to_ns, end_ns, height, n_blocks,"
		" n_touches, EXISTS (SELECT 1 FROM picture_tile WHERE run_id = picture.run_id"
		" AND process_id = picture.process_id) FROM picture"
		" ORDER BY run_id, process_id",
		&row);

	while (r >= 0 && (r = statement_step(row)) > 0)
		r = add_process(store, row);
	return picture_error(r);
}

/* A store that can read parts, and has none. */
static int open_store(sqlite3 *db, struct picture_store **ret_store)
{
	auto_picture_store struct picture_store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	store->db = db;
	store->decoder = chunk_decoder_open();
	store->columns.values[0] =
		malloc(PICTURE_COLUMNS * CHUNK_FRAME_ROWS * sizeof(*store->columns.values[0]));
	if (!store->decoder || !store->columns.values[0])
		return -ENOMEM;
	for (unsigned c = 1; c < PICTURE_COLUMNS; c++)
		store->columns.values[c] = store->columns.values[0] + (size_t)c * CHUNK_FRAME_ROWS;
	*ret_store = steal_ptr(&store);
	return 0;
}

int picture_store_second(struct picture_store *store)
{
	return store->second ? 0 : open_store(store->db, &store->second);
}

int picture_store_open(sqlite3 *db, struct picture_store **ret_store)
{
	if (!statement_has_column(db, NULL, "picture", "height"))
		return statement_kept(db) == -ENOMEM ? -ENOMEM : -ENODATA;
	auto_picture_store struct picture_store *store = NULL;
	int r = open_store(db, &store);
	r = r ?: read_heads(store);
	if (r < 0)
		return r;
	if (store->n_processes == 0)
		return -ENODATA;
	*ret_store = steal_ptr(&store);
	return 0;
}

/* ---- Frames ---- */

/* What is read of each, by the columns of lookup.h, and the process behind them. */
static const struct {
	const char *table;
	const char *query;
	unsigned process;
} kinds[PICTURE_KINDS] = {
	[PICTURE_KIND_TOUCHES] = { "touch",
				   "time_ns, address, picture, source_id, thread_id, data_src,"
				   " latency, site_id, sample_id, process_id",
				   PICTURE_TOUCH_COLUMNS },
	[PICTURE_KIND_BLOCKS] = { "allocation",
				  "allocated_ns, address, size, freed_ns, id, stack_id, process_id",
				  PICTURE_BLOCK_COLUMNS },
};
#define TIME	0
#define ADDRESS 1
_Static_assert(TIME == (int)PICTURE_TOUCH_TIME && TIME == (int)PICTURE_BLOCK_ALLOCATED &&
		       ADDRESS == (int)PICTURE_TOUCH_ADDRESS &&
		       ADDRESS == (int)PICTURE_BLOCK_ADDRESS,
	       "they begin alike");
#define BIT(column) (1u << (column))

static bool has(const struct picture_columns *columns, unsigned column)
{
	return columns->wanted >> column & 1;
}

/* Which rows of a frame are wanted. */
struct choice {
	int64_t process_id;
	unsigned stride; /* one in so many */
	uint64_t low; /* addresses that they may begin at, and below high */
	uint64_t high;
};

static struct choice choose(const struct picture_process *process, const struct picture_part *part,
			    const struct picture_look *look)
{
	struct choice choice = { process->process_id, picture_weight(part, look->stride), 0,
				 UINT64_MAX };
	uint64_t low, last;

	if (look->within &&
	    picture_address(process->bands, process->n_bands, look->within->low, &low))
		choice.low = low > part->max_size ? low - part->max_size : 0;
	if (look->within &&
	    picture_address(process->bands, process->n_bands, look->within->high - 1, &last))
		choice.high = last + 1;
	return choice;
}

/*
 * Whether one in a stride of 1, 4 or 16 takes a row: by chance (its bits, mixed), so that no
 * pattern of a program's accesses meets a pattern of ours.
 */
static bool is_drawn(uint32_t row, unsigned stride)
{
	uint64_t bits = (row + 1) * UINT64_C(0x9e3779b97f4a7c15);

	bits = (bits ^ bits >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return (bits ^ bits >> 32) % stride == 0;
}

/* Of what tells which rows are wanted, theirs move to the front. */
static uint32_t choose_rows(const struct picture_columns *columns, enum picture_kind kind,
			    const struct choice *choice, uint32_t *rows)
{
	int64_t *addresses = columns->values[ADDRESS];
	int64_t *directions =
		kind == PICTURE_KIND_TOUCHES ? columns->values[PICTURE_TOUCH_DIRECTION] : NULL;
	const int64_t *processes =
		has(columns, kinds[kind].process) ? columns->values[kinds[kind].process] : NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < columns->n; i++) {
		uint64_t address = (uint64_t)addresses[i];
		if (address < choice->low || address >= choice->high ||
		    (directions && directions[i] == PICTURE_NOWHERE) ||
		    (processes && processes[i] != choice->process_id) ||
		    (choice->stride > 1 && !is_drawn(i, choice->stride)))
			continue;
		addresses[n] = addresses[i];
		if (directions)
			directions[n] = directions[i];
		rows[n++] = i;
	}
	return n;
}

/* NULL becomes another value. */
static void settle_null(struct picture_columns *columns, unsigned column, int64_t value)
{
	int64_t *values = columns->values[column];

	for (uint32_t i = 0; has(columns, column) && i < columns->n; i++)
		values[i] = values[i] == CHUNK_NULL ? value : values[i];
}

static void settle_blocks(struct picture_columns *columns)
{
	const int64_t *allocated = columns->values[PICTURE_BLOCK_ALLOCATED];
	int64_t *sizes = columns->values[PICTURE_BLOCK_SIZE];
	int64_t *lives = columns->values[PICTURE_BLOCK_LIFE];

	for (uint32_t i = 0; has(columns, PICTURE_BLOCK_SIZE) && i < columns->n; i++)
		sizes[i] = sizes[i] > 0 ? sizes[i] : 1;
	for (uint32_t i = 0; has(columns, PICTURE_BLOCK_LIFE) && i < columns->n; i++)
		lives[i] = lives[i] == CHUNK_NULL ? CHUNK_NULL
						  : picture_life_ns(allocated[i], lives[i]);
	settle_null(columns, PICTURE_BLOCK_SITE, 0);
}

static void settle_touches(const struct picture_process *process, struct picture_columns *columns)
{
	int64_t *levels = columns->values[PICTURE_TOUCH_LEVEL];
	int64_t *latencies = columns->values[PICTURE_TOUCH_LATENCY];
	int64_t last = CHUNK_NULL, level = PICTURE_NO_LEVEL;

	for (uint32_t i = 0; has(columns, PICTURE_TOUCH_LEVEL) && i < columns->n; i++) {
		if (levels[i] != last) {
			last = levels[i];
			level = last == CHUNK_NULL ? PICTURE_NO_LEVEL
						   : (int64_t)key_map_get(&process->levels,
									  (uint64_t)last, 0) -
							     1;
		}
		levels[i] = level;
	}
	for (uint32_t i = 0; has(columns, PICTURE_TOUCH_LATENCY) && i < columns->n; i++)
		latencies[i] = picture_latency(latencies[i]);
	settle_null(columns, PICTURE_TOUCH_THREAD, 0);
	settle_null(columns, PICTURE_TOUCH_SITE, 0);
}

/* Values of rows become those of a part. */
static void settle(const struct picture_process *process, enum picture_kind kind,
		   struct picture_columns *columns)
{
	int64_t *times = columns->values[TIME];

	if (kind == PICTURE_KIND_BLOCKS)
		settle_blocks(columns);
	else
		settle_touches(process, columns);
	for (uint32_t i = 0; has(columns, TIME) && i < columns->n; i++)
		times[i] = picture_held_ns(times[i]);
}

/* First what tells which rows are wanted: of the others nothing else is put together. */
int picture_store_read(struct picture_store *store, const struct picture_process *process,
		       const struct picture_part *part, const struct picture_look *look)
{
	const struct chunk_frame *held = &part->chunk->frames[part->frame];
	bool is_touches = part->kind == PICTURE_KIND_TOUCHES;
	unsigned first = BIT(ADDRESS) | (is_touches ? BIT(PICTURE_TOUCH_DIRECTION) : 0);
	struct scan_frame frame = { .head = part->chunk, .number = part->frame };
	struct choice choice = choose(process, part, look);
	struct scan *scan = process->scans[part->kind];
	struct picture_columns *columns = &store->columns;
	uint32_t rows[CHUNK_FRAME_ROWS];

	columns->n = held->n_rows;
	columns->wanted = first;
	if (held->process_low != held->process_high)
		columns->wanted |= BIT(kinds[part->kind].process);
	frame.wanted = columns->wanted;
	int r = scan_read_frame(scan, store->decoder, &frame, columns->values);
	uint32_t n = r == 0 ? choose_rows(columns, part->kind, &choice, rows) : 0;
	if (r < 0 || n == 0)
		return picture_error(r);
	columns->wanted = look->wanted;
	if (!is_touches && look->wanted & BIT(PICTURE_BLOCK_LIFE))
		columns->wanted |= BIT(PICTURE_BLOCK_ALLOCATED);
	frame.wanted = columns->wanted & ~first;
	frame.rows = n < columns->n ? rows : NULL;
	frame.n_rows = columns->n = n;
	r = scan_read_frame(scan, store->decoder, &frame, columns->values);
	if (r < 0)
		return picture_error(r);
	settle(process, part->kind, columns);
	return 1;
}

/* ---- Parts ---- */

/* Addresses become places on the axis. False: some lie on no band. */
static bool place_part(const struct picture_process *process, struct picture_part *part)
{
	uint64_t last = part->high - 1;

	if (!picture_place(process->bands, process->n_bands, part->low, &part->low) ||
	    !picture_place(process->bands, process->n_bands, last, &last))
		return false;
	part->high = last + 1;
	return true;
}

/* What of the part of several processes lies on the axis of this one. False: nothing does. */
static bool clip_part(const struct picture_process *process, struct picture_part *part)
{
	uint64_t low = part->low, last = part->high - 1;
	bool is_on_axis = false;

	for (size_t i = 0; i < process->n_bands; i++) {
		const struct picture_band *band = &process->bands[i];
		uint64_t from = low > band->start ? low : band->start;
		uint64_t end = last < band->end - 1 ? last + 1 : band->end;
		if (from >= end)
			continue;
		part->low = is_on_axis ? part->low : band->y + (from - band->start);
		part->high = band->y + (end - band->start);
		is_on_axis = true;
	}
	return is_on_axis;
}

/* Returns 1, 0: it has nothing of the process, or -EPROTO: that lies on no band. */
static int frame_to_part(const struct picture_process *process, const struct chunk_head *chunk,
			 uint32_t number, struct picture_part *ret_part)
{
	const struct chunk_frame *frame = &chunk->frames[number];
	int64_t from_ns = picture_held_ns(frame->from_ns), to_ns = picture_held_ns(frame->to_ns);
	int64_t life_ns = frame->max_life_ns;

	if (frame->process_low > process->process_id || frame->process_high < process->process_id)
		return 0;
	if (frame->n_alive > 0) {
		int64_t left_ns = picture_life_ns(from_ns, process->end_ns);
		life_ns = left_ns > life_ns ? left_ns : life_ns;
		to_ns = from_ns + left_ns > to_ns ? from_ns + left_ns : to_ns;
	}
	*ret_part = (struct picture_part){
		.chunk = chunk,
		.frame = number,
		.kind = ret_part->kind,
		.n = frame->n_rows,
		.from = picture_time(from_ns),
		.to = picture_time(to_ns) + 1,
		.low = frame->low,
		.high = frame->high + 1,
		.max_size = (uint64_t)frame->max_size,
		.max_life_ns = (uint64_t)life_ns,
	};
	if (frame->process_low != frame->process_high)
		return clip_part(process, ret_part);
	return place_part(process, ret_part) ? 1 : -EPROTO;
}

static int add_frames(struct picture_process *process, enum picture_kind kind)
{
	const struct scan *scan = process->scans[kind];
	int r = 0;

	for (size_t i = 0; i < scan_n_chunks(scan); i++) {
		const struct chunk_head *chunk = scan_chunk(scan, i);
		for (uint32_t k = 0; k < chunk->n_frames && r >= 0; k++) {
			struct picture_part *part = &process->parts[process->n_parts];
			part->kind = kind;
			r = frame_to_part(process, chunk, k, part);
			process->n_parts += r > 0;
		}
	}
	return r < 0 ? r : 0;
}

/* Numbers of levels are those of all processes of a run; of those without one it is -1. */
static int read_levels(struct picture_store *store, struct picture_process *process)
{
	auto_statement sqlite3_stmt *row = NULL, *number = NULL;
	int r = statement_prepare(store->db,
				  "SELECT data_src, coalesce(level, '') FROM data_source", &row);

	if (r == 0)
		r = statement_prepare(store->db,
				      "SELECT coalesce(max(item_id), -1) FROM picture_category"
				      " WHERE run_id = ?1 AND colour = 'level' AND name = ?2",
				      &number);
	while (r >= 0 && (r = statement_step(row)) > 0) {
		sqlite3_reset(number);
		statement_integer(number, 1, process->run_id);
		statement_text(number, 2, statement_string(row, 1));
		r = statement_step(number);
		if (r > 0)
			r = key_map_put(&process->levels, (uint64_t)sqlite3_column_int64(row, 0), 0,
					(uint64_t)sqlite3_column_int64(number, 0) + 1);
	}
	return picture_error(r);
}

static int read_parts(struct picture_store *store, struct picture_process *process)
{
	size_t n = 1;
	int r = read_levels(store, process);

	for (unsigned kind = 0; kind < PICTURE_KINDS && r == 0; kind++) {
		const struct scan_query query = { kinds[kind].table, kinds[kind].query,
						  process->run_id };
		struct scan **scan = &process->scans[kind];
		r = picture_error(scan_open(store->db, &query, scan));
		for (size_t i = 0; r == 0 && i < scan_n_chunks(*scan); i++)
			n += scan_chunk(*scan, i)->n_frames;
	}
	process->n_parts = 0;
	process->parts = r == 0 ? calloc(n, sizeof(*process->parts)) : NULL;
	if (!process->parts)
		return r < 0 ? r : -ENOMEM;
	for (unsigned kind = 0; kind < PICTURE_KINDS && r == 0; kind++)
		r = add_frames(process, (enum picture_kind)kind);
	return r;
}

bool picture_part_meets(const struct picture_part *part, const struct picture_request *request)
{
	return part->from < picture_time(request->to_ns) &&
	       part->to > picture_time(request->from_ns) && part->low < request->high &&
	       part->high > request->low;
}

const struct picture_part *picture_part_next(const struct picture_process *process,
					     const struct picture_part *part,
					     enum picture_kind kind,
					     const struct picture_request *request)
{
	const struct picture_part *end = process->parts + process->n_parts;

	for (part = part ? part + 1 : process->parts; part < end; part++) {
		if (part->kind == kind && picture_part_meets(part, request))
			return part;
	}
	return NULL;
}

/* ---- Bands ---- */

/* Whether bands ascend and fill the axis: what looks up places and addresses relies on it. */
static bool are_sound(const struct picture_band *bands, size_t n, uint64_t height)
{
	uint64_t start = 0, y = 0;

	for (size_t i = 0; i < n; i++) {
		if (bands[i].y != y || bands[i].start < start || bands[i].end <= bands[i].start)
			return false;
		start = bands[i].end;
		y += bands[i].end - bands[i].start;
	}
	return y == height;
}

static int read_bands(struct picture_store *store, struct picture_process *process)
{
	auto_statement sqlite3_stmt *row = NULL;
	auto_free struct picture_band *bands = NULL;
	size_t n = 0, n_allocated = 0;
	int r = statement_prepare(store->db,
				  "SELECT start, end, y, kind, name FROM band"
				  " WHERE run_id = ?1 AND process_id = ?2 ORDER BY number",
				  &row);

	if (r < 0)
		return picture_error(r);
	statement_integer(row, 1, process->run_id);
	statement_integer(row, 2, process->process_id);
	while ((r = statement_step(row)) > 0) {
		if (grow_array(&bands, n, &n_allocated, sizeof(*bands)) < 0)
			return -ENOMEM;
		bands[n] = (struct picture_band){
			.start = (uint64_t)sqlite3_column_int64(row, 0),
			.end = (uint64_t)sqlite3_column_int64(row, 1),
			.y = (uint64_t)sqlite3_column_int64(row, 2),
		};
		snprintf(bands[n].kind, sizeof(bands[n].kind), "%s", statement_string(row, 3));
		snprintf(bands[n].name, sizeof(bands[n].name), "%s", statement_string(row, 4));
		n++;
	}
	if (r < 0)
		return picture_error(r);
	if (n > 0 && !are_sound(bands, n, process->height))
		return -EPROTO;
	process->bands = steal_ptr(&bands);
	process->n_bands = n;
	return 0;
}

static struct picture_process *find(struct picture_store *store, int64_t run_id, int64_t process_id)
{
	struct picture_process *best = NULL;
	uint64_t most = 0;

	for (size_t i = 0; i < store->n_processes; i++) {
		struct picture_process *process = &store->processes[i];
		uint64_t n = process->n_blocks + process->n_touches;
		bool is_meant =
			process_id == 0 ? !best || n > most : process->process_id == process_id;
		if (process->run_id != run_id || !is_meant)
			continue;
		best = process;
		most = n;
	}
	return best;
}

int picture_store_process(struct picture_store *store, int64_t run_id, int64_t process_id,
			  struct picture_process **ret_process)
{
	struct picture_process *process = find(store, run_id, process_id);
	int r = 0;

	if (!process)
		return -ENOENT;
	if (!process->bands) {
		r = read_bands(store, process);
		if (r == 0 && process->n_bands > 0)
			r = read_parts(store, process);
		if (r < 0)
			leave_process(process);
	}
	if (r == 0 && process->n_bands == 0)
		return -ENOENT;
	if (r == 0)
		*ret_process = process;
	return r;
}

int picture_bands(struct picture_store *store, int64_t run_id, int64_t process_id,
		  const struct picture_band **ret_bands, size_t *ret_n)
{
	struct picture_process *process;
	int r = picture_store_process(store, run_id, process_id, &process);

	if (r < 0)
		return r;
	*ret_bands = process->bands;
	*ret_n = process->n_bands;
	return 0;
}
