#include "store/compact/chunk-store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "store/compact/column-cache.h"
#include "store/statement.h"
#include "trace/frame.h"

struct chunk_store {
	sqlite3 *db;
	char *schema;
	char *table;
	unsigned n_columns;
	struct chunk_series series[CHUNK_SERIES];
	int64_t n_rows;
	unsigned n_users;
	bool is_read; /* the heads */
	int64_t n_changes; /* by this connection, when they were read ... */
	int64_t version; /* ... and by others */
	struct chunk_cache *cache;
	struct chunk_decoder *decoder;
	sqlite3_stmt *column;
	sqlite3_stmt *data_version;
};

static void forget(struct chunk_store *store)
{
	for (unsigned i = 0; i < CHUNK_SERIES; i++) {
		for (size_t j = 0; j < store->series[i].n; j++)
			free(store->series[i].heads[j].ranges);
		store->series[i].n = 0;
	}
	store->n_rows = 0;
	store->is_read = false;
	chunk_cache_clear(store->cache);
}

struct chunk_store *chunk_store_close(struct chunk_store *store)
{
	if (!store)
		return NULL;
	forget(store);
	for (unsigned i = 0; i < CHUNK_SERIES; i++)
		free(store->series[i].heads);
	sqlite3_finalize(store->column);
	sqlite3_finalize(store->data_version);
	chunk_cache_close(store->cache);
	chunk_decoder_close(store->decoder);
	free(store->schema);
	free(store->table);
	free(store);
	return NULL;
}

struct chunk_store *chunk_store_open(sqlite3 *db, const char *schema, const char *table,
				     unsigned n_columns, size_t keep_bytes)
{
	struct chunk_store *store = calloc(1, sizeof(*store));
	if (!store)
		return NULL;
	store->db = db;
	store->n_columns = n_columns;
	store->schema = strdup(schema);
	store->table = strdup(table);
	store->cache = chunk_cache_open(keep_bytes);
	store->decoder = chunk_decoder_open();
	if (!store->schema || !store->table || !store->cache || !store->decoder)
		return chunk_store_close(store);
	return store;
}

static int prepare(struct chunk_store *store, const char *format, sqlite3_stmt **ret_statement)
{
	char *sql = sqlite3_mprintf(format, store->schema, store->table);
	int r = sql ? statement_prepare(store->db, sql, ret_statement) : -ENOMEM;

	sqlite3_free(sql);
	return r;
}

/* ---- Heads ---- */

enum head_column { ID, SERIES, N_ROWS, FIRST, LAST, HEAD };

/* A blob of ranges with a checksum in front of them. */
static int read_ranges(const struct chunk_store *store, sqlite3_stmt *row, struct chunk_head *head)
{
	const char *bytes = sqlite3_column_blob(row, HEAD);
	size_t n_bytes = (size_t)sqlite3_column_bytes(row, HEAD);
	uint32_t checksum;

	if (!bytes || n_bytes < sizeof(checksum))
		return -EBADMSG;
	memcpy(&checksum, bytes, sizeof(checksum));
	bytes += sizeof(checksum);
	n_bytes -= sizeof(checksum);
	if (n_bytes != store->n_columns * sizeof(*head->ranges) ||
	    trace_checksum(bytes, n_bytes) != checksum)
		return -EBADMSG;
	head->n_columns = store->n_columns;
	head->ranges = malloc(n_bytes);
	if (!head->ranges)
		return -ENOMEM;
	memcpy(head->ranges, bytes, n_bytes);
	return 0;
}

static int read_head(struct chunk_store *store, sqlite3_stmt *row)
{
	int64_t number = sqlite3_column_int64(row, SERIES);
	int64_t n_rows = sqlite3_column_int64(row, N_ROWS);
	struct chunk_head head = {
		.id = sqlite3_column_int64(row, ID),
		.first_row = sqlite3_column_int64(row, FIRST),
		.last_row = sqlite3_column_int64(row, LAST),
		.n_rows = (uint32_t)n_rows,
	};

	if (number < 0 || number >= CHUNK_SERIES || n_rows < 1 || n_rows > CHUNK_ROWS ||
	    head.id < 0 || head.id > INT64_MAX / CHUNK_COLUMNS - 1 ||
	    head.last_row < head.first_row ||
	    (uint64_t)head.last_row - (uint64_t)head.first_row < (uint64_t)n_rows - 1)
		return -EBADMSG;
	struct chunk_series *series = &store->series[number];
	if (series->n > 0 && series->heads[series->n - 1].last_row >= head.first_row)
		return -EBADMSG;
	int r = grow_array(&series->heads, series->n, &series->n_allocated, sizeof(head));
	if (r == 0)
		r = read_ranges(store, row, &head);
	if (r < 0)
		return r;
	series->heads[series->n++] = head;
	store->n_rows += n_rows;
	return 0;
}

