#include "store/compact/cursor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Where the cursor is in one series. */
struct place {
	size_t first, end; /* chunks that were not begun yet */
	const struct chunk_head *head; /* NULL: behind the last row */
	uint32_t from, to; /* rows of it that are left, with the one at hand */
	int64_t row_id; /* of that one, where the other series has rows, too */
	struct chunk_column *columns[CHUNK_COLUMNS]; /* taken; NULL: not yet */
	const struct chunk_column *tables; /* of the view; NULL: all rows are shown */
	const struct chunk_column *tested[CHUNK_FILTERS]; /* by filter; NULL: all rows left fit */
};

struct chunk_cursor {
	struct chunk_store *store;
	struct chunk_view view;
	bool is_begun;
	bool is_descending;
	struct chunk_filters filters;
	struct place places[CHUNK_SERIES];
	struct place *place; /* of the row at hand */
	int64_t chunk;
};

struct chunk_cursor *chunk_cursor_open(struct chunk_store *store, const struct chunk_view *view)
{
	struct chunk_cursor *cursor = calloc(1, sizeof(*cursor));

	if (!cursor)
		return NULL;
	cursor->store = store;
	cursor->view = *view;
	cursor->place = &cursor->places[0];
	return cursor;
}

static void leave_chunk(struct chunk_cursor *cursor, struct place *place)
{
	for (unsigned i = 0; place->head && i < place->head->n_columns; i++) {
		chunk_store_put(cursor->store, place->columns[i]);
		place->columns[i] = NULL;
	}
	place->head = NULL;
}

static void leave_all(struct chunk_cursor *cursor)
{
	for (unsigned i = 0; i < CHUNK_SERIES; i++) {
		leave_chunk(cursor, &cursor->places[i]);
		cursor->places[i].first = cursor->places[i].end = 0;
	}
}

struct chunk_cursor *chunk_cursor_close(struct chunk_cursor *cursor)
{
	if (!cursor)
		return NULL;
	leave_all(cursor);
	if (cursor->is_begun)
		chunk_store_end(cursor->store);
	free(cursor);
	return NULL;
}

/* ---- Rows of a chunk ---- */

static uint32_t row_of(const struct chunk_cursor *cursor, const struct place *place)
{
	return cursor->is_descending ? place->to - 1 : place->from;
}

static void step(const struct chunk_cursor *cursor, struct place *place)
{
	if (cursor->is_descending)
		place->to--;
	else
		place->from++;
}

