#include "store/heatmap/lookup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/columns/column.h"
#include "store/heatmap/address-axis.h"
#include "store/statement.h"

#define MAX_HEIGHT (UINT64_C(1) << 62) /* bytes of an axis */

struct picture_store *picture_store_close(struct picture_store *store)
{
	if (!store)
		return NULL;
	for (size_t i = 0; i < store->n_processes; i++)
		free(store->processes[i].bands);
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
			.kind = (enum picture_kind)sqlite3_column_int(row, 1),
			.n = (uint32_t)sqlite3_column_int64(row, 2),
			.from = picture_time(sqlite3_column_int64(row, 3)),
			.to = picture_time(sqlite3_column_int64(row, 4)) + 1,
			.low = (uint64_t)sqlite3_column_int64(row, 5),
			.high = (uint64_t)sqlite3_column_int64(row, 6) + 1,
			.max_size = (uint64_t)sqlite3_column_int64(row, 7),
			.max_life_ns = (uint64_t)sqlite3_column_int64(row, 8),
		};
	if (r < 0)
		return r;
	for (; store->filled < store->n_processes; store->filled++) {
		struct picture_process *process = &store->processes[store->filled];
		if (process->run_id == sqlite3_column_int64(row, 9) &&
		    process->process_id == sqlite3_column_int64(row, 10)) {
			process->n_parts++;
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
			     "SELECT id, kind, n, from_ns, to_ns, low, high, max_size,"
			     " max_life_ns, run_id, process_id FROM picture_part"
			     " ORDER BY run_id, process_id, id",
			     add_part);
	for (size_t i = 0; i < store->n_processes; i++) {
		store->processes[i].parts = store->parts ? store->parts + first : NULL;
		first += store->processes[i].n_parts;
	}
	return r < 0 || first == store->n_parts ? r : -EPROTO;
}

/* A store that can read parts, and has none. */
static int open_store(sqlite3 *db, struct picture_store **ret_store)
{
	auto_picture_store struct picture_store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	store->db = db;
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
	return store->second ? 0 : open_store(store->db, &store->second);
}

int picture_store_open(sqlite3 *db, struct picture_store **ret_store)
{
	if (!statement_has_column(db, NULL, "picture", "height"))
		return statement_kept(db) == -ENOMEM ? -ENOMEM : -ENODATA;
	auto_picture_store struct picture_store *store = NULL;
	int r = open_store(db, &store);
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

int picture_store_next(struct picture_store *store, const struct picture_part *part,
		       struct picture_look *look)
{
	bool is_small = part->n <= PICTURE_SMALL_PART;
	unsigned n_pieces = is_small		? 1
			    : look->stride == 1 ? PICTURE_PIECES
			    : look->stride == 4 ? 2
						: 1;
	int r = 0;

	while (r == 0 && look->n < n_pieces)
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

/* Extents of parts become places on the axis: all of them, or -EPROTO: some are on no band. */
static int place_parts(struct picture_process *process)
{
	for (size_t i = 0; i < 2 * process->n_parts; i++) {
		struct picture_part *part = &process->parts[i % process->n_parts];
		uint64_t low, last;
		if (!picture_place(process->bands, process->n_bands, part->low, &low) ||
		    !picture_place(process->bands, process->n_bands, part->high - 1, &last))
			return -EPROTO;
		if (i < process->n_parts)
			continue;
		part->low = low;
		part->high = last + 1;
	}
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
			r = place_parts(process);
		if (r < 0) {
			free(process->bands);
			process->bands = NULL;
		}
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
