#include "store/compact/chunk-store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/compact/column-cache.h"
#include "store/statement.h"
#include "trace/frame.h"

struct chunk_store {
	sqlite3 *db;
	char *schema;
	char *table;
	unsigned n_columns;
	int id_column;
	struct chunk_series series[CHUNK_SERIES];
	int64_t n_rows;
	unsigned n_users;
	bool is_read; /* the heads */
	int64_t n_changes; /* by this connection, when they were read ... */
	int64_t version; /* ... and by others */
	struct chunk_cache *cache;
	struct chunk_decoder *decoder;
	/* Of the chunk in frames that was read last: */
	int64_t placed; /* its id; 0: none */
	int64_t held; /* likewise, of the one whose columns are put together */
	struct pieces {
		char *bytes;
		size_t n;
		size_t n_allocated;
	} columns[CHUNK_COLUMNS];
	struct pieces frame; /* the bytes of the one that was read last, ... */
	int64_t frame_id; /* ... of this row of NAME_column; -1: none */
	bool has_places; /* its rows are not in the order of their ids */
	uint16_t *places; /* CHUNK_ROWS */
	int64_t *ids; /* 2 * CHUNK_ROWS */
	sqlite3_stmt *column;
	sqlite3_stmt *data_version;
};

static void forget(struct chunk_store *store)
{
	for (unsigned i = 0; i < CHUNK_SERIES; i++) {
		for (size_t j = 0; j < store->series[i].n; j++) {
			free(store->series[i].heads[j].ranges);
			free(store->series[i].heads[j].frames);
		}
		store->series[i].n = 0;
	}
	store->n_rows = 0;
	store->placed = store->held = 0;
	store->frame_id = -1;
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
	for (unsigned i = 0; i < CHUNK_COLUMNS; i++)
		free(store->columns[i].bytes);
	free(store->frame.bytes);
	free(store->places);
	free(store->ids);
	free(store->schema);
	free(store->table);
	free(store);
	return NULL;
}

struct chunk_store *chunk_store_open(sqlite3 *db, const struct chunk_table *table,
				     size_t keep_bytes)
{
	struct chunk_store *store = calloc(1, sizeof(*store));
	if (!store)
		return NULL;
	store->db = db;
	store->n_columns = table->n_columns;
	store->id_column = table->id_column;
	store->schema = strdup(table->schema);
	store->table = strdup(table->name);
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

/* Frames fill the chunk. */
static int read_frames(const char *bytes, size_t n_bytes, struct chunk_head *head)
{
	uint32_t n = 0;

	head->n_frames = (uint32_t)(n_bytes / sizeof(*head->frames));
	if (n_bytes == 0)
		return 0;
	if (n_bytes % sizeof(*head->frames) || head->n_frames > CHUNK_FRAMES)
		return -EBADMSG;
	head->frames = malloc(n_bytes);
	if (!head->frames)
		return -ENOMEM;
	memcpy(head->frames, bytes, n_bytes);
	for (uint32_t i = 0; i < head->n_frames; i++) {
		uint32_t n_rows = head->frames[i].n_rows;
		if (n_rows < 1 || n_rows > CHUNK_FRAME_ROWS || n_rows > head->n_rows - n)
			return -EBADMSG;
		n += n_rows;
	}
	return n == head->n_rows ? 0 : -EBADMSG;
}

/* A blob of ranges and frames with a checksum in front of them. */
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
	size_t n_ranges = store->n_columns * sizeof(*head->ranges);
	if (n_bytes < n_ranges || trace_checksum(bytes, n_bytes) != checksum)
		return -EBADMSG;
	head->n_columns = store->n_columns;
	head->ranges = malloc(n_ranges);
	if (!head->ranges)
		return -ENOMEM;
	memcpy(head->ranges, bytes, n_ranges);
	return read_frames(bytes + n_ranges, n_bytes - n_ranges, head);
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
	    head.id < 0 || head.id > INT64_MAX / CHUNK_FRAMES - 1 ||
	    head.last_row < head.first_row ||
	    (uint64_t)head.last_row - (uint64_t)head.first_row < (uint64_t)n_rows - 1)
		return -EBADMSG;
	struct chunk_series *series = &store->series[number];
	if (series->n > 0 && series->heads[series->n - 1].last_row >= head.first_row)
		return -EBADMSG;
	int r = grow_array(&series->heads, series->n, &series->n_allocated, sizeof(head));
	if (r == 0)
		r = read_ranges(store, row, &head);
	if (r < 0) {
		free(head.ranges);
		free(head.frames);
		return r;
	}
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

