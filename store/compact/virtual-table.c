#include "store/compact/virtual-table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "store/compact/chunk-store.h"
#include "store/compact/cursor.h"
#include "store/compact/filter.h"

#define DESCENDING 1 /* idxNum */

struct table {
	sqlite3_vtab base;
	struct chunk_store *store;
	struct chunk_view view;
	char *name;
	unsigned columns[CHUNK_COLUMNS]; /* their places in the chunks */
	bool is_real[CHUNK_COLUMNS];
};

struct cursor {
	sqlite3_vtab_cursor base;
	struct chunk_cursor *rows;
};

/* ---- Tables ---- */

/* The numbers behind the name of the chunks: all but the bit are below the first one. */
static int read_source(const char *text, unsigned n_columns, struct table *table,
		       struct chunk_table *chunks)
{
	unsigned long numbers[5 + CHUNK_COLUMNS] = { 0 };
	const char *name = text + strlen("of ");
	char *end;

	if (strncmp(text, "of ", strlen("of ")) != 0)
		return -EINVAL;
	size_t n_name = strcspn(name, " ");
	const char *at = name + n_name;
	for (unsigned i = 0; i < 5 + n_columns; i++, at = end) {
		numbers[i] = strtoul(at, &end, 10);
		if (end == at || numbers[i] > CHUNK_COLUMNS ||
		    (i > 0 && i != 4 && numbers[i] >= numbers[0]))
			return -EINVAL;
	}
	chunks->name = strndup(name, n_name);
	chunks->n_columns = (unsigned)numbers[0];
	chunks->id_column = (unsigned)numbers[1];
	table->view = (struct chunk_view){ (unsigned)numbers[2], (unsigned)numbers[3],
					   (int64_t)numbers[4] };
	for (unsigned i = 0; i < n_columns; i++)
		table->columns[i] = (unsigned)numbers[5 + i];
	return chunks->name ? 0 : -ENOMEM;
}

static int declare(sqlite3 *db, const char *const *definitions, unsigned n)
{
	sqlite3_str *text = sqlite3_str_new(db);

	sqlite3_str_appendall(text, "CREATE TABLE x(");
	for (unsigned i = 0; i < n; i++)
		sqlite3_str_appendf(text, "%s%s", i ? ", " : "", definitions[i]);
	sqlite3_str_appendall(text, ")");
	char *sql = sqlite3_str_finish(text);
	int r = sql ? sqlite3_declare_vtab(db, sql) : SQLITE_NOMEM;
	sqlite3_free(sql);
	return r;
}

static int table_disconnect(sqlite3_vtab *base)
{
	struct table *table = (struct table *)base;

	chunk_store_close(table->store);
	free(table->name);
	free(table);
	return SQLITE_OK;
}

enum { ARGUMENT_SCHEMA = 1, ARGUMENT_NAME, ARGUMENT_SOURCE, ARGUMENT_COLUMNS };

static int open_table(sqlite3 *db, size_t keep_bytes, const char *const *arguments,
		      unsigned n_columns, struct table *table)
{
	struct chunk_table chunks = { .schema = arguments[ARGUMENT_SCHEMA] };
	int r = read_source(arguments[ARGUMENT_SOURCE], n_columns, table, &chunks);

	for (unsigned i = 0; i < n_columns; i++) {
		const char *type = strchr(arguments[ARGUMENT_COLUMNS + i], ' ');
		table->is_real[i] = type && strncmp(type, " REAL", 5) == 0;
	}
	if (r == 0) {
		table->name = strdup(arguments[ARGUMENT_NAME]);
		table->store = chunk_store_open(db, &chunks, keep_bytes);
		r = table->name && table->store ? 0 : -ENOMEM;
	}
	free((char *)chunks.name);
	return r;
}

static int table_connect(sqlite3 *db, void *context, int n, const char *const *arguments,
			 sqlite3_vtab **ret_table, char **ret_error)
{
	unsigned n_columns = n > ARGUMENT_COLUMNS ? (unsigned)(n - ARGUMENT_COLUMNS) : 0;
	int r = n_columns > 0 && n_columns <= CHUNK_COLUMNS
			? declare(db, arguments + ARGUMENT_COLUMNS, n_columns)
			: SQLITE_ERROR;

	if (r != SQLITE_OK)
		return r;
	/* It reads nothing but its own chunks: views of any schema may use it. */
	sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
	struct table *table = calloc(1, sizeof(*table));
	if (!table)
		return SQLITE_NOMEM;
	r = open_table(db, (size_t)(uintptr_t)context, arguments, n_columns, table);
	if (r < 0) {
		table_disconnect(&table->base);
		if (r != -ENOMEM)
			*ret_error = sqlite3_mprintf("%s: of CHUNKS N ID ROW TABLES BIT PLACE...",
						     CHUNK_MODULE);
		return r == -ENOMEM ? SQLITE_NOMEM : SQLITE_ERROR;
	}
	*ret_table = &table->base;
	return SQLITE_OK;
}

