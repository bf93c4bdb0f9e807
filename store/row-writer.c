#include "store/row-writer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "store/compact/chunk-writer.h"
#include "store/compact/compact.h"
#include "store/database-internal.h"
#include "store/touch.h"
#include "store/writer-thread.h"

#define BATCH_BYTES (512u << 10)
#define FIRST_ROWS  128u
#define MADE_ROWS   256u /* at a time: they stay in the cache */

/* A thread that takes what was sent: one puts rows into the table, one makes chunks of them. */
struct taker {
	struct db_job job;
	struct rows *rows;
	const union rows_cell *cells; /* at hand */
	size_t n;
	size_t at; /* of what is made */
	union rows_cell *made; /* MADE_ROWS; NULL: none were */
};

struct rows {
	struct db *db;
	const struct rows_table *table;
	char *module; /* name of the virtual table */
	struct taker store, encode;
	rows_maker make; /* NULL: they were filled in place */
	const void *context;
	struct chunk_writer *chunks; /* NULL: the table has none */
	sqlite3_stmt *insert; /* NULL: the table has chunks only */
	union rows_cell *cells; /* being filled */
	union rows_cell *sent; /* with the writer */
	size_t n_columns;
	size_t n; /* filled */
	size_t n_sent;
	size_t n_batch; /* of so many, a batch is sent */
	size_t n_room; /* in cells */
	size_t n_sent_room;
	int error;
	bool ends; /* the batch that is sent is the last one */
};

/* ---- The virtual table: the batch as SQLite sees it ---- */

struct feed {
	sqlite3_vtab base;
	struct rows *rows;
};

struct feed_cursor {
	sqlite3_vtab_cursor base;
	struct rows *rows;
	size_t at;
};

/* "CREATE TABLE x(c0, c1, ...)": only the number of columns matters, without the hidden ones. */
static char *declaration(const struct rows *rows)
{
	sqlite3_str *text = sqlite3_str_new(NULL);

	sqlite3_str_appendall(text, "CREATE TABLE x(");
	for (unsigned i = 0; i < compact_n_names(rows->table->columns); i++)
		sqlite3_str_appendf(text, "%sc%u", i ? ", " : "", i);
	sqlite3_str_appendall(text, ")");
	return sqlite3_str_finish(text);
}

static int feed_connect(sqlite3 *handle, void *context, int n, const char *const *arguments,
			sqlite3_vtab **ret_table, char **ret_error)
{
	struct rows *rows = context;
	char *sql = declaration(rows);

	(void)n;
	(void)arguments;
	(void)ret_error;
	int r = sql ? sqlite3_declare_vtab(handle, sql) : SQLITE_NOMEM;
	sqlite3_free(sql);
	struct feed *feed = r == SQLITE_OK ? sqlite3_malloc(sizeof(*feed)) : NULL;
	if (!feed)
		return r == SQLITE_OK ? SQLITE_NOMEM : r;
	*feed = (struct feed){ .rows = rows };
	*ret_table = &feed->base;
	return SQLITE_OK;
}

static int feed_disconnect(sqlite3_vtab *table)
{
	sqlite3_free(table);
	return SQLITE_OK;
}

static int feed_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
	info->estimatedCost = 1e6;
	info->estimatedRows = (sqlite3_int64)((struct feed *)table)->rows->n_batch;
	return SQLITE_OK;
}

static int feed_open(sqlite3_vtab *table, sqlite3_vtab_cursor **ret_cursor)
{
	struct feed_cursor *cursor = sqlite3_malloc(sizeof(*cursor));
	if (!cursor)
		return SQLITE_NOMEM;
	*cursor = (struct feed_cursor){ .rows = ((struct feed *)table)->rows };
	*ret_cursor = &cursor->base;
	return SQLITE_OK;
}

static int feed_close(sqlite3_vtab_cursor *cursor)
{
	sqlite3_free(cursor);
	return SQLITE_OK;
}

/* Rows that only chunks have. */
static int skip(struct feed_cursor *cursor)
{
	const struct rows *rows = cursor->rows;
	unsigned tables = rows->table->tables;

	while (tables && cursor->at < rows->store.n &&
	       !(rows->store.cells[cursor->at * rows->n_columns + tables].integer & SHOWN_TOUCH))
		cursor->at++;
	return SQLITE_OK;
}

static int feed_filter(sqlite3_vtab_cursor *base, int number, const char *text, int n,
		       sqlite3_value **values)
{
	(void)number;
	(void)text;
	(void)n;
	(void)values;
	((struct feed_cursor *)base)->at = 0;
	return skip((struct feed_cursor *)base);
}

static int feed_next(sqlite3_vtab_cursor *base)
{
	((struct feed_cursor *)base)->at++;
	return skip((struct feed_cursor *)base);
}

static int feed_eof(sqlite3_vtab_cursor *base)
{
	struct feed_cursor *cursor = (struct feed_cursor *)base;

	return cursor->at >= cursor->rows->store.n;
}

