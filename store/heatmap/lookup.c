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
#include "store/heatmap/address-axis.h"
#include "store/statement.h"

#define MAX_HEIGHT (UINT64_C(1) << 62) /* bytes of an axis */

/* What was read of it when it was first asked for. */
static void leave_process(struct picture_process *process)
{
	process->blocks = scan_close(process->blocks);
	free(process->parts);
	process->parts = NULL;
	free(process->bands);
	process->bands = NULL;
}

struct picture_store *picture_store_close(struct picture_store *store)
{
	if (!store)
		return NULL;
	for (size_t i = 0; i < store->n_processes; i++)
		leave_process(&store->processes[i]);
	free(store->processes);
	free(store->parts);
	picture_store_close(store->second);
	sqlite3_finalize(store->fetch);
	chunk_decoder_close(store->decoder);
	picture_columns_finish(&store->columns);
	free(store);
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

/* Parts come in the order of the processes, which get theirs when all are there. */
static int add_part(struct picture_store *store, sqlite3_stmt *row)
{
	int r = grow_array(&store->parts, store->n_parts, &store->n_parts_allocated,
			   sizeof(*store->parts));

	if (r == 0)
		store->parts[store->n_parts++] = (struct picture_part){
			.id = sqlite3_column_int64(row, 0),
			.kind = PICTURE_KIND_TOUCHES,
			.n = (uint32_t)sqlite3_column_int64(row, 1),
			.from = picture_time(sqlite3_column_int64(row, 2)),
			.to = picture_time(sqlite3_column_int64(row, 3)) + 1,
			.low = (uint64_t)sqlite3_column_int64(row, 4),
			.high = (uint64_t)sqlite3_column_int64(row, 5) + 1,
		};
	if (r < 0)
		return r;
	for (; store->filled < store->n_processes; store->filled++) {
		struct picture_process *process = &store->processes[store->filled];
		if (process->run_id == sqlite3_column_int64(row, 6) &&
		    process->process_id == sqlite3_column_int64(row, 7)) {
			process->n_stored++;
			break;
		}
	}
	return r;
}

/* Run through a query's rows. Returns 0, -ENOMEM, -EPROTO or what the visitor returned. */
static int for_rows(struct picture_store *store, const char *sql,
		    int (*visit)(struct picture_store *, sqlite3_stmt *))
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(store->db, sql, &row);

	while (r >= 0 && (r = statement_step(row)) > 0) {
		r = visit(store, row);
		if (r < 0)
			return r;
	}
	return picture_error(r);
}

static int read_heads(struct picture_store *store)
{
	size_t first = 0;
	int r = for_rows(
		store,
		"SELECT run_id, process_id, from_ns, to_ns, end_ns, height, n_blocks,"
		" n_touches, EXISTS (SELECT 1 FROM picture_tile WHERE run_id = picture.run_id"
		" AND process_id = picture.process_id) FROM picture"
		" ORDER BY run_id, process_id",
		add_process);

	if (r == 0)
		r = for_rows(store,
			     "SELECT id, n, from_ns, to_ns, low, high, run_id, process_id"
			     " FROM picture_part ORDER BY run_id, process_id, id",
			     add_part);
	for (size_t i = 0; i < store->n_processes; i++) {
		store->processes[i].stored = store->parts ? store->parts + first : NULL;
		first += store->processes[i].n_stored;
	}
	return r < 0 || first == store->n_parts ? r : -EPROTO;
}

/* A store that can read parts, and has none. */
static int open_store(sqlite3 *db, sqlite3 *rows, struct picture_store **ret_store)
{
	auto_picture_store struct picture_store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	store->db = db;
	store->rows = rows;
	int r = picture_columns_init(&store->columns);
	store->decoder = chunk_decoder_open();
	if (r < 0 || !store->decoder)
		return -ENOMEM;
	r = statement_prepare(db, "SELECT data FROM picture_data WHERE id = ?", &store->fetch);
	if (r < 0)
		return picture_error(r);
	*ret_store = steal_ptr(&store);
	return 0;
}

int picture_store_second(struct picture_store *store)
{
	return store->second ? 0 : open_store(store->db, store->rows, &store->second);
}

