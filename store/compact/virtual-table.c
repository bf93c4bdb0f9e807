#include "store/compact/virtual-table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "store/compact/chunk-store.h"

#define DESCENDING  1 /* idxNum */
#define MAX_FILTERS 8u

struct table {
	sqlite3_vtab base;
	struct chunk_store *store;
	char *name;
	unsigned columns[CHUNK_COLUMNS]; /* their places in the chunks */
	bool is_real[CHUNK_COLUMNS];
	/* Rows that it shows, each number of a row once; places in the chunks: */
	unsigned row_id; /* of these numbers, which ascend */
	unsigned tables; /* of the word that has ... */
	int64_t bit; /* ... this bit; 0: all are shown */
};

/*
 * NULL, or a value from low to high. SQLite looks at each row again: leaving one out costs time
 * only.
 */
struct filter {
	unsigned column; /* place in the chunks */
	bool wants_null;
	int64_t low;
	int64_t high;
};

/* Where a cursor is in one series. */
struct place {
	size_t first, end; /* chunks that were not begun yet */
	const struct chunk_head *head; /* NULL: behind the last row */
	uint32_t from, to; /* rows of it that are left, with the one at hand */
	int64_t row_id; /* of that one, where the other series has rows, too */
	struct chunk_column *columns[CHUNK_COLUMNS]; /* taken; NULL: not yet */
	const struct chunk_column *tables; /* NULL: all rows are shown */
	const struct chunk_column *tested[MAX_FILTERS]; /* by filter; NULL: all rows left fit */
};

