#include "store/compact/filter.h"

bool chunk_filter_takes(unsigned char op)
{
	return op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_IS ||
	       op == SQLITE_INDEX_CONSTRAINT_GT || op == SQLITE_INDEX_CONSTRAINT_GE ||
	       op == SQLITE_INDEX_CONSTRAINT_LT || op == SQLITE_INDEX_CONSTRAINT_LE ||
	       op == SQLITE_INDEX_CONSTRAINT_ISNULL;
}

/* Bounds by an integer. */
static void add_integer(struct chunk_filters *filters, unsigned column, unsigned char op,
			int64_t value)
{
	struct chunk_filter filter = { column, false, INT64_MIN, INT64_MAX };

	if ((op == SQLITE_INDEX_CONSTRAINT_GT && value == INT64_MAX) ||
	    (op == SQLITE_INDEX_CONSTRAINT_LT && value == INT64_MIN)) {
		filters->is_empty = true;
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
	filters->items[filters->n++] = filter;
}

void chunk_filters_add(struct chunk_filters *filters, unsigned column, unsigned char op,
		       sqlite3_value *value)
{
	int type = sqlite3_value_type(value);

	if (filters->n == CHUNK_FILTERS)
		return;
	if (op == SQLITE_INDEX_CONSTRAINT_ISNULL ||
	    (op == SQLITE_INDEX_CONSTRAINT_IS && type == SQLITE_NULL))
		filters->items[filters->n++] = (struct chunk_filter){ column, true, 0, 0 };
	else if (type == SQLITE_NULL) /* a comparison with NULL is never true */
		filters->is_empty = true;
	else if (type == SQLITE_INTEGER)
		add_integer(filters, column, op, sqlite3_value_int64(value));
}

bool chunk_filters_meet(const struct chunk_filters *filters, const struct chunk_head *head)
{
	for (unsigned i = 0; i < filters->n; i++) {
		const struct chunk_filter *filter = &filters->items[i];
		const struct chunk_range *range = &head->ranges[filter->column];
		if (filter->wants_null ? range->n_null == 0
				       : filter->low > range->max || filter->high < range->min)
			return false;
	}
	return true;
}

uint32_t chunk_column_find(const struct chunk_column *column, uint32_t from, uint32_t to,
			   int64_t value)
{
	while (from < to) {
		uint32_t middle = from + (to - from) / 2;
		int64_t found = INT64_MIN;
		chunk_column_get(column, middle, &found);
		if (found < value)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}