/* What an errno is to SQLite, with a line that says which chunk it was. */
static int fail(struct table *table, int error, int64_t chunk)
{
	char **text = &table->base.zErrMsg;

	if (error == -ENOMEM)
		return SQLITE_NOMEM;
	sqlite3_free(*text);
	if (chunk > 0)
		*text = sqlite3_mprintf("table %s: chunk %lld is damaged", table->name,
					(long long)chunk);
	else
		*text = sqlite3_mprintf("table %s: its list of chunks cannot be read", table->name);
	return error == -EBADMSG ? SQLITE_CORRUPT_VTAB : SQLITE_ERROR;
}

/* ---- Planning ---- */

/* The column of the chunks that a constraint is about; -1: none that has integers. */
static int integer_column(const struct table *table, int column)
{
	if (column < 0)
		return (int)table->view.row_id;
	return table->is_real[column] ? -1 : (int)table->columns[column];
}

/* What is known of a column over all chunks. */
struct spread {
	double values; /* from the least to the most */
	double chunks; /* that are expected to have a value */
	bool is_ascending; /* within all chunks */
};

static double distance(int64_t min, int64_t max)
{
	return min > max ? 0 : (double)max - (double)min + 1;
}

static struct spread spread_of(const struct table *table, unsigned column)
{
	struct spread spread = { 0, 0, true };
	int64_t min = INT64_MAX, max = INT64_MIN;
	double sum = 0;

	for (unsigned i = 0; i < CHUNK_SERIES; i++) {
		const struct chunk_series *series = chunk_store_series(table->store, i);
		for (size_t j = 0; j < series->n; j++) {
			const struct chunk_range *range = &series->heads[j].ranges[column];
			min = range->min < min ? range->min : min;
			max = range->max > max ? range->max : max;
			sum += distance(range->min, range->max);
			spread.is_ascending = spread.is_ascending && range->is_ascending;
		}
	}
	spread.values = distance(min, max) > 1 ? distance(min, max) : 1;
	spread.chunks = sum / spread.values;
	return spread;
}

/* How a constraint changes what a scan costs, and how many rows it leaves. */
static void add_cost(const struct table *table, unsigned column, unsigned char op,
		     sqlite3_index_info *info)
{
	struct spread spread = spread_of(table, column);
	double n_rows = (double)chunk_store_n_rows(table->store);
	bool is_equal = op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_IS;
	double cost = info->estimatedCost / 3;
	double rows = (double)info->estimatedRows / 3;

	if (is_equal) {
		bool is_id = column == table->view.row_id;
		double each = spread.is_ascending || is_id ? 30 : CHUNK_ROWS / 10.0;
		rows = is_id ? 1 : n_rows / spread.values;
		cost = 20 + 2 * rows + (is_id ? 0 : spread.chunks * each);
	}
	if (cost < info->estimatedCost)
		info->estimatedCost = cost;
	if (rows < (double)info->estimatedRows)
		info->estimatedRows = rows < 1 ? 1 : (sqlite3_int64)rows;
}

/* Whether rows come as the query wants them sorted: by their ids. */
static bool is_in_order(const struct table *table, const sqlite3_index_info *info)
{
	return info->nOrderBy == 1 &&
	       integer_column(table, info->aOrderBy[0].iColumn) == (int)table->view.row_id;
}