/* The bytes of a row of NAME_column, until the next call. */
static int read_row(struct chunk_store *store, const struct chunk_head *head, unsigned number,
		    const char **ret_bytes, size_t *ret_n)
{
	int r = 0;

	if (store->column)
		sqlite3_reset(store->column);
	else
		r = prepare(store, "SELECT data FROM \"%w\".\"%w_column\" WHERE id = ?",
			    &store->column);
	if (r < 0)
		return r;
	statement_integer(store->column, 1, head->id * CHUNK_FRAMES + number);
	r = statement_step(store->column);
	if (r <= 0)
		return r < 0 ? r : -EBADMSG; /* the chunk lacks it */
	*ret_n = (size_t)sqlite3_column_bytes(store->column, 0);
	*ret_bytes = sqlite3_column_blob(store->column, 0);
	return *ret_bytes ? 0 : -EBADMSG;
}
_Static_assert(CHUNK_COLUMNS <= CHUNK_FRAMES, "their numbers are those of either");

int chunk_store_frame(struct chunk_store *store, const struct chunk_head *head, uint32_t frame,
		      const char **ret_bytes, size_t *ret_n)
{
	return read_row(store, head, frame, ret_bytes, ret_n);
}

int chunk_take_piece(const char **bytes, size_t *n_left, const char **ret_piece, size_t *ret_n)
{
	uint32_t n;

	if (*n_left < sizeof(n))
		return -EBADMSG;
	memcpy(&n, *bytes, sizeof(n));
	*bytes += sizeof(n);
	*n_left -= sizeof(n);
	if (n > *n_left)
		return -EBADMSG;
	*ret_piece = *bytes;
	*ret_n = n;
	*bytes += n;
	*n_left -= n;
	return 0;
}

/* Append the pieces of a frame to their columns. */
static int add_frame(struct chunk_store *store, const char *bytes, size_t n_left)
{
	int r = 0;

	for (unsigned i = 0; i < store->n_columns && r == 0; i++) {
		struct pieces *pieces = &store->columns[i];
		const char *piece = NULL;
		size_t n = 0;
		r = chunk_take_piece(&bytes, &n_left, &piece, &n);
		if (r == 0)
			r = grow_array_by(&pieces->bytes, pieces->n, n, &pieces->n_allocated, 1);
		if (r == 0 && n > 0)
			memcpy(pieces->bytes + pieces->n, piece, n);
		pieces->n += r == 0 ? n : 0;
	}
	return r < 0 || n_left == 0 ? r : -EBADMSG;
}

/* Put the columns of a chunk in frames together. */
static int hold(struct chunk_store *store, const struct chunk_head *head)
{
	int r = 0;

	if (store->held == head->id)
		return 0;
	store->held = 0;
	for (unsigned i = 0; i < store->n_columns; i++)
		store->columns[i].n = 0;
	for (uint32_t i = 0; i < head->n_frames && r == 0; i++) {
		const char *bytes;
		size_t n;
		r = read_row(store, head, i, &bytes, &n);
		if (r == 0)
			r = add_frame(store, bytes, n);
	}
	store->held = r == 0 ? head->id : 0;
	return r;
}

static int check(struct chunk_bytes *bytes, unsigned column, uint32_t n_rows)
{
	int r = chunk_column_check(bytes->at, bytes->n, &bytes->outline);

	return r < 0 || bytes->outline.other >= (int)column || bytes->outline.n_rows != n_rows
		       ? -EBADMSG
		       : 0;
}

int chunk_store_bytes(struct chunk_store *store, const struct chunk_head *head, unsigned column,
		      struct chunk_bytes *ret_bytes)
{
	const char *bytes;
	size_t n;
	int r = head->frames ? hold(store, head) : read_row(store, head, column, &bytes, &n);

	if (r < 0)
		return r;
	*ret_bytes = head->frames ? (struct chunk_bytes){ .at = store->columns[column].bytes,
							  .n = store->columns[column].n }
				  : (struct chunk_bytes){ .at = bytes, .n = n };
	return check(ret_bytes, column, head->n_rows);
}

/* Copy a frame: the statement is not left on it, as nobody could write then. */
static int hold_frame(struct chunk_store *store, const struct chunk_head *head, uint32_t number)
{
	const char *bytes;
	size_t n;
	int r = read_row(store, head, number, &bytes, &n);

	store->frame_id = -1;
	if (r == 0)
		r = grow_array_to(&store->frame.bytes, n, &store->frame.n_allocated, 1);
	if (r == 0) {
		memcpy(store->frame.bytes, bytes, n);
		store->frame.n = n;
		store->frame_id = head->id * CHUNK_FRAMES + number;
	}
	if (store->column)
		sqlite3_reset(store->column);
	return r;
}