static int feed_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i)
{
	struct feed_cursor *cursor = (struct feed_cursor *)base;
	const struct rows *rows = cursor->rows;
	union rows_cell cell = rows->store.cells[cursor->at * rows->n_columns + (size_t)i];
	char type = rows->table->types[i];

	if (type == 'r')
		sqlite3_result_double(context, cell.real);
	else if (type == 'n' || (type == 'i' && cell.integer != ROWS_NULL))
		sqlite3_result_int64(context, cell.integer);
	else if (type == 't' && cell.text)
		sqlite3_result_text(context, cell.text, -1, SQLITE_STATIC);
	return SQLITE_OK; /* nothing set: NULL */
}

static int feed_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret_rowid)
{
	*ret_rowid = (sqlite3_int64)((struct feed_cursor *)base)->at;
	return SQLITE_OK;
}

static const sqlite3_module feed_module = {
	.xConnect = feed_connect, /* no xCreate: it exists without CREATE VIRTUAL TABLE */
	.xBestIndex = feed_best_index,
	.xDisconnect = feed_disconnect,
	.xOpen = feed_open,
	.xClose = feed_close,
	.xFilter = feed_filter,
	.xNext = feed_next,
	.xEof = feed_eof,
	.xColumn = feed_column,
	.xRowid = feed_rowid,
};

/* ---- Rows ---- */

/* Wait until both have done with what was sent. */
static void wait_for(struct rows *rows)
{
	if (rows->db->writer)
		db_writer_wait(rows->db->writer, &rows->store.job);
	if (rows->db->encoder)
		db_writer_wait(rows->db->encoder, &rows->encode.job);
}

struct rows *rows_close(struct rows *rows)
{
	if (!rows)
		return NULL;
	wait_for(rows);
	sqlite3_finalize(rows->insert);
	chunk_writer_close(rows->chunks);
	if (rows->module)
		sqlite3_create_module_v2(rows->db->handle, rows->module, NULL, NULL, NULL);
	sqlite3_free(rows->module);
	free_all(rows->cells, rows->sent, rows->store.made, rows->encode.made, rows);
	return NULL;
}

static void cleanup_rows(struct rows **rows)
{
	*rows = rows_close(*rows);
}
#define auto_rows __attribute__((cleanup(cleanup_rows)))

/* OR FAIL: without it SQLite keeps a journal to undo half a statement; we undo all or nothing. */
static int prepare_insert(struct rows *rows)
{
	sqlite3 *handle = rows->db->handle;
	char *sql = sqlite3_mprintf("INSERT OR FAIL INTO %s(%s) SELECT * FROM %s",
				    rows->table->name, rows->table->columns, rows->module);
	if (!sql)
		return -ENOMEM;

	int r = sqlite3_create_module_v2(handle, rows->module, &feed_module, rows, NULL);
	if (r == SQLITE_OK)
		r = sqlite3_prepare_v3(handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &rows->insert,
				       NULL);
	sqlite3_free(sql);
	return db_errno(handle, r);
}

static int put_into_table(struct taker *taker)
{
	int r = db_errno(taker->rows->db->handle, sqlite3_step(taker->rows->insert));

	sqlite3_reset(taker->rows->insert);
	return r;
}

static int put_into_chunk(struct taker *taker)
{
	return chunk_writer_add(taker->rows->chunks, taker->cells, taker->n);
}

/* One thread failed, and SQLite took back all: what is put now would stay in the database. */
static bool is_undone(const struct rows *rows)
{
	return rows->db->is_writing && sqlite3_get_autocommit(rows->db->handle);
}

/* All that was sent, or is made: both threads make the same rows, each in its cache. */
static int take(struct taker *taker, int (*put)(struct taker *taker))
{
	struct rows *rows = taker->rows;
	int r = is_undone(rows) ? -EIO : 0;

	taker->at = 0;
	taker->cells = rows->make ? taker->made : rows->sent;
	taker->n = rows->n_sent;
	if (!rows->make)
		return taker->n > 0 && r == 0 ? put(taker) : r;
	while (r == 0 &&
	       (taker->n = rows->make(rows->context, &taker->at, taker->made, MADE_ROWS)) > 0)
		r = is_undone(rows) ? -EIO : put(taker);
	return r;
}

static int store_sent(void *context)
{
	return take(context, put_into_table);
}

static int encode_sent(void *context)
{
	struct taker *taker = context;
	int r = take(taker, put_into_chunk);

	return r < 0 || !taker->rows->ends ? r : chunk_writer_flush(taker->rows->chunks);
}

static int prepare(struct rows *rows)
{
	sqlite3 *handle = rows->db->handle;
	const char *table = rows->table->name;
	int r = compact_columns(table) ? chunk_writer_open(rows->db, rows->table, &rows->chunks)
				       : 0;

	return r < 0 || compact_is(handle, table) ? r : prepare_insert(rows);
}