int picture_store_open(sqlite3 *db, sqlite3 *rows, struct picture_store **ret_store)
{
	if (!statement_has_column(db, NULL, "picture", "height"))
		return statement_kept(db) == -ENOMEM ? -ENOMEM : -ENODATA;
	auto_picture_store struct picture_store *store = NULL;
	int r = open_store(db, rows, &store);
	if (r == 0)
		r = read_heads(store);
	if (r < 0)
		return r;
	if (store->n_processes == 0)
		return -ENODATA;
	*ret_store = steal_ptr(&store);
	return 0;
}

static int fetch(struct picture_store *store, const struct picture_part *part, unsigned piece,
		 unsigned wanted)
{
	statement_integer(store->fetch, 1,
			  (int64_t)((uint64_t)part->id * PICTURE_ROWS_OF_PART + piece));
	int r = statement_step(store->fetch);

	if (r > 0) {
		const struct picture_bytes bytes = {
			.data = sqlite3_column_blob(store->fetch, 0),
			.n = (size_t)sqlite3_column_bytes(store->fetch, 0),
		};
		store->columns.wanted = wanted;
		r = picture_unpack(store->decoder, &bytes, &store->columns);
		r = r < 0 ? r : 1;
	}
	sqlite3_reset(store->fetch);
	return picture_error(r);
}

/* ---- Frames of blocks ---- */

/* The columns of a block's part, and the process. */
#define BLOCK_QUERY   "allocated_ns, address, size, freed_ns, id, stack_id, process_id"
#define BLOCK_PROCESS PICTURE_BLOCK_COLUMNS
_Static_assert(BLOCK_PROCESS < PICTURE_COLUMNS, "there is room for it");
_Static_assert(CHUNK_FRAME_ROWS <= PICTURE_PART_ITEMS, "and for a frame");
#define BIT(column) (1u << (column))

static unsigned n_pieces(const struct picture_part *part, const struct picture_look *look)
{
	bool is_small = part->n <= PICTURE_SMALL_PART;

	return is_small ? 1 : look->stride == 1 ? PICTURE_PIECES : look->stride == 4 ? 2 : 1;
}

static bool has(const struct picture_columns *columns, unsigned column)
{
	return columns->wanted >> column & 1;
}

/* Which blocks of a frame are wanted. A small part is one piece. */
struct choice {
	int64_t process_id;
	unsigned n_pieces; /* of pieces below it */
	uint64_t low; /* addresses that they may begin at, and below high */
	uint64_t high;
};

static struct choice choose(const struct picture_process *process, const struct picture_part *part,
			    const struct picture_look *look)
{
	struct choice choice = { process->process_id, n_pieces(part, look), 0, UINT64_MAX };
	uint64_t low, last;

	if (look->within &&
	    picture_address(process->bands, process->n_bands, look->within->low, &low))
		choice.low = low > part->max_size ? low - part->max_size : 0;
	if (look->within &&
	    picture_address(process->bands, process->n_bands, look->within->high - 1, &last))
		choice.high = last + 1;
	return choice;
}

/* Of addresses, and processes if they are there, those that are wanted move to the front. */
static uint32_t choose_rows(const struct picture_columns *columns, const struct choice *choice,
			    uint32_t *rows)
{
	int64_t *addresses = columns->values[PICTURE_BLOCK_ADDRESS];
	const int64_t *processes =
		has(columns, BLOCK_PROCESS) ? columns->values[BLOCK_PROCESS] : NULL;
	bool is_whole = choice->n_pieces == PICTURE_PIECES || columns->n <= PICTURE_SMALL_PART;
	uint32_t n = 0;

	for (uint32_t i = 0; i < columns->n; i++) {
		uint64_t address = (uint64_t)addresses[i];
		if (address < choice->low || address >= choice->high ||
		    (processes && processes[i] != choice->process_id) ||
		    (!is_whole && picture_piece_of(i, columns->n) >= choice->n_pieces))
			continue;
		addresses[n] = addresses[i];
		rows[n++] = i;
	}
	return n;
}