static int read_heads(struct chunk_store *store)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = prepare(store,
			"SELECT id, series, n_rows, first_row, last_row, head"
			" FROM \"%w\".\"%w_chunk\" ORDER BY series, first_row",
			&row);

	while (r == 0 && (r = statement_step(row)) == 1)
		r = read_head(store, row);
	return r;
}

/* A number that changes when another connection has written. */
static int read_version(struct chunk_store *store, int64_t *ret_version)
{
	int r = store->data_version
			? 0
			: prepare(store, "PRAGMA \"%w\".data_version", &store->data_version);

	if (r == 0)
		r = statement_step(store->data_version);
	if (r == 1)
		*ret_version = sqlite3_column_int64(store->data_version, 0);
	if (store->data_version)
		sqlite3_reset(store->data_version);
	return r < 0 ? r : 0;
}

static int refresh(struct chunk_store *store)
{
	int64_t n_changes = sqlite3_total_changes(store->db);
	int64_t version = 0;
	int r = read_version(store, &version);

	if (r < 0)
		return r;
	/* What is being written may be undone, which nothing would tell. */
	if (store->is_read && store->n_changes == n_changes && store->version == version &&
	    sqlite3_txn_state(store->db, store->schema) != SQLITE_TXN_WRITE)
		return 0;
	forget(store);
	r = read_heads(store);
	if (r < 0) {
		forget(store);
		return r;
	}
	store->n_changes = n_changes;
	store->version = version;
	store->is_read = true;
	return 0;
}

int chunk_store_begin(struct chunk_store *store)
{
	int r = store->n_users > 0 ? 0 : refresh(store);

	if (r == 0)
		store->n_users++;
	return r;
}

void chunk_store_end(struct chunk_store *store)
{
	store->n_users--;
}

const struct chunk_series *chunk_store_series(const struct chunk_store *store, unsigned number)
{
	return &store->series[number];
}

int64_t chunk_store_n_rows(const struct chunk_store *store)
{
	return store->n_rows;
}

/* ---- Columns ---- */

int chunk_store_bytes(struct chunk_store *store, const struct chunk_head *head, unsigned column,
		      struct chunk_bytes *ret_bytes)
{
	struct chunk_bytes bytes;
	int r = 0;

	if (store->column)
		sqlite3_reset(store->column);
	else
		r = prepare(store, "SELECT data FROM \"%w\".\"%w_column\" WHERE id = ?",
			    &store->column);
	if (r < 0)
		return r;
	statement_integer(store->column, 1, head->id * CHUNK_COLUMNS + column);
	r = statement_step(store->column);
	if (r <= 0)
		return r < 0 ? r : -EBADMSG; /* the chunk lacks it */
	bytes.n = (size_t)sqlite3_column_bytes(store->column, 0);
	bytes.at = sqlite3_column_blob(store->column, 0);
	r = bytes.at ? chunk_column_check(bytes.at, bytes.n, &bytes.other) : -EBADMSG;
	if (r < 0 || bytes.other >= (int)column)
		return -EBADMSG;
	*ret_bytes = bytes;
	return 0;
}

static int decode(struct chunk_store *store, const struct chunk_head *head,
		  const struct chunk_bytes *from, struct chunk_column **ret_column)
{
	const struct chunk_column *other = NULL;

	if (from->other < 0)
		return chunk_column_decode(store->decoder, from->at, from->n, NULL, ret_column);

	void *bytes = malloc(from->n); /* the same statement reads the other column */
	if (!bytes)
		return -ENOMEM;
	memcpy(bytes, from->at, from->n);
	int r = chunk_store_take(store, head, (unsigned)from->other, &other);
	if (r == 0)
		r = chunk_column_decode(store->decoder, bytes, from->n, other, ret_column);
	chunk_store_put(store, other);
	free(bytes);
	return r;
}

static int read_column(struct chunk_store *store, const struct chunk_head *head, unsigned column,
		       struct chunk_column **ret_column)
{
	struct chunk_bytes bytes;
	int r = chunk_store_bytes(store, head, column, &bytes);

	if (r == 0)
		r = decode(store, head, &bytes, ret_column);
	if (store->column)
		sqlite3_reset(store->column);
	if (r == 0 && (*ret_column)->n != head->n_rows) {
		chunk_column_free(*ret_column);
		r = -EBADMSG;
	}
	return r;
}

int chunk_store_take(struct chunk_store *store, const struct chunk_head *head, unsigned column,
		     const struct chunk_column **ret_column)
{
	int64_t key = head->id * CHUNK_COLUMNS + column;
	struct chunk_column *found;

	*ret_column = chunk_cache_take(store->cache, key);
	if (*ret_column)
		return 0;
	int r = read_column(store, head, column, &found);
	if (r < 0)
		return r;
	r = chunk_cache_add(store->cache, key, found);
	if (r < 0) {
		chunk_column_free(found);
		return r;
	}
	*ret_column = found;
	return 0;
}

void chunk_store_put(struct chunk_store *store, const struct chunk_column *column)
{
	if (column)
		chunk_cache_put(store->cache, column);
}