int rows_open(struct db *db, const struct rows_table *table, struct rows **ret_rows)
{
	auto_rows struct rows *rows = calloc(1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	rows->db = db;
	rows->table = table;
	rows->n_columns = strlen(table->types);
	rows->n_batch = BATCH_BYTES / (rows->n_columns * sizeof(*rows->cells));
	rows->store = (struct taker){ { .work = store_sent, .context = &rows->store }, rows };
	rows->encode = (struct taker){ { .work = encode_sent, .context = &rows->encode }, rows };
	rows->module = sqlite3_mprintf("feed_%s", table->name);
	if (!rows->module)
		return -ENOMEM;

	int r = prepare(rows);
	if (r == 0 && rows->insert && !db->writer)
		r = db_writer_open(&db->writer);
	if (r == 0 && rows->chunks && !db->encoder)
		r = db_writer_open(&db->encoder);
	if (r < 0)
		return r;
	*ret_rows = steal_ptr(&rows);
	return 0;
}

bool rows_are_stored(const struct rows *rows)
{
	return rows->chunks || rows->insert;
}

/* Wait for the batch that the writer has, and see how it went. */
static int settle(struct rows *rows)
{
	wait_for(rows);
	if (rows->error == 0)
		rows->error = db_cause(rows->store.job.result, rows->encode.job.result);
	return rows->error;
}

/* What is filled is the batch that will be stored, and the other one is filled. */
static int turn(struct rows *rows)
{
	union rows_cell *sent = rows->sent;
	size_t n_sent_room = rows->n_sent_room;

	if (settle(rows) < 0)
		return rows->error;
	rows->make = NULL;
	rows->sent = rows->cells;
	rows->n_sent = rows->n;
	rows->n_sent_room = rows->n_room;
	rows->cells = sent;
	rows->n = 0;
	rows->n_room = n_sent_room;
	return 0;
}

static void give(struct rows *rows)
{
	if (rows->chunks)
		db_writer_give(rows->db->encoder, &rows->encode.job);
	if (rows->insert)
		db_writer_give(rows->db->writer, &rows->store.job);
}

static int send(struct rows *rows)
{
	if (turn(rows) == 0)
		give(rows);
	return rows->error;
}

int rows_end(struct rows *rows)
{
	int r = turn(rows); /* the batch before it is no end */

	rows->ends = true;
	if (r == 0)
		give(rows);
	return r;
}

static int make_taker_room(struct taker *taker)
{
	if (!taker->made)
		taker->made = calloc(MADE_ROWS * taker->rows->n_columns, sizeof(*taker->made));
	return taker->made ? 0 : -ENOMEM;
}

int rows_make(struct rows *rows, rows_maker make, const void *context)
{
	if ((rows->n > 0 && send(rows) < 0) || settle(rows) < 0)
		return rows->error;
	rows->error = make_taker_room(&rows->store) ?: make_taker_room(&rows->encode);
	if (rows->error < 0)
		return rows->error;
	rows->make = make;
	rows->context = context;
	give(rows);
	return 0;
}

int rows_flush(struct rows *rows)
{
	if (turn(rows) == 0 && rows->chunks)
		rows->error = encode_sent(&rows->encode);
	if (rows->error == 0 && rows->insert)
		rows->error = store_sent(&rows->store);
	if (rows->error == 0 && rows->chunks)
		rows->error = chunk_writer_flush(rows->chunks);
	return rows->error;
}

int rows_start_again(struct rows *rows)
{
	if (!rows->chunks) /* other tables take ids in any order */
		return 0;
	if (rows_flush(rows) == 0)
		rows->error = chunk_writer_next_series(rows->chunks);
	return rows->error;
}

/* Most tables of most runs are small: batches grow, up to the size of all in large ones. */
static void make_room(struct rows *rows)
{
	if (rows->n == rows->n_batch && send(rows) < 0)
		return;
	if (rows->n < rows->n_room)
		return;
	size_t n = rows->n_room ? 2 * rows->n_room : FIRST_ROWS;
	if (n > rows->n_batch)
		n = rows->n_batch;
	union rows_cell *cells =
		reallocarray(rows->cells, n * rows->n_columns, sizeof(*rows->cells));
	if (!cells) {
		rows->error = -ENOMEM;
		return;
	}
	rows->cells = cells;
	rows->n_room = n;
}

union rows_cell *rows_add(struct rows *rows)
{
	if (rows->n == rows->n_room)
		make_room(rows);
	return rows->error < 0 ? NULL : rows->cells + rows->n++ * rows->n_columns;
}

int rows_put_cells(struct rows *rows, const union rows_cell *cells, size_t n)
{
	union rows_cell *row = n == rows->n_columns ? rows_add(rows) : NULL;

	if (!row)
		return rows->error < 0 ? rows->error : -EINVAL;
	memcpy(row, cells, n * sizeof(*cells));
	return 0;
}

int rows_error(const struct rows *rows)
{
	return rows->error;
}

int rows_take_error(struct db *db)
{
	int stored = db->writer ? db_writer_take_error(db->writer) : 0;
	int encoded = db->encoder ? db_writer_take_error(db->encoder) : 0;

	return db_cause(stored, encoded);
}