/* idxStr: two letters for each constraint that is used, '!' + column and its operator. */
static int table_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	struct table *table = (struct table *)base;
	char *text = sqlite3_malloc(2 * CHUNK_FILTERS + 1);
	int n = 0;

	if (!text)
		return SQLITE_NOMEM;
	info->idxStr = text;
	info->needToFreeIdxStr = 1;
	int r = chunk_store_begin(table->store);
	if (r < 0)
		return fail(table, r, 0);
	info->estimatedRows = chunk_store_n_rows(table->store) + 1;
	info->estimatedCost = 2 * (double)info->estimatedRows + 100;
	for (int i = 0; i < info->nConstraint && n < (int)CHUNK_FILTERS; i++) {
		int column = integer_column(table, info->aConstraint[i].iColumn);
		unsigned char op = info->aConstraint[i].op;
		if (!info->aConstraint[i].usable || column < 0 || !chunk_filter_takes(op))
			continue;
		text[2 * n] = (char)('!' + column);
		text[2 * n + 1] = (char)op;
		info->aConstraintUsage[i].argvIndex = ++n;
		add_cost(table, (unsigned)column, op, info);
	}
	text[2 * n] = '\0';
	chunk_store_end(table->store);
	if (is_in_order(table, info)) {
		info->orderByConsumed = 1;
		info->idxNum = info->aOrderBy[0].desc ? DESCENDING : 0;
	}
	return SQLITE_OK;
}

/* ---- Cursors ---- */

static int table_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret_cursor)
{
	struct table *table = (struct table *)base;
	struct cursor *cursor = calloc(1, sizeof(*cursor));

	if (!cursor)
		return SQLITE_NOMEM;
	cursor->rows = chunk_cursor_open(table->store, &table->view);
	if (!cursor->rows) {
		free(cursor);
		return SQLITE_NOMEM;
	}
	*ret_cursor = &cursor->base;
	return SQLITE_OK;
}

static int table_close(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	chunk_cursor_close(cursor->rows);
	free(cursor);
	return SQLITE_OK;
}

static int result_of(struct cursor *cursor, int r)
{
	struct table *table = (struct table *)cursor->base.pVtab;

	return r < 0 ? fail(table, r, chunk_cursor_chunk(cursor->rows)) : SQLITE_OK;
}

static int table_filter(sqlite3_vtab_cursor *base, int number, const char *text, int n,
			sqlite3_value **values)
{
	struct cursor *cursor = (struct cursor *)base;
	struct chunk_filters filters = { .n = 0 };

	for (int i = 0; i < n; i++)
		chunk_filters_add(&filters, (unsigned)(text[2 * i] - '!'),
				  (unsigned char)text[2 * i + 1], values[i]);
	return result_of(cursor, chunk_cursor_start(cursor->rows, &filters, number == DESCENDING));
}

static int table_next(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	return result_of(cursor, chunk_cursor_next(cursor->rows));
}

static int table_eof(sqlite3_vtab_cursor *base)
{
	return chunk_cursor_is_at_end(((struct cursor *)base)->rows);
}

static int table_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i)
{
	struct cursor *cursor = (struct cursor *)base;
	struct table *table = (struct table *)base->pVtab;
	int64_t value;
	double real;
	int held = chunk_cursor_value(cursor->rows, table->columns[i], &value);

	if (held < 0) {
		int r = result_of(cursor, held);
		sqlite3_result_error(context, table->base.zErrMsg ? table->base.zErrMsg : "", -1);
		sqlite3_result_error_code(context, r);
		return r;
	}
	if (held == 0)
		return SQLITE_OK; /* nothing set: NULL */
	if (!table->is_real[i]) {
		sqlite3_result_int64(context, value);
		return SQLITE_OK;
	}
	memcpy(&real, &value, sizeof(real));
	sqlite3_result_double(context, real);
	return SQLITE_OK;
}

static int table_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret_row)
{
	struct cursor *cursor = (struct cursor *)base;
	int64_t row = 0;
	int r = chunk_cursor_row(cursor->rows, &row);

	*ret_row = row;
	return result_of(cursor, r);
}

/* Tables whose names end so belong to the virtual one. */
static int is_shadow(const char *ending)
{
	return strcmp(ending, "chunk") == 0 || strcmp(ending, "column") == 0;
}

/* Chunks are neither made nor dropped with it: they are tables of their own. */
static const sqlite3_module module = {
	.iVersion = 3,
	.xCreate = table_connect,
	.xConnect = table_connect,
	.xBestIndex = table_best_index,
	.xDisconnect = table_disconnect,
	.xDestroy = table_disconnect,
	.xOpen = table_open,
	.xClose = table_close,
	.xFilter = table_filter,
	.xNext = table_next,
	.xEof = table_eof,
	.xColumn = table_column,
	.xRowid = table_rowid,
	.xShadowName = is_shadow,
};

int chunk_table_register(sqlite3 *db, size_t keep_bytes)
{
	/* Only a number: it must outlive the connection. */
	void *context = (void *)(uintptr_t)keep_bytes; /* NOLINT(performance-no-int-to-ptr) */

	return sqlite3_create_module_v2(db, CHUNK_MODULE, &module, context, NULL);
}