/* Rows in the order of their numbers, both series merged. Columns are decoded when asked for. */
struct cursor {
	sqlite3_vtab_cursor base;
	struct chunk_store *store;
	const struct table *table;
	bool is_begun;
	bool is_descending;
	bool is_empty; /* no row can fit */
	struct filter filters[MAX_FILTERS];
	unsigned n_filters;
	struct place places[CHUNK_SERIES];
	struct place *place; /* of the row at hand */
	int64_t chunk; /* that was read last: after -EBADMSG the damaged one; 0: their list is */
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
	table->row_id = (unsigned)numbers[2];
	table->tables = (unsigned)numbers[3];
	table->bit = (int64_t)numbers[4];
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
		table->is_real[i] = strstr(arguments[ARGUMENT_COLUMNS + i], " REAL");
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

/* An operator that can be used. */
static bool takes(unsigned char op)
{
	return op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_IS ||
	       op == SQLITE_INDEX_CONSTRAINT_GT || op == SQLITE_INDEX_CONSTRAINT_GE ||
	       op == SQLITE_INDEX_CONSTRAINT_LT || op == SQLITE_INDEX_CONSTRAINT_LE ||
	       op == SQLITE_INDEX_CONSTRAINT_ISNULL;
}

/* The column of the chunks that a constraint is about; -1: none that has integers. */
static int integer_column(const struct table *table, int column)
{
	if (column < 0)
		return (int)table->row_id;
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
		bool is_id = column == table->row_id;
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
	       integer_column(table, info->aOrderBy[0].iColumn) == (int)table->row_id;
}

/* idxStr: two letters for each constraint that is used, '!' + column and its operator. */
static int table_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	struct table *table = (struct table *)base;
	char *text = sqlite3_malloc(2 * MAX_FILTERS + 1);
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
	for (int i = 0; i < info->nConstraint && n < (int)MAX_FILTERS; i++) {
		int column = integer_column(table, info->aConstraint[i].iColumn);
		unsigned char op = info->aConstraint[i].op;
		if (!info->aConstraint[i].usable || column < 0 || !takes(op))
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

/* ---- Filters ---- */

/* Bounds by an integer. */
static void add_integer(struct cursor *cursor, unsigned column, unsigned char op, int64_t value)
{
	struct filter filter = { column, false, INT64_MIN, INT64_MAX };

	if ((op == SQLITE_INDEX_CONSTRAINT_GT && value == INT64_MAX) ||
	    (op == SQLITE_INDEX_CONSTRAINT_LT && value == INT64_MIN)) {
		cursor->is_empty = true;
		return;
	}
	switch (op) {
	case SQLITE_INDEX_CONSTRAINT_EQ:
	case SQLITE_INDEX_CONSTRAINT_IS:
		filter.low = filter.high = value;
		break;
	case SQLITE_INDEX_CONSTRAINT_GT:
		filter.low = value + 1;
		break;
	case SQLITE_INDEX_CONSTRAINT_GE:
		filter.low = value;
		break;
	case SQLITE_INDEX_CONSTRAINT_LT:
		filter.high = value - 1;
		break;
	default:
		filter.high = value;
	}
	cursor->filters[cursor->n_filters++] = filter;
}

static void add_filter(struct cursor *cursor, unsigned column, unsigned char op,
		       sqlite3_value *value)
{
	int type = sqlite3_value_type(value);

	if (cursor->n_filters == MAX_FILTERS)
		return;
	if (op == SQLITE_INDEX_CONSTRAINT_ISNULL ||
	    (op == SQLITE_INDEX_CONSTRAINT_IS && type == SQLITE_NULL))
		cursor->filters[cursor->n_filters++] = (struct filter){ column, true, 0, 0 };
	else if (type == SQLITE_NULL) /* a comparison with NULL is never true */
		cursor->is_empty = true;
	else if (type == SQLITE_INTEGER)
		add_integer(cursor, column, op, sqlite3_value_int64(value));
}

/* ---- Rows of a chunk ---- */

/* The first of rows [from, to) of an ascending column whose value is at least `value`. */
static uint32_t find(const struct chunk_column *column, uint32_t from, uint32_t to, int64_t value)
{
	return from + (uint32_t)array_n_while(column->values + from, to - from, it, *it < value);
}

static void leave_chunk(struct cursor *cursor, struct place *place)
{
	for (unsigned i = 0; place->head && i < place->head->n_columns; i++) {
		chunk_store_put(cursor->store, place->columns[i]);
		place->columns[i] = NULL;
	}
	place->head = NULL;
}

static void leave_all(struct cursor *cursor)
{
	for (unsigned i = 0; i < CHUNK_SERIES; i++) {
		leave_chunk(cursor, &cursor->places[i]);
		cursor->places[i].first = cursor->places[i].end = 0;
	}
}

static uint32_t row_of(const struct cursor *cursor, const struct place *place)
{
	return cursor->is_descending ? place->to - 1 : place->from;
}

static void step(const struct cursor *cursor, struct place *place)
{
	if (cursor->is_descending)
		place->to--;
	else
		place->from++;
}

/* The column of the chunk at hand. */
static int column_of(struct cursor *cursor, struct place *place, unsigned column,
		     const struct chunk_column **ret_column)
{
	if (!place->columns[column]) {
		cursor->chunk = place->head->id;
		int r = chunk_store_take(cursor->store, place->head, column,
					 &place->columns[column]);
		if (r < 0)
			return r;
	}
	*ret_column = place->columns[column];
	return 0;
}

static int row_id_of(struct cursor *cursor, struct place *place, int64_t *ret_id)
{
	const struct chunk_column *ids;
	int r = column_of(cursor, place, cursor->table->row_id, &ids);

	if (r < 0)
		return r;
	return chunk_column_get(ids, row_of(cursor, place), ret_id) ? 0 : -EBADMSG;
}

/* Apply a filter to a chunk: rows that cannot fit go, where the order of values tells them. */
static int apply(struct cursor *cursor, struct place *place, unsigned i)
{
	const struct filter *filter = &cursor->filters[i];
	const struct chunk_column *column;

	int r = column_of(cursor, place, filter->column, &column);
	if (r < 0)
		return r;
	place->tested[i] = column;
	if (!column->is_ascending || filter->wants_null)
		return 0;
	place->tested[i] = NULL;
	place->from = find(column, place->from, place->to, filter->low);
	if (filter->high < INT64_MAX)
		place->to = find(column, place->from, place->to, filter->high + 1);
	return 0;
}

static int enter_chunk(struct cursor *cursor, struct place *place, const struct chunk_head *head)
{
	int r = 0;

	place->head = head;
	place->from = 0;
	place->to = head->n_rows;
	place->tables = NULL;
	if (cursor->table->bit)
		r = column_of(cursor, place, cursor->table->tables, &place->tables);
	for (unsigned i = 0; i < cursor->n_filters && r == 0; i++)
		r = apply(cursor, place, i);
	return r;
}

/* Whether a chunk may have a row that fits. */
static bool meets(const struct cursor *cursor, const struct chunk_head *head)
{
	if (cursor->table->bit && head->ranges[cursor->table->tables].max < cursor->table->bit)
		return false;
	for (unsigned i = 0; i < cursor->n_filters; i++) {
		const struct filter *filter = &cursor->filters[i];
		const struct chunk_range *range = &head->ranges[filter->column];
		if (filter->wants_null ? range->n_null == 0
				       : filter->low > range->max || filter->high < range->min)
			return false;
	}
	return true;
}

static bool filter_fits(const struct filter *filter, const struct chunk_column *column,
			uint32_t row)
{
	int64_t value;

	if (!chunk_column_get(column, row, &value))
		return filter->wants_null;
	return !filter->wants_null && value >= filter->low && value <= filter->high;
}

/* Enter the next chunk that may have rows that fit. Returns 1, 0 at the end, or an errno. */
static int next_chunk(struct cursor *cursor, struct place *place)
{
	const struct chunk_series *series =
		chunk_store_series(cursor->store, (unsigned)(place - cursor->places));

	leave_chunk(cursor, place);
	while (place->first < place->end) {
		size_t at = cursor->is_descending ? --place->end : place->first++;
		if (!meets(cursor, &series->heads[at]))
			continue;
		int r = enter_chunk(cursor, place, &series->heads[at]);
		return r < 0 ? r : 1;
	}
	return 0;
}

static bool fits(const struct cursor *cursor, const struct place *place)
{
	uint32_t row = row_of(cursor, place);

	if (place->tables && !(place->tables->values[row] & cursor->table->bit))
		return false;
	for (unsigned i = 0; i < cursor->n_filters; i++) {
		if (place->tested[i] && !filter_fits(&cursor->filters[i], place->tested[i], row))
			return false;
	}
	return true;
}

/* From the row at hand, if there is one, to the first that fits. */
static int settle(struct cursor *cursor, struct place *place)
{
	int r = 1;

	while (r == 1) {
		if (!place->head || place->from >= place->to)
			r = next_chunk(cursor, place);
		else if (fits(cursor, place))
			return 0;
		else
			step(cursor, place);
	}
	return r;
}

/* ---- Both series ---- */

/* The row at hand is that of the series whose id comes first. */
static int choose(struct cursor *cursor)
{
	struct place *a = &cursor->places[0];
	struct place *b = &cursor->places[1];

	cursor->place = a->head ? a : b;
	if (!a->head || !b->head)
		return 0;
	int r = row_id_of(cursor, a, &a->row_id);
	r = r ?: row_id_of(cursor, b, &b->row_id);
	if (r == 0 && (cursor->is_descending ? b->row_id > a->row_id : b->row_id < a->row_id))
		cursor->place = b;
	return r;
}
_Static_assert(CHUNK_SERIES == 2, "two are merged");

/* Which chunks can have row ids of a filter's. */
static void bound(struct place *place, const struct chunk_series *series,
		  const struct filter *filter)
{
	const struct chunk_head *heads = series->heads + place->first;
	size_t n = place->end - place->first, column = filter->column;
	size_t first = array_n_while(heads, n, it, it->ranges[column].max < filter->low);
	size_t end = array_n_while(heads, n, it, it->ranges[column].min <= filter->high);

	place->end = place->first + (end > first ? end : first);
	place->first += first;
}

static void start_place(struct cursor *cursor, unsigned number)
{
	const struct chunk_series *series = chunk_store_series(cursor->store, number);
	struct place *place = &cursor->places[number];

	place->first = 0;
	place->end = cursor->is_empty ? 0 : series->n;
	for (unsigned i = 0; i < cursor->n_filters; i++) {
		const struct filter *filter = &cursor->filters[i];
		if (!filter->wants_null && filter->column == cursor->table->row_id)
			bound(place, series, filter);
	}
}

/* Go to the first row that fits, or the last one. Returns 0, also without such a row. */
static int start(struct cursor *cursor)
{
	int r = 0;

	leave_all(cursor);
	cursor->chunk = 0;
	if (!cursor->is_begun)
		r = chunk_store_begin(cursor->store);
	if (r < 0)
		return r;
	cursor->is_begun = true;
	for (unsigned i = 0; i < CHUNK_SERIES && r == 0; i++) {
		start_place(cursor, i);
		r = settle(cursor, &cursor->places[i]);
	}
	return r < 0 ? r : choose(cursor);
}

/* ---- Cursors of SQLite ---- */

static int table_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret_cursor)
{
	struct table *table = (struct table *)base;
	struct cursor *cursor = calloc(1, sizeof(*cursor));

	if (!cursor)
		return SQLITE_NOMEM;
	cursor->store = table->store;
	cursor->table = table;
	cursor->place = &cursor->places[0];
	*ret_cursor = &cursor->base;
	return SQLITE_OK;
}

static int table_close(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	leave_all(cursor);
	if (cursor->is_begun)
		chunk_store_end(cursor->store);
	free(cursor);
	return SQLITE_OK;
}

static int result_of(struct cursor *cursor, int r)
{
	return r < 0 ? fail((struct table *)cursor->base.pVtab, r, cursor->chunk) : SQLITE_OK;
}

static int table_filter(sqlite3_vtab_cursor *base, int number, const char *text, int n,
			sqlite3_value **values)
{
	struct cursor *cursor = (struct cursor *)base;

	cursor->is_descending = number == DESCENDING;
	cursor->is_empty = false;
	cursor->n_filters = 0;
	for (int i = 0; i < n; i++)
		add_filter(cursor, (unsigned)(text[2 * i] - '!'), (unsigned char)text[2 * i + 1],
			   values[i]);
	return result_of(cursor, start(cursor));
}

static int table_next(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	step(cursor, cursor->place);
	int r = settle(cursor, cursor->place);
	return result_of(cursor, r < 0 ? r : choose(cursor));
}

static int table_eof(sqlite3_vtab_cursor *base)
{
	return !((struct cursor *)base)->place->head;
}

static int table_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i)
{
	struct cursor *cursor = (struct cursor *)base;
	struct table *table = (struct table *)base->pVtab;
	const struct chunk_column *column;
	int64_t value;
	double real;
	int r = column_of(cursor, cursor->place, table->columns[i], &column);

	if (r < 0) {
		r = result_of(cursor, r);
		sqlite3_result_error(context, table->base.zErrMsg ? table->base.zErrMsg : "", -1);
		sqlite3_result_error_code(context, r);
		return r;
	}
	if (!chunk_column_get(column, row_of(cursor, cursor->place), &value))
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
	int r = row_id_of(cursor, cursor->place, &row);

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
