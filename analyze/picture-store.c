#include "analyze/picture-store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyze/grow.h"
#include "analyze/statement.h"
#include "common/cleanup.h"

struct picture_store *picture_store_close(struct picture_store *store)
{
	if (!store)
		return NULL;
	for (size_t i = 0; i < store->n_processes; i++)
		free(store->processes[i].bands);
	free(store->processes);
	free(store);
	return NULL;
}

static int add_process(struct picture_store *store, sqlite3_stmt *row)
{
	int r = grow_array(&store->processes, store->n_processes, &store->n_allocated,
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
		};
	return r;
}

/* Run through a query's rows. Returns 0, -ENOMEM, -EPROTO or what the visitor returned. */
static int for_rows(sqlite3_stmt *statement, int (*visit)(struct picture_store *, sqlite3_stmt *),
		    struct picture_store *store)
{
	int r;

	while ((r = statement_step(statement)) > 0) {
		r = visit(store, statement);
		if (r < 0)
			return r;
	}
	return r == -ENOMEM || r == 0 ? r : -EPROTO;
}

static bool has_pictures(sqlite3 *db)
{
	return sqlite3_table_column_metadata(db, NULL, "picture", "height", NULL, NULL, NULL, NULL,
					     NULL) == SQLITE_OK;
}

int picture_store_open(sqlite3 *db, struct picture_store **ret_store)
{
	auto_statement sqlite3_stmt *rows = NULL;

	if (!has_pictures(db))
		return -ENODATA;
	auto_picture_store struct picture_store *store = calloc(1, sizeof(*store));
	if (!store)
		return -ENOMEM;
	store->db = db;
	int r = statement_prepare(db,
				  "SELECT run_id, process_id, from_ns, to_ns, end_ns, height,"
				  " n_blocks, n_touches FROM picture",
				  &rows);
	r = r < 0 ? -EPROTO : for_rows(rows, add_process, store);
	if (r < 0)
		return r;
	if (store->n_processes == 0)
		return -ENODATA;
	*ret_store = steal_ptr(&store);
	return 0;
}

static void copy_text(char *to, size_t n_bytes, const unsigned char *from)
{
	snprintf(to, n_bytes, "%s", from ? (const char *)from : "");
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
		return -EPROTO;
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
		copy_text(bands[n].kind, sizeof(bands[n].kind), sqlite3_column_text(row, 3));
		copy_text(bands[n].name, sizeof(bands[n].name), sqlite3_column_text(row, 4));
		n++;
	}
	if (r < 0)
		return r == -ENOMEM ? r : -EPROTO;
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
	if (!process->bands)
		r = read_bands(store, process);
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