/* Values of rows become those of a part. */
static void settle_blocks(struct picture_columns *columns)
{
	int64_t *allocated = columns->values[PICTURE_BLOCK_ALLOCATED];
	int64_t *sizes = columns->values[PICTURE_BLOCK_SIZE];
	int64_t *lives = columns->values[PICTURE_BLOCK_LIFE];
	int64_t *sites = columns->values[PICTURE_BLOCK_SITE];

	for (uint32_t i = 0; has(columns, PICTURE_BLOCK_SIZE) && i < columns->n; i++)
		sizes[i] = sizes[i] > 0 ? sizes[i] : 1;
	for (uint32_t i = 0; has(columns, PICTURE_BLOCK_LIFE) && i < columns->n; i++)
		lives[i] = lives[i] == CHUNK_NULL ? CHUNK_NULL
						  : picture_life_ns(allocated[i], lives[i]);
	for (uint32_t i = 0; has(columns, PICTURE_BLOCK_ALLOCATED) && i < columns->n; i++)
		allocated[i] = picture_held_ns(allocated[i]);
	for (uint32_t i = 0; has(columns, PICTURE_BLOCK_SITE) && i < columns->n; i++)
		sites[i] = sites[i] == CHUNK_NULL ? 0 : sites[i];
}

/* First addresses; of what is not wanted nothing else is put together. */
static int fetch_frame(struct picture_store *store, const struct picture_process *process,
		       const struct picture_part *part, const struct picture_look *look)
{
	const struct chunk_frame *held = &part->chunk->frames[part->frame];
	struct scan_frame frame = { .head = part->chunk, .number = part->frame };
	struct choice choice = choose(process, part, look);
	struct picture_columns *columns = &store->columns;
	uint32_t rows[CHUNK_FRAME_ROWS];

	columns->n = held->n_rows;
	columns->wanted = BIT(PICTURE_BLOCK_ADDRESS);
	if (held->process_low != held->process_high)
		columns->wanted |= BIT(BLOCK_PROCESS);
	frame.wanted = columns->wanted;
	int r = scan_read_frame(process->blocks, store->decoder, &frame, columns->values);
	uint32_t n = r == 0 ? choose_rows(columns, &choice, rows) : 0;
	if (r < 0 || n == 0)
		return picture_error(r);
	columns->wanted = look->wanted;
	if (look->wanted & BIT(PICTURE_BLOCK_LIFE))
		columns->wanted |= BIT(PICTURE_BLOCK_ALLOCATED);
	frame.wanted = columns->wanted & ~BIT(PICTURE_BLOCK_ADDRESS);
	frame.rows = n < columns->n ? rows : NULL;
	frame.n_rows = columns->n = n;
	r = scan_read_frame(process->blocks, store->decoder, &frame, columns->values);
	if (r < 0)
		return picture_error(r);
	settle_blocks(columns);
	return 1;
}

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

/* Returns 1, 0: it has none of the process's blocks, or -EPROTO: they lie on no band. */
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
		.kind = PICTURE_KIND_BLOCKS,
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

/* Extents of touches become places on the axis. -EPROTO: some are on no band. */
static int add_touches(struct picture_process *process)
{
	for (size_t i = 0; i < process->n_stored; i++) {
		struct picture_part *part = &process->parts[process->n_parts++];
		*part = process->stored[i];
		if (!place_part(process, part))
			return -EPROTO;
	}
	return 0;
}

static int add_frames(struct picture_process *process)
{
	int r = 0;

	for (size_t i = 0; i < scan_n_chunks(process->blocks); i++) {
		const struct chunk_head *chunk = scan_chunk(process->blocks, i);
		for (uint32_t k = 0; k < chunk->n_frames && r >= 0; k++) {
			r = frame_to_part(process, chunk, k, &process->parts[process->n_parts]);
			process->n_parts += r > 0;
		}
	}
	return r < 0 ? r : 0;
}

static int read_parts(struct picture_store *store, struct picture_process *process)
{
	const struct scan_query query = { "allocation", BLOCK_QUERY, process->run_id };
	size_t n = process->n_stored;
	int r = scan_open(store->rows, &query, &process->blocks);

	if (r < 0)
		return picture_error(r);
	for (size_t i = 0; i < scan_n_chunks(process->blocks); i++)
		n += scan_chunk(process->blocks, i)->n_frames;
	process->n_parts = 0;
	process->parts = calloc(n + 1, sizeof(*process->parts));
	r = process->parts ? add_touches(process) : -ENOMEM;
	return r < 0 ? r : add_frames(process);
}

int picture_store_next(struct picture_store *store, const struct picture_process *process,
		       const struct picture_part *part, struct picture_look *look)
{
	int r = 0;

	if (part->chunk)
		return look->n++ ? 0 : fetch_frame(store, process, part, look);
	while (r == 0 && look->n < n_pieces(part, look))
		r = fetch(store, part, look->n++, look->wanted);
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
