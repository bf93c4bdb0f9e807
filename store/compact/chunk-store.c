#include "store/compact/chunk-store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/statement.h"
#include "trace/frame.h"

struct chunk_store {
	sqlite3 *db;
	char *schema;
	char *table;
	unsigned n_columns;
	unsigned id_column;
	struct chunk_series series[CHUNK_SERIES];
	int64_t n_rows;
	unsigned n_users;
	bool is_read; /* the heads */
	int64_t n_changes; /* by this connection, when they were read ... */
	int64_t version; /* ... and by others */
	struct chunk_decoder *decoder;
	/* Of the chunk whose columns were read last: */
	int64_t held; /* its id; 0: none */
	struct chunk_bytes bytes;
	uint16_t *places; /* CHUNK_ROWS */
	int64_t *values; /* likewise */
	bool has_places; /* its rows are not in the order of their ids */
	/* Columns, those in use and those that were put back last. */
	struct chunk_column **columns;
	size_t n_kept;
	size_t n_kept_allocated;
	size_t n_bytes; /* of those that nobody uses */
	size_t keep_bytes;
	uint64_t n_puts;
	sqlite3_stmt *column;
	sqlite3_stmt *data_version;
};

/* ---- Columns that are kept ---- */

static size_t bytes_of(const struct chunk_column *column)
{
	return sizeof(*column) + column->n * sizeof(column->values[0]);
}

/* Of those that nobody uses, the ones that were put back longest ago go. */
static void keep(struct chunk_store *store, size_t most_bytes)
{
	while (store->n_bytes > most_bytes) {
		size_t oldest = store->n_kept;
		for (size_t i = 0; i < store->n_kept; i++) {
			if (!store->columns[i]->n_taken &&
			    (oldest == store->n_kept ||
			     store->columns[i]->used < store->columns[oldest]->used))
				oldest = i;
		}
		store->n_bytes -= bytes_of(store->columns[oldest]);
		free(store->columns[oldest]);
		store->columns[oldest] = store->columns[--store->n_kept];
	}
}

void chunk_store_put(struct chunk_store *store, struct chunk_column *column)
{
	if (!column || --column->n_taken > 0)
		return;
	column->used = column->key < 0 ? 0 : ++store->n_puts;
	store->n_bytes += bytes_of(column);
	keep(store, column->key < 0 ? store->n_bytes - 1 : store->keep_bytes);
}

/* Heads, and what was read by them: columns that are in use stay until they are put back. */
static void forget(struct chunk_store *store)
{
	for (unsigned i = 0; i < CHUNK_SERIES; i++) {
		for (size_t j = 0; j < store->series[i].n; j++) {
			free_all(store->series[i].heads[j].ranges,
				 store->series[i].heads[j].frames);
		}
		store->series[i].n = 0;
	}
	store->n_rows = 0;
	store->held = 0;
	store->is_read = false;
	keep(store, 0);
	for (size_t i = 0; i < store->n_kept; i++)
		store->columns[i]->key = -1;
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
	chunk_decoder_close(store->decoder);
	free_all(store->columns, store->bytes.at, store->places, store->values, store->schema,
		 store->table, store);
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
	store->keep_bytes = keep_bytes;
	store->schema = strdup(table->schema);
	store->table = strdup(table->name);
	return store->schema && store->table ? store : chunk_store_close(store);
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
	if (n_bytes == 0 || n_bytes % sizeof(*head->frames) || head->n_frames > CHUNK_FRAMES)
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
	    head.id < 1 || head.id > INT64_MAX / CHUNK_FRAMES - 1 ||
	    head.last_row < head.first_row ||
	    (uint64_t)head.last_row - (uint64_t)head.first_row < (uint64_t)n_rows - 1)
		return -EBADMSG;
	struct chunk_series *series = &store->series[number];
	if (series->n > 0 && series->heads[series->n - 1].last_row >= head.first_row)
		return -EBADMSG;
	int r = grow_array(&series->heads, series->n, &series->n_allocated, sizeof(head));
	r = r ?: read_ranges(store, row, &head);
	if (r < 0)
		return free_all(head.ranges, head.frames), r;
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

	r = r ?: statement_step(store->data_version);
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

/* ---- Frames ---- */

/* Copied: the statement is not left on a row, as nobody could write then. */
static int add_frame(struct chunk_store *store, int64_t id, struct chunk_bytes *bytes, size_t begin,
		     size_t *ret_end)
{
	statement_integer(store->column, 1, id);
	int r = statement_step(store->column);
	const void *data = r > 0 ? sqlite3_column_blob(store->column, 0) : NULL;
	size_t n = data ? (size_t)sqlite3_column_bytes(store->column, 0) : 0;

	if (!data)
		r = r < 0 ? r : -EBADMSG; /* the chunk lacks it */
	if (r > 0)
		r = grow_array_by(&bytes->at, begin, n, &bytes->n_allocated, 1);
	if (r == 0)
		memcpy(bytes->at + begin, data, n);
	*ret_end = begin + n;
	sqlite3_reset(store->column);
	return r;
}

int chunk_store_fetch(struct chunk_store *store, const struct chunk_head *head, uint32_t first,
		      uint32_t n, struct chunk_bytes *bytes)
{
	int r = store->column ? 0
			      : prepare(store, "SELECT data FROM \"%w\".\"%w_column\" WHERE id = ?",
					&store->column);
	size_t end = 0;

	for (uint32_t i = 0; i < n && r == 0; i++) {
		r = add_frame(store, head->id * CHUNK_FRAMES + first + i, bytes, end, &end);
		bytes->ends[i] = end;
	}
	return r;
}