/* The column of the chunk at hand. */
static int column_of(struct chunk_cursor *cursor, struct place *place, unsigned column,
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

static int row_id_of(struct chunk_cursor *cursor, struct place *place, int64_t *ret_id)
{
	const struct chunk_column *ids;
	int r = column_of(cursor, place, cursor->view.row_id, &ids);

	if (r < 0)
		return r;
	return chunk_column_get(ids, row_of(cursor, place), ret_id) ? 0 : -EBADMSG;
}

/* Apply a filter to a chunk: rows that cannot fit go, where the order of values tells them. */
static int apply(struct chunk_cursor *cursor, struct place *place, unsigned i)
{
	const struct chunk_filter *filter = &cursor->filters.items[i];
	const struct chunk_column *column;

	int r = column_of(cursor, place, filter->column, &column);
	if (r < 0)
		return r;
	place->tested[i] = column;
	if (!column->is_ascending || filter->wants_null)
		return 0;
	place->tested[i] = NULL;
	place->from = chunk_column_find(column, place->from, place->to, filter->low);
	if (filter->high < INT64_MAX)
		place->to = chunk_column_find(column, place->from, place->to, filter->high + 1);
	return 0;
}

static int enter_chunk(struct chunk_cursor *cursor, struct place *place,
		       const struct chunk_head *head)
{
	int r = 0;

	place->head = head;
	place->from = 0;
	place->to = head->n_rows;
	place->tables = NULL;
	if (cursor->view.bit)
		r = column_of(cursor, place, cursor->view.tables, &place->tables);
	for (unsigned i = 0; i < cursor->filters.n && r == 0; i++)
		r = apply(cursor, place, i);
	return r;
}

/* Enter the next chunk that may have rows that fit. Returns 1, 0 at the end, or an errno. */
static int next_chunk(struct chunk_cursor *cursor, struct place *place)
{
	const struct chunk_series *series =
		chunk_store_series(cursor->store, (unsigned)(place - cursor->places));

	leave_chunk(cursor, place);
	while (place->first < place->end) {
		size_t at = cursor->is_descending ? --place->end : place->first++;
		if (!chunk_filters_meet(&cursor->filters, &series->heads[at]) ||
		    (cursor->view.bit &&
		     series->heads[at].ranges[cursor->view.tables].max < cursor->view.bit))
			continue;
		int r = enter_chunk(cursor, place, &series->heads[at]);
		return r < 0 ? r : 1;
	}
	return 0;
}

static bool fits(const struct chunk_cursor *cursor, const struct place *place)
{
	uint32_t row = row_of(cursor, place);

	if (place->tables && !(place->tables->values[row] & cursor->view.bit))
		return false;
	for (unsigned i = 0; i < cursor->filters.n; i++) {
		if (place->tested[i] &&
		    !chunk_filter_fits(&cursor->filters.items[i], place->tested[i], row))
			return false;
	}
	return true;
}

/* From the row at hand, if there is one, to the first that fits. */
static int settle(struct chunk_cursor *cursor, struct place *place)
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
static int choose(struct chunk_cursor *cursor)
{
	struct place *a = &cursor->places[0];
	struct place *b = &cursor->places[1];

	cursor->place = a->head ? a : b;
	if (!a->head || !b->head)
		return 0;
	int r = row_id_of(cursor, a, &a->row_id);
	if (r == 0)
		r = row_id_of(cursor, b, &b->row_id);
	if (r == 0 && (cursor->is_descending ? b->row_id > a->row_id : b->row_id < a->row_id))
		cursor->place = b;
	return r;
}
_Static_assert(CHUNK_SERIES == 2, "two are merged");

/* Which chunks can have row ids of a filter's. */
static void bound(struct place *place, const struct chunk_series *series,
		  const struct chunk_filter *filter)
{
	size_t low = place->first, high = place->end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (series->heads[middle].ranges[filter->column].max < filter->low)
			low = middle + 1;
		else
			high = middle;
	}
	place->first = low;
	for (high = place->end; low < high;) {
		size_t middle = low + (high - low) / 2;
		if (series->heads[middle].ranges[filter->column].min <= filter->high)
			low = middle + 1;
		else
			high = middle;
	}
	place->end = low;
}

static void start_place(struct chunk_cursor *cursor, unsigned number)
{
	const struct chunk_series *series = chunk_store_series(cursor->store, number);
	struct place *place = &cursor->places[number];

	place->first = 0;
	place->end = cursor->filters.is_empty ? 0 : series->n;
	for (unsigned i = 0; i < cursor->filters.n; i++) {
		const struct chunk_filter *filter = &cursor->filters.items[i];
		if (!filter->wants_null && filter->column == cursor->view.row_id)
			bound(place, series, filter);
	}
}

int chunk_cursor_start(struct chunk_cursor *cursor, const struct chunk_filters *filters,
		       bool is_descending)
{
	int r = 0;

	leave_all(cursor);
	cursor->chunk = 0;
	if (!cursor->is_begun)
		r = chunk_store_begin(cursor->store);
	if (r < 0)
		return r;
	cursor->is_begun = true;
	cursor->filters = *filters;
	cursor->is_descending = is_descending;
	for (unsigned i = 0; i < CHUNK_SERIES && r == 0; i++) {
		start_place(cursor, i);
		r = settle(cursor, &cursor->places[i]);
	}
	return r < 0 ? r : choose(cursor);
}

int chunk_cursor_next(struct chunk_cursor *cursor)
{
	step(cursor, cursor->place);
	int r = settle(cursor, cursor->place);
	return r < 0 ? r : choose(cursor);
}

bool chunk_cursor_is_at_end(const struct chunk_cursor *cursor)
{
	return !cursor->place->head;
}

int chunk_cursor_value(struct chunk_cursor *cursor, unsigned column, int64_t *ret_value)
{
	struct place *place = cursor->place;
	const struct chunk_column *found;
	int r = column_of(cursor, place, column, &found);

	return r < 0 ? r : chunk_column_get(found, row_of(cursor, place), ret_value);
}

int chunk_cursor_row(struct chunk_cursor *cursor, int64_t *ret_row)
{
	return row_id_of(cursor, cursor->place, ret_row);
}

int64_t chunk_cursor_chunk(const struct chunk_cursor *cursor)
{
	return cursor->chunk;
}