int chunk_store_piece(struct chunk_store *store, const struct chunk_head *head, uint32_t frame,
		      unsigned column, struct chunk_bytes *ret_bytes)
{
	int r = store->frame_id == head->id * CHUNK_FRAMES + frame ? 0
								   : hold_frame(store, head, frame);
	const char *bytes = store->frame.bytes, *piece = NULL;
	size_t n_left = store->frame.n, n = 0;

	for (unsigned i = 0; i <= column && r == 0; i++)
		r = chunk_take_piece(&bytes, &n_left, &piece, &n);
	if (r < 0)
		return r;
	*ret_bytes = (struct chunk_bytes){ .at = piece, .n = n };
	return check(ret_bytes, column, head->frames[frame].n_rows);
}

int chunk_places(const int64_t *ids, uint32_t n, uint16_t *places)
{
	int64_t low = ids[0], high = ids[0];
	bool is_ascending = true;

	for (uint32_t i = 1; i < n; i++) {
		is_ascending = is_ascending && ids[i] > ids[i - 1];
		low = ids[i] < low ? ids[i] : low;
		high = ids[i] > high ? ids[i] : high;
	}
	if (is_ascending)
		return 0;
	if ((uint64_t)high - (uint64_t)low >= CHUNK_SPREAD)
		return -EBADMSG;
	/* A bit for each id that is there; how many come before each word. */
	size_t n_words = (size_t)(high - low) / 64 + 1;
	auto_free uint64_t *bits = calloc(n_words, sizeof(*bits));
	auto_free uint32_t *before = malloc(n_words * sizeof(*before));
	if (!bits || !before)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		bits[(ids[i] - low) / 64] |= UINT64_C(1) << (ids[i] - low) % 64;
	uint32_t sum = 0;
	for (size_t i = 0; i < n_words; i++) {
		before[i] = sum;
		sum += (uint32_t)__builtin_popcountll(bits[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		size_t at = (size_t)(ids[i] - low);
		uint64_t lower = bits[at / 64] & ((UINT64_C(1) << at % 64) - 1);
		places[i] = (uint16_t)(before[at / 64] + (uint32_t)__builtin_popcountll(lower));
	}
	return sum == n ? 1 : -EBADMSG;
}

/* A column of a chunk in frames, in the order of its rows there; others: room for another one. */
static int read_values(struct chunk_store *store, const struct chunk_head *head, unsigned column,
		       int64_t *values, int64_t *others)
{
	struct chunk_bytes bytes;
	int r = chunk_store_bytes(store, head, column, &bytes);

	if (r == 0 && bytes.outline.other >= 0)
		r = others ? read_values(store, head, (unsigned)bytes.outline.other, others, NULL)
			   : -EBADMSG; /* the writer's are relative once */
	const struct chunk_wanted wanted = { values, others, head->n_rows };
	return r < 0 ? r : chunk_column_values(store->decoder, bytes.at, bytes.n, &wanted);
}

/* Where the rows of a chunk belong. */
static int find_places(struct chunk_store *store, const struct chunk_head *head)
{
	if (store->placed == head->id)
		return 0;
	store->placed = 0;
	if (!store->places)
		store->places = malloc(CHUNK_ROWS * sizeof(*store->places));
	if (!store->ids)
		store->ids = malloc(2ul * CHUNK_ROWS * sizeof(*store->ids));
	if (!store->places || !store->ids || store->id_column < 0)
		return store->id_column < 0 ? -EBADMSG : -ENOMEM;
	int r = read_values(store, head, (unsigned)store->id_column, store->ids,
			    store->ids + CHUNK_ROWS);
	if (r == 0)
		r = chunk_places(store->ids, head->n_rows, store->places);
	if (r < 0)
		return r;
	store->has_places = r > 0;
	store->placed = head->id;
	return 0;
}

static int decode(struct chunk_store *store, const struct chunk_head *head,
		  const struct chunk_bytes *from, struct chunk_column **ret_column)
{
	const struct chunk_column *other = NULL;
	struct chunk_source source = { from->at, from->n, from->outline, NULL };
	void *bytes = NULL;
	int r = 0;

	if (head->frames && store->has_places)
		source.places = store->places;
	if (from->outline.other >= 0) {
		bytes = malloc(from->n); /* the same statement reads the other column */
		if (!bytes)
			return -ENOMEM;
		memcpy(bytes, from->at, from->n);
		source.bytes = bytes;
		r = chunk_store_take(store, head, (unsigned)from->outline.other, &other);
	}
	if (r == 0)
		r = chunk_column_decode(store->decoder, &source, other, ret_column);
	chunk_store_put(store, other);
	free(bytes);
	return r;
}

static int read_column(struct chunk_store *store, const struct chunk_head *head, unsigned column,
		       struct chunk_column **ret_column)
{
	struct chunk_bytes bytes;
	int r = head->frames ? find_places(store, head) : 0;

	if (r == 0)
		r = chunk_store_bytes(store, head, column, &bytes);
	if (r == 0)
		r = decode(store, head, &bytes, ret_column);
	if (store->column)
		sqlite3_reset(store->column);
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