struct chunk_reading chunk_reading_of(const struct chunk_bytes *bytes, uint32_t i, uint32_t n_rows)
{
	size_t begin = i > 0 ? bytes->ends[i - 1] : 0;

	return (struct chunk_reading){
		.bytes = bytes->at + begin,
		.n_bytes = bytes->ends[i] - begin,
		.n_rows = n_rows,
		.n_chosen = n_rows,
	};
}

struct piece {
	const char *at;
	uint32_t n;
	struct chunk_outline outline;
};

/* The piece of a column: each has its size before it. */
static int find_piece(const struct chunk_reading *reading, unsigned column, struct piece *piece)
{
	const char *at = reading->bytes;
	size_t n_left = reading->n_bytes;

	for (unsigned i = 0; i <= column; i++) {
		if (n_left < sizeof(piece->n))
			return -EBADMSG;
		memcpy(&piece->n, at, sizeof(piece->n));
		n_left -= sizeof(piece->n);
		if (piece->n > n_left)
			return -EBADMSG;
		piece->at = at + sizeof(piece->n);
		at = piece->at + piece->n;
		n_left -= piece->n;
	}
	return chunk_column_check(piece->at, piece->n, &piece->outline);
}

int chunk_read_column(struct chunk_decoder *decoder, struct chunk_reading *reading, unsigned column,
		      int64_t *to)
{
	struct chunk_wanted wanted = { to, NULL, reading->n_rows, reading->rows,
				       reading->n_chosen };
	int64_t others[CHUNK_FRAME_ROWS];
	struct piece piece, before;
	int r = reading->values[column] ? 0 : find_piece(reading, column, &piece);

	if (r < 0 || reading->values[column])
		return r;
	if (piece.outline.other >= 0 && !(wanted.others = reading->values[piece.outline.other])) {
		struct chunk_wanted first = wanted;
		first.values = others;
		r = find_piece(reading, (unsigned)piece.outline.other, &before);
		if (r == 0 && before.outline.other >= 0) /* the writer's are relative once */
			r = -EBADMSG;
		r = r ?: chunk_column_values(decoder, before.at, before.n, &first);
		wanted.others = others;
	}
	r = r ?: chunk_column_values(decoder, piece.at, piece.n, &wanted);
	reading->values[column] = to;
	return r;
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

/* ---- Columns ---- */

/* A column of the chunk at hand, in the order in which its rows lie there. */
static int read_values(struct chunk_store *store, const struct chunk_head *head, unsigned column,
		       int64_t *to)
{
	int r = 0;

	for (uint32_t i = 0; i < head->n_frames && r == 0; i++) {
		struct chunk_reading reading =
			chunk_reading_of(&store->bytes, i, head->frames[i].n_rows);
		r = chunk_read_column(store->decoder, &reading, column, to);
		to += head->frames[i].n_rows;
	}
	return r;
}

static int make_room(struct chunk_store *store)
{
	if (!store->decoder)
		store->decoder = chunk_decoder_open();
	if (!store->places)
		store->places = malloc(CHUNK_ROWS * sizeof(*store->places));
	if (!store->values)
		store->values = malloc(CHUNK_ROWS * sizeof(*store->values));
	return store->decoder && store->places && store->values ? 0 : -ENOMEM;
}

/* Read the bytes of a chunk, and where its rows belong. */
static int hold(struct chunk_store *store, const struct chunk_head *head)
{
	if (store->held == head->id)
		return 0;
	store->held = 0;
	int r = make_room(store);
	r = r ?: chunk_store_fetch(store, head, 0, head->n_frames, &store->bytes);
	r = r ?: read_values(store, head, store->id_column, store->values);
	r = r ?: chunk_places(store->values, head->n_rows, store->places);
	if (r < 0)
		return r;
	store->has_places = r > 0;
	store->held = head->id;
	return 0;
}

static int read_column(struct chunk_store *store, const struct chunk_head *head, unsigned number,
		       struct chunk_column *column)
{
	int64_t *values = column->values;
	int r = hold(store, head);

	if (r == 0)
		r = read_values(store, head, number, store->has_places ? store->values : values);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < head->n_rows && store->has_places; i++)
		values[store->places[i]] = store->values[i];
	column->is_ascending = true;
	for (uint32_t i = 0; i < head->n_rows; i++) {
		column->has_null |= values[i] == CHUNK_NULL && head->ranges[number].n_null > 0;
		column->is_ascending &= i == 0 || values[i] >= values[i - 1];
	}
	column->is_ascending &= !column->has_null;
	return 0;
}

int chunk_store_take(struct chunk_store *store, const struct chunk_head *head, unsigned number,
		     struct chunk_column **ret_column)
{
	int64_t key = head->id * CHUNK_COLUMNS + number;

	for (size_t i = 0; i < store->n_kept; i++) {
		struct chunk_column *column = store->columns[i];
		if (column->key != key)
			continue;
		store->n_bytes -= column->n_taken++ ? 0 : bytes_of(column);
		*ret_column = column;
		return 0;
	}
	int r = grow_array(&store->columns, store->n_kept, &store->n_kept_allocated,
			   sizeof(struct chunk_column *));
	auto_free struct chunk_column *column =
		malloc(sizeof(*column) + head->n_rows * sizeof(column->values[0]));
	if (r < 0 || !column)
		return -ENOMEM;
	*column = (struct chunk_column){ .key = key, .n_taken = 1, .n = head->n_rows };
	r = read_column(store, head, number, column);
	if (r == 0)
		*ret_column = store->columns[store->n_kept++] = steal_ptr(&column);
	return r;
}
